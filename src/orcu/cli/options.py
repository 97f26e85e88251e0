"""Options and checks that all commands on files of predictions share."""

import json
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from orcu.errors import InputError
from orcu.io.files import write_json

if TYPE_CHECKING:
    from orcu.launchers import Launcher
    from orcu.predictions.predictions import Predictions
    from orcu.report.build import Provenance

BAD_DATA = 3
LONGEST_NAME = 200  # bytes; files take 255, and a temporary name is a little longer

Label = Annotated[str | None, typer.Option("--label", help="Column of the true class.")]
Probs = Annotated[
    str | None, typer.Option("--probs", help="Columns of probabilities: 'p_*' (the star is the class) or a,b,c.")
]
Logits = Annotated[str | None, typer.Option("--logits", help="Columns of logits, in place of --probs.")]
Classes = Annotated[str | None, typer.Option("--classes", help="Class names, lowest first: none,mild,severe.")]
Weight = Annotated[str | None, typer.Option("--weight", help="Column of row weights.")]
Id = Annotated[str | None, typer.Option("--id", help="Column of row ids; models are matched by it.")]
Percent = Annotated[bool, typer.Option("--percent", help="Probabilities run from 0 to 100.")]
Separator = Annotated[str | None, typer.Option("--sep", help="Separator of a CSV file, if not recognised.")]
NoFormulas = Annotated[
    bool, typer.Option("--no-formulas", help="In CSV, a ' before texts that a spreadsheet would run: = + - @.")
]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal sign of a CSV file: . or ,")]


def reading_options(
    *, probs: str | None, logits: str | None, classes: str | None, sep: str | None, decimal: str | None, **columns: Any
) -> dict[str, Any]:
    """What `orcu.predictions.predictions.open_predictions` takes, from what the user typed.

    Raises:
        InputError: if options contradict each other.
    """
    if probs is not None and logits is not None:
        raise InputError("--probs, --logits: give only one of the two.")
    separator = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
    if separator is not None and len(separator) != 1:
        raise InputError(f"--sep: expected one character or 'tab', got {sep!r}.")
    if decimal not in {None, ".", ","}:
        raise InputError(f"--decimal: expected . or , and got {decimal!r}.")
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    return {"probs": probs, "logits": logits, "classes": names, "sep": separator, "decimal": decimal, **columns}


def check_page(path: Path | None) -> None:
    """Complain before the work if a page cannot be written as its ending says.

    Raises:
        InputError: if it is neither .html nor .pdf, or a PDF is asked for and no browser is here.
    """
    if path is not None and path.suffix.lower() not in {".html", ".htm", ".pdf"}:
        raise InputError(f"{path}: a page is written as .html or .pdf; name a file that ends so.")
    if path is not None and path.suffix.lower() == ".pdf":
        from orcu.report.pdf import browser

        browser()


def check_paths(inputs: list[Path], outputs: list[Path | None], *, folders: bool = False) -> None:
    """Complain before the work rather than after it.

    Args:
        inputs: must exist.
        outputs: must be writable.
        folders: whether an input may be a folder.

    Raises:
        InputError: if an input is missing, or an output cannot be written or would overwrite one.
    """
    for path in inputs:
        if not path.is_file() and not (folders and path.is_dir()):
            raise InputError(f"{path}: {'is a folder; name a file.' if path.is_dir() else 'there is no such file.'}")
    taken = {path.resolve(): "is an input" for path in inputs}
    for out in outputs:
        if out is None:
            continue
        if len(os.fsencode(out.name)) > LONGEST_NAME:
            raise InputError(f"{out}: its name is longer than {LONGEST_NAME} bytes; choose a shorter one.")
        if out.is_dir():
            raise InputError(f"{out}: is a folder; name a file.")
        if not out.absolute().parent.is_dir():
            raise InputError(f"{out}: its folder does not exist; make it first.")
        if not os.access(out.absolute().parent, os.W_OK):
            raise InputError(f"{out}: its folder cannot be written to.")
        if out.resolve() in taken:
            raise InputError(f"{out}: {taken[out.resolve()]}; choose another name for the output.")
        for folder in inputs:
            if folder.is_dir() and out.resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{out}: lies in the input folder {folder}; choose another place for the output.")
        taken[out.resolve()] = "is named for two outputs"


@contextmanager
def bad_data() -> Iterator[None]:
    """Turn what is wrong with the data into one line on stderr and exit code 3."""
    try:
        yield
    except InputError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]bad data:[/] {escape(str(error))}", highlight=False)
        raise typer.Exit(BAD_DATA) from None


def working(what: str) -> AbstractContextManager[Any]:
    """A context that shows, on a terminal, what is being done: for work that may take longer than a moment."""
    return Console(stderr=True).status(escape(what))


def digest(path: Path) -> str:
    """The SHA-256 of a file; of a folder, that of its Parquet files' names and digests."""
    if path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        listing = "".join(f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
        return sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def provenance(paths: list[Path]) -> "Provenance":
    """Where the numbers of a page come from: the files with their digests, the day, the command."""
    from orcu.report.build import Provenance

    files = [(path.name, digest(path)) for path in paths]
    return Provenance(files, date.today().isoformat(), shlex.join(["orcu", *sys.argv[1:]]))


def write_fitted(out: Path, fitted: Any, predictions: "Predictions", source: Path) -> None:
    """Write a fitted calibrator, or fitted sets, as JSON with the class names, the file's name and its calibrators."""
    about = {"classes": list(predictions.classes), "file": source.name, "calibrated": calibrated_by(predictions)}
    write_json(out, fitted.to_dict() | about)


def calibrated_by(predictions: "Predictions") -> list[str]:
    """The calibrators that predictions were moved by, as far as their file tells."""
    return [step["method"] for step in predictions.history if step.get("step") == "calibrate"]


def check_classes(fitted: Path, classes: tuple[str, ...], source: Path) -> None:
    """Refuse predictions of other classes than those `write_fitted` noted.

    Raises:
        InputError: if the names or their order differ.
    """
    named = tuple(json.loads(fitted.read_text()).get("classes") or classes)  # checked when it was loaded
    if named != classes:
        raise InputError(
            f"{source.name}: its classes are {', '.join(classes)}, {fitted.name} was fitted for {', '.join(named)}."
        )


def pairs(given: list[str], option: str) -> dict[str, str]:
    """KEY=VALUE options as a dictionary.

    Raises:
        InputError: if one is anything else.
    """
    options = {}
    for pair in given:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InputError(f"{option}: expected KEY=VALUE, got {pair!r}.")
        options[key.strip()] = value
    return options


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print a calibrator's warnings as lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    screen = Console(stderr=True, soft_wrap=True)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        screen.print(f"[yellow]warning:[/] {escape(text)}", highlight=False)


def launching(name: str, *, jobs: int, address: str | None = None, **options: Any) -> "Launcher":
    """The launcher that the user named.

    Raises:
        InputError: if there is none of that name, or it has no address.
    """
    from orcu.launchers import LAUNCHERS

    if address is not None and name != "ray":
        raise InputError(f"--address: the launcher {name!r} has none; say --launcher ray.")
    where = {} if address is None else {"address": address}
    launcher: Launcher = LAUNCHERS.create(name, jobs=jobs, **where, **options)
    return launcher
