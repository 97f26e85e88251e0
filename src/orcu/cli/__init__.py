"""The ``orcu`` command: parse, call the library, print."""

import atexit
import contextlib
import os
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape

import orcu
from orcu.cli.bench import bench_app
from orcu.cli.calibrate import calibrate_app
from orcu.cli.data import data_app
from orcu.cli.decide import decide
from orcu.cli.evaluate import evaluate
from orcu.cli.explore import explore
from orcu.cli.figure import figure
from orcu.cli.judge import judge_app
from orcu.cli.losses import losses_app
from orcu.cli.monitor import monitor_app
from orcu.cli.sets import sets_app
from orcu.cli.theory import theory
from orcu.cli.train import predict, train
from orcu.cli.two_stage import two_stage
from orcu.errors import InputError, MissingExtraError, PluginWarning

USAGE_ERROR = 2
_PYTHONS_SHOWWARNING = warnings.showwarning

app = typer.Typer(
    help="Ordinal classifiers whose probabilities can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(evaluate)
app.command()(decide)
app.command()(figure)
app.add_typer(calibrate_app, name="calibrate")
app.add_typer(sets_app, name="sets")
app.add_typer(judge_app, name="judge")
app.add_typer(monitor_app, name="monitor")
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")
app.add_typer(losses_app, name="losses")
app.command()(theory)
app.command()(explore)
app.command()(train)
app.command()(predict)
app.command("two-stage")(two_stage)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(f"orcu {orcu.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a bad argument becomes one line on stderr and exit code 2, a bad plugin a warning."""
    warnings.showwarning = _show_warning
    try:
        app()
    except (InputError, MissingExtraError) as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        raise SystemExit(USAGE_ERROR) from None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A line of its own for what users can mend; Python's form, with the line of code, for the rest."""
    if issubclass(category, PluginWarning):
        Console(stderr=True, soft_wrap=True).print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False)
    else:
        _PYTHONS_SHOWWARNING(message, category, filename, lineno, file, line)


def process() -> NoReturn:
    """`main` as a process of its own, which ends at once when it is done.

    Threads of pyarrow that are still starting when the interpreter takes itself down abort it: about one command in
    fifty on a busy machine had done all its work and ended with exit code 134.
    """
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a reader such as `head` has gone
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
