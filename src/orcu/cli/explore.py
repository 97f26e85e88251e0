"""``orcu explore``: the explorer page, written to a file and opened."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from orcu.errors import InputError


def explore(
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("orcu-explore.html"),
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    classes: Annotated[int, typer.Option(help="Number of classes C, 2..12.")] = 5,
    label: Annotated[int | None, typer.Option(help="The observed class, 0..C-1; by default the middle one.")] = None,
    scale: Annotated[float, typer.Option(help="Barrier scale s, 0.05..50.")] = 3.0,
    distance: Annotated[
        str, typer.Option(help="Distance of the soft targets: squared, absolute, huber, exponential.")
    ] = "squared",
    regularizer: Annotated[str, typer.Option(help="On the directed gaps: lbe, hinge, softplus, none.")] = "lbe",
    logits: Annotated[str | None, typer.Option(help="C numbers to start with: '0, 1.5, -2, 0.3, -1'.")] = None,
    tab: Annotated[
        str, typer.Option(help="The tab to open: loss, or judge for a CSV of predictions dropped on it.")
    ] = "loss",
) -> None:
    """Write the explorer and open it: watch what ORCU does to a prediction, or drop a CSV of predictions on it."""
    from orcu.explore import write

    if output.is_dir():
        raise InputError(f"--output: {output} is a folder; give the name of a file.")
    if output.suffix.lower() not in {".html", ".htm"}:
        raise InputError(f"--output: expected a file that ends in .html, got {output.name!r}.")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output: there is no folder {output.absolute().parent}.")
    write(
        output,
        classes=classes,
        label=label,
        scale=scale,
        distance=distance,
        regularizer=regularizer,
        logits=None if logits is None else _numbers(logits),
        tab=tab,
    )
    typer.echo(output)
    if open_it and not webbrowser.open(output.absolute().as_uri()):
        typer.echo("No browser could be started; open the file yourself.", err=True)


def _numbers(text: str) -> list[float]:
    """The numbers of a list written with commas or spaces."""
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(
            f"logits: expected numbers with commas between them, such as '0, 1.5, -2'; got {text!r}."
        ) from None
