"""``orcu explore``: write the interactive explorer page and open it."""

import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Option

from orcu.cli.console import echo, printable, say
from orcu.cli.files import check_paths
from orcu.errors import InputError

NumClasses = Annotated[int, Option(help="Number of classes C.")]
Scale = Annotated[float, Option(help="Scale s of ORCU's log-barrier, above 0.")]
Distance = Annotated[str, Option(help="Class distance of the soft targets: squared, absolute, huber or exponential.")]


def explore(
    output: Annotated[Path, Option("--output", "-o", help="Output page (.html).")] = Path("orcu-explore.html"),
    open_page: Annotated[bool, Option("--open/--no-open", help="Open the page in a browser.")] = True,
    num_classes: NumClasses = 5,
    true_class: Annotated[int | None, Option(help="True class, 0..C-1. Default: the middle class.")] = None,
    scale: Scale = 3.0,
    distance: Distance = "squared",
    regularizer: Annotated[str, Option(help="Gap regularizer: lbe, hinge, softplus or none.")] = "lbe",
    logits: Annotated[str | None, Option(help="Initial logits, C numbers: '0, 1.5, -2, 0.3, -1'.")] = None,
    tab: Annotated[
        str, Option(help="Tab to open: loss (gradients and equilibrium) or evaluate (a CSV of predictions).")
    ] = "loss",
) -> None:
    """Open an interactive page: the effect of the ORCU loss on a prediction, and the evaluation of a CSV file."""
    from orcu.explore import write

    check_paths([], [output])
    if output.suffix.lower() not in {".html", ".htm"}:
        raise InputError(f"--output: expected a file name that ends in .html, got {output.name!r}.")
    try:
        values = None if logits is None else [float(part) for part in logits.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"--logits: expected numbers such as '0, 1.5, -2', got {logits!r}.") from None
    write(
        output,
        num_classes=num_classes,
        true_class=true_class,
        scale=scale,
        distance=distance,
        regularizer=regularizer,
        logits=values,
        tab=tab,
    )
    echo(f"{printable(output)}\n")
    if open_page and not webbrowser.open(output.absolute().as_uri()):
        say("No browser could be started; open the file yourself.", stderr=True)
