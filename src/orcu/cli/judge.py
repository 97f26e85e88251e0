"""``orcu judge``: grades of language models, calibrated to people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orcu.cli.options import (
    NoFormulas,
    Percent,
    bad_data,
    check_page,
    check_paths,
    printed_warnings,
    provenance,
    working,
)
from orcu.errors import InputError
from orcu.io.files import write_json

if TYPE_CHECKING:
    from orcu.judges.grades import Grades

judge_app = typer.Typer(
    help="Language models as judges: read their grades, calibrate them to people, compare systems.",
    no_args_is_help=True,
)

GradeFile = Annotated[
    Path, typer.Argument(help="A table (.csv, .parquet), chat completions (.jsonl), or a log of Inspect (.eval).")
]
GradeScale = Annotated[
    str | None, typer.Option("--grades", help="The scale: 1..5, 0..3, 1..5:0.5 (in halves), or poor,fair,good.")
]
Probs = Annotated[str | None, typer.Option("--probs", help="Columns of probabilities: 'p_*' (the star is the grade).")]
Votes = Annotated[str | None, typer.Option("--votes", help="Columns that count how often each grade was given: 'n_*'.")]
Grade = Annotated[
    str | None, typer.Option("--grade", help="Column of one grade a row; or several columns a,b,c, one for each judge.")
]
Item = Annotated[str | None, typer.Option("--item", help="Column of items; of completions a key (custom_id).")]
Judge = Annotated[str | None, typer.Option("--judge", help="Column of judges; of completions a key (model).")]
Human = Annotated[str | None, typer.Option("--human", help="Column of the grade that a person gave; may have gaps.")]
Humans = Annotated[Path | None, typer.Option("--humans", help="Another table with the human grades.")]
HumanCount = Annotated[
    str | None, typer.Option("--human-count", help="Column of how many people --human is the mean of.")
]
Rater = Annotated[str | None, typer.Option("--rater", help="Column of who gave the human grade, if several did.")]
Group = Annotated[str | None, typer.Option("--group", help="Column of groups, such as a task.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Column of what items share, such as their prompt.")]
Pattern = Annotated[
    str | None, typer.Option("--pattern", help=r"Of completions: where the grade stands, such as 'Score: (\d+)'.")
]
Words = Annotated[bool, typer.Option("--words", help="Of completions: 'four' is 4.")]
Scorer = Annotated[str | None, typer.Option("--scorer", help="Of a log of Inspect: whose scores.")]
MethodName = Annotated[str, typer.Option("--method", help="The calibrator; auto chooses.")]
Seed = Annotated[int, typer.Option(min=0, help="Of folds and draws.")]


@judge_app.command("read")
def read(
    file: GradeFile,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write item, judge, p_GRADE (or n_GRADE) here.")],
    grades: GradeScale = None,
    probs: Probs = None,
    votes: Votes = None,
    grade: Grade = None,
    item: Item = None,
    judge: Judge = None,
    pattern: Pattern = None,
    words: Words = False,
    scorer: Scorer = None,
    percent: Percent = False,
    no_formulas: NoFormulas = False,
) -> None:
    """Read a judge's grades into a table of distributions, and say what could not be read."""
    import pyarrow

    from orcu.io.writing import write_table

    check_paths([file], [out])
    options: dict[str, Any] = {"grades": grades, "probs": probs, "votes": votes, "grade": grade, "item": item}
    options |= {"judge": judge, "pattern": pattern, "words": words, "scorer": scorer, "percent": percent}
    with bad_data(), working(f"reading {file.name}"):
        heard = _read(file, options)
        prefix = "p" if heard.kind == "probs" else "n"
        rows = [(row, name) for name in heard.judges for row in range(len(heard)) if heard.spoke(name)[row]]
        columns: dict[str, Any] = {"item": [heard.items[row] for row, _ in rows], "judge": [name for _, name in rows]}
        columns |= {
            f"{prefix}_{name}": [float(heard.said[who][row, k]) for row, who in rows]
            for k, name in enumerate(heard.scale.names)
        }
        write_table(pyarrow.table(columns), out, no_formulas=no_formulas)
    console = Console()
    _print_notes(console, heard)
    console.print(f"wrote {escape(str(out))}: {len(rows):,} rows of {len(heard):,} items", highlight=False)


@judge_app.command("fit")
def fit(
    file: GradeFile,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the calibrated judges here, as JSON.")],
    human: Human = None,
    humans: Humans = None,
    grades: GradeScale = None,
    probs: Probs = None,
    votes: Votes = None,
    grade: Grade = None,
    item: Item = None,
    judge: Judge = None,
    human_count: HumanCount = None,
    rater: Rater = None,
    group: Group = None,
    cluster: Cluster = None,
    pattern: Pattern = None,
    words: Words = False,
    scorer: Scorer = None,
    percent: Percent = False,
    method: MethodName = "auto",
    seed: Seed = 0,
) -> None:
    """Calibrate judges to the grades of people."""
    from orcu.judges.panel import JudgePanel

    check_paths([file, *([humans] if humans else [])], [out])
    options = _options(locals())
    console = Console()
    with bad_data(), printed_warnings():
        with working(f"reading {file.name}"):
            heard = _read(file, options)
            _need_humans(heard)
        with working(f"calibrating {', '.join(heard.judges[:3])}"):
            panel = JudgePanel(calibrator=method, seed=seed).fit(heard)
        write_json(out, panel.to_dict() | {"file": file.name})
    _print_notes(console, heard)
    for line in (*panel.notes_, *panel.described().splitlines()):
        console.print(escape(line), highlight=False)
    console.print(f"wrote {escape(str(out))}", highlight=False)


@judge_app.command("apply")
def apply(
    file: GradeFile,
    panel: Annotated[Path, typer.Argument(help="What `orcu judge fit` wrote.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write distribution, decision and set here (.csv).")],
    cost: Annotated[
        str, typer.Option(help="What a decision costs: wrong (likeliest grade), absolute (median), squared (mean).")
    ] = "wrong",
    alpha: Annotated[float, typer.Option(help="Share of items whose set may miss the person's grade.")] = 0.1,
    error: Annotated[
        float | None, typer.Option(help="Send items to a person so that at most this share of the others is wrong.")
    ] = None,
    within: Annotated[int, typer.Option(min=0, help="Grades by which a decision may be off and still be right.")] = 0,
    probs: Probs = None,
    votes: Votes = None,
    grade: Grade = None,
    item: Item = None,
    judge: Judge = None,
    group: Group = None,
    pattern: Pattern = None,
    words: Words = False,
    scorer: Scorer = None,
    percent: Percent = False,
    no_formulas: NoFormulas = False,
) -> None:
    """Apply calibrated judges to new items: distribution, expected grade, decision, set, and whom to ask."""
    from orcu.io.writing import write_table
    from orcu.judges.panel import COSTS, JudgePanel

    check_paths([file, panel], [out])
    if cost not in COSTS:
        raise InputError(f"--cost: expected one of {', '.join(COSTS)}, got {cost!r}.")
    console = Console()
    with bad_data(), working(f"judging {file.name}"):
        fitted = JudgePanel.load(panel)
        scale = list(fitted.scale.names)
        options: dict[str, Any] = {"grades": scale, "probs": probs, "votes": votes, "grade": grade, "item": item}
        options |= {"judge": judge, "group": group, "pattern": pattern, "words": words, "scorer": scorer}
        heard = _read(file, options | {"percent": percent})
        verdicts = fitted.apply(heard, cost=cost, alpha=alpha, error=error, within=within)
        write_table(verdicts.to_arrow(), out, no_formulas=no_formulas)
    _print_notes(console, heard)
    for note in verdicts.notes[len(heard.notes) :]:
        console.print(escape(note), highlight=False)
    console.print(f"wrote {escape(str(out))}: {len(verdicts.items):,} items", highlight=False)


@judge_app.command("report")
def report(
    file: GradeFile,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the page here: .html, or .pdf by a browser.")],
    human: Human = None,
    humans: Humans = None,
    grades: GradeScale = None,
    probs: Probs = None,
    votes: Votes = None,
    grade: Grade = None,
    item: Item = None,
    judge: Judge = None,
    human_count: HumanCount = None,
    rater: Rater = None,
    group: Group = None,
    cluster: Cluster = None,
    pattern: Pattern = None,
    words: Words = False,
    scorer: Scorer = None,
    percent: Percent = False,
    method: MethodName = "auto",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Can these grades be trusted?",
    seed: Seed = 0,
) -> None:
    """Write one page: does this judge know when it is wrong, is it milder than people, how many human grades?"""
    from orcu.judges.examination import examine
    from orcu.report.judge import build
    from orcu.report.pdf import write_page

    sources = [file, *([humans] if humans else [])]
    check_paths(sources, [out])
    check_page(out)
    options = _options(locals())
    console = Console()
    with bad_data(), printed_warnings(), Console(stderr=True).status(f"reading {escape(file.name)}") as status:
        heard = _read(file, options)
        _need_humans(heard)
        examination = examine(heard, calibrator=method, seed=seed, progress=lambda what: status.update(escape(what)))
        page = build(examination, title=title, provenance=provenance(sources))
        write_page(page, out)
    _print_notes(console, heard)
    for sentence in examination.sentences():
        console.print(escape(sentence), highlight=False)
    console.print(f"wrote {escape(str(out))}", highlight=False)


@judge_app.command("compare-systems")
def compare_systems(
    file: GradeFile,
    system: Annotated[str, typer.Option("--system", help="Column of the systems that made the items.")],
    human: Human = None,
    humans: Humans = None,
    grades: GradeScale = None,
    probs: Probs = None,
    votes: Votes = None,
    grade: Grade = None,
    item: Item = None,
    judge: Judge = None,
    human_count: HumanCount = None,
    rater: Rater = None,
    group: Group = None,
    cluster: Cluster = None,
    percent: Percent = False,
    method: MethodName = "auto",
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")] = 0.95,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all numbers here.")] = None,
    seed: Seed = 0,
) -> None:
    """Compare systems by the mean grade that people would give: few human grades, many judged items."""
    from orcu.judges.panel import JudgePanel
    from orcu.judges.systems import compare_systems as compared

    check_paths([file, *([humans] if humans else [])], [json_path])
    options = _options(locals()) | {"system": system}
    console = Console()
    with bad_data(), printed_warnings(), working(f"comparing the systems of {file.name}"):
        heard = _read(file, options)
        _need_humans(heard)
        panel = JudgePanel(calibrator=method, seed=seed).fit(heard)
        expected = panel.held_out(heard) @ heard.scale.values
        comparison = compared(expected, heard.human_mean, heard.system, cluster=heard.cluster, level=level, seed=seed)
        if json_path is not None:
            write_json(json_path, comparison.to_dict())
    _print_notes(console, heard)
    console.print(escape(str(comparison)), highlight=False)
    if json_path is not None:
        console.print(f"wrote {escape(str(json_path))}", highlight=False)


NAMED = (
    *("grades", "probs", "votes", "grade", "item", "judge", "human", "humans", "human_count", "rater"),
    *("group", "cluster", "pattern", "words", "scorer", "percent"),
)


def _options(arguments: dict[str, Any]) -> dict[str, Any]:
    """What `orcu.judges.grades.read` takes, from the arguments of a command."""
    return {name: arguments[name] for name in NAMED if name in arguments}


def _read(file: Path, options: dict[str, Any]) -> "Grades":
    from orcu.judges.grades import read as read_grades

    return read_grades(file, **options)


def _need_humans(heard: "Grades") -> None:
    if not heard.graded.any():
        raise InputError("--human: name the column of the grades that people gave, in this table or in --humans FILE.")


def _print_notes(console: Console, heard: "Grades") -> None:
    for note in heard.notes:
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
    if not heard.unread:
        return
    table = Table("what could not be read", "how many", "such as", box=None, pad_edge=False)
    reasons: dict[str, list[str]] = {}
    for one in heard.unread:
        reasons.setdefault(one.reason, []).append(one.where)
    for reason, places in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        table.add_row(escape(reason), f"{len(places):,}", escape(places[0]))
    console.print(table)
