"""``orcu data``: list, prepare and inspect data sets."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table
from typer import Argument, Option

from orcu.cli.console import echo, escape, new_table, progress_bar, say, say_wrote, show, task
from orcu.cli.options import command, key_values
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.data import Card, Dataset, PreparedData

data_app = typer.Typer(
    help="Data sets: those of the paper, open ones, and your own images, texts or tables.", no_args_is_help=True
)
Name = Annotated[str, Argument(help="Name of a data set; `orcu data list` lists them.")]
PreparedName = Annotated[str, Argument(help="Name or folder of a prepared data set.")]
Root = Annotated[Path | None, Option("--root", help="Folder of the original files.")]
SkipBad = Annotated[bool, Option("--skip-bad", help="Skip images that are missing or damaged.")]
STAGES = {"scan": "reading file lists", "check": "checking images", "decode": "decoding images"}


@command(data_app, "list")
def list_datasets() -> None:
    """List the data sets, and which of them are prepared."""
    from orcu import data
    from orcu.data.store import prepared_names

    prepared = set(prepared_names())
    table = new_table("name", "kind", ">classes", ">rows", "source", "prepared")
    for name in sorted(data.names(), key=lambda name: (not data.card(name).paper, name)):
        card = data.card(name)
        table.add_row(
            name,
            card.kind,
            str(len(card.classes) or ""),
            "" if card.counts is None else f"{sum(card.counts):,}",
            escape(_source(data.DATASETS.get(name))),
            "yes" if name in prepared else "",
            style="bold" if card.paper else "",
        )
    show(table, "[dim]bold: data sets of the paper. `orcu data info NAME` shows details.[/]")


@command(data_app)
def info(name: Name) -> None:
    """Show a data set: classes, protocols, options, licence, how to obtain it."""
    from orcu import data

    dataset, card = data.DATASETS.get(name), data.card(name)
    counts = [] if card.counts is None else zip(card.classes, card.counts, strict=True)
    rows = {
        "kind": card.kind,
        "classes": ", ".join(f"{label} {count:,}" for label, count in counts)
        or ", ".join(card.classes)
        or "those of your data",
        "protocols": ", ".join(f"{key} ({protocol.n_splits} folds)" for key, protocol in dataset.protocols.items()),
        "options": (dataset.__doc__ or "").partition("Args:")[2],
        "licence": card.licence,
        "citation": card.citation,
        "obtain": card.obtain,
        "layout": card.layout,
        "notes": card.notes,
    }
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for heading, text in rows.items():
        if text.strip():
            grid.add_row(heading, escape(" ".join(text.split())))
    root = "" if card.package else " --root DIR"
    show(f"[bold]{name}[/]: {escape(card.title)}", grid, f"\norcu data prepare {name}{root}")


@command(data_app)
def prepare(
    name: Name,
    root: Root = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Output folder. Default: in $ORCU_DATA.")] = None,
    size: Annotated[int | None, Option(min=8, max=2048, help="Side of images to decode, in pixels.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="KEY=VALUE option of the data set; repeatable.")] = None,
    skip_bad: SkipBad = False,
    download: Annotated[bool, Option("--download", help="Download the files to --root first.")] = False,
    seed: Annotated[int, Option(help="Random seed of the folds.")] = 0,
) -> None:
    """Scan a data set, check it against the published counts, and write manifest, folds and image cache."""
    from orcu import data

    card = data.card(name)
    options = key_values(set_)
    with task(), progress_bar() as bar:
        if download:
            _download(name, card, root, bar)
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(STAGES[stage], total=total or None)
            bar.update(tasks[stage], completed=done, total=total or None)

        prepared, findings = data.prepare(
            name, root, output=output, options=options, size=size, skip_bad=skip_bad, seed=seed, progress=progress
        )
    say(*findings.lines())
    say("protocols and their folds: " + ", ".join(f"{key} ({count})" for key, count in prepared.protocols().items()))
    say_wrote(prepared.folder)


@command(data_app)
def folds(
    name: PreparedName,
    seed: Annotated[int | None, Option(help="Random seed of new folds. Default: keep the folds.")] = None,
) -> None:
    """Show the folds of a prepared data set: number of rows by split and class."""
    from orcu import data
    from orcu.data.store import write_folds

    with task():
        prepared = data.load(name)
        if seed is not None:
            write_folds(prepared.folder, prepared.manifest, prepared.manifest.dataset().protocols, seed)
            prepared = data.load(name)
        show(_fold_table(prepared))


@command(data_app, "show")
def show_samples(
    name: PreparedName,
    output: Annotated[Path, Option("--output", "-o", help="Output folder of the contact sheets.")] = Path(),
    count: Annotated[int, Option(min=1, max=400, help="Number per class; at most 5 texts or rows.")] = 24,
    seed: Annotated[int, Option(help="Random seed of the sample.")] = 0,
) -> None:
    """Write a contact sheet of images per class, or print a sample of texts or rows."""
    from orcu import data
    from orcu.data.show import contact_sheets, line, sample

    with task():
        prepared = data.load(name)
        if prepared.has_images:
            for path in contact_sheets(prepared, output, count=count, seed=seed):
                say_wrote(path)
            return
        for label, title in enumerate(prepared.manifest.classes):
            say(title, style="bold")
            for row in sample(prepared, label, min(count, 5), seed):
                say(f"  {line(prepared.manifest, row)}")


@command(data_app)
def table(markdown: Annotated[bool, Option("--markdown", help="Print the table as Markdown.")] = False) -> None:
    """Print counts and shares of the labels of all prepared data sets (the paper's appendix, Table I)."""
    from orcu import data
    from orcu.data.store import prepared_names, store_folder
    from orcu.report import text_tables

    counts: dict[str, list[int]] = {}
    for name in prepared_names():
        prepared = data.load(name)
        counts[name] = prepared.manifest.counts()
        used = prepared.used_counts("paper")
        if used is not None and used != counts[name]:  # the paper may use a balanced subset
            counts[f"{name}, as used"] = used
    if not counts:
        raise InputError(f"{store_folder()}: no data set is prepared; `orcu data list` lists them.")
    headings = ["label", *counts]
    rows = [
        [str(label), *(_share(values, label) for values in counts.values())]
        for label in range(max(map(len, counts.values())))
    ]
    rows.append(["total", *(f"{sum(values):,}" for values in counts.values())])
    if markdown:
        echo(text_tables.markdown(headings, rows, "l" + "r" * len(counts)))
        return
    printed = new_table("label", *(f">{name}" for name in counts))
    for cells in rows:
        printed.add_row(*cells)
    show(printed, width=20 * len(headings))


def _share(counts: list[int], label: int) -> str:
    return f"{counts[label]:,} ({counts[label] / sum(counts):.2%})" if label < len(counts) else "-"


def _source(dataset: "type[Dataset]") -> str:
    card = dataset.card
    if card.package:
        included = dataset.__module__.startswith("orcu.")
        return "pip install 'orcu[data]'" if included else f"comes with {card.package}"
    if card.downloads:
        return "--download"
    return "register, or copy" if card.classes else "your own"


def _download(name: str, card: "Card", root: Path | None, bar: Progress) -> None:
    if root is None:
        raise InputError("--download: give the folder of the downloaded files with --root DIR.")
    if not card.downloads:
        raise InputError(f"{name}: cannot be downloaded by orcu ({card.licence}). {card.obtain}")
    for file in card.downloads:
        job = bar.add_task(f"downloading {file.name}", total=None)
        file.fetch(root, partial(lambda job, done, total: bar.update(job, completed=done, total=total), job))


def _fold_table(prepared: "PreparedData") -> Table:
    import numpy as np

    manifest = prepared.manifest
    seed = json.loads(prepared.folds.schema.metadata[b"orcu"])["seed"]
    headings = ("protocol", ">fold", "split", ">rows", *(f">{name}" for name in manifest.classes))
    printed = new_table(*headings, title=f"{prepared.name}, seed {seed}")
    for protocol, count in prepared.protocols().items():
        for fold in range(count):
            for split, rows in prepared.split(protocol, fold).items():
                counts = np.bincount(manifest.labels[rows], minlength=len(manifest.classes))
                first = (protocol, str(fold)) if split == "train" else ("", "")
                printed.add_row(*first, split, f"{len(rows):,}", *(f"{n:,}" for n in counts))
    return printed
