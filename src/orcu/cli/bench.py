"""``orcu bench``: plan, run and print a benchmark."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from orcu.cli.options import bad_data, check_page, check_paths, launching, working
from orcu.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from orcu.bench.paper import PaperTable
    from orcu.bench.plan import Plan
    from orcu.bench.run import Moment, Summary
    from orcu.bench.tables import Table as BenchTable
    from orcu.launchers import Launcher

UNFINISHED = 1
LAYOUTS = ("lines", "paper")

bench_app = typer.Typer(help="The benchmark: every table of the paper, and your own.", no_args_is_help=True)
SpecFile = Annotated[str, typer.Argument(help="A TOML file, or the name of a spec that comes with orcu.")]
SpecFiles = Annotated[list[str], typer.Argument(help="TOML files, or names of specs that come with orcu.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Folder of results; $ORCU_RESULTS, or results/ by default.")
]
More = Annotated[
    str | None, typer.Option("--with", help="Further losses that the spec names, such as grid of ablation.")
]


@bench_app.command()
def plan(specs: SpecFiles, results: Results = None, more: More = None) -> None:
    """Show the runs of a spec, which are finished, and what the rest will cost; of several specs, how many differ."""
    from orcu import bench
    from orcu.bench.plan import distinct

    with bad_data():
        if len(specs) > 1 and more is not None:
            raise InputError("--with: further losses belong to one spec; name that alone.")
        plans = [bench.plan(spec, results=results, more=more) for spec in specs]
    console, several = Console(), len(plans) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in (*(["spec"] if several else []), "data", "runs", "finished", "to do", "hours to do"):
        table.add_column(heading, justify="left" if heading in {"spec", "data"} else "right")
    for planned in plans:
        for cost in planned.costs():
            hours = "0" if not cost.to_do else "?" if cost.hours is None else f"{cost.hours:.1f}"
            spec = [escape(planned.spec.name)] if several else []
            table.add_row(*spec, escape(cost.data), str(cost.runs), str(cost.finished), str(cost.to_do), hours)
    console.print(table)
    if several:
        number, finished = distinct(plans)
        console.print(
            f"{sum(len(one.runs) for one in plans)} runs, of which {number} differ: a run is done once for all specs. "
            f"{finished} are finished.",
            highlight=False,
        )
    else:
        console.print(f"{len(plans[0].runs)} runs: {_counts(plans[0].states)}", highlight=False)
    for command in dict.fromkeys(command for one in plans for command in one.missing_data):
        console.print(f"not prepared yet: {escape(command)}", highlight=False, soft_wrap=True)


@bench_app.command()
def run(
    spec: SpecFile,
    results: Results = None,
    more: More = None,
    launcher: Annotated[str, typer.Option(help="local or ray.")] = "local",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; by default one per GPU, or as the cores allow.")
    ] = None,
    devices: Annotated[
        str | None, typer.Option(help="GPUs to use, such as 0,1, or cpu; by default all there are.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; by default one of this machine.")] = None,
) -> None:
    """Do what is not finished; failed runs are tried again."""
    from orcu import bench
    from orcu.bench.run import resources
    from orcu.bench.states import Outcome, State

    console = Console()
    with bad_data():
        planned = bench.plan(spec, results=results, more=more)
        workers = launching(launcher, address=address, **resources(planned.spec, jobs=jobs, devices=devices))
        for command in planned.missing_data:
            console.print(f"[yellow]left out, not prepared:[/] {escape(command)}", highlight=False, soft_wrap=True)
        prepared, to_do = len(planned.runs) - planned.states[State.NO_DATA], len(planned.to_do)
        if not prepared:
            raise InputError("none of the data are prepared; see the commands above.")
        if not to_do:
            bench.run(planned, launcher=workers)  # notes which of the shared runs are this spec's
            console.print(f"all {prepared} runs are finished", highlight=False)
            return
        console.print(
            f"{escape(planned.spec.name)}: {to_do} of {len(planned.runs)} runs to do, {workers.jobs} at once; results "
            f"go to {escape(str(planned.results))}",
            highlight=False,
        )
        summary = _with_bar(planned, workers)
    console.print(_counts(dict(sorted(summary.outcomes.items()))), highlight=False)
    if summary.outcomes[Outcome.FAILED]:
        console.print(f"`orcu bench status {escape(spec)}` shows the errors; `run` again tries again.", highlight=False)
        raise typer.Exit(UNFINISHED)
    with bad_data():
        left = len(bench.status(spec, results=results, more=more).to_do)
    if left:
        console.print(
            f"{left} runs are not finished: other processes are at them, or were a minute ago; `run` again.",
            highlight=False,
        )
        raise typer.Exit(UNFINISHED)


@bench_app.command()
def status(spec: SpecFile, results: Results = None, more: More = None) -> None:
    """Show where each unfinished run stands, and the errors of those that failed."""
    from orcu import bench
    from orcu.bench.states import State

    with bad_data():
        planned = bench.status(spec, results=results, more=more)
    console = Console()
    console.print(_counts(planned.states), highlight=False)
    for one in planned.runs:
        if one.state is State.FAILED:
            error = one.why.strip().splitlines()
            console.print(f"[red]failed[/] {escape(one.job.title)}: {escape(error[-1])}", highlight=False)
        elif one.state is State.RUNNING or one.why:
            why = f": {one.why}" if one.why else ""
            console.print(f"{one.state} {escape(one.job.title)}{escape(why)}", highlight=False, soft_wrap=True)


@bench_app.command()
def table(
    spec: SpecFile,
    results: Results = None,
    more: More = None,
    form: Annotated[str, typer.Option("--format", help="rich, markdown, latex, csv or html.")] = "rich",
    against: Annotated[
        str | None, typer.Option(help="Mark what is better (▲) or worse (▼) than this loss beyond chance.")
    ] = None,
    layout: Annotated[
        str, typer.Option(help="lines (a row per loss), or paper (metrics below each other, losses side by side).")
    ] = "lines",
    with_paper: Annotated[bool, typer.Option("--with-paper", help="The paper's numbers below ours.")] = False,
) -> None:
    """Print the table: mean and standard deviation over folds, best bold, second underlined."""
    from orcu import bench
    from orcu.bench.tables import COLLAPSED_NOTE, FORMATS

    with bad_data():
        if layout not in LAYOUTS:
            raise UnknownNameError("layout", layout, LAYOUTS)
        if form not in (*FORMATS, "rich"):
            raise UnknownNameError("format", form, (*FORMATS, "rich"))
        if layout == "lines" and with_paper:
            raise InputError("--with-paper: belongs to --layout paper; `orcu bench compare` prints both line by line.")
        planned = bench.status(spec, results=results, more=more)
        left = len(planned.runs) - len(planned.some_finished())
        if left:
            Console(stderr=True).print(
                f"[yellow]{left} of {len(planned.runs)} runs are missing; the table is of the others[/] (`orcu bench "
                "status` tells why)",
                highlight=False,
            )
        whole = bench.table(planned, against=against)
        if layout == "paper":
            _print_as_in_the_paper(whole, form, with_paper)
        elif form != "rich":
            typer.echo(whole.text(form), nl=False)
    if form == "rich" and layout == "lines":
        _print_table(whole)
    screen = Console(stderr=form != "rich", soft_wrap=True)
    if against is not None:
        screen.print(
            f"▲ better, ▼ worse than {escape(against)}: 95 % intervals of a bootstrap of folds and rows.",
            highlight=False,
        )
    if any(line.collapsed for line in whole.lines):
        screen.print(COLLAPSED_NOTE, highlight=False)
    for data, metric, loss in whole.chosen:
        screen.print(f"chosen on {escape(data)} by {metric} of validation rows: {escape(loss)}", highlight=False)


@bench_app.command()
def report(
    spec: SpecFile,
    results: Results = None,
    more: More = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write here (.html or .pdf); report.html beside the results.")
    ] = None,
) -> None:
    """Write one HTML page for the whole benchmark."""
    from orcu import bench
    from orcu.bench.report import REPORT

    with bad_data():
        planned = bench.status(spec, results=results, more=more)
        planned.some_finished()
        target = out or planned.folder / REPORT
        if out is None:
            planned.folder.mkdir(parents=True, exist_ok=True)
        check_paths([], [target])
        check_page(target)
        with Console(stderr=True).status("drawing"):
            bench.report(planned, out=target)
    Console().print(f"wrote {escape(str(target))}", highlight=False)


@bench_app.command()
def compare(spec: SpecFile, results: Results = None, more: More = None) -> None:
    """Print our numbers beside the paper's, where the task is the same, and what differs where it is not."""
    from orcu import bench

    with bad_data():
        comparison = bench.compare(spec, results=results, more=more)
    console = Console()
    if comparison.rows:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        names = ("data", "loss", "calibrator", "metric")
        for heading in (*names, "paper", "ours", "difference", "in std", "folds"):
            shown.add_column(heading, justify="left" if heading in names else "right", no_wrap=True)
        for row in comparison:
            shown.add_row(
                *(escape(row[name]) for name in names),
                _with_deviation(row["paper"], row["paper_std"]) + (" †" if row["conflict"] else ""),
                _with_deviation(row["ours"], row["ours_std"]),
                f"{row['difference']:+.2f}",
                "" if row["in_units"] is None else f"{row['in_units']:+.1f}",
                str(row["folds"]),
            )
        console.print(shown)
        console.print("in std: the difference in units of both standard deviations together", highlight=False)
    for data, differs in comparison.unlike.items():
        console.print(f"not compared, another task: {escape(data)}: {escape('; '.join(differs))}", highlight=False)
    for row in comparison:
        if row["conflict"]:
            words = f"{row['data']}, {row['loss']}, {row['metric']}: the paper contradicts itself ({row['conflict']})"
            console.print(f"† {escape(words)}", highlight=False)


def _print_as_in_the_paper(whole: "BenchTable", form: str, with_paper: bool) -> None:
    from orcu.bench.paper import differences, in_paper_layout

    spec = whole.plan.spec
    for number, table in enumerate(in_paper_layout(spec, whole.lines, with_paper=with_paper)):
        comment = {"latex": "% {}", "html": "<!-- {} -->"}.get(form, "{}")
        if form == "rich":
            # Cells are never cut: a terminal that is too narrow breaks lines, a file or a pager does not.
            Console(width=max(Console().width, 40 + 18 * len(table.headings))).print(_as_rich(table))
            continue
        if form != "csv":
            typer.echo(("\n" if number else "") + comment.format(table.title) + "\n")
        typer.echo(table.text(form), nl=False)
    screen = Console(stderr=True, soft_wrap=True)
    screen.print(
        "means ± standard deviations over runs; of each row the best is bold, the second underlined", highlight=False
    )
    if with_paper:
        screen.print("paper: as printed there; † where it contradicts itself", highlight=False)
        for data in spec.data:
            if differs := differences(data, spec):
                screen.print(f"another task than the paper's: {escape(data.title)}: {escape('; '.join(differs))}")


def _as_rich(table: "PaperTable") -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=table.title, title_justify="left")
    for heading in table.headings:
        shown.add_column(escape(heading), no_wrap=True)
    for row in table.rows:
        cells = []
        for cell in row:
            style = "" if isinstance(cell, str) else {"best": "bold", "second": "underline"}.get(cell.emphasis, "")
            words = escape(cell if isinstance(cell, str) else cell.text)
            cells.append(f"[{style}]{words}[/]" if style else words)
        shown.add_row(*cells)
    return shown


def _with_deviation(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


@bench_app.command("convert")
def convert_command(results: Results = None) -> None:
    """Take over the results of version 0.1.0, where every spec had runs of its own; nothing is trained again."""
    from orcu.bench.convert import convert

    folder = Path(results or os.environ.get("ORCU_RESULTS", "results"))
    with bad_data(), working("copying"):
        done = convert(folder)
    doubles = f", {done.doubles} were there already" if done.doubles else ""
    Console().print(f"{done.taken} runs taken over{doubles}; the old ones stand in */runs_of_0.1.0", highlight=False)


def _with_bar(planned: "Plan", workers: "Launcher") -> "Summary":
    """Do the runs of a plan under a bar; Ctrl-C stops them."""
    from orcu import bench
    from orcu.bench.states import Outcome

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    finished, shown_in_log = 0, 0
    try:
        with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
            task = bar.add_task("runs", total=None)

            def show(moment: "Moment") -> None:
                nonlocal finished, shown_in_log
                finished = moment.outcomes[Outcome.DONE]
                if not screen.is_terminal and moment.done != shown_in_log:  # a log file wants lines, not a bar
                    screen.print(f"{moment.done} of {moment.total} runs: {escape(moment.what)}", highlight=False)
                    shown_in_log = moment.done
                bar.update(task, description=moment.what, completed=moment.done, total=moment.total)

            return bench.run(planned, launcher=workers, progress=show)
    except KeyboardInterrupt:
        screen.print(f"interrupted after {finished} runs; `run` again goes on where it was", highlight=False)
        raise typer.Exit(130) from None


def _print_table(whole: "BenchTable") -> None:
    from orcu.bench.columns import heading

    spec, lines = whole.plan.spec, whole.lines
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=spec.title or spec.name, title_justify="left")
    several = len(spec.calibrators) > 1
    for title in ("data", *(["calibrator"] if several else []), "loss"):
        shown.add_column(title)
    for column in spec.columns:
        shown.add_column(heading(column), justify="right", no_wrap=True)
    before = ("", "")
    for line in lines:
        cells = []
        for column in spec.columns:
            style = {1: "bold", 2: "underline"}.get(line.rank(column))
            cells.append(f"[{style}]{line.text(column)}[/]" if style else line.text(column))
        block = (line.data, line.calibrator)
        if block != before and before != ("", ""):
            shown.add_row()
        data = escape(line.data) if line.data != before[0] else ""
        calibrator = escape(line.calibrator) if block != before else ""
        shown.add_row(data, *([calibrator] if several else []), escape(line.called), *cells)
        before = block
    width = max(Console().width, 30 + 16 * len(spec.columns))
    console = Console(width=width)
    console.print(shown)
    count = max((cell.count for line in lines for cell in line.cells.values()), default=1)
    ranked = any(cell.rank for line in lines for cell in line.cells.values())
    notes = [f"{spec.rows} rows"] if spec.rows != "test" else []
    notes += [f"mean ± standard deviation over {count} runs"] if count > 1 else []
    notes += ["of each block the best is bold, the second underlined"] if ranked else []
    if notes:
        console.print("; ".join(notes), highlight=False)


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
