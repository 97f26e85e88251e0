"""``orcu losses``: the catalogue of losses, and the card of each."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from orcu.losses import LossCard, OrdinalLoss
    from orcu.registry import Registry

losses_app = typer.Typer(help="The losses: list them, or show one.", invoke_without_command=True)


@losses_app.callback()
def list_losses(context: typer.Context) -> None:
    """List the losses, the regularizers and the distances with their papers and defaults."""
    if context.invoked_subcommand is not None:
        return
    from orcu import losses
    from orcu.losses.base import LOSSES, REGULARIZERS

    console = Console()
    console.print(_catalogue("Losses", LOSSES), "")
    console.print(_catalogue("Regularizers, for any anchor", REGULARIZERS), "")
    console.print("[bold]Distances of the soft targets[/]")
    console.print(f"  {', '.join(losses.distances.names())}\n")
    console.print(
        "The card of one: [cyan]orcu losses show orcu[/]\n"
        'In Python and TOML: "orcu", {name = "orcu", scale = 3.0},\n'
        '  {anchor = "huber", regularizer = "softplus"}',
        highlight=False,
    )


@losses_app.command("show")
def show(name: Annotated[str, typer.Argument(help="A loss or regularizer, such as orcu.")]) -> None:
    """Print the card of a loss: formula, paper, options with defaults, notes."""
    from orcu.errors import UnknownNameError
    from orcu.losses.base import LOSSES, REGULARIZERS

    known = {*LOSSES.names(), *REGULARIZERS.names()}
    if name not in known:
        raise UnknownNameError("loss", name, sorted(known))
    console = Console()
    for kind, registry in (("loss", LOSSES), ("regularizer", REGULARIZERS)):
        if name in registry.names():
            console.print(_card(kind, registry.get(name)), "")


def _catalogue(title: str, registry: "Registry[type[OrdinalLoss]]") -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("name", style="cyan", no_wrap=True)
    for heading in ("family", "paper", "options and defaults"):
        table.add_column(heading)
    for name in registry.names():
        card = registry.get(name).card
        options = ", ".join(_options(card))
        table.add_row(name, card.family, escape(card.paper), escape(options or "none"))
    return table


def _card(kind: str, loss: "type[OrdinalLoss]") -> Table:
    card = loss.card
    table = Table(
        title=f"{card.title} ({kind} {card.name!r})",
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    rows = {
        "formula": card.formula,
        "family": card.family,
        "paper": card.paper,
        "options": "\n".join(_options(card)) or "none",
        "class": f"{loss.__module__}.{loss.__name__}",
        "batch": "a statistic of the whole batch: no per-sample values" if loss.batch_statistic else "",
        "labels": "integers only" if not loss.soft_labels else "integers, or distributions (n, C)",
        "notes": card.notes,
    }
    for heading, text in rows.items():
        if text:
            table.add_row(heading, escape(text))
    return table


def _options(card: "LossCard") -> list[str]:
    def written(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else repr(value)

    return [f"{option}={written(default)}" for option, default in card.defaults.items()]
