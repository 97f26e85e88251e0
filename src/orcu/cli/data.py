"""``orcu data``: what data sets there are, how to get them, and preparing them."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from orcu.cli.options import bad_data, pairs
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.data import Card, Dataset, Prepared

data_app = typer.Typer(help="Data sets: the paper's, open ones, and your own images or tables.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set; `orcu data list` shows them.")]
PreparedName = Annotated[str, typer.Argument(help="A prepared data set, or its folder.")]
STAGES = {"scan": "reading the lists", "check": "checking images", "decode": "decoding images"}


@data_app.command("list")
def list_sets() -> None:
    """List the data sets, and which are prepared here."""
    from orcu import data
    from orcu.data.store import prepared_names

    here = set(prepared_names())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "what", "classes", "rows", "how to get it", "prepared"):
        table.add_column(heading, justify="right" if heading in {"classes", "rows"} else "left", overflow="fold")
    for name in sorted(data.names(), key=lambda n: (not data.card(n).paper, n)):
        card = data.card(name)
        rows = "" if card.counts is None else f"{sum(card.counts):,}"
        prepared = "yes" if name in here else ""
        table.add_row(
            name,
            card.kind,
            str(len(card.classes) or ""),
            rows,
            escape(_way(data.DATASETS.get(name))),
            prepared,
            style="bold" if card.paper else "",
        )
    console = Console()
    console.print(table)
    console.print("[dim]bold: the paper's sets. `orcu data info NAME` tells more.[/]")


@data_app.command()
def info(name: Name) -> None:
    """Show a data set's card."""
    from orcu import data

    cls, card = data.DATASETS.get(name), data.card(name)
    console = Console()
    console.print(f"[bold]{name}[/]: {escape(card.title)}", highlight=False)
    counts = (
        None
        if card.counts is None
        else ", ".join(f"{label} {count:,}" for label, count in zip(card.classes, card.counts, strict=True))
    )
    protocols = ", ".join(f"{key} ({p.num_folds} folds)" for key, p in cls.protocols.items())
    options = (cls.__doc__ or "").partition("Args:")[2].strip()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for heading, text in (
        ("kind", card.kind),
        ("classes", counts or ", ".join(card.classes) or "yours"),
        ("protocols", protocols),
        ("options", options),
        ("licence", card.licence),
        ("cite", card.citation),
        ("get it", card.obtain),
        ("layout", card.layout),
        ("note", card.notes),
    ):
        if text:
            grid.add_row(heading, escape(" ".join(text.split())))
    console.print(grid)
    where = "" if card.package else " --root DIR"
    console.print(f"\norcu data prepare {name}{where}", highlight=False)


@data_app.command()
def prepare(
    name: Name,
    root: Annotated[Path | None, typer.Option(help="The folder of its files.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to write; a folder of the store by default.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=8, max=2048, help="Also decode all images to squares of this side.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="KEY=VALUE of the data set; may be repeated.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images that are missing or damaged.")
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the files into --root first, where the licence allows it.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the folds.")] = 0,
) -> None:
    """Scan a data set, check it against its card, and write manifest, folds and image cache."""
    from orcu import data

    card = data.card(name)
    options = pairs(option or [], "--option")
    console = Console()
    with bad_data(), _progress() as bar:
        if download:
            _download(name, card, root, bar)
        tasks: dict[str, Any] = {}

        def show_bar(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(STAGES[stage], total=total or None)
            bar.update(tasks[stage], completed=done, total=total or None)

        prepared, findings = data.prepare(
            name, root, out=out, options=options, size=size, skip_bad=skip_bad, seed=seed, progress=show_bar
        )
    for line in findings.lines():
        console.print(escape(line), highlight=False)
    folds = ", ".join(f"{key} ({count})" for key, count in prepared.protocols().items())
    console.print(f"protocols and their folds: {folds}", highlight=False)
    console.print(f"wrote {escape(str(prepared.folder))}", highlight=False)


@data_app.command()
def folds(
    name: PreparedName, seed: Annotated[int | None, typer.Option(help="Make the folds anew with this seed.")] = None
) -> None:
    """Show the folds of a prepared data set: rows of each split and class."""
    from orcu import data
    from orcu.data.store import write_folds

    with bad_data():
        prepared = data.load(name)
        if seed is not None:
            write_folds(prepared.folder, prepared.manifest, prepared.manifest.dataset().protocols, seed)
            prepared = data.load(name)
        table = _fold_table(prepared)
    Console().print(table)


@data_app.command()
def show(
    name: PreparedName,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the contact sheets.")] = Path(),
    count: Annotated[int, typer.Option(min=1, max=400, help="How many of each class.")] = 24,
    seed: Annotated[int, typer.Option(help="Another sample.")] = 0,
) -> None:
    """Write a contact sheet of each class, or print a sample of texts or rows."""
    from orcu import data
    from orcu.data.show import contact_sheets, line, sample

    console = Console()
    with bad_data():
        prepared = data.load(name)
        manifest = prepared.manifest
        if prepared.kind.has_images:
            for path in contact_sheets(prepared, out, count=count, seed=seed):
                console.print(f"wrote {escape(str(path))}", highlight=False)
            return
        for label, title in enumerate(manifest.classes):
            console.print(f"[bold]{escape(title)}[/]", highlight=False)
            for row in sample(prepared, label, min(count, 5), seed):
                console.print(f"  {escape(line(manifest, row))}", highlight=False)


@data_app.command()
def table(markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False) -> None:
    """Counts and shares of each label in every prepared set (the paper's appendix, Table I)."""
    from orcu import data
    from orcu.data.store import prepared_names, store_folder
    from orcu.io import text

    sets: dict[str, list[int]] = {}
    for name in prepared_names():
        prepared = data.load(name)
        sets[name] = prepared.manifest.counts()
        used = prepared.used_counts("paper")
        if used is not None and used != sets[name]:  # what the paper counts: a balanced part, say
            sets[f"{name}, as used"] = used
    if not sets:
        raise InputError(f"{store_folder()}: nothing is prepared; see `orcu data list`.")
    headings = ["label", *sets]
    lines = []
    for label in range(max(map(len, sets.values()))):
        shares = (
            f"{counts[label]:,} ({counts[label] / sum(counts):.2%})" if label < len(counts) else "-"
            for counts in sets.values()
        )
        lines.append([str(label), *shares])
    lines.append(["total", *(f"{sum(counts):,}" for counts in sets.values())])
    if markdown:
        typer.echo(text.markdown(headings, lines, "l" + "r" * len(sets)), nl=False)
        return
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "label" else "right", no_wrap=True)
    for cells in lines:
        shown.add_row(*cells)
    width = max(Console().width, 20 * len(headings))  # a cell is never broken
    Console(width=width).print(shown)


def _way(dataset: "type[Dataset]") -> str:
    card = dataset.card
    if card.package:
        ours = dataset.__module__.startswith("orcu.")
        return "pip install 'orcu[data]'" if ours else f"comes with {card.package}"
    if card.downloads:
        return "--download"
    return "register, or copy" if card.classes else "your own"


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _download(name: str, card: "Card", root: Path | None, bar: Progress) -> None:
    if root is None:
        raise InputError("--download: say where to put the files with --root DIR.")
    if not card.downloads:
        raise InputError(f"{name} cannot be downloaded by orcu ({card.licence}). {card.obtain}")
    for one in card.downloads:
        one.fetch(root, partial(_fetched, bar, bar.add_task(f"fetching {one.name}", total=None)))


def _fetched(bar: Progress, task: TaskID, done: int, total: int | None) -> None:
    bar.update(task, completed=done, total=total)


def _fold_table(prepared: "Prepared") -> Table:
    import numpy as np

    manifest = prepared.manifest
    about = json.loads(prepared.folds.schema.metadata[b"orcu"])
    shown = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=f"{prepared.name}, seed {about['seed']}",
        title_justify="left",
    )
    for heading in ("protocol", "fold", "split", "rows", *manifest.classes):
        shown.add_column(heading, justify="left" if heading in {"protocol", "split"} else "right", overflow="fold")
    for protocol, count in prepared.protocols().items():
        for fold in range(count):
            for split, rows in prepared.split(protocol, fold).items():
                counts = np.bincount(manifest.labels[rows], minlength=len(manifest.classes))
                first = (protocol, str(fold)) if split == "train" else ("", "")
                shown.add_row(*first, split, f"{len(rows):,}", *(f"{n:,}" for n in counts))
    return shown
