"""``orcu two-stage``: the paper's diagnostic."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    bars,
    prepared_data,
    recipe_changes,
    settings_for,
)
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.training.loop import Moment


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
    import pyarrow as pa

    from orcu.tables.writing import write_table
    from orcu.training.two_stage import summary
    from orcu.training.two_stage import two_stage as both_stages

    console = Console()
    with bad_data():
        first, _, second = epochs.partition("/")
        if not (first.isdigit() and second.isdigit() and int(first) and int(second)):
            raise InputError(f"epochs: expected two numbers such as 50/50, got {epochs!r}.")
        prepared = prepared_data(data, root, pairs(option or [], "--option"), out, console)
        settings = settings_for(
            prepared,
            console,
            loss="sord",
            backbone=backbone,
            weights=weights,
            download=download,
            frozen=frozen,
            size=size,
            recipe=recipe_changes(set_ or []),
            seed=seed,
            device=device,
        )
        known = prepared.protocols()
        protocol = protocol or ("paper" if "paper" in known else next(iter(known)))
        count = min(folds or known.get(protocol, 1), known.get(protocol, 1))
        records: list[dict[str, Any]] = []
        for fold in range(count):
            with bars(console) as (watch, _):
                found = both_stages(
                    prepared,
                    prepared.split(protocol, fold),
                    settings,
                    out / f"fold_{fold}",
                    scale=scale,
                    epochs=(int(first), int(second)),
                    device=device,
                    progress=partial(_stage_watch, watch, fold),
                )
            records += [{"fold": fold, **record} for record in found]
    table = summary(records)
    write_table(pa.Table.from_pylist(records), out / "curves.parquet")
    write_table(pa.Table.from_pylist(table), out / "table.csv")
    share = sum(record["feasible_share"] for record in records) / len(records)
    console.print(f"F holds {share:.1%} of the validation rows", highlight=False)
    console.print(_stage_table(table))
    console.print(f"wrote {escape(str(out))}: curves.parquet, table.csv", highlight=False)


def _stage_watch(watch: Callable[..., None], fold: int, name: str, moment: "Moment") -> None:
    watch(moment, f"fold {fold}, {name}, ")


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
