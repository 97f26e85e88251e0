"""``orcu two-stage``: the paper's diagnostic."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orcu.cli.options import bad_data, pairs
from orcu.cli.training import (
    Backbone,
    Data,
    Device,
    Download,
    FrozenFlag,
    Option,
    Root,
    Seed,
    Set,
    Size,
    Weights,
    recipe_changes,
)
from orcu.errors import InputError


def two_stage(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the result.")],
    root: Root = None,
    option: Option = None,
    protocol: Annotated[str | None, typer.Option(help="A protocol; the paper's where there is one.")] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Only the first so many folds.")] = None,
    scale: Annotated[float, typer.Option(help="s.")] = 3.0,
    epochs: Annotated[str, typer.Option(help="Epochs of stage one and stage two.")] = "50/50",
    backbone: Backbone = "",
    weights: Weights = "pretrained",
    download: Download = False,
    frozen: FrozenFlag = None,
    size: Size = 224,
    set_: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """The paper's two-stage diagnostic: SoftCE, then SoftCE, hinge and ORCU from one checkpoint."""
    from orcu.cli.screen import Screen
    from orcu.training.two_stage import train

    console = Console()
    with bad_data(), Screen(console) as screen:
        first, _, second = epochs.partition("/")
        if not (first.isdigit() and second.isdigit() and int(first) and int(second)):
            raise InputError(f"epochs: expected two numbers such as 50/50, got {epochs!r}.")
        diagnostic = train(
            data,
            out,
            root=root,
            options=pairs(option or [], "--option"),
            protocol=protocol,
            folds=folds,
            scale=scale,
            epochs=(int(first), int(second)),
            frozen=frozen,
            device=device,
            watcher=screen,
            backbone=backbone,
            weights=weights,
            size=size,
            recipe=recipe_changes(set_ or []),
            seed=seed,
            download=download,
        )
    console.print(f"F holds {diagnostic.feasible_share:.1%} of the validation rows", highlight=False)
    console.print(_stage_table(diagnostic.table))
    console.print(f"wrote {escape(str(out))}: curves.parquet, table.csv", highlight=False)


def _stage_table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("branch", "active % ↑", "A_TF ↑", "SCE % ↓", "ECE % ↓", "unimodal % ↑"):
        shown.add_column(heading, justify="left" if heading == "branch" else "right")
    for row in rows:
        own = row["alignment"] == row["alignment"]
        shown.add_row(
            row["branch"],
            f"{100 * row['feasible_active']:.2f}" if own else "-",
            f"{row['alignment']:.4f}" if own else "-",
            f"{100 * row['feasible_sce']:.2f}",
            f"{100 * row['feasible_ece']:.2f}",
            f"{100 * row['feasible_unimodality']:.1f}",
        )
    return shown
