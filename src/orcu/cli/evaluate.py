"""``orcu evaluate``: judge the predictions in a file, print a table, write a report."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orcu.cli.decide import check_rule, rule_of
from orcu.cli.options import (
    Classes,
    Decimal,
    Id,
    Label,
    Logits,
    Percent,
    Probs,
    Separator,
    Weight,
    bad_data,
    check_page,
    check_paths,
    launching,
    provenance,
    reading_options,
    working,
)
from orcu.errors import InputError, UnknownNameError
from orcu.threads import keep_freed_memory

if TYPE_CHECKING:
    from orcu.evaluation.evaluation import Evaluation
    from orcu.evaluation.gates import Gate
    from orcu.launchers import Launcher

GATE_TRIPPED = 4
FORMATS = ("text", "github", "junit")

FEWEST_OF_GROUPS = 4  # columns: who, how many rows, how far off, with its interval


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Predictions: .parquet, .csv, .csv.gz, or a folder of .parquet. More are compared with it."
        ),
    ],
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    group: Annotated[str | None, typer.Option(help="Column of groups to judge side by side.")] = None,
    weight: Weight = None,
    id_column: Id = None,
    refer_by: Annotated[
        str | None,
        typer.Option(help="Column of scores, such as epistemic: in the referral curve the highest go first."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Column of subjects; the bootstrap draws whole subjects.")] = None,
    decide: Annotated[
        str, typer.Option(help="How to decide for a class: argmax, median (least MAE), mean, or a CSV of costs.")
    ] = "argmax",
    bootstrap: Annotated[
        int | None, typer.Option(min=0, help="Resamples; by default chosen by the number of rows.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    bins: Annotated[int, typer.Option(min=1, help="Bins of the calibration errors.")] = 15,
    compare: Annotated[
        list[Path] | None, typer.Option(help="Another model's predictions for the same rows; repeatable.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report here: .html, or .pdf by a browser.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all numbers here.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with code 4 if this holds: 'sce>0.05', 'sce.low>0.05', of a group 'north: sce>0.05', of any "
            "'*: sce>0.05'; repeatable."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", help="What is printed: text, github (for its runner) or junit (XML of the gates)."),
    ] = "text",
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    show_ids: Annotated[bool, typer.Option("--show-ids", help="Let row ids appear in the report.")] = False,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
    launcher: Annotated[str, typer.Option(help="What reads the files of a large folder: local or ray.")] = "local",
    jobs: Annotated[int, typer.Option(min=1, help="Files of a folder read at once.")] = 1,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; by default one of this machine.")] = None,
) -> None:
    """Judge a model's predictions: metrics with intervals, a report to show, gates for CI.

    Exit codes: 0 fine, 2 wrong usage, 3 bad data, 4 a --fail-if gate tripped.
    """
    from orcu.evaluation.gates import Gate
    from orcu.report.pdf import write_page

    keep_freed_memory()
    gates = [Gate.parse(text) for text in fail_if or []]
    paths = [*files, *(compare or [])]
    check_paths(paths, [report, json_path], folders=True)
    check_page(report)
    spread = launching(launcher, jobs=jobs, address=address)
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    check_rule(decide)
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        group=group,
        weight=weight,
        doubt=refer_by,
        id=id_column,
        subject=cluster,
        percent=percent,
    )
    with bad_data():
        evaluation = _judge(paths, options, decide, bootstrap, seed, bins, spread)
        with working("drawing the report" if report is not None else "writing"):
            outputs = _outputs(evaluation, paths, title, show_ids, report, json_path)
    for path, text in outputs.items():  # before printing, which a closed pipe may end
        try:
            write_page(text, path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error}).") from None
    if form == "text":
        _print(Console(), evaluation, gates, list(outputs))
    else:
        _print_for_pipelines(form, evaluation, gates)
    if any(gate.trips(evaluation) for gate in gates):
        raise typer.Exit(GATE_TRIPPED)


def _names(paths: list[Path]) -> list[str]:
    """File names without their endings; whole paths where these are not unique."""
    stems = [path.name.split(".")[0] or path.name for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _judge(
    paths: list[Path],
    options: dict[str, Any],
    decide: str,
    bootstrap: int | None,
    seed: int,
    bins: int,
    spread: "Launcher",
) -> "Evaluation":
    from orcu.evaluation.evaluate import evaluate as judge
    from orcu.predictions.predictions import open_predictions

    sources = [open_predictions(path, **options) for path in paths]
    names = _names(paths)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    screen = Console(stderr=True)
    with (
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress,
        spread as launcher,
    ):
        task = progress.add_task("reading")

        def show(stage: str, rows: int) -> None:
            progress.update(task, description=f"{stage}: {rows:,} rows")

        return judge(
            sources[0],
            compare=dict(zip(names[1:], sources[1:], strict=True)),
            name=names[0],
            decide=rule_of(decide, sources[0].classes),
            bootstrap=bootstrap,
            seed=seed,
            bins=bins,
            progress=show,
            launcher=launcher,
        )


def _outputs(
    evaluation: "Evaluation",
    paths: list[Path],
    title: str | None,
    show_ids: bool,
    report: Path | None,
    json_path: Path | None,
) -> dict[Path, str]:
    if report is None and json_path is None:
        return {}
    source = provenance(paths)
    outputs = {}
    if json_path is not None:
        about = {
            "files": [{"name": name, "sha256": digest} for name, digest in source.files],
            "date": source.date,
            "command": source.command,
        }
        result = evaluation.to_dict() | {"provenance": about}
        outputs[json_path] = json.dumps(result, indent=1, allow_nan=False) + "\n"
    if report is not None:
        options = {} if title is None else {"title": title}
        outputs[report] = evaluation.to_html(provenance=source, show_ids=show_ids, **options)
    return outputs


def _print_for_pipelines(form: str, evaluation: "Evaluation", gates: list["Gate"]) -> None:
    from orcu.report import pipelines

    job_page = os.environ.get("GITHUB_STEP_SUMMARY")
    if form == "github" and job_page:
        try:
            with Path(job_page).open("a", encoding="utf-8") as page:
                page.write(pipelines.summary(evaluation, gates) + "\n")
        except OSError as error:
            raise InputError(f"GITHUB_STEP_SUMMARY: {job_page} cannot be written ({error}).") from None
    make = pipelines.github if form == "github" else pipelines.junit
    typer.echo(make(evaluation, gates), nl=False)


def _print(console: Console, evaluation: "Evaluation", gates: list["Gate"], written: list[Path]) -> None:
    from orcu.evaluation.evaluation import metric_rows, shown_difference
    from orcu.evaluation.printed import shown_interval
    from orcu.metrics.base import all_metrics
    from orcu.report.headline import headline, next_step, verdict

    console.print()
    for one in (evaluation, *evaluation.others):
        model = f"{one.name}: " if evaluation.others else ""
        for note in [*one.notes, one.mapping]:
            style = "bold red" if note.startswith("WARNING") else "dim"
            console.print(f"[{style}]{escape(model + note)}[/]", highlight=False)
    console.print()
    for sentence in headline(evaluation):
        console.print(escape(sentence), highlight=False)
    console.print(f"[bold]What to do:[/] {escape(next_step(evaluation))}\n", highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(escape(evaluation.name))
    for heading in ("value", "95 % interval", "if calibrated"):
        table.add_column(heading, justify="right", no_wrap=True)
    family = ""
    for metric, cells in metric_rows(evaluation):
        if family and metric.family != family:
            table.add_row("")
        family = metric.family
        judgement = verdict(evaluation, metric.name)
        mark = "[red]✗[/]" if judgement.startswith("beyond") else "[green]✓[/]"
        if judgement:
            estimate = evaluation.metrics[metric.name]  # in few letters: a terminal is narrow
            chance = shown_interval(estimate.expected, estimate.limit, percent=metric.percent)
            cells[3] = f"{chance} {mark}"
        table.add_row(*map(escape, cells[:3]), cells[3])
    console.print(table)
    subjects = "" if evaluation.subjects is None else f" of {evaluation.subjects:,} whole subjects"
    console.print(
        f"\n[dim]{evaluation.rows:,} rows; {evaluation.resamples:,} bootstrap resamples{subjects}, "
        f"seed {evaluation.seed}; {evaluation.bins} bins (a, b].\nif calibrated: what a perfectly calibrated model "
        "with these very probabilities would show on as many rows, from the average to the 95 % point; ✗ beyond it. "
        "The interval of a calibration error is that of the true error: noise makes the value larger, and is "
        "taken out, so the value may lie above its interval.[/]\n",
        highlight=False,
    )
    if evaluation.groups:
        console.print(_group_table(evaluation, console), "")
    for other, differences in evaluation.differences.items():
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(escape(f"{evaluation.name} minus {other}"), overflow="fold")
        for heading in ("difference", "95 % interval", "in its favour"):
            table.add_column(heading, justify="right", no_wrap=True)
        for metric in all_metrics():
            difference = shown_difference(differences[metric.name], metric)
            table.add_row(metric.title, *difference)
        console.print(table, "")
    for path in written:
        console.print(f"wrote {escape(str(path))}", highlight=False)
    for gate in gates:
        mark = "[bold red]tripped[/]" if gate.trips(evaluation) else "[green]passed[/]"
        console.print(f"gate {escape(gate.text)}: {mark} ({escape(gate.reason(evaluation))})", highlight=False)


def _group_table(evaluation: "Evaluation", console: Console) -> Table:
    """The groups side by side, as many of the metrics as the terminal is wide; the report has all."""
    from orcu.report.pipelines import group_table

    headings, rows = group_table(evaluation)
    for shown in range(len(headings), FEWEST_OF_GROUPS, -1):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(headings[0], no_wrap=True)
        for heading in headings[1:shown]:
            table.add_column(heading, justify="right", no_wrap=True)
        for name, *cells in rows:
            table.add_row(escape(name), *cells[: shown - 1])
        if console.measure(table, options=console.options.update(max_width=1000)).maximum <= console.width:
            break
    return table
