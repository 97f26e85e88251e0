"""``orcu losses``: the list of losses, and the details of one."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument

from orcu.cli.console import escape, new_table, show, text
from orcu.cli.options import command
from orcu.errors import UnknownNameError

if TYPE_CHECKING:
    from orcu.losses import LossCard, OrdinalLoss
    from orcu.registry import Registry

losses_app = typer.Typer(help="List the training losses, or show one in detail.", invoke_without_command=True)


@losses_app.callback()
def list_losses(context: typer.Context) -> None:
    """List the losses, regularizers, soft targets and heads with their papers and options."""
    if context.invoked_subcommand is not None:
        return
    from orcu import losses
    from orcu.losses.base import LOSSES, REGULARIZERS
    from orcu.models.heads import HEADS

    show(
        _catalogue("Losses", LOSSES),
        "",
        _catalogue("Regularizers, which can be added to any loss", REGULARIZERS),
        "",
        "[bold]Soft targets, for the option distance and as anchors[/]",
        f"  distances: {', '.join(losses.distances.names())}",
        f"  distributions: {', '.join(losses.distributions.names())}\n",
        "[bold]Heads of networks (--head)[/]",
        f"  {', '.join(HEADS)}\n",
        "Details of one loss: [cyan]orcu losses show orcu[/]\n"
        'In Python and TOML: "orcu", {name = "orcu", scale = 3.0},\n'
        '  {anchor = "huber", regularizer = "softplus"}',
    )


@command(losses_app, "show")
def show_loss(name: Annotated[str, Argument(help="Name of a loss or regularizer, such as orcu.")]) -> None:
    """Show a loss: formula, paper, options with defaults, notes."""
    from orcu.losses.base import LOSSES, REGULARIZERS

    kinds = {"loss": LOSSES, "regularizer": REGULARIZERS}
    if not any(name in registry.names() for registry in kinds.values()):
        raise UnknownNameError("loss", name, sorted({*LOSSES.names(), *REGULARIZERS.names()}))
    for kind, registry in kinds.items():
        if name in registry.names():
            show(_card(kind, registry.get(name)), "")


def _catalogue(title: str, registry: "Registry[type[OrdinalLoss]]") -> Table:
    table = new_table("name", "family", "paper", "options and defaults", title=text(title, "bold"))
    table.columns[0].style, table.columns[0].no_wrap = "cyan", True
    for name in registry.names():
        card = registry.get(name).card
        table.add_row(name, card.family, escape(card.paper), escape(", ".join(_options(card)) or "none"))
    return table


def _card(kind: str, loss: "type[OrdinalLoss]") -> Table:
    from orcu.losses.base import OrdinalLoss

    card = loss.card
    table = new_table("", "", title=text(f"{card.title} ({kind} {card.name!r})", "bold"))
    table.show_header = False
    table.columns[0].style, table.columns[0].no_wrap = "dim", True
    rows = {
        "formula": card.formula,
        "family": card.family,
        "paper": card.paper,
        "options": "\n".join(_options(card)) or "none",
        "class": f"{loss.__module__}.{loss.__name__}",
        "head": "" if loss.head == OrdinalLoss.head else loss.head,
        "batch": "depends on the whole batch: no per-sample values" if loss.batch_statistic else "",
        "labels": "integers, or class distributions (n, C)" if loss.soft_labels else "integers only",
        "notes": card.notes,
    }
    for heading, content in rows.items():
        if content:
            table.add_row(heading, "\n".join(map(escape, content.splitlines())))
    return table


def _options(card: "LossCard") -> list[str]:
    return [
        f"{option}={default:g}" if isinstance(default, float) else f"{option}={default!r}"
        for option, default in card.defaults.items()
    ]
