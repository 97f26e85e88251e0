"""``orcu theory``: numerical checks of the paper's statements for one setting."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Option

from orcu.cli.console import FAILURE, escape, new_table, show
from orcu.cli.explore import Distance, NumClasses, Scale

if TYPE_CHECKING:
    from orcu.theory import Check, Equilibrium

BAR_WIDTH = 24


def theory(
    num_classes: NumClasses = 5,
    true_class: Annotated[int, Option(help="True class, 0..C-1.")] = 2,
    scale: Scale = 3.0,
    distance: Distance = "squared",
) -> None:
    """Check the statements of the paper numerically, and show the equilibrium that ORCU pulls a prediction to."""
    from orcu.theory import equilibrium, verify

    checks = verify(num_classes, true_class, scale, distance)
    show(
        f"\n[bold]ORCU in theory[/]: {num_classes} classes, true class {true_class}, scale {scale:g}, {distance} "
        "distance\n",
        _check_table(checks),
        "",
        _sketch(equilibrium(num_classes, true_class, scale, distance)),
    )
    if any(check.passed is False for check in checks):
        raise typer.Exit(FAILURE)


def _check_table(checks: "list[Check]") -> Table:
    table = new_table("", "statement", "source", ">measured", "required", padding=1)
    marks = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: "[yellow]-[/]"}
    for check in checks:
        measured = "" if check.passed is None else f"{check.measured:.3g}"
        table.add_row(marks[check.passed], escape(check.statement), check.source, measured, check.requirement)
    passed, failed = (sum(check.passed is mark for check in checks) for mark in (True, False))
    skipped = [f"{check.source}: {check.note}" for check in checks if check.passed is None]
    table.caption = f"{passed} passed, {failed} failed, {len(skipped)} skipped"
    if skipped:
        table.caption += f" ({escape('; '.join(skipped))})"
    table.caption_justify = "left"
    return table


def _sketch(solution: "Equilibrium") -> Table:
    table = new_table(">class", "soft target (anchor)", "equilibrium of ORCU", padding=1)
    for k, (anchor, probability) in enumerate(zip(solution.anchor, solution.probs, strict=True)):
        mark = "→ " if k == solution.center else ""
        table.add_row(f"{mark}{k}", _bar(anchor, "blue"), _bar(probability, "magenta"))
    return table


def _bar(value: float, color: str) -> str:
    return f"{value:6.4f} [{color}]{'█' * round(value * BAR_WIDTH)}[/]"
