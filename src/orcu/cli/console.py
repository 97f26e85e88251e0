"""Terminal output and exit codes of the commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from orcu.errors import InputError

FAILURE, USAGE_ERROR, DATA_ERROR, GATE_FAILED, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = (
    "Exit codes: 0 success; 1 unfinished benchmark runs or a failed theory check; 2 usage error, missing file or "
    "missing optional package; 3 unusable data; 4 a failed --fail-if gate or a drift alarm; 130 interrupted."
)


def say(*lines: object, style: str = "", stderr: bool = False) -> None:
    """Print lines of plain text, wrapped to the terminal; ``style`` is one of rich, such as "dim" or "bold red"."""
    for line in lines:
        Console(stderr=stderr).print(Text(str(line), style=style))


def say_wrote(path: Path, details: str = "") -> None:
    """Print the name of a written file, and what it contains."""
    say(f"wrote {path}{details and f': {details}'}")


def say_problem(kind: str, text: object) -> None:
    """Print a line such as "error: ..." or "warning: ..." on stderr."""
    style = "bold red" if kind == "error" else "yellow"
    Console(stderr=True, soft_wrap=True).print(f"[{style}]{kind}:[/] {escape(str(text))}", highlight=False)


def show(*renderables: Any, width: int = 0) -> None:
    """Print tables and texts with markup; a terminal narrower than ``width`` wraps lines instead of cells."""
    Console(width=max(width, Console().width)).print(*renderables, sep="\n", highlight=False)


def new_table(*headings: str, title: str | None = None, padding: int = 2, wrap: bool = True) -> Table:
    """Create a table without borders; a heading that starts with ">" makes a right-aligned, unwrapped column."""
    table = Table(box=None, pad_edge=False, padding=(0, padding, 0, 0), title=title, title_justify="left")
    for heading in headings:
        if heading.startswith(">"):
            table.add_column(escape(heading[1:]), justify="right", no_wrap=True)
        else:
            table.add_column(escape(heading), overflow="fold", no_wrap=not wrap)
    return table


def progress_bar() -> Progress:
    """Create a progress bar on stderr; files and pipes get none."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def task(description: str = "") -> Iterator[Callable[[str], None]]:
    """Run work on data with a status line; yields a function that changes it.

    An `InputError` becomes one line on stderr and exit code 3.
    """
    status = Console(stderr=True).status(escape(description))
    try:
        with status if description else nullcontext():
            yield lambda text: status.update(escape(text))
    except InputError as error:
        say_problem("error", error)
        raise typer.Exit(DATA_ERROR) from None
