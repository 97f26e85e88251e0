"""``orcu theory``: the paper's statements, checked by number for one setting."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from orcu.cli.options import working

if TYPE_CHECKING:
    from orcu.theory import Check, Equilibrium

BAR_WIDTH = 24


def theory(
    classes: Annotated[int, typer.Option(help="Number of classes C.")] = 5,
    label: Annotated[int, typer.Option(help="The observed class, 0..C-1.")] = 2,
    scale: Annotated[float, typer.Option(help="Barrier scale s, above 0.")] = 3.0,
    distance: Annotated[
        str, typer.Option(help="Distance of the soft targets: squared, absolute, huber, exponential.")
    ] = "squared",
) -> None:
    """Check every statement of the paper's theory and show where ORCU pulls a prediction."""
    from orcu.theory import equilibrium, verify

    with working("checking the statements"):
        checks = verify(classes, label, scale, distance)
    Console().print(
        Group(
            f"\n[bold]ORCU in theory[/]: {classes} classes, label {label}, scale {scale:g}, {distance} distance\n",
            _check_table(checks),
            "",
            _sketch(equilibrium(classes, label, scale, distance)),
        ),
        highlight=False,
    )
    if any(check.passed is False for check in checks):
        raise typer.Exit(1)


def _check_table(checks: "list[Check]") -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("", "statement", "source", "measured", "must be"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    marks = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: "[yellow]-[/]"}
    for check in checks:
        measured = "" if check.passed is None else f"{check.measured:.3g}"
        table.add_row(marks[check.passed], escape(check.statement), check.source, measured, check.requirement)
    passed, failed = (sum(check.passed is mark for check in checks) for mark in (True, False))
    untried = [f"{check.source}: {check.note}" for check in checks if check.passed is None]
    table.caption = f"{passed} hold, {failed} fail, {len(untried)} not tried"
    if untried:
        table.caption += f" ({escape('; '.join(untried))})"
    table.caption_justify = "left"
    return table


def _sketch(solution: "Equilibrium") -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("class", justify="right")
    table.add_column("soft target (anchor)", width=BAR_WIDTH + 8)
    table.add_column("equilibrium of ORCU", width=BAR_WIDTH + 8)
    for k, (anchor, pulled) in enumerate(zip(solution.anchor, solution.probs, strict=True)):
        mark = "→ " if k == solution.center else ""
        table.add_row(f"{mark}{k}", _bar(anchor, "blue"), _bar(pulled, "magenta"))
    return table


def _bar(value: float, color: str) -> str:
    return f"{value:6.4f} [{color}]{'█' * round(value * BAR_WIDTH)}[/]"
