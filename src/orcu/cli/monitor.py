"""``orcu monitor``: a daily log of labelled predictions, and calibration drift alarms."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from orcu.cli.console import GATE_FAILED, escape, new_table, say, show, task
from orcu.cli.decide import Rule, check_rule, read_rule
from orcu.cli.files import ReportOptions, Result, check_json, check_paths, digest, writing
from orcu.cli.options import Column, ReadOptions, command
from orcu.errors import InputError
from orcu.io.files import write_json
from orcu.io.locations import Location

if TYPE_CHECKING:
    from orcu.monitoring.check import Check, DayResult, SubgroupResult
    from orcu.monitoring.periods import PeriodComparison

monitor_app = typer.Typer(
    help="Anytime-valid drift alarms: the false-alarm rate holds however often you check.", no_args_is_help=True
)
Period = StrEnum("Period", ["day", "week", "month"])
LEVEL = 0.05  # p-values below it are marked
MAX_LINES = 31  # number of days, weeks or months printed
MAX_ADDED_LINES = 7  # more added days are printed as a summary


@dataclass(frozen=True)
class MonitorReadOptions(ReadOptions):
    """Columns of the predictions of a day."""

    id: Annotated[str | None, Column(help="Column of unique row ids, to detect duplicates; stored as hashes.")] = None
    sample_weight: Annotated[str | None, Column(help="Column of sample weights.")] = None
    subgroup: Annotated[str | None, Column(help="Column of subgroups, such as sites; each is tested too.")] = None
    cluster: Annotated[
        str | None, Column(help="Column of clusters, such as patients, whose rows depend on each other; hashed.")
    ] = None
    date_format: Annotated[
        str | None, Column(help="Format of dates, such as %d.%m.%Y. Default: detected from all rows.")
    ] = None


@command(monitor_app)
def add(
    file: Annotated[Location, Argument(help="Predictions: .csv, .csv.gz, .parquet or a folder of .parquet.")],
    read: MonitorReadOptions,
    log: Annotated[Path, Option(help="Folder of the monitoring log, with one file per day.")],
    day: Annotated[str | None, Option(help="Date of all rows, such as 2026-11-01.")] = None,
    date: Annotated[str | None, Option(help="Column of the date of each row, in place of --day.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Overwrite days already in the log.")] = False,
    append: Annotated[bool, Option("--append", help="Append rows to days already in the log.")] = False,
    allow_duplicates: Annotated[
        bool,
        Option(
            "--allow-duplicates",
            help="Add rows that are in the log under another day, such as cases predicted again that count again.",
        ),
    ] = False,
    allow_any_day: Annotated[
        bool,
        Option(
            "--allow-any-day",
            help="Accept days before the first day of the log, in the future, or more than a year from the others, as "
            "when earlier days are added before the first check.",
        ),
    ] = False,
    n_bins: Annotated[int, Option(min=1, help="Number of probability bins, fixed for a log.")] = 15,
) -> None:
    """Add the predictions of one or more days to the log.

    Rows with an empty label are counted as unlabelled. Duplicates are not detected without --id.
    """
    from orcu.monitoring.log import Log, as_day

    check_paths([file], [], folders=True)
    if (day is None) == (date is None):
        raise InputError("--day, --date: give exactly one of the two.")
    if overwrite and append:
        raise InputError("--overwrite, --append: give only one of the two.")
    options = read.arguments()
    if day is not None:
        as_day(day, name="--day", date_format=read.date_format)
    with task(f"reading {file.name}"):
        days = Log(log).add_file(
            file,
            day=day,
            date=date,
            n_bins=n_bins,
            overwrite=overwrite,
            append=append,
            allow_duplicates=allow_duplicates,
            allow_any_day=allow_any_day,
            source={"file": file.name, "sha256": digest(file)},
            **options,
        )
    if len(days) > MAX_ADDED_LINES:
        rows, unlabelled = sum(entry.tally.rows for entry in days), sum(entry.unlabelled for entry in days)
        _print_added(f"{days[0].day} to {days[-1].day}", rows, unlabelled, append=append)
    else:
        for entry in days:
            _print_added(f"{entry.day}", entry.tally.rows, entry.unlabelled, append=append)
    if append and any(entry.ids is None for entry in days):
        say("duplicate rows cannot be detected without --id", style="dim")
    say(f"wrote {len(days):,} {'day' if len(days) == 1 else 'days'} to {log}")


@command(monitor_app)
def check(
    log: Annotated[Path, Argument(help="Folder of the monitoring log.")],
    reports: ReportOptions,
    reference: Annotated[Path | None, Option(help="Reference to compare with: another log or a day of one.")] = None,
    reference_days: Annotated[
        int | None, Option(help="Number of first days with labels to use as the reference.")
    ] = None,
    since: Annotated[str | None, Option(help="First day to test, such as the day after a fix.")] = None,
    alpha: Annotated[float, Option(help="Probability of ever raising a false alarm.")] = 0.05,
    tolerance: Annotated[float | None, Option(help="Tolerated deviation. Default: 0.02; 0 with a reference.")] = None,
    period: Annotated[
        Period | None, Option(help="Period of the printed results. Default: by the number of days.")
    ] = None,
    plot: Annotated[Location | None, Option(help="Chart file (.png, .svg or .pdf).")] = None,
) -> None:
    """Test the log for calibration drift; exit with code 4 if an alarm is raised."""
    from orcu.figures.save import check_format, save
    from orcu.monitoring.check import check as check_log
    from orcu.monitoring.check import validate_settings
    from orcu.monitoring.log import as_day
    from orcu.monitoring.page import build, chart

    if not log.is_dir():
        raise InputError(f"{log}: no such folder; create the log with `orcu monitor add`.")
    reports.check([log, reference], plot)
    validate_settings(alpha=alpha, tolerance=tolerance, reference=reference, reference_days=reference_days)
    if since is not None:
        as_day(since, name="--since")
    if plot is not None:
        check_format(plot.suffix.removeprefix("."))
    with task("checking the log"):
        result = check_log(
            log,
            reference=reference,
            reference_days=reference_days,
            since=since,
            alpha=alpha,
            tolerance=tolerance,
            period=None if period is None else period.value,
        )
        written = reports.write(result.to_dict(), partial(build, result), [])
        if plot is not None:
            save(chart(result), plot)
            written.append(plot)
    _print(result)
    say(*(f"wrote {path}" for path in written))
    if result.alarm:
        raise typer.Exit(GATE_FAILED)


@command(monitor_app)
def compare(
    before: Annotated[Location, Argument(help="Predictions of the first period.")],
    after: Annotated[Location, Argument(help="Predictions of the second period, with the labels known by now.")],
    read: ReadOptions,
    rule: Rule = "argmax",
    event: Annotated[
        str | None, Option(help="Backtest the probability of this class or above. Default: the highest class.")
    ] = None,
    json_path: Annotated[Location | None, Result("--json", help="JSON file of all numbers.")] = None,
) -> None:
    """Compare two periods: population stability, migration between grades, Jeffreys test of each grade."""
    from orcu.monitoring.periods import compare_periods
    from orcu.predictions import open_predictions

    check_paths([before, after], [json_path], folders=True)
    check_json(json_path)
    check_rule(rule)
    options = read.arguments()
    with task("reading"):
        # The labels of the first period are not used, and need not be known.
        first = open_predictions(before, **options).load_all_rows()[0]
        second, y = open_predictions(after, **options).load_all_rows()
        chosen = read_rule(rule, second.classes, read.encoding)
        result = compare_periods(first, second, rule=chosen, event=event, y=y)
    if json_path is not None:
        with writing(json_path):
            write_json(json_path, result.to_dict())
    _print_comparison(result)
    if json_path is not None:
        say(f"wrote {json_path}")


def _print_comparison(result: "PeriodComparison") -> None:
    from orcu.evaluation.formatting import format_value

    first, second = result.counts
    table = new_table("grade", ">first", ">second", ">share", ">share", padding=1)
    for k, name in enumerate(result.classes):
        shares = [format_value(float(part[k] / part.sum()), percent=True) for part in result.counts]
        table.add_row(escape(name), f"{first[k]:,}", f"{second[k]:,}", *shares)
    show("", table)
    say(
        f"Population stability index: {result.stability_index:.4f}; without a change, 95 % of samples of these sizes "
        f"have less than {result.stability_limit:.4f}.",
        "",
    )
    if result.migration is None:
        say("No migration matrix: it needs the ids of the cases in both files (--id).", "")
    else:
        table = new_table("from / to", *(f">{name}" for name in result.classes), padding=1)
        for name, row in zip(result.classes, result.migration, strict=True):
            table.add_row(escape(name), *(f"{count:,}" for count in row))
        show(table)
        say(f"{result.migration.sum():,} cases are in both periods.", "")
    if result.backtest:
        table = new_table("grade", ">rows", ">events", ">observed", ">predicted", ">p-value", padding=1)
        for grade in result.backtest:
            observed = grade.events / grade.rows if grade.rows else float("nan")
            rates = [format_value(value, percent=True) for value in (observed, grade.predicted)]
            p_value = _mark(format_value(grade.p_value, percent=False), grade.p_value < LEVEL)
            table.add_row(escape(grade.grade), f"{grade.rows:,}", f"{grade.events:,}", *rates, p_value)
        show(table)
        say(
            f'Event: "{result.event}". p-value: Jeffreys test, small if the predicted probability of a grade is too '
            "low. It assumes independent rows and is not adjusted for the number of grades.",
            style="dim",
        )


def _print_added(days: str, rows: int, unlabelled: int, *, append: bool) -> None:
    now = "now " if append else ""  # the counts are those of the days, not of the added rows
    say(f"{days}: {now}{rows:,} labelled rows{f', {unlabelled:,} unlabelled' if unlabelled else ''}")


def _print(result: "Check") -> None:
    from orcu.monitoring.check import format_e_value, format_period

    limit = ">if calib."
    name = "week of" if result.period == "week" else result.period
    table = new_table(name, ">rows", ">unlabelled", ">accuracy", ">ECE", limit, ">over-conf.", ">e-value", padding=1)
    for day in result.periods[-MAX_LINES:]:
        cells = [*_metrics(day), _mark(format_e_value(day), day.e_value >= result.alarm_threshold)]
        table.add_row(format_period(day.day, result.period), *_counts(day), *cells)
    show("", table)
    if len(result.periods) > MAX_LINES:
        note = f"the last {MAX_LINES} of {len(result.periods):,} {result.period}s; --json and --report have all"
        say(note, style="dim")
    if result.subgroups:
        table = new_table(
            "subgroup", ">rows", ">unlabelled", ">accuracy", ">ECE", limit, ">over-conf.", ">e-value", padding=1
        )
        for part in result.subgroups:
            e_value = f"{format_e_value(part)} of {part.alarm_threshold:,.0f}"
            table.add_row(escape(part.name), *_counts(part), *_metrics(part), _mark(e_value, part.alarm))
        show("", table)
    say("if calib.: 95 % of perfectly calibrated models have a lower ECE on as many rows.", style="dim")
    show("")
    say(result.findings[0], style="bold red" if result.alarm else "bold")
    say(*result.findings[1:])
    show("")


def _counts(result: "DayResult | SubgroupResult") -> tuple[str, str]:
    return f"{result.rows:,}", f"{result.unlabelled:,}" if result.unlabelled else ""


def _metrics(result: "DayResult | SubgroupResult") -> list[str]:
    from orcu.evaluation.formatting import format_value

    limit = result.ece_chance.limit
    ece = _mark(format_value(result.ece, percent=True), result.ece > limit)
    values = [format_value(result.accuracy, percent=True), ece, format_value(limit, percent=True)]
    return [*values, format_value(result.overconfidence, percent=True, signed=True)]


def _mark(text: str, is_alarming: bool) -> str:
    return f"[bold red]{text}[/]" if is_alarming else text
