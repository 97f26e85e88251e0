"""``orcu bench``: plan, run and print benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from orcu.cli.console import FAILURE, INTERRUPTED, new_table, progress_bar, say, say_problem, say_wrote, show, task
from orcu.cli.files import check_page, check_paths
from orcu.cli.options import LaunchOptions, Parallel, command
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.bench.paper import PaperTable
    from orcu.bench.plan import Plan
    from orcu.bench.run import BenchProgress, RunSummary
    from orcu.bench.tables import Table as BenchTable
    from orcu.launchers import Launcher

Layout = StrEnum("Layout", ["lines", "paper"])
Format = StrEnum("Format", ["rich", "markdown", "latex", "csv", "html"])

bench_app = typer.Typer(help="Benchmarks: the tables of the paper, and your own.", no_args_is_help=True)


@dataclass(frozen=True)
class ResultOptions:
    """Where results are stored, and which losses a spec has."""

    results: Annotated[Path | None, Option(help="Folder of results. Default: $ORCU_RESULTS, or results/.")] = None
    extra: Annotated[str | None, Option(help="Name of a list of extra losses in the spec, such as grid.")] = None


@dataclass(frozen=True, kw_only=True)
class SpecOptions(ResultOptions):
    """A benchmark."""

    spec: Annotated[str, Argument(help="Spec: a TOML file, or the name of a spec that comes with orcu.")]

    def status(self) -> "Plan":
        """Return the runs of the benchmark and their states; data that is missing is not looked for."""
        from orcu import bench

        return bench.status(self.spec, results=self.results, extra=self.extra)


@command(bench_app)
def plan(
    specs: Annotated[list[str], Argument(help="Specs: TOML files, or names of specs that come with orcu.")],
    options: ResultOptions,
) -> None:
    """Show the runs of specs, which are finished, and the time that the others need."""
    from orcu import bench
    from orcu.bench.plan import count_distinct

    if len(specs) > 1 and options.extra is not None:
        raise InputError("--extra: allowed with one spec only.")
    with task():
        plans = [bench.plan(spec, results=options.results, extra=options.extra) for spec in specs]
    several = len(plans) > 1
    headings = ("data", ">runs", ">finished", ">to do", ">hours to do")
    table = new_table(*(["spec"] if several else []), *headings)
    for planned in plans:
        for cost in planned.costs():
            hours = "0" if not cost.remaining else "?" if cost.hours is None else f"{cost.hours:.1f}"
            spec = [escape(planned.spec.name)] if several else []
            table.add_row(*spec, escape(cost.data), str(cost.runs), str(cost.finished), str(cost.remaining), hours)
    show(table)
    if several:
        number, finished = count_distinct(plans)
        total = sum(len(planned.runs) for planned in plans)
        say(f"{total} runs, of which {number} are distinct (specs share runs); {finished} are finished.")
    else:
        say(f"{len(plans[0].runs)} runs: {_counts(plans[0].states)}")
    for hint in dict.fromkeys(hint for planned in plans for hint in planned.prepare_commands):
        typer.echo(f"not prepared yet: {hint}")


@command(bench_app)
def run(
    spec: SpecOptions,
    launch: LaunchOptions,
    jobs: Annotated[
        int | None, Parallel(min=1, help="Number of parallel runs. Default: one per GPU or by cores.")
    ] = None,
    devices: Annotated[str | None, Parallel(help="GPUs to use, such as 0,1, or cpu. Default: all GPUs.")] = None,
) -> None:
    """Run unfinished jobs; failed runs are tried again."""
    from orcu import bench
    from orcu.bench.jobs import Outcome, State
    from orcu.bench.run import resources

    with task():
        planned = bench.plan(spec.spec, results=spec.results, extra=spec.extra)
        workers = launch.create(**resources(planned.spec, jobs=jobs, devices=devices))
        for hint in planned.prepare_commands:
            say_problem("warning", f"skipped, data not prepared: {hint}")
        prepared, to_do = len(planned.runs) - planned.states[State.NO_DATA], len(planned.pending_jobs)
        if not prepared:
            raise InputError("no data set of this spec is prepared; run the commands above.")
        if not to_do:
            bench.run(planned, launcher=workers)  # records which of the shared runs belong to this spec
            say(f"all {prepared} runs are finished")
            return
        counts = f"{to_do} of {len(planned.runs)} runs to do, {workers.jobs} in parallel"
        say(f"{planned.spec.name}: {counts}", f"results go to {planned.results}")
        summary = _run_with_bar(planned, workers)
    say(_counts(dict(sorted(summary.outcomes.items()))))
    if summary.outcomes[Outcome.FAILED]:
        say(f"`orcu bench status {spec.spec}` shows the errors; run the command again to retry.")
        raise typer.Exit(FAILURE)
    with task():
        left = len(spec.status().pending_jobs)
    if left:
        say(f"{left} runs are not finished; another process is running them. Run the command again later.")
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
            typer.echo(f"{entry.state} {entry.job.title}{entry.reason and f': {entry.reason}'}")


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
    from orcu.bench.tables import COLLAPSED_NOTE

    if layout == "lines" and paper:
        raise InputError("--paper: needs --layout paper; `orcu bench compare` prints both numbers line by line.")
    with task():
        planned = spec.status()
        missing = len(planned.runs) - len(planned.require_finished())
        if missing:
            text = f"{missing} of {len(planned.runs)} runs are missing from the table; see `orcu bench status`"
            say_problem("warning", text)
        results = bench.table(planned, baseline=baseline)
        if layout == "paper":
            _print_paper_layout(results, form, paper)
        elif form == "rich":
            _print_table(results)
        else:
            typer.echo(results.text(form), nl=False)
    notes = [f"chosen on {data} by {metric} of validation rows: {loss}" for data, metric, loss in results.selected]
    if any(line.collapsed for line in results.lines):
        notes.insert(0, COLLAPSED_NOTE)
    if baseline is not None:
        notes.insert(0, f"▲ better, ▼ worse than {baseline}: 95 % intervals of a bootstrap of folds and rows.")
    say(*notes, stderr=form != "rich")


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
        comparison = bench.compare(spec.spec, results=spec.results, extra=spec.extra)
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
    from orcu.bench.paper import differences, paper_layout

    spec = results.plan.spec
    for number, part in enumerate(paper_layout(spec, results.lines, paper=paper)):
        if form == "rich":
            show(_paper_table(part), width=40 + 18 * len(part.headings))
            continue
        if form != "csv":
            comment = {"latex": "% {}", "html": "<!-- {} -->"}.get(form, "{}")
            typer.echo(("\n" if number else "") + comment.format(part.title) + "\n")
        typer.echo(part.text(form), nl=False)
    say("means ± standard deviations over runs; best value of a row bold, second underlined", stderr=True)
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
        printed.add_row(*(Text(text, style) for text, style in cells))
    return printed


def _with_deviation(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def _run_with_bar(planned: "Plan", workers: "Launcher") -> "RunSummary":
    """Run the jobs of a plan with a progress bar, or with lines in a log file; Ctrl-C stops them."""
    from orcu import bench
    from orcu.bench.jobs import Outcome

    stderr = Console(stderr=True)
    finished, printed = 0, 0
    try:
        with progress_bar() as bar:
            job = bar.add_task("runs", total=None)

            def update(progress: "BenchProgress") -> None:
                nonlocal finished, printed
                finished = progress.outcomes[Outcome.DONE]
                if not stderr.is_terminal and progress.done != printed:
                    stderr.print(
                        f"{progress.done} of {progress.total} runs: {escape(progress.description)}", highlight=False
                    )
                    printed = progress.done
                bar.update(job, description=progress.description, completed=progress.done, total=progress.total)

            return bench.run(planned, launcher=workers, progress=update)
    except KeyboardInterrupt:
        stderr.print(f"interrupted after {finished} runs; run the command again to continue", highlight=False)
        raise typer.Exit(INTERRUPTED) from None


def _print_table(results: "BenchTable") -> None:
    from orcu.bench.columns import heading

    spec, lines = results.plan.spec, results.lines
    several = len(spec.calibrators) > 1
    columns = [heading(column) for column in spec.columns]
    names = ("data", *(["calibrator"] if several else []), "loss")
    printed = new_table(*names, *(f">{column}" for column in columns), title=spec.title or spec.name)
    styles, previous = {1: "bold", 2: "underline"}, ("", "")
    for line in lines:
        cells = [Text(line.text(column), styles.get(line.rank(column), "")) for column in spec.columns]
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
