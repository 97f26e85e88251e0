"""``orcu bench``: plan, run and print a benchmark."""

import os
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from orcu.cli.options import bad_data, check_paths, launching
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.bench.collect import Planned
    from orcu.bench.spec import Spec

bench_app = typer.Typer(help="The benchmark: every table of the paper, and your own.", no_args_is_help=True)
SpecFile = Annotated[str, typer.Argument(help="A TOML file, or the name of a spec that comes with orcu.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Folder of results; $ORCU_RESULTS, or results/ by default.")
]
More = Annotated[
    str | None, typer.Option("--with", help="Further losses that the spec names, such as grid of ablation.")
]


@bench_app.command()
def plan(spec: SpecFile, results: Results = None, more: More = None) -> None:
    """Show the runs of a spec, which are finished, and what the rest will cost."""
    from orcu.bench.run import check_parts

    described, found = _read(spec, results, more)
    if find_spec("torch") is not None:  # losses are made of it; the rest of a plan needs it not
        with bad_data():
            check_parts(described)
    console = Console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("data", "runs", "finished", "to do", "hours to do"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    known = [one.seconds for one in found if one.seconds is not None]
    for data in dict.fromkeys(one.job.data.title for one in found):
        mine = [one for one in found if one.job.data.title == data]
        done = [one for one in mine if one.state == "finished"]
        own = [one.seconds for one in done if one.seconds is not None] or known
        left = len(mine) - len(done)
        cost = f"{left * sum(own) / len(own) / 3600:.1f}" if own else "?"
        table.add_row(data, str(len(mine)), str(len(done)), str(left), cost if left else "0")
    console.print(table)
    states = Counter(one.state for one in found)
    console.print(f"{len(found)} runs: " + ", ".join(f"{n} {state}" for state, n in states.items()), highlight=False)
    for command in dict.fromkeys(one.why for one in found if one.state == "no data"):
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
    from orcu.bench.run import check_parts, execute, prepared_for
    from orcu.bench.store import Store

    described, found = _read(spec, results, more)
    console = Console()
    with bad_data():
        gpus = _gpus(devices)
        at_once = jobs or len(gpus) or max(1, (os.cpu_count() or 1) // described.threads)
        spread = launching(launcher, jobs=at_once, address=address, threads=described.threads, gpus=gpus)
        missing = [one for one in found if one.state == "no data"]
        todo = [one.job for one in found if one.state not in {"finished", "no data"}]
        check_parts(described)
        for command in dict.fromkeys(one.why for one in missing):
            console.print(f"[yellow]left out, not prepared:[/] {escape(command)}", highlight=False, soft_wrap=True)
        if not todo:
            if missing and len(missing) == len(found):
                raise InputError("none of the data are prepared; see the commands above.")
            console.print(f"all {len(found) - len(missing)} runs are finished", highlight=False)
            return
        folder = _folder(described, results).resolve()  # workers may start elsewhere
        console.print(
            f"{escape(described.name)}: {len(todo)} of {len(found)} runs to do, {at_once} at once; results go to "
            f"{escape(str(_folder(described, results)))}",
            highlight=False,
        )
        for title in dict.fromkeys(job.data.title for job in todo):  # shared work once, before the runs
            prepared_for(next(job for job in todo if job.data.title == title))
        _shared(todo, console)
        ended: Counter[str] = Counter()
        Store(folder).make()
        try:
            with _bar() as bar, spread as workers:
                task = bar.add_task("runs", total=len(todo))
                for position, how in workers.results(partial(execute, results=folder), todo):
                    ended[how] += 1
                    bar.update(task, advance=1, description=f"{todo[position].title}: {how}")
        except KeyboardInterrupt:
            Console(stderr=True).print(
                f"interrupted after {ended['done']} runs; `run` again goes on where it was", highlight=False
            )
            raise typer.Exit(130) from None
    console.print(", ".join(f"{count} {how}" for how, count in sorted(ended.items())), highlight=False)
    if ended["failed"]:
        console.print(f"`orcu bench status {escape(spec)}` shows the errors; `run` again tries again.", highlight=False)
        raise typer.Exit(1)


@bench_app.command()
def status(spec: SpecFile, results: Results = None, more: More = None) -> None:
    """Show where each unfinished run stands, and the errors of those that failed."""
    _, found = _read(spec, results, more)
    console = Console()
    states = Counter(one.state for one in found)
    console.print(", ".join(f"{n} {state}" for state, n in states.items()), highlight=False)
    for one in found:
        if one.state == "failed":
            error = one.why.strip().splitlines()
            console.print(f"[red]failed[/] {escape(one.job.title)}: {escape(error[-1])}", highlight=False)
        elif one.state == "running":
            console.print(f"running {escape(one.job.title)}", highlight=False)


@bench_app.command()
def table(
    spec: SpecFile,
    results: Results = None,
    more: More = None,
    form: Annotated[str, typer.Option("--format", help="rich, markdown, latex, csv or html.")] = "rich",
    against: Annotated[
        str | None, typer.Option(help="Mark what is better (▲) or worse (▼) than this loss beyond chance.")
    ] = None,
) -> None:
    """Print the table: mean and standard deviation over folds, best bold, second underlined."""
    from orcu.bench.collect import records
    from orcu.bench.significance import marks
    from orcu.bench.tables import chosen, lines, rendered

    described, planned_runs = _read(spec, results, more)
    with bad_data():
        folder = _folder(described, results)
        told = records(described, folder)
        if not told:
            raise InputError(f"no run of {described.name} is finished yet; `orcu bench run {spec}` does them.")
        left = sum(one.state != "finished" for one in planned_runs)
        if left:
            Console(stderr=True).print(
                f"[yellow]{left} of {len(planned_runs)} runs are missing; the table is of the others[/] (`orcu bench "
                "status` tells why)",
                highlight=False,
            )
        versus = None if against is None else marks(described, folder, against)
        found = lines(described, told, versus)
        if form != "rich":
            typer.echo(rendered(described, found, form), nl=False)
    if form == "rich":
        _print_table(described, found)
    screen = Console(stderr=form != "rich", soft_wrap=True)
    if against is not None:
        screen.print(
            f"▲ better, ▼ worse than {escape(against)}: 95 % intervals of a bootstrap of folds and rows.",
            highlight=False,
        )
    for data, metric, loss in chosen(described, records(described, folder, rows="validation")):
        screen.print(f"chosen on {escape(data)} by {metric} of validation rows: {escape(loss)}", highlight=False)


@bench_app.command()
def report(
    spec: SpecFile,
    results: Results = None,
    more: More = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write here; report.html beside the results.")] = None,
) -> None:
    """Write one HTML page for the whole benchmark."""
    from orcu.bench.report import page
    from orcu.tables.files import replacing

    described, found = _read(spec, results, more)
    with bad_data():
        if not any(one.state == "finished" for one in found):
            raise InputError(f"no run of {described.name} is finished yet; `orcu bench run {spec}` does them.")
        target = out or _folder(described, results) / "report.html"
        check_paths([], [target])
        with Console(stderr=True).status("drawing"):
            told = page(described, _folder(described, results))
        with replacing(target) as temporary:
            temporary.write_text(told, encoding="utf-8")
    Console().print(f"wrote {escape(str(target))}", highlight=False)


@bench_app.command()
def compare(spec: SpecFile, results: Results = None, more: More = None) -> None:
    """Print our numbers beside the paper's, where the task is the same."""
    from orcu.bench.collect import records
    from orcu.bench.tables import compared, lines

    described, _ = _read(spec, results, more)
    with bad_data():
        found = compared(described, lines(described, records(described, _folder(described, results))))
        if not found:
            raise InputError(
                f"nothing to compare: {described.name} answers no table of the paper."
                if not described.paper
                else f"nothing to compare: no run of {described.name} is finished yet."
            )
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("data", "loss", "calibrator", "metric", "paper", "ours", "difference", "folds"):
        shown.add_column(heading, justify="left" if heading in {"data", "loss", "calibrator", "metric"} else "right")
    for row in found:
        shown.add_row(
            row["data"],
            row["loss"],
            row["calibrator"],
            row["metric"],
            f"{row['paper']:.2f}",
            f"{row['ours']:.2f}",
            f"{row['difference']:+.2f}",
            str(row["folds"]),
        )
    Console().print(shown)


def _shared(todo: list[Any], console: Console) -> None:
    """Do what several runs need once, before they start: decoded images and frozen features."""
    from orcu.bench.run import prepared_for
    from orcu.data.base import IMAGES
    from orcu.data.cache import build
    from orcu.data.store import cache_folder
    from orcu.training.run import Run, Settings

    for title in dict.fromkeys(job.data.title for job in todo):
        job = next(job for job in todo if job.data.title == title)
        prepared, data = prepared_for(job), job.data
        if prepared is None:
            continue
        with _bar() as bar:
            task = bar.add_task(f"{title}: shared work")
            if prepared.manifest.about.kind == IMAGES:
                build(
                    prepared.manifest,
                    cache_folder(prepared.folder, data.size),
                    data.size,
                    progress=lambda stage, done, total, t=task: bar.update(t, completed=done, total=total),  # type: ignore[misc]
                )
            if data.frozen:
                settings = Settings(backbone=data.backbone, weights=data.weights, frozen=True, size=data.size)
                run = Run(prepared, prepared.split(data.protocol, job.fold), settings)
                run.features(lambda done, total, t=task: bar.update(t, completed=done, total=total))  # type: ignore[misc]


def _print_table(spec: "Spec", found: list[Any]) -> None:
    from orcu.bench.columns import heading

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=spec.title or spec.name, title_justify="left")
    several = len(spec.calibrators) > 1
    for title in ("data", *(["calibrator"] if several else []), "loss"):
        shown.add_column(title)
    for column in spec.columns:
        shown.add_column(heading(column), justify="right", no_wrap=True)
    before = ("", "")
    for line in found:
        cells = []
        for column in spec.columns:
            rank = line.cells[column].rank if column in line.cells else 0
            style = {1: "bold", 2: "underline"}.get(rank)
            cells.append(f"[{style}]{line.text(column)}[/]" if style else line.text(column))
        block = (line.data, line.calibrator)
        if block != before and before != ("", ""):
            shown.add_row()
        data = escape(line.data) if line.data != before[0] else ""
        calibrator = escape(line.calibrator) if block != before else ""
        shown.add_row(data, *([calibrator] if several else []), escape(line.loss), *cells)
        before = block
    width = max(Console().width, 30 + 16 * len(spec.columns))
    console = Console(width=width)
    console.print(shown)
    count = max((cell.count for line in found for cell in line.cells.values()), default=1)
    ranked = any(cell.rank for line in found for cell in line.cells.values())
    notes = [f"{spec.rows} rows"] if spec.rows != "test" else []
    notes += [f"mean ± standard deviation over {count} runs"] if count > 1 else []
    notes += ["of each block the best is bold, the second underlined"] if ranked else []
    if notes:
        console.print("; ".join(notes), highlight=False)


def _gpus(devices: str | None) -> list[int]:
    """The numbers of the graphics cards to use.

    Raises:
        InputError: if they are neither numbers nor "cpu".
    """
    if devices == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # for this process and its workers
        return []
    if devices is None:
        import torch

        return list(range(torch.cuda.device_count()))
    import torch

    numbers = [part.strip() for part in devices.split(",")]
    there = torch.cuda.device_count()
    if not all(number.isdigit() and int(number) < there for number in numbers):
        raise InputError(
            f"--devices: expected cpu, or numbers of GPUs such as 0,1, of which there are {there} here; got "
            f"{devices!r}."
        )
    return [int(number) for number in numbers]


def _read(spec: str, results: Path | None, more: str | None) -> tuple["Spec", list["Planned"]]:
    from orcu.bench.collect import planned
    from orcu.bench.spec import load_spec

    with bad_data():
        described = load_spec(spec, more=more)
        return described, planned(described, _folder(described, results))


def _folder(spec: "Spec", results: Path | None) -> Path:
    root = results or Path(os.environ.get("ORCU_RESULTS", "results"))
    return root / spec.name


def _bar() -> Progress:
    screen = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
