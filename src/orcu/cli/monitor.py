"""``orcu monitor``: a daily log of labelled predictions, and calibration drift alarms."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from orcu.cli.console import GATE_FAILED, new_table, say, show, task
from orcu.cli.files import ReportOptions, check_paths, digest
from orcu.cli.options import Column, ReadOptions, command
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.monitoring.check import Check

monitor_app = typer.Typer(
    help="Anytime-valid drift alarms: the false-alarm rate holds however often you check.", no_args_is_help=True
)
MAX_DAYS = 31  # number of days printed


@dataclass(frozen=True)
class MonitorReadOptions(ReadOptions):
    """Columns of the predictions of a day."""

    id: Annotated[str | None, Column(help="Column of unique row ids, to detect duplicates; stored as hashes.")] = None


@command(monitor_app)
def add(
    file: Annotated[Path, Argument(help="Predictions: .csv, .csv.gz, .parquet or a folder of .parquet.")],
    read: MonitorReadOptions,
    log: Annotated[Path, Option(help="Folder of the monitoring log, with one file per day.")],
    day: Annotated[str | None, Option(help="Date of all rows, such as 2026-11-01.")] = None,
    date: Annotated[str | None, Option(help="Column of the date of each row, in place of --day.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Overwrite days already in the log.")] = False,
    append: Annotated[bool, Option("--append", help="Append rows to days already in the log.")] = False,
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
    if day is not None:
        as_day(day, name="--day")
    options = read.arguments()
    with task(f"reading {file.name}"):
        days = Log(log).add_file(
            file,
            day=day,
            date=date,
            n_bins=n_bins,
            overwrite=overwrite,
            append=append,
            source={"file": file.name, "sha256": digest(file)},
            **options,
        )
    for entry in days:
        unlabelled = f", {entry.unlabelled:,} unlabelled" if entry.unlabelled else ""
        say(f"{entry.day}: {entry.tally.rows:,} labelled rows{unlabelled}")
    if append and any(entry.ids is None for entry in days):
        say("duplicate rows cannot be detected without --id", style="dim")
    say(f"wrote {len(days):,} {'day' if len(days) == 1 else 'days'} to {log}")


@command(monitor_app)
def check(
    log: Annotated[Path, Argument(help="Folder of the monitoring log.")],
    reports: ReportOptions,
    reference: Annotated[Path | None, Option(help="Reference to compare with: another log or a day of one.")] = None,
    reference_days: Annotated[int | None, Option(help="Number of first days to use as the reference.")] = None,
    since: Annotated[str | None, Option(help="First day to test, such as the day after a fix.")] = None,
    alpha: Annotated[float, Option(help="Probability of ever raising a false alarm.")] = 0.05,
    tolerance: Annotated[float | None, Option(help="Tolerated deviation. Default: 0.02; 0 with a reference.")] = None,
    plot: Annotated[Path | None, Option(help="Chart file (.png, .svg or .pdf).")] = None,
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
            log, reference=reference, reference_days=reference_days, since=since, alpha=alpha, tolerance=tolerance
        )
        written = reports.write(result.to_dict(), partial(build, result), [])
        if plot is not None:
            save(chart(result), plot)
            written.append(plot)
    _print(result)
    say(*(f"wrote {path}" for path in written))
    if result.alarm:
        raise typer.Exit(GATE_FAILED)


def _print(result: "Check") -> None:
    from orcu.evaluation.formatting import format_value
    from orcu.monitoring.check import format_e_value

    headings = ("day", ">rows", ">unlabelled", ">accuracy", ">ECE", ">SCE", ">over-conf.", ">e-value")
    table = new_table(*headings, padding=1)
    for day in result.days[-MAX_DAYS:]:
        metrics = [format_value(value, percent=True) for value in (day.accuracy, day.ece, day.sce)]
        gap = format_value(day.overconfidence, percent=True, signed=True)
        e_value = format_e_value(day)
        mark = f"[bold red]{e_value}[/]" if day.e_value >= result.alarm_threshold else e_value
        unlabelled = f"{day.unlabelled:,}" if day.unlabelled else ""
        table.add_row(day.day.isoformat(), f"{day.rows:,}", unlabelled, *metrics, gap, mark)
    show("", table)
    if len(result.days) > MAX_DAYS:
        say(f"the last {MAX_DAYS} of {len(result.days):,} days; --json and --report have all days", style="dim")
    show("")
    say(result.findings[0], style="bold red" if result.alarm else "bold")
    say(*result.findings[1:])
    show("")
