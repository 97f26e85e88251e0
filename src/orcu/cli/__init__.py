"""The ``orcu`` command: option parsing, calls of the library, printed output."""

import atexit
import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer
import typer.core

import orcu
from orcu.cli.bench import bench_app
from orcu.cli.calibrate import calibrate_app
from orcu.cli.console import EXIT_CODES, USAGE_ERROR, exit_code, printable, say, say_problem
from orcu.cli.data import data_app
from orcu.cli.decide import decide
from orcu.cli.evaluate import evaluate
from orcu.cli.explore import explore
from orcu.cli.export import export
from orcu.cli.figure import figure
from orcu.cli.judge import judge_app
from orcu.cli.losses import losses_app
from orcu.cli.monitor import monitor_app
from orcu.cli.options import command
from orcu.cli.sets import sets_app
from orcu.cli.split import split
from orcu.cli.theory import theory
from orcu.cli.train import predict, train, two_stage
from orcu.errors import MissingExtraError

_HINTS = {  # of options that another command has, by command and option
    ("orcu monitor check", "--subgroup"): "The log has the subgroups of `orcu monitor add --subgroup COLUMN`; this "
    "command tests each of them."
}


@contextlib.contextmanager
def _printable_messages() -> Iterator[None]:
    """Escape the messages of usage errors, which typer prints: they repeat arguments such as file names."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            message = printable(error.format_message(), keep="\n\t")  # typer draws a box around the lines
            command_path = getattr(getattr(error, "ctx", None), "command_path", "")
            hint = _HINTS.get((command_path, getattr(error, "option_name", "")))
            message = message if hint is None else f"{message}. {hint}"
            error.format_message = lambda: message
        raise


class _Commands(typer.core.TyperGroup):
    def make_context(self, *args: Any, **options: Any) -> Any:
        with _printable_messages():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _printable_messages():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    help="Ordinal classifiers whose probabilities can be trusted.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for function in (evaluate, split, decide, figure, theory, explore, train, predict, export, two_stage):
    command(app)(function)
groups = {"calibrate": calibrate_app, "sets": sets_app, "judge": judge_app, "monitor": monitor_app}
groups |= {"bench": bench_app, "data": data_app, "losses": losses_app}
for name, group in groups.items():
    app.add_typer(group, name=name)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        say(f"orcu {orcu.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; warnings and a missing optional package become lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            app(prog_name="orcu")
        except MissingExtraError as error:
            say_problem("error", error)
            raise SystemExit(USAGE_ERROR) from None
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                say_problem("warning", text)


def process() -> NoReturn:
    """Run `main` and end the process at once.

    Threads of pyarrow that are still starting while the interpreter shuts down abort it: about one command in fifty
    on a busy machine finished its work and ended with exit code 134.
    """
    code: object = 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # arrows and names are "?" where the encoding, as of a pipe, lacks them
            stream.reconfigure(errors="replace")
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    if not isinstance(code, int | None):
        say(code, stderr=True)
        code = 1
    code = exit_code(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the reader of a pipe, such as `head`, may be gone
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code if isinstance(code, int) else 0)
