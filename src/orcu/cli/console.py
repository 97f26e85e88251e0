"""Terminal output and exit codes of the commands.

All output of the commands is printed here, and names and texts from files pass through `printable`: a control sequence
in the name of a class, subgroup or file would otherwise change the terminal, and a line break could start a command
of a CI system.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import rich.console
import rich.markup
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from orcu.errors import InputError

FAILURE, USAGE_ERROR, DATA_ERROR, GATE_FAILED, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141
EXIT_CODES = (
    "Exit codes: 0 success; 1 unfinished benchmark runs or a failed theory check; 2 usage error, missing file, file "
    "that cannot be written, or missing optional package; 3 unusable data; 4 a failed --fail-if gate or a drift alarm; "
    "130 interrupted; 141 the reader of the output, such as head, has ended."
)
# Control characters, line separators, characters that reverse the direction of a text, and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_closed: list[bool] = []  # not empty if the reader of stdout has ended


def printable(text: object, *, keep: str = "") -> str:
    r"""Return a text with control characters as escape sequences, except those to keep.

    Example:
        >>> print(printable("north\x1b[2J\n::error::"), printable("a\nb", keep="\n").count("\n"))
        north\x1b[2J\n::error:: 1
    """
    return _UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in keep else match[0].encode("unicode_escape").decode(), str(text)
    )


def escape(text: object) -> str:
    """Return a text, such as a name from a file, for markup: `printable`, with markup characters escaped."""
    return rich.markup.escape(printable(text))


def text(content: object, style: str = "") -> Text:
    """Return a table cell of plain text with a style."""
    return Text(printable(content), style)


class _Console(rich.console.Console):
    """Console that discards further output if the reader of a pipe has ended, so that the command finishes its work."""

    def on_broken_pipe(self) -> None:
        close_stdout()


def close_stdout() -> None:
    """Discard further output: the reader of stdout, such as `head`, has ended."""
    _closed.append(True)
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(code: Any) -> Any:
    """Return the exit code of a command, or 141 (as if ended by SIGPIPE) if its output was not read to the end."""
    with suppress(ValueError):
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            close_stdout()
    return PIPE_CLOSED if _closed and not code else code


def say(*lines: object, style: str = "", stderr: bool = False, wrap: bool = True) -> None:
    """Print lines of plain text, wrapped to the terminal; ``style`` is one of rich, such as "dim" or "bold red".

    A text is one line: its line breaks are escaped. Other objects may have several lines.
    """
    for line in lines:
        content = Text(printable(line, keep="" if isinstance(line, str | Path) else "\n"), style=style)
        _Console(stderr=stderr).print(content, soft_wrap=not wrap)


def say_wrote(path: object, details: str = "") -> None:
    """Print the name of a written file, and what it contains."""
    say(f"wrote {path}{details and f': {details}'}")


def say_problem(kind: str, message: object) -> None:
    """Print a line such as "error: ..." or "warning: ..." on stderr."""
    style = "bold red" if kind == "error" else "yellow"
    _Console(stderr=True, soft_wrap=True).print(f"[{style}]{kind}:[/] {escape(message)}", highlight=False)


def echo(block: str) -> None:
    """Print a block of text in a format for programs: its lines are not wrapped, and line breaks and tabs are kept."""
    try:
        sys.stdout.write(printable(block, keep="\n\t"))
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()


def show(*renderables: Any, width: int = 0) -> None:
    """Print tables and texts with markup; a terminal narrower than ``width`` wraps lines instead of cells.

    Names within markup are escaped with `escape`.
    """
    parts = [printable(part, keep="\n") if isinstance(part, str) else part for part in renderables]
    _Console(width=max(width, _Console().width)).print(*parts, sep="\n", highlight=False)


class _Table(Table):
    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; cells of text may have markup and line breaks, but no other control characters."""
        super().add_row(*(printable(cell, keep="\n") if isinstance(cell, str) else cell for cell in cells), **options)


def new_table(*headings: str, title: str | Text | None = None, padding: int = 2, wrap: bool = True) -> Table:
    """Create a table without borders; a heading that starts with ">" makes a right-aligned, unwrapped column."""
    heading_text = text(title) if isinstance(title, str) else title
    table = _Table(box=None, pad_edge=False, padding=(0, padding, 0, 0), title=heading_text, title_justify="left")
    for heading in headings:
        if heading.startswith(">"):
            table.add_column(escape(heading[1:]), justify="right", no_wrap=True)
        else:
            table.add_column(escape(heading), overflow="fold", no_wrap=not wrap)
    return table


def fits(table: Table) -> bool:
    """Return whether a table fits the width of the terminal."""
    console = _Console()
    options = console.options.update(max_width=1000)
    return console.measure(table, options=options).maximum <= console.width


class _Description(TextColumn):
    def render(self, task: Task) -> Text:
        """Return the description of a task as plain text."""
        return text(task.description)


class ProgressBar(Progress):
    """Progress bars on stderr, above which lines can be printed."""

    def say(self, line: str, style: str = "") -> None:
        """Print a line of plain text above the bars."""
        self.console.print(text(line, style), highlight=False)

    @property
    def is_shown(self) -> bool:
        """Whether stderr is a terminal, which shows the bars."""
        return self.console.is_terminal


def progress_bar() -> ProgressBar:
    """Create a progress bar on stderr; files and pipes get none."""
    console = _Console(stderr=True)
    columns = (_Description(""), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return ProgressBar(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def task(description: str = "") -> Iterator[Callable[[str], None]]:
    """Run work on data with a status line; yields a function that changes it.

    An `InputError` becomes one line on stderr and exit code 3.
    """
    status = _Console(stderr=True).status(escape(description))
    try:
        with status if description else nullcontext():
            yield lambda message: status.update(escape(message))
    except InputError as error:
        say_problem("error", error)
        raise typer.Exit(DATA_ERROR) from None
