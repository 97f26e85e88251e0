"""``orcu judge``: grades of language-model judges, calibrated to human grades."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from orcu.cli.calibrate import CalibratorName
from orcu.cli.console import escape, new_table, say, say_wrote, show, task
from orcu.cli.decide import Rule, check_rule, read_rule
from orcu.cli.files import check_page, check_paths, provenance, writing
from orcu.cli.options import Column, TableOptions, command
from orcu.errors import InputError
from orcu.io.files import with_digest, write_json
from orcu.io.locations import Location

if TYPE_CHECKING:
    from orcu.judges.audit import JudgeAudit
    from orcu.judges.grades import Grades
    from orcu.judges.pairs import PairRanking
    from orcu.judges.systems import SystemComparison

judge_app = typer.Typer(
    help="Language models as judges: read their grades, calibrate them to human grades, compare systems.",
    no_args_is_help=True,
)
MAX_AMBIGUOUS = 10  # ambiguous replies that are listed
GradeFile = Annotated[
    Location, Argument(help="Table (.csv, .parquet), JSON records or replies (.jsonl), or log of a tool.")
]
Seed = Annotated[int, Option(min=0, help="Random seed of folds and draws.")]


@dataclass(frozen=True)
class GradeOptions:
    """Columns and format of a file of grades."""

    probs: Annotated[str | None, Column(help="Probability columns such as 'p_*', where * is the grade.")] = None
    votes: Annotated[str | None, Column(help="Columns of vote counts such as 'n_*', where * is the grade.")] = None
    grade: Annotated[str | None, Column(help="Column of grades, or columns a,b,c of one judge each.")] = None
    item: Annotated[str | None, Column(help="Column of item ids, or key of chat completions (custom_id).")] = None
    judge: Annotated[str | None, Column(help="Column of judge names, or key of chat completions (model).")] = None
    subgroup: Annotated[str | None, Column(help="Column of subgroups, such as tasks; each gets a correction.")] = None
    pattern: Annotated[str | None, Column(help=r"Regular expression of the grade, such as 'Score: (\d+)'.")] = None
    number_words: Annotated[bool, Column("--number-words", help="Read number words: 'four' is 4.")] = False
    scorer: Annotated[str | None, Column(help="Name of the scorer in the log of an evaluation tool.")] = None
    scale: Annotated[
        str | None, Column(help="Scale of numeric scores, such as 0..1; its ends are those of --levels.")
    ] = None
    percent: Annotated[bool, Column("--percent", help="Read probabilities as percentages, from 0 to 100.")] = False

    def read(self, file: Location, **options: Any) -> "Grades":
        """Read the grades."""
        from orcu.judges.reading import read as read_grades

        return read_grades(file, **vars(self) | options)


@dataclass(frozen=True)
class LevelOptions(GradeOptions):
    """Columns, format and levels of a file of grades."""

    levels: Annotated[str | None, Column(help="Grade levels in order: 1..5, 1..5:0.5 or poor,fair,good.")] = None


@dataclass(frozen=True)
class HumanOptions(LevelOptions):
    """Columns of a file of grades, and of the human grades that judges are calibrated to."""

    human: Annotated[str | None, Column(help="Column of the human grade; may have gaps.")] = None
    human_file: Annotated[Location | None, Column(help="Table of the human grades, if in another file.")] = None
    human_count: Annotated[str | None, Column(help="Column of the number of people that --human averages.")] = None
    rater: Annotated[str | None, Column(help="Column of rater names, if items have several human grades.")] = None
    cluster: Annotated[str | None, Column(help="Column of clusters, such as prompts, each kept in one fold.")] = None

    def read(self, file: Location, **options: Any) -> "Grades":
        """Read the grades, of which some must have a human grade."""
        grades = super().read(file, **options)
        if not grades.human_mask.any():
            raise InputError("--human: give the column of the human grades, in this table or in --human-file.")
        return grades


@command(judge_app)
def read(file: GradeFile, table: TableOptions, options: LevelOptions) -> None:
    """Read grades into a table of distributions, and list the grades that could not be parsed.

    The output table has the columns item, judge, and p_GRADE (probabilities) or n_GRADE (votes).
    """
    import pyarrow

    check_paths([file], [table.output])
    with task(f"reading {file.name}"):
        grades = options.read(file)
        prefix = "p" if grades.kind == "probs" else "n"
        rows = [(row, judge) for judge in grades.judges for row in range(len(grades)) if grades.rated_mask(judge)[row]]
        columns: dict[str, Any] = {
            "item": [grades.items[row] for row, _ in rows],
            "judge": [judge for _, judge in rows],
        }
        columns |= {
            f"{prefix}_{level}": [float(grades.ratings[judge][row, k]) for row, judge in rows]
            for k, level in enumerate(grades.levels.names)
        }
    with writing(table.output):
        table.write(pyarrow.table(columns))
    _print_notes(grades)
    say_wrote(table.output, f"{len(rows):,} rows for {len(grades):,} items")


@command(judge_app)
def fit(
    file: GradeFile,
    options: HumanOptions,
    output: Annotated[Location, Option("--output", "-o", help="Output file of the calibrated judges (JSON).")],
    calibrator: CalibratorName = "auto",
    seed: Seed = 0,
) -> None:
    """Calibrate judges to human grades."""
    from orcu.judges.panel import JudgePanel

    check_paths([file, options.human_file], [output])
    with task(f"reading {file.name}") as update:
        grades = options.read(file)
        update(f"calibrating {', '.join(grades.judges[:3])}")
        panel = JudgePanel(calibrator=calibrator, random_state=seed).fit(grades)
    with writing(output):
        write_json(output, with_digest(panel.to_dict() | {"file": file.name}))
    _print_notes(grades)
    say(*panel.notes_, *panel.summary().splitlines())
    say_wrote(output)


@command(judge_app)
def apply(
    file: GradeFile,
    panel: Annotated[Location, Argument(help="Calibrated judges written by `orcu judge fit`.")],
    table: TableOptions,
    options: GradeOptions,
    rule: Rule = "argmax",
    alpha: Annotated[float, Option(help="Target miscoverage of the prediction sets.")] = 0.1,
    class_conditional: Annotated[
        bool, Option("--class-conditional", help="Guarantee the coverage for the items of each human grade.")
    ] = False,
    max_error: Annotated[
        float | None,
        Option(
            help="Maximum error rate of automatic decisions (90 % confidence); the other items are marked for review."
        ),
    ] = None,
    within: Annotated[int, Option(min=0, help="Largest error, in levels, that counts as correct.")] = 0,
) -> None:
    """Apply calibrated judges to new items: distribution, expected grade, decision, prediction set, human review.

    The output of a table is FILE with all its rows and columns, and the columns calibrated_GRADE, expected, decision,
    confidence, set_low, set_high and, with --max-error, escalate. For logs it has a row for each item.
    """
    from orcu.io.reading import CSV, PARQUET, open_table
    from orcu.judges.panel import JudgePanel

    check_paths([file, panel], [table.output])
    check_rule(rule)
    with task(f"applying {panel.name} to {file.name}"):
        fitted = JudgePanel.load(panel)
        levels = list(fitted.levels_.names)
        grades = options.read(file, levels=levels)
        predictions = fitted.apply(
            grades,
            rule=read_rule(rule, levels),
            alpha=alpha,
            class_conditional=class_conditional,
            max_error=max_error,
            within=within,
        )
    with writing(table.output):
        if file.name.lower().endswith((*CSV, *PARQUET)):
            options_of_table = {"escape_formulas": table.escape_formulas}
            predictions.write_back(open_table(file), options.item, table.output, **options_of_table)
        else:
            table.write(predictions.to_arrow())
    _print_notes(grades)
    say(*predictions.notes[len(grades.notes) :])
    say_wrote(table.output, f"{len(predictions.items):,} items")


@command(judge_app, "report", hidden=True)  # its name before it printed tables
@command(judge_app)
def audit(
    file: GradeFile,
    options: HumanOptions,
    bias: Annotated[
        str | None, Column(help="Columns a,b,c on which the error of a judge may depend: language,position,system.")
    ] = None,
    text: Annotated[
        str | None, Column(help="Column of the graded texts; length and formatting are tested like --bias.")
    ] = None,
    calibrator: CalibratorName = "auto",
    json_path: Annotated[Location | None, Option("--json", help="JSON file of all numbers.")] = None,
    output: Annotated[
        Location | None, Option("--report", "--output", "-o", help="Report file: .html, or .pdf with Chromium.")
    ] = None,
    title: Annotated[str, Option(help="Title of the report.")] = "Can these grades be trusted?",
    seed: Seed = 0,
) -> None:
    """Audit judges: calibration, bias, agreement with people, and how many human grades are enough."""
    from orcu.judges.audit import audit as audit_judges

    check_paths([file, options.human_file], [json_path, output])
    if output is not None:
        check_page(output)
    with task(f"reading {file.name}") as update:
        grades = options.read(file, bias=bias, text=text)
        result = audit_judges(grades, calibrator=calibrator, random_state=seed, progress=update)
    if json_path is not None:
        with writing(json_path):
            write_json(json_path, result.to_dict())
    if output is not None:
        from orcu.report.judge import build
        from orcu.report.pdf import write_page

        inputs = [file, *([options.human_file] if options.human_file else [])]
        with writing(output):
            write_page(build(result, title=title, provenance=provenance(inputs)), output)
    _print_notes(grades)
    say(*result.findings())
    _show_audit(result)
    for path in (json_path, output):
        if path is not None:
            say_wrote(path)


def _show_audit(result: "JudgeAudit") -> None:
    """Print the agreement with people, and the effects on the errors of the judges."""
    table = new_table("agreement with people", ">weighted kappa", ">AC2", ">alpha (ordinal)", ">equal")
    rows = {name: (each, "qwk_pairwise") for name, each in result.agreement.items()}
    if result.human_agreement is not None:
        rows["people with people"] = (result.human_agreement, "qwk_pooled")
    for name, (each, kappa) in rows.items():
        estimates = [each[measure] for measure in (kappa, "ac2_quadratic", "alpha_ordinal")]
        ends = [f"{estimate.value:.2f} ({estimate.low:.2f} – {estimate.high:.2f})" for estimate in estimates]
        table.add_row(escape(name), *ends, f"{100 * each['exact'].value:.0f} %")
    show(table)
    if result.bias:
        table = new_table("bias of", "column", ">effect", ">95 % interval", ">p (Holm)")
        for effect in result.bias:
            if not effect.note:
                p_value = "<0.001" if effect.adjusted_p_value < 0.001 else f"{effect.adjusted_p_value:.3f}"
                interval = f"{effect.low:+.3f} to {effect.high:+.3f}"
                table.add_row(
                    escape(effect.judge), escape(effect.comparison), f"{effect.effect:+.3f}", interval, p_value
                )
        show(table)
        say(*(str(effect) for effect in result.bias if effect.note))


@command(judge_app)
def compare_systems(
    file: GradeFile,
    system: Annotated[str, Option(help="Column of the systems that produced the items.")],
    options: HumanOptions,
    graded_by: Annotated[
        str | None,
        Column(help="Columns a,b,c on which the choice of the graded items may depend, besides the judge's grade."),
    ] = None,
    reweight: Annotated[
        bool, Option("--reweight", help="Weight human grades by the inverse probability that an item has one.")
    ] = False,
    calibrator: CalibratorName = "auto",
    confidence_level: Annotated[float, Option(min=0.5, max=0.999, help="Level of the confidence intervals.")] = 0.95,
    json_path: Annotated[Location | None, Option("--json", help="JSON file of all numbers.")] = None,
    report: Annotated[Location | None, Option(help="Report file with a picture: .html, or .pdf.")] = None,
    seed: Seed = 0,
) -> None:
    """Compare systems by their mean human grade, estimated from few human grades and many judged items."""
    from orcu.judges.missingness import graded_weights, missingness_effects, missingness_message
    from orcu.judges.panel import JudgePanel
    from orcu.judges.systems import compare_systems as compare

    check_paths([file, options.human_file], [json_path, report])
    if report is not None:
        check_page(report)
    with task(f"comparing the systems of {file.name}"):
        grades = options.read(file, system=system, bias=graded_by)
        panel = JudgePanel(calibrator=calibrator, random_state=seed).fit(grades)
        comparison = compare(
            panel.predict_proba_out_of_fold(grades) @ grades.levels.values,
            grades.human_mean,
            grades.system,
            cluster=grades.cluster,
            human_weight=graded_weights(grades) if reweight else None,
            confidence_level=confidence_level,
            random_state=seed,
        )
    message = missingness_message(grades)  # in the terminal it is a warning of the fit
    documented = replace(comparison, notes=(message, *comparison.notes)) if message else comparison
    if json_path is not None:
        with writing(json_path):
            effects = [effect.to_dict() for effect in missingness_effects(grades)]
            write_json(json_path, documented.to_dict() | {"missingness": effects})
    if report is not None:
        from orcu.report.pdf import write_page
        from orcu.report.systems import build

        inputs = [file, *([options.human_file] if options.human_file else [])]
        with writing(report):
            write_page(build(documented, provenance=provenance(inputs)), report)
    _print_notes(grades)
    _show_comparison(comparison)
    for path in (json_path, report):
        if path is not None:
            say_wrote(path)


def _show_comparison(comparison: "SystemComparison") -> None:
    """Print the columns that decide, so that the table fits a terminal; --json and --report have all of them."""
    interval = f">{100 * comparison.confidence_level:g} % interval"
    table = new_table("system", ">graded", ">mean", interval, ">humans alone", ">width", ">P(first)")
    for mean in comparison.systems:
        table.add_row(
            escape(mean.system),
            f"{mean.n_graded:,} of {mean.n_items:,}",
            f"{mean.mean:.2f}",
            f"{mean.low:.2f} – {mean.high:.2f}",
            f"{mean.human_mean:.2f}",
            f"{mean.width_ratio:.2f}",
            f"{100 * mean.ranks[0]:.0f} %",
        )
    show(table)
    say(*comparison.notes)


@dataclass(frozen=True)
class PairOptions:
    """Columns of a file of preferences."""

    levels: Annotated[str, Column(help="Outcomes from 'the first is better' to 'the second is better': A,tie,B.")]
    first: Annotated[str, Column(help="Column of the system whose answer was shown first.")]
    second: Annotated[str, Column(help="Column of the system whose answer was shown second.")]
    item: Annotated[str, Column(help="Column of the prompts; both orders of a pair have the same prompt.")]
    grade: Annotated[str | None, Column(help="Column of the outcome chosen by the judge.")] = None
    probs: Annotated[str | None, Column(help="Probability columns such as 'p_*', where * is the outcome.")] = None
    votes: Annotated[str | None, Column(help="Columns of vote counts such as 'n_*', where * is the outcome.")] = None
    human: Annotated[str | None, Column(help="Column of the outcome chosen by a person; may have gaps.")] = None
    cluster: Annotated[str | None, Column(help="Column of clusters of prompts, such as topics.")] = None
    pattern: Annotated[str | None, Column(help="Regular expression of the outcome in a text.")] = None
    percent: Annotated[bool, Column("--percent", help="Read probabilities as percentages, from 0 to 100.")] = False


@command(judge_app)
def pairs(
    file: GradeFile,
    options: PairOptions,
    output: Annotated[
        Location | None, Option("--output", "-o", help="Table of the distribution of each comparison (.csv, .parquet).")
    ] = None,
    json_path: Annotated[Location | None, Option("--json", help="JSON file of all numbers.")] = None,
    report: Annotated[Location | None, Option(help="Report file with a picture: .html, or .pdf.")] = None,
    seed: Seed = 0,
) -> None:
    """Rank systems by preferences of a judge between two answers, with ties, swapped orders and calibration."""
    from orcu.judges.pairs import rank_pairs
    from orcu.judges.preferences import read_preferences

    check_paths([file], [output, json_path, report])
    if report is not None:
        check_page(report)
    table = None if output is None else TableOptions(output)
    with task(f"ranking the systems of {file.name}"):
        ranking = rank_pairs(read_preferences(file, **vars(options)), random_state=seed)
    if table is not None:
        with writing(table.output):
            table.write(ranking.to_arrow())
    if json_path is not None:
        with writing(json_path):
            write_json(json_path, ranking.to_dict())
    if report is not None:
        from orcu.report.pairs import build
        from orcu.report.pdf import write_page

        with writing(report):
            write_page(build(ranking, provenance=provenance([file])), report)
    _show_ranking(ranking)
    for path in (output, json_path, report):
        if path is not None:
            say_wrote(path)


def _show_ranking(ranking: "PairRanking") -> None:
    """Print the strengths of the systems, the strongest first."""
    table = new_table("system", ">comparisons", ">strength", ">95 % interval", ">score", ">P(first)")
    for row in ranking.systems:
        interval = f"{row.low:+.2f} to {row.high:+.2f}" if row.ranks else "–"
        first = f"{100 * row.ranks[0]:.0f} %" if row.ranks else "–"
        count, strength, score = f"{row.n_comparisons:,}", f"{row.strength:+.2f}", f"{row.score:.2f}"
        table.add_row(escape(row.system), count, strength, interval, score, first)
    show(table)
    say(*ranking.notes)


def _print_notes(grades: "Grades") -> None:
    say(*grades.notes, style="dim")
    if grades.ambiguous:
        table = new_table("ambiguous reply", "item", "grade used", "other candidates")
        for reply in grades.ambiguous[:MAX_AMBIGUOUS]:
            table.add_row(*map(escape, (reply.where, reply.item, reply.grade, ", ".join(reply.others))))
        show(table)
        if len(grades.ambiguous) > MAX_AMBIGUOUS:
            say(f"... and {len(grades.ambiguous) - MAX_AMBIGUOUS:,} more ambiguous replies", style="dim")
    if grades.failures:
        table = new_table("parse failure", ">count", "example")
        places: dict[str, list[str]] = {}
        for failure in grades.failures:
            places.setdefault(failure.reason, []).append(failure.where)
        for reason, examples in sorted(places.items(), key=lambda pair: -len(pair[1])):
            table.add_row(escape(reason), f"{len(examples):,}", escape(examples[0]))
        show(table)
