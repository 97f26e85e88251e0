"""``orcu evaluate``: metrics, comparisons, reports and gates for files of predictions."""

import os
import re
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from orcu.cli.console import GATE_FAILED, echo, escape, fits, new_table, say, show, task
from orcu.cli.decide import Rule, check_rule, read_rule
from orcu.cli.files import ReportOptions, Result, provenance, writing
from orcu.cli.options import Column, LabelledReadOptions, LaunchOptions, Parallel, key_values
from orcu.errors import InputError, UnknownNameError
from orcu.io.locations import Location, as_location

if TYPE_CHECKING:
    from orcu.evaluation.evaluation import Evaluation
    from orcu.evaluation.gates import Gate
    from orcu.evaluation.raters import RaterEvaluation

Format = StrEnum("Format", ["text", "github", "junit"])
MAX_COMPARED = 4  # other models side by side in 80 columns
MARKS = {"better": "▲ ", "worse": "▼ ", "level": "", "": ""}
MIN_SUBGROUP_COLUMNS = 4  # name, rows, over-confidence and its interval


@dataclass(frozen=True)
class EvaluateReadOptions(LabelledReadOptions):
    """Columns of the predictions that `orcu.evaluate` uses."""

    sample_weight: Annotated[str | None, Column(help="Column of sample weights.")] = None
    subgroup: Annotated[str | None, Column(help="Column of subgroups, such as sites; each is evaluated too.")] = None
    cluster: Annotated[str | None, Column(help="Column of clusters, such as patients, resampled as a whole.")] = None
    uncertainty: Annotated[str | None, Column(help="Column of uncertainty scores. Default: 1 - confidence.")] = None


def evaluate(
    files: Annotated[
        list[Location],
        Argument(help="Predictions: .csv, .csv.gz, .parquet or a folder of .parquet; all are compared with the first."),
    ],
    read: EvaluateReadOptions,
    reports: ReportOptions,
    launch: LaunchOptions,
    rule: Rule = "argmax",
    n_resamples: Annotated[int | None, Option(min=0, help="Number of bootstrap resamples. Default: automatic.")] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the bootstrap.")] = 0,
    n_bins: Annotated[int, Option(min=1, help="Number of bins of the calibration errors.")] = 15,
    compare: Annotated[
        list[str] | None,
        Option(
            help="Predictions of another model, same rows; repeatable. Options that differ from those of the first "
            "file follow its name: 'old.csv,probs=q_*,label=truth'."
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        Option(
            help="Gate: exit with code 4 if the condition holds, such as 'sce>0.05', 'sce.low>0.05' (lower end of the "
            "interval), 'north: sce>0.05' (a subgroup) or '*: sce>0.05' (any subgroup); repeatable."
        ),
    ] = None,
    form: Annotated[Format, Option("--format", help="Printed output, for terminals or CI systems.")] = Format.text,
    checklist: Annotated[
        Location | None, Result(help="TRIPOD+AI checklist, filled with the numbers of the evaluation: .md or .html.")
    ] = None,
    show_ids: Annotated[bool, Option("--show-ids", help="Show row ids in the report.")] = False,
    jobs: Annotated[int, Parallel(min=1, help="Number of files of a folder to read in parallel.")] = 1,
) -> None:
    """Evaluate predictions: metrics with confidence intervals, an HTML report, pass/fail gates for CI."""
    from orcu.evaluation.evaluate import evaluate as evaluate_predictions
    from orcu.evaluation.gates import Gate
    from orcu.predictions import open_predictions
    from orcu.threads import keep_freed_memory

    keep_freed_memory()
    gates = [Gate.parse(text) for text in fail_if or []]
    inputs = [*((path, read) for path in files), *(_compared_file(text, read) for text in compare or [])]
    paths = [path for path, _ in inputs]
    reports.check([*paths], checklist)
    if checklist is not None:
        from orcu.report.checklist import check_suffix, write_checklist

        check_suffix(checklist)
    launcher = launch.create(jobs)
    check_rule(rule)
    options = [read.arguments() for _, read in inputs]
    with task("reading") as update:
        sources = [open_predictions(path, **chosen) for path, chosen in zip(paths, options, strict=True)]
        first, *others = _names(paths)
        with launcher:
            evaluation = evaluate_predictions(
                sources[0],
                compare=dict(zip(others, sources[1:], strict=True)),
                name=first,
                rule=read_rule(rule, sources[0].classes, read.encoding),
                n_resamples=n_resamples,
                random_state=seed,
                n_bins=n_bins,
                progress=lambda stage, rows: update(f"{stage}: {rows:,} rows"),
                launcher=launcher,
            )
    # Files are written before anything is printed, because a closed pipe may end the printing.
    written = reports.write(evaluation.to_dict(), partial(evaluation.to_html, show_ids=show_ids), paths)
    if checklist is not None:
        with writing(checklist):
            write_checklist(evaluation, checklist, provenance(paths))
        written.append(checklist)
    if form == "text":
        _print(evaluation)
        say(*(f"wrote {path}" for path in written))
        for gate in gates:
            outcome = "[bold red]failed[/]" if gate.fails(evaluation) else "[green]passed[/]"
            show(f"gate {escape(gate.text)}: {outcome} ({escape(gate.reason(evaluation))})")
    else:
        _print_for_pipelines(form, evaluation, gates)
    if any(gate.fails(evaluation) for gate in gates):
        raise typer.Exit(GATE_FAILED)


def _compared_file(text: str, read: EvaluateReadOptions) -> tuple[Location, EvaluateReadOptions]:
    """Split the value of ``--compare`` into a file and its options, which are those of the first file by default."""
    if as_location(text).exists():
        return as_location(text), read
    name, *entries = re.split(r",(?=[a-z_-]+=)", text)
    values: dict[str, Any] = {
        key.replace("-", "_"): value for key, value in key_values(entries, option="--compare").items()
    }
    options = [field.name for field in fields(read)]
    for key in values:
        if key not in options:
            raise UnknownNameError("option of --compare", key, options)
    if {"probs", "logits"} & set(values):
        values = {"probs": None, "logits": None} | values
    if "percent" in values:
        values["percent"] = values["percent"].lower() in ("true", "1", "yes")
    return as_location(name), replace(read, **values)


def _names(paths: list[Location]) -> list[str]:
    """Return file names without suffixes, or whole paths if these are not unique."""
    stems = [path.name.split(".")[0] or path.name for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _print_for_pipelines(form: str, evaluation: "Evaluation", gates: list["Gate"]) -> None:
    from orcu.report import pipelines

    job_page = os.environ.get("GITHUB_STEP_SUMMARY")
    if form == "github" and job_page:
        try:
            with Path(job_page).open("a", encoding="utf-8") as page:
                page.write(pipelines.summary(evaluation, gates) + "\n")
        except OSError as error:
            raise InputError(f"GITHUB_STEP_SUMMARY: {job_page} cannot be written ({error}).") from None
    echo((pipelines.github if form == "github" else pipelines.junit)(evaluation, gates))


def _print(evaluation: "Evaluation") -> None:
    from orcu.evaluation.evaluation import metric_rows
    from orcu.evaluation.formatting import format_interval
    from orcu.report.headline import headline, next_step, significance

    show("")
    for model in (evaluation, *evaluation.others):
        prefix = f"{model.name}: " if evaluation.others else ""
        for note in [*model.notes, model.label_mapping]:
            say(prefix + note, style="bold red" if note.startswith("WARNING") else "dim")
    show("")
    say(*headline(evaluation))
    show(f"[bold]Next step:[/] {escape(next_step(evaluation))}\n")
    table = new_table(evaluation.name, ">value", ">95 % interval", ">if calibrated", padding=1)
    family = ""
    for metric, cells in metric_rows(evaluation):
        if family and metric.family != family:
            table.add_row("")
        family = metric.family
        judgement = significance(evaluation, metric.name)
        if judgement:  # shortened: the table must fit 80 columns
            estimate = evaluation.metrics[metric.name]
            mark = "[red]✗[/]" if judgement == "significant" else "[green]✓[/]"
            cells[3] = f"{format_interval(estimate.expected, estimate.limit, percent=metric.percent)} {mark}"
        table.add_row(*map(escape, cells[:3]), cells[3])
    show(table)
    clusters = "" if evaluation.clusters is None else f" of {evaluation.clusters:,} clusters"
    say(
        "",
        f"{evaluation.rows:,} rows; {evaluation.n_resamples:,} bootstrap resamples{clusters}, random seed "
        f"{evaluation.random_state}; {evaluation.n_bins} bins (a, b].",
        "if calibrated: the value that a perfectly "
        "calibrated model with the same probabilities and number of rows would show, from its mean to its 95 % "
        "quantile. ✗ marks significant errors, adjusted for the number of tests. Sampling noise inflates a calibration "
        "error. The interval is for the true error and is corrected for this noise, so the value may lie above its "
        "interval.",
        "",
        style="dim",
    )
    if evaluation.raters is not None:
        _print_raters(evaluation.raters)
    if evaluation.subgroups:
        show(_subgroup_table(evaluation), "")
    _print_differences(evaluation)


def _print_raters(raters: "RaterEvaluation") -> None:
    """Print what raters and a perfect model reach."""
    from orcu.report.raters import COLUMNS, ceiling_rows, summary

    say(*summary(raters))
    if raters.ceilings:
        table = new_table("raters", *(f">{name}" for name in COLUMNS), padding=1)
        for name, values, _ in ceiling_rows(raters):
            table.add_row(escape(name), *values)
        show(table)
        say(
            "",
            "one rater: the grade of a rater as the prediction of another's. all other raters: their votes as the "
            "prediction. perfect model: it knows the distribution of the votes of each case; a range where it is known "
            "only within bounds.",
            "",
            style="dim",
        )


def _print_differences(evaluation: "Evaluation") -> None:
    """Print the comparison with other models: one with its intervals, several as a table of outcomes."""
    from orcu.evaluation.evaluation import format_difference

    others = list(evaluation.differences)
    if len(others) == 1:
        name = f"{evaluation.name} minus {others[0]}"
        table = new_table(name, "", ">difference", ">95 % interval", padding=1)
        for metric in evaluation.metric_list:
            table.add_row(
                escape(metric.title), *format_difference(evaluation.differences[others[0]][metric.name], metric)
            )
        show(table, "")
        return
    for start in range(0, len(others), MAX_COMPARED):
        some = others[start : start + MAX_COMPARED]
        table = new_table(f"{evaluation.name} minus", *(f">{other[:14]}" for other in some), padding=1)
        for metric in evaluation.metric_list:
            cells = (format_difference(evaluation.differences[other][metric.name], metric) for other in some)
            table.add_row(escape(metric.title), *(f"{MARKS[outcome]}{difference}" for outcome, difference, _ in cells))
        show(table, "")
    if others:
        legend = (
            "▲ better, ▼ worse: the 95 % interval of the paired difference excludes 0; the report has all intervals"
        )
        say(legend, "")


def _subgroup_table(evaluation: "Evaluation") -> Table:
    """Return the metrics of each subgroup, as many as fit the terminal; the report shows all."""
    from orcu.report.pipelines import subgroup_table

    headings, rows = subgroup_table(evaluation)
    for columns in range(len(headings), MIN_SUBGROUP_COLUMNS, -1):
        table = new_table(headings[0], *(f">{heading}" for heading in headings[1:columns]), padding=1)
        for name, *cells in rows:
            table.add_row(escape(name), *cells[: columns - 1])
        if fits(table):
            break
    return table
