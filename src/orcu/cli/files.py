"""Input and output files of the commands: checks before the work, digests, reports, fitted objects."""

import functools
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from orcu.errors import InputError
from orcu.io.files import with_digest, write_json
from orcu.io.locations import Location, RemotePath, data_files, hide_credentials

if TYPE_CHECKING:
    from orcu.predictions import Predictions
    from orcu.report.page import Provenance

MAX_NAME_BYTES = 200  # file systems allow 255, and temporary names are longer
PAGE_SUFFIXES = (".html", ".htm", ".pdf")
OTHER_FORMATS = {*PAGE_SUFFIXES, ".csv", ".tsv", ".gz", ".parquet", ".xlsx", ".md", ".tex", ".png", ".svg", ".jpg"}
Result = functools.partial(Option, rich_help_panel="Output files")


Paths = Sequence[Location | None]


def check_paths(inputs: Paths, outputs: Paths, *, folders: bool = False) -> None:
    """Check before the work that inputs exist, and that outputs can be written and overwrite no input."""
    sources = [path for path in inputs if path is not None]
    for path in sources:
        if not path.is_file() and not (folders and path.is_dir()):
            missing = f"{path.missing_reason()}." if isinstance(path, RemotePath) else "no such file."
            raise InputError(f"{path}: {'is a folder, expected a file.' if path.is_dir() else missing}")
    used = {path.resolve(): "is also an input" for path in sources}
    for output in outputs:
        if output is None:
            continue
        target = output.resolve()
        if len(os.fsencode(output.name)) > MAX_NAME_BYTES:
            raise InputError(f"{output}: the file name is longer than {MAX_NAME_BYTES} bytes; choose a shorter one.")
        if output.is_dir():
            raise InputError(f"{output}: is a folder, expected the name of a file.")
        if isinstance(output, RemotePath):
            output.check_writable()
        else:
            folder = output.absolute().parent
            if not folder.is_dir():
                raise InputError(f"{output}: its folder does not exist; create it first.")
            if not os.access(folder, os.W_OK):
                raise InputError(f"{output}: no permission to write to its folder.")
        if target in used:
            raise InputError(f"{output}: {used[target]}; choose another name for the output.")
        for source in sources:
            if source.is_dir() and target.is_relative_to(source.resolve()):
                raise InputError(f"{output}: is inside the input folder {source}; choose another folder.")
        used[target] = "is given for two outputs"


def check_page(path: Location | None) -> None:
    """Check that a report is an HTML or PDF file, and that a browser is installed to print a PDF."""
    if path is not None and path.suffix.lower() not in PAGE_SUFFIXES:
        raise InputError(f"{path}: a report is written as .html or .pdf; choose a name with one of these endings.")
    if path is not None and path.suffix.lower() == ".pdf":
        from orcu.report.pdf import browser

        browser()


def check_json(path: Location | None) -> None:
    """Check that the name of a JSON file does not end like another format."""
    if path is not None and path.suffix.lower() in OTHER_FORMATS:
        raise InputError(f"{path}: this output is JSON, but its name ends in {path.suffix}; choose a name with .json.")


def digest(path: Location) -> str:
    """Return the SHA-256 of a file; for a folder, of the names and digests of its Parquet (or CSV) files."""
    if path.is_dir():
        files = data_files(path)[1]
        listing = "".join(f"{digest(file)}  {name}\n" for file, name in files)
        return sha256(listing.encode()).hexdigest()
    with path.open() if isinstance(path, RemotePath) else path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def provenance(paths: Sequence[Location]) -> "Provenance":
    """Describe the origin of a result: input files with their digests, the date and the command."""
    from orcu.report.page import Provenance

    files = [(path.name, digest(path)) for path in paths]
    # Bytes of an argument that are not UTF-8 cannot be written to a report.
    command = shlex.join(["orcu", *map(hide_credentials, sys.argv[1:])]).encode("utf-8", "backslashreplace").decode()
    return Provenance(files, date.today().isoformat(), command)


@dataclass(frozen=True)
class ReportOptions:
    """Files that describe a result."""

    report: Annotated[Location | None, Result(help="Report file: .html, or .pdf if Chromium is installed.")] = None
    json_path: Annotated[Location | None, Result("--json", help="JSON file of all numbers.")] = None
    title: Annotated[str | None, Result(help="Title of the report.")] = None

    def check(self, inputs: Paths, *outputs: Location | None) -> None:
        """Check input and output paths; inputs may be folders."""
        check_paths(inputs, [self.report, self.json_path, *outputs], folders=True)
        check_page(self.report)
        check_json(self.json_path)

    def write(self, numbers: dict[str, Any], page: Callable[..., str], inputs: Sequence[Location]) -> list[Location]:
        """Write the requested files and return their paths; ``page`` builds the report."""
        from orcu.report.pdf import write_page

        if self.report is None and self.json_path is None:
            return []
        source = provenance(inputs)
        texts = {}
        if self.json_path is not None:
            files = [{"name": name, "sha256": digest} for name, digest in source.files]
            about = ({"files": files} if files else {}) | {"date": source.date, "command": source.command}
            texts[self.json_path] = json.dumps(numbers | {"provenance": about}, indent=1, allow_nan=False) + "\n"
        if self.report is not None:
            title = {} if self.title is None else {"title": self.title}
            texts[self.report] = page(provenance=source, **title)
        for path, text in texts.items():
            with writing(path):
                write_page(text, path)
        return list(texts)


@contextmanager
def writing(path: Location) -> Iterator[None]:
    """Turn an error of the file system, such as a full disk, into a usage error that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None


def write_fitted(output: Location, fitted: Any, predictions: "Predictions", source: Location) -> None:
    """Write a fitted calibrator or prediction sets as JSON, with class names, input file and earlier calibrators."""
    about = {"classes": list(predictions.classes), "file": source.name, "calibrated": calibrators_of(predictions)}
    write_json(output, with_digest(fitted.to_dict() | about))


def calibrators_of(predictions: "Predictions") -> list[str]:
    """Return the names of the calibrators that the file says were applied to these predictions."""
    return [step["method"] for step in predictions.history if step.get("step") == "calibrate"]


def check_classes(fitted: Location, classes: tuple[str, ...], source: Location) -> None:
    """Check that predictions have the classes, in the same order, that `write_fitted` recorded."""
    expected = tuple(json.loads(fitted.read_text()).get("classes") or classes)  # valid JSON: it was loaded before
    if expected == classes:
        return
    message = (
        f"{source.name}: the classes are {', '.join(classes)}, but {fitted.name} was fitted for {', '.join(expected)}"
    )
    if len(expected) != len(classes):
        raise InputError(f"{message} ({len(classes)} classes instead of {len(expected)} classes).")
    mapping = [f"{now} would be read as {then}" for now, then in zip(classes, expected, strict=True) if now != then]
    fix = (
        f"Add --classes {','.join(expected)} to read the columns in that order."
        if set(expected) == set(classes)
        else "If these are other names of the same classes, rename the columns."
    )
    raise InputError(f"{message}: {', '.join(mapping)}. {fix}")
