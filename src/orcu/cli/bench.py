"""``orcu bench``: plan, run and print benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from orcu.cli.console import (
    FAILURE,
    INTERRUPTED,
    echo,
    escape,
    new_table,
    progress_bar,
    say,
    say_problem,
    say_wrote,
    show,
    task,
    text,
)
from orcu.cli.files import check_page, check_paths
from orcu.cli.options import LaunchOptions, Parallel, command, key_values, parse_value
from orcu.cli.options import names as option_names
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.bench.checks import Check
    from orcu.bench.paper import PaperTable
    from orcu.bench.plan import Plan
    from orcu.bench.run import BenchProgress, RunSummary
    from orcu.bench.tables import Table as BenchTable
    from orcu.launchers import Launcher

Layout = StrEnum("Layout", ["lines", "paper"])
Format = StrEnum("Format", ["rich", "markdown", "latex", "csv", "html"])

LOG_LINES = 10  # lines of a step of shared inputs in a log file

bench_app = typer.Typer(help="Benchmarks: the tables of the paper, and your own.", no_args_is_help=True)


@dataclass(frozen=True)
class ResultOptions:
    """Where results are stored, which losses a spec has, and which of its values are replaced."""

    results: Annotated[Path | None, Option(help="Folder of results. Default: $ORCU_RESULTS, or results/.")] = None
    extra: Annotated[str | None, Option(help="Name of a list of extra losses in the spec, such as grid.")] = None
    set_: Annotated[
        list[str] | None,
        Option("--set", help="KEY=VALUE for every data set of the spec, such as training.epochs=2; repeatable."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the options as keyword arguments of the functions of `orcu.bench`."""
        overrides = {key: parse_value(text) for key, text in key_values(self.set_).items()}
        return {"results": self.results, "extra": self.extra, "overrides": overrides}


@dataclass(frozen=True, kw_only=True)
class SpecOptions(ResultOptions):
    """A benchmark."""

    spec: Annotated[str, Argument(help="Spec: a TOML file, or the name of a spec that comes with orcu.")]

    def status(self) -> "Plan":
        """Return the runs of the benchmark and their states; data that is missing is not looked for."""
        from orcu import bench

        return bench.status(self.spec, **self.arguments())


@dataclass(frozen=True)
class ComputeOptions:
    """What the runs use: processes, GPUs and pretrained weights."""

    jobs: Annotated[
        int | None, Parallel(min=1, help="Number of parallel runs. Default: one per GPU or by available CPUs.")
    ] = None
    devices: Annotated[
        str | None, Parallel(help="GPUs to use, such as 0,1 (as torch counts them), or cpu. Default: all GPUs.")
    ] = None
    weights: Annotated[
        str | None, Option(help="Local copy of the pretrained weights: a file, or a folder with one per backbone.")
    ] = None
    download: Annotated[bool, Option("--download", help="Download pretrained weights from the hub.")] = False


@command(bench_app)
def plan(
    specs: Annotated[list[str], Argument(help="Specs: TOML files, or names of specs that come with orcu.")],
    options: ResultOptions,
    compute: ComputeOptions,
    probe: Annotated[
        bool, Option("--probe", help="Time a few training steps of each data set on random images.")
    ] = False,
) -> None:
    """Show the runs of specs and the hours that they need, and check data, weights, devices and disk."""
    from orcu import bench
    from orcu.bench.plan import count_distinct

    if len(specs) > 1 and options.extra is not None:
        raise InputError("--extra: allowed with one spec only.")
    arguments = options.arguments()
    with task():
        plans = [bench.plan(spec, **arguments) for spec in specs]
    several = len(plans) > 1
    headings = (
        "data",
        ">runs",
        ">finished",
        ">to do",
        ">hours to do",
        *([">s per step", ">GPU memory"] if probe else []),
    )
    table = new_table(*(["spec"] if several else []), *headings)
    checks: dict[str, Check] = {}
    notes: dict[str, None] = {}
    with task("timing training steps" if probe else ""):
        for planned in plans:
            estimate = _estimate(planned, compute, probe)
            checks |= {check.subject: check for check in estimate.checks}
            for row in estimate.rows:
                table.add_row(*([escape(planned.spec.name)] if several else []), *row)
            if estimate.note:
                notes[estimate.note] = None
    show(table)
    say(*notes)
    if several:
        number, finished = count_distinct(plans)
        total = sum(len(planned.runs) for planned in plans)
        say(f"{total} runs, of which {number} are distinct (specs share runs); {finished} are finished.")
    else:
        say(f"{len(plans[0].runs)} runs: {_counts(plans[0].states)}")
    _show_checks(list(checks.values()))


@command(bench_app)
def run(spec: SpecOptions, compute: ComputeOptions, launch: LaunchOptions) -> None:
    """Run unfinished jobs; failed runs are tried again. Several processes may run the same spec at the same time."""
    from orcu import bench
    from orcu.bench.jobs import Outcome, State
    from orcu.bench.run import resources

    arguments = spec.arguments()
    with task():
        planned = bench.plan(spec.spec, **arguments)
        is_cluster = launch.address is not None
        options = resources(planned.spec, jobs=compute.jobs, devices=compute.devices, cluster=is_cluster)
        workers = launch.create(**options)
        for hint in planned.prepare_commands:
            say_problem("warning", f"skipped, data not prepared: {hint}")
        prepared, to_do = len(planned.runs) - planned.states[State.NO_DATA], len(planned.pending_jobs)
        if not prepared:
            raise InputError("no data set of this spec is prepared; run the commands above.")
        if not to_do:
            bench.run(planned, launcher=workers)  # records which of the shared runs belong to this spec
            say(f"all {prepared} runs are finished")
            return
        say(f"{planned.spec.name}: {to_do} of {len(planned.runs)} runs to do; results go to {planned.results}")
        summary = _run_with_bar(planned, workers, compute)
    say(_counts(dict(sorted(summary.outcomes.items()))))
    if summary.outcomes[Outcome.FAILED]:
        say(f"`orcu bench status {planned.argument}` shows the errors; run the command again to retry.")
        raise typer.Exit(FAILURE)
    with task():
        current = spec.status()
    elsewhere = current.states[State.RUNNING]
    if elsewhere:
        say(f"other processes execute {elsewhere} runs; `orcu bench status {planned.argument}` shows their state.")
    if left := len(current.pending_jobs) - elsewhere:
        say(f"{left} runs are not finished; run the command again.")
        raise typer.Exit(FAILURE)


@command(bench_app)
def status(spec: SpecOptions) -> None:
    """Show the state of each unfinished run, and the errors of failed ones."""
    from orcu.bench.jobs import State

    with task():
        planned = spec.status()
    say(_counts(planned.states))
    for entry in planned.runs:
        if entry.state is State.FAILED:
            show(f"[red]failed[/] {escape(entry.job.title)}: {escape(entry.reason.strip().splitlines()[-1])}")
        elif entry.state is State.RUNNING or entry.reason:
            say(f"{entry.state} {entry.job.title}{entry.reason and f': {entry.reason}'}", wrap=False)


@command(bench_app)
def table(
    spec: SpecOptions,
    form: Annotated[Format, Option("--format", help="Format of the printed table.")] = Format.rich,
    baseline: Annotated[str | None, Option(help="Loss to compare with: ▲ significantly better, ▼ worse.")] = None,
    layout: Annotated[Layout, Option(help="Table layout: a row per loss, or as in the paper.")] = Layout.lines,
    paper: Annotated[bool, Option("--paper", help="Add the paper's numbers; needs --layout paper.")] = False,
) -> None:
    """Print the result table: mean and standard deviation over folds, best bold, second underlined."""
    from orcu import bench
    from orcu.bench.significance import METHOD
    from orcu.bench.tables import COLLAPSED_NOTE

    if layout == "lines" and paper:
        raise InputError("--paper: needs --layout paper; `orcu bench compare` prints both numbers line by line.")
    with task():
        planned = spec.status()
        missing = len(planned.runs) - len(planned.require_finished())
        if missing:
            text = f"{missing} of {len(planned.runs)} runs are missing from the table; see `orcu bench status`"
            say_problem("warning", text)
        for data in planned.mixed_weights:
            say_problem("warning", f"{data}: the runs started from different pretrained weights (result.json)")
        results = bench.table(planned, baseline=baseline)
        if layout == "paper":
            _print_paper_layout(results, form, paper)
        elif form == "rich":
            _print_table(results)
        else:
            echo(results.text(form))
    notes = [f"chosen on {data} by {metric} of validation rows: {loss}" for data, metric, loss in results.selected]
    if any(line.collapsed for line in results.lines):
        notes.insert(0, COLLAPSED_NOTE)
    if baseline is not None:
        notes.insert(0, f"▲ better, ▼ worse than {baseline}: {METHOD}.")
    say(*notes, stderr=form != "rich")


@command(bench_app)
def ranks(
    spec: SpecOptions,
    metric: Annotated[str, Option(help="Metric that ranks the losses, as mean over folds.")] = "sce",
    calibrator: Annotated[str | None, Option(help="Calibrator of the spec. Default: its first one.")] = None,
    losses: Annotated[str | None, Option(help="Losses to rank: a,b. Default: all of the spec.")] = None,
    alpha: Annotated[float, Option(help="Significance level.")] = 0.05,
    form: Annotated[Format, Option("--format", help="Format of the printed table.")] = Format.rich,
) -> None:
    """Rank the losses over the data sets: Friedman test and Nemenyi critical difference."""
    from orcu import bench
    from orcu.bench.ranks import rank_rows, render_ranks

    with task():
        test = bench.ranks(
            spec.status(), metric=metric, calibrator=calibrator, losses=option_names(losses), alpha=alpha
        )
    if form == "rich":
        headings, rows = rank_rows(test)
        printed = new_table(headings[0], *(f">{heading}" for heading in headings[1:]))
        for row in rows:
            printed.add_row(*map(escape, row))
        show(printed, width=30 + sum(len(heading) + 3 for heading in headings))
    else:
        echo(render_ranks(test, form))
    say(f"ranks by {metric}, 1 is best; losses with a common letter are not distinguished", stderr=form != "rich")
    say(*test.lines(), stderr=form != "rich")


@command(bench_app)
def report(
    spec: SpecOptions,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Report (.html or .pdf). Default: in the results.")
    ] = None,
) -> None:
    """Write an HTML report of the benchmark."""
    from orcu import bench
    from orcu.bench.report import REPORT

    with task("drawing"):
        planned = spec.status()
        planned.require_finished()
        if output is None:
            planned.folder.mkdir(parents=True, exist_ok=True)
        path = output or planned.folder / REPORT
        check_paths([], [path])
        check_page(path)
        bench.report(planned, output=path)
    say_wrote(path)


@command(bench_app)
def compare(spec: SpecOptions) -> None:
    """Compare results with the paper's numbers where the task is the same, and list differences of the others."""
    from orcu import bench

    with task():
        comparison = bench.compare(spec.status())
    if comparison.rows:
        names = ("data", "loss", "calibrator", "metric")
        printed = new_table(*names, ">paper", ">ours", ">difference", ">in std", ">folds", wrap=False)
        for row in comparison.rows:
            printed.add_row(
                *(escape(row[name]) for name in names),
                _with_deviation(row["paper"], row["paper_std"]) + (" †" if row["conflict"] else ""),
                _with_deviation(row["ours"], row["ours_std"]),
                f"{row['difference']:+.2f}",
                "" if row["in_std"] is None else f"{row['in_std']:+.1f}",
                str(row["folds"]),
            )
        show(printed, "in std: difference divided by the combined standard deviation")
    for data, differences in comparison.not_compared.items():
        say(f"not compared, different task: {data}: {'; '.join(differences)}")
    for row in (row for row in comparison.rows if row["conflict"]):
        say(f"† {row['data']}, {row['loss']}, {row['metric']}: the paper contradicts itself ({row['conflict']})")


def _print_paper_layout(results: "BenchTable", form: str, paper: bool) -> None:
    from orcu.bench.paper import differences, paper_layout, paper_text

    spec = results.plan.spec
    if form == "rich":
        for part in paper_layout(spec, results.lines, paper=paper):
            show(_paper_table(part), width=40 + 18 * len(part.headings))
    else:
        echo(paper_text(results, form, paper=paper))
    say("means ± standard deviations over runs; best loss bold, second underlined", stderr=True)
    if paper:
        say("paper: as published; † where the paper contradicts itself", stderr=True)
        for data in spec.data:
            if differing := differences(data, spec):
                say(f"different task than in the paper: {data.title}: {'; '.join(differing)}", stderr=True)


def _paper_table(part: "PaperTable") -> Table:
    styles = {"best": "bold", "second": "underline"}
    printed = new_table(*part.headings, title=part.title, wrap=False)
    for row in part.rows:
        cells = [(cell, "") if isinstance(cell, str) else (cell.text, styles.get(cell.emphasis, "")) for cell in row]
        printed.add_row(*(text(content, style) for content, style in cells))
    return printed


def _with_deviation(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


@dataclass(frozen=True)
class _Estimate:
    """Rows of the table of a plan, how their hours were computed, and the checks."""

    rows: list[list[str]]
    note: str
    checks: list["Check"]


def _estimate(planned: "Plan", compute: ComputeOptions, probe: bool) -> _Estimate:
    from orcu.bench.checks import check
    from orcu.bench.probe import probe as time_steps
    from orcu.bench.run import resources

    options = resources(planned.spec, jobs=compute.jobs, devices=compute.devices)
    parallel, gpus = options["jobs"], options["gpus"]
    measured = time_steps(planned, device=f"cuda:{gpus[0]}" if gpus else "cpu") if probe else []
    if probe and gpus:
        parallel = min(parallel, len(gpus))  # runs that share a GPU share its speed
    probes, rows = {entry.data: entry for entry in measured}, []
    for cost in planned.costs(parallel=parallel):
        step = probes.get(cost.data)
        expected = cost.hours if step is None or step.hours is None else step.hours / parallel
        hours = "0" if not cost.remaining else "?" if expected is None else _hours(expected)
        row = [escape(cost.data), str(cost.runs), str(cost.finished), str(cost.remaining), hours]
        if probe:
            row.append("-" if step is None or step.seconds is None else f"{step.seconds:.3g}")
            row.append("-" if step is None or step.memory is None else f"{step.memory / 1e9:.1f} GB")
        rows.append(row)
    source = "timed steps" if any(entry.hours is not None for entry in measured) else "finished runs"
    devices = "GPUs" if gpus and parallel == len(gpus) else "runs in parallel"
    note = f"hours of {planned.spec.name}: from {source}; {devices}: {parallel}"
    has_hours = any(row[4] not in {"0", "?"} for row in rows)
    checks = check(planned, probes=measured, **vars(compute))
    return _Estimate(rows, note if has_hours else "", checks)


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 0.05 else "< 0.1"


def _show_checks(checks: list["Check"]) -> None:
    """Print the checks and how to fix problems; a problem that prevents runs ends the command with a failing code."""
    if not checks:
        return
    table = new_table("check", "result", "")
    for check in checks:
        state = "[red]prevents runs[/]" if check.prevents_runs else "[yellow]see below[/]" if check.fix else "ok"
        table.add_row(escape(check.subject), escape(check.finding), state)
    show("", table)
    for check in checks:
        if check.fix:
            say(f"{check.subject}: {check.fix}", wrap=False)
    if any(check.prevents_runs for check in checks):
        raise typer.Exit(FAILURE)


def _run_with_bar(planned: "Plan", workers: "Launcher", compute: ComputeOptions) -> "RunSummary":
    """Run the jobs of a plan with a progress bar, or with lines in a log file; Ctrl-C stops them."""
    from orcu import bench
    from orcu.bench.jobs import Outcome
    from orcu.bench.run import RUNS

    finished, printed = 0, ("", 0)
    try:
        with progress_bar() as bar:
            job = bar.add_task("preparing", total=None)

            def update(progress: "BenchProgress") -> None:
                nonlocal finished, printed
                finished = progress.outcomes[Outcome.DONE]
                bar.update(job, description=progress.description, completed=progress.done, total=progress.total)
                if progress.total is None:
                    return
                # Every run has a line in a log file; a step of shared inputs has at most about ten.
                is_run = progress.unit == RUNS
                part = progress.done if is_run else LOG_LINES * progress.done // progress.total
                key = (progress.unit if is_run else progress.description, part)
                if not bar.is_shown and key != printed:
                    say(progress.line, stderr=True, wrap=False)
                    printed = key

            return bench.run(
                planned,
                launcher=workers,
                devices=compute.devices,
                weights=compute.weights,
                download=compute.download,
                progress=update,
            )
    except KeyboardInterrupt:
        say(f"interrupted after {finished} runs; run the command again to continue", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


def _print_table(results: "BenchTable") -> None:
    from orcu.bench.columns import heading

    spec, lines = results.plan.spec, results.lines
    several = len(spec.calibrators) > 1
    columns = [heading(column) for column in spec.columns]
    names = ("data", *(["calibrator"] if several else []), "loss")
    title = (spec.title or spec.name) + spec.set_options
    printed = new_table(*names, *(f">{column}" for column in columns), title=title)
    styles, previous = {1: "bold", 2: "underline"}, ("", "")
    for line in lines:
        cells = [text(line.text(column), styles.get(line.rank(column), "")) for column in spec.columns]
        block = (line.data, line.calibrator)
        if block != previous and previous != ("", ""):
            printed.add_row()
        data = escape(line.data) if line.data != previous[0] else ""
        calibrator = escape(line.calibrator) if block != previous else ""
        printed.add_row(data, *([calibrator] if several else []), escape(line.title), *cells)
        previous = block
    count = max((cell.count for line in lines for cell in line.cells.values()), default=1)
    ranked = any(cell.rank for line in lines for cell in line.cells.values())
    notes = [f"{spec.split} rows"] if spec.split != "test" else []
    notes += [f"mean ± standard deviation over {count} runs"] if count > 1 else []
    notes += ["best value of each block bold, second underlined"] if ranked else []
    show(printed, *(["; ".join(notes)] if notes else []), width=30 + 16 * len(columns))


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
