"""``orcu monitor``: watch the calibration of a model in use."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orcu.cli.evaluate import GATE_TRIPPED
from orcu.cli.options import (
    Classes,
    Decimal,
    Label,
    Logits,
    Percent,
    Probs,
    Separator,
    bad_data,
    check_page,
    check_paths,
    digest,
    provenance,
    reading_options,
    working,
)
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.monitoring.check import Check

monitor_app = typer.Typer(
    help="Watch a model in use: a log of its days, and alarms that keep their false-alarm rate over all looks.",
    no_args_is_help=True,
)

LATEST = 31  # days that are printed


@monitor_app.command("add")
def add(
    file: Annotated[
        Path, typer.Argument(help="Predictions: .parquet, .csv, .csv.gz, or a folder of .parquet; labels may be empty.")
    ],
    log: Annotated[Path, typer.Option(help="Folder of the log, one file for each day.")],
    day: Annotated[str | None, typer.Option(help="Day of all rows: 2026-11-01.")] = None,
    dates: Annotated[str | None, typer.Option("--date", help="Column of each row's day, in place of --day.")] = None,
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of row ids; kept as hashes, so that no row is added twice.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The day is there: put it anew, with the labels that have come since.")
    ] = False,
    more: Annotated[
        bool, typer.Option("--more", help="The day is there: add rows that are not in it; without --id on your word.")
    ] = False,
    bins: Annotated[int, typer.Option(min=1, help="Bins of what is said; the same for all days.")] = 15,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Add the labelled rows of a day to the log; rows whose label is empty are counted as waiting."""
    from orcu.monitoring.log import Log, as_day

    check_paths([file], [], folders=True)
    if (day is None) == (dates is None):
        raise InputError("--day, --date: give one of the two: the day of all rows, or the column that tells it.")
    if replace and more:
        raise InputError("--replace, --more: give only one of the two.")
    if day is not None:
        as_day(day, name="--day")
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        id=id_column,
        percent=percent,
    )
    with bad_data(), working(f"reading {file.name}"):
        source = {"file": file.name, "sha256": digest(file)}
        days = Log(log).add_file(
            file, day=day, dates=dates, bins=bins, replace=replace, more=more, source=source, **options
        )
    console = Console()
    for one in days:
        late = f", {one.waiting:,} without a label yet" if one.waiting else ""
        console.print(f"{one.day}: {one.tally.rows:,} labelled rows{late}", highlight=False)
    if more and any(one.ids is None for one in days):
        console.print("[dim]without ids (--id) nobody can see whether a row was there already[/]", highlight=False)
    noun = "day" if len(days) == 1 else "days"
    console.print(f"wrote {len(days):,} {noun} to {escape(str(log))}", highlight=False)


@monitor_app.command("check")
def check(
    log: Annotated[Path, typer.Argument(help="Folder of the log.")],
    reference: Annotated[
        Path | None, typer.Option(help="What the days are compared with: another log, or a file of it.")
    ] = None,
    reference_days: Annotated[
        int | None, typer.Option(help="In its place: so many days from the log's first, which are then not judged.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only days from this one on, such as after a repair.")] = None,
    alpha: Annotated[float, typer.Option(help="Probability of ever raising a false alarm.")] = 0.05,
    tolerance: Annotated[
        float | None,
        typer.Option(help="How far off probabilities may be: 0.02 is 2 points, the default; with a reference it is 0."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page here: .html, or .pdf by a browser.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all numbers here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the chart here: .png, .svg or .pdf.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Look at the log: has the calibration drifted? Look as often as you like.

    Exit codes: 0 no alarm, 2 wrong usage, 3 bad data, 4 an alarm.
    """
    from orcu.figures.save import checked_format
    from orcu.monitoring.check import check as look
    from orcu.monitoring.check import need_settings
    from orcu.monitoring.log import as_day

    if not log.is_dir():
        raise InputError(f"{log}: there is no such folder; make the log with `orcu monitor add`.")
    check_paths([log, *([] if reference is None else [reference])], [report, json_path, plot], folders=True)
    check_page(report)
    need_settings(alpha=alpha, tolerance=tolerance, reference=reference, reference_days=reference_days)
    if since is not None:
        as_day(since, name="--since")
    if plot is not None:
        checked_format(plot.suffix.removeprefix("."))
    with bad_data(), working("looking at the log"):
        result = look(
            log, reference=reference, reference_days=reference_days, since=since, alpha=alpha, tolerance=tolerance
        )
        written = _write(result, title, report, json_path, plot)
    console = Console()
    _print(console, result)
    for path in written:
        console.print(f"wrote {escape(str(path))}", highlight=False)
    if result.alarm:
        raise typer.Exit(GATE_TRIPPED)


def _write(
    result: "Check", title: str | None, report: Path | None, json_path: Path | None, plot: Path | None
) -> list[Path]:
    from orcu.figures.save import save
    from orcu.monitoring.page import build, chart
    from orcu.report.pdf import write_page

    source = provenance([])
    texts = {}
    if json_path is not None:
        about = {"date": source.date, "command": source.command}
        texts[json_path] = json.dumps(result.to_dict() | {"provenance": about}, indent=1, allow_nan=False) + "\n"
    if report is not None:
        texts[report] = build(result, provenance=source, **({} if title is None else {"title": title}))
    for path, text in texts.items():
        write_page(text, path)
    if plot is not None:
        save(chart(result), plot)
    return [*texts, *([] if plot is None else [plot])]


def _print(console: Console, result: "Check") -> None:
    from orcu.evaluation.printed import shown
    from orcu.monitoring.check import shown_evidence

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("day", no_wrap=True)
    for heading in ("rows", "waiting", "accuracy", "ECE", "SCE", "over-conf.", "evidence"):
        table.add_column(heading, justify="right", no_wrap=True)
    for day in result.days[-LATEST:]:
        figures = [shown(value, percent=True) for value in (day.accuracy, day.ece, day.sce)]
        gap = shown(day.overconfidence, percent=True, signed=True)
        evidence = shown_evidence(day)
        mark = f"[bold red]{evidence}[/]" if day.evidence >= result.limit else evidence
        waiting = f"{day.waiting:,}" if day.waiting else ""
        table.add_row(day.day.isoformat(), f"{day.rows:,}", waiting, *figures, gap, mark)
    console.print()
    console.print(table)
    if len(result.days) > LATEST:
        console.print(
            f"[dim]the last {LATEST} of {len(result.days):,} days; --json and --report have them all[/]",
            highlight=False,
        )
    console.print()
    for place, sentence in enumerate(result.sentences):
        style = "" if place else "[bold red]" if result.alarm else "[bold]"
        console.print(f"{style}{escape(sentence)}", highlight=False)
    console.print()
