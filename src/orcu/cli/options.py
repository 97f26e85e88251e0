"""The declaration of commands, and the options that several commands share."""

import contextlib
import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer import Option

from orcu.cli.console import close_stdout, printable
from orcu.errors import InputError
from orcu.io.locations import Location, as_location
from orcu.io.writing import check_table_name

if TYPE_CHECKING:
    from pyarrow import Table

    from orcu.launchers import Launcher

Command = TypeVar("Command", bound=Callable[..., None])


class UsageError(typer.BadParameter):
    """Wrong use of a command: typer prints the usage, the message, and ends with exit code 2."""

    def format_message(self) -> str:
        """Return the message without typer's "Invalid value" prefix, on one line."""
        return printable(self.message)


def command(app: typer.Typer, name: str | None = None, *, hidden: bool = False) -> Callable[[Command], Command]:
    """Register a command whose dataclass parameters each stand for a group of options, one per field.

    An `InputError` outside of `orcu.cli.console.task` is a usage error, and so is an error of the file system, such as
    a full disk.
    """

    def register(function: Command) -> Command:
        groups: dict[str, Any] = {}
        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for parameter in inspect.signature(function).parameters.values():
            if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
                groups[parameter.name] = parameter.annotation
                parameters += inspect.signature(parameter.annotation).parameters.values()
            else:
                parameters.append(parameter)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=_with_parser(parameter.annotation))
            for parameter in parameters
        ]

        @functools.wraps(function)
        def run(context: typer.Context, **values: Any) -> None:
            try:
                for argument, group in groups.items():
                    values[argument] = group(**{field.name: values.pop(field.name) for field in fields(group)})
                function(**values)
            except InputError as error:
                raise UsageError(str(error), ctx=context) from None
            except BrokenPipeError:
                close_stdout()
            except OSError as error:
                if error.filename is None:  # not of a file
                    raise
                message = f"{error.filename}: cannot be read or written ({error.strerror or error})."
                raise UsageError(message, ctx=context) from None

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, hidden=hidden)(run)
        return function

    return register


_path_type = type("path", (), {})  # the help shows its name, as for local paths


def _with_parser(annotation: Any) -> Any:
    """Replace the type `Location`, which is a union, by one that typer knows, and parse values with `as_location`."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, about, *_ = get_args(annotation)
    if kind == Location:
        kind = _path_type
    elif kind == Location | None:
        kind = _path_type | None
    elif kind == list[Location]:
        kind = list[_path_type]  # type: ignore[valid-type]
    else:
        return annotation
    about.parser = as_location
    return Annotated[kind, about]


Column = functools.partial(Option, rich_help_panel="Input columns and format")
Parallel = functools.partial(Option, rich_help_panel="Parallel computing")
Separator = Annotated[str | None, Column(help="Separator of a CSV file: a character or 'tab'. Default: detected.")]
Encoding = Annotated[str | None, Column(help="Encoding of a CSV file, such as cp1252. Default: utf-8.")]


@dataclass(frozen=True)
class ReadOptions:
    """Columns and format of a file of predictions."""

    label: Annotated[str | None, Column(help="Column of the true class.")] = None
    probs: Annotated[str | None, Column(help="Probability columns: a,b,c or 'p_*', where * is the class name.")] = None
    logits: Annotated[str | None, Column(help="Logit columns, in place of --probs.")] = None
    classes: Annotated[str | None, Column(help="Class names in order, lowest first: none,mild,severe.")] = None
    id: Annotated[str | None, Column(help="Column of unique row ids, which match rows across files.")] = None
    percent: Annotated[bool, Column("--percent", help="Read probabilities as percentages, from 0 to 100.")] = False
    sep: Separator = None
    decimal: Annotated[str | None, Column(help="Decimal mark of a CSV file, '.' or ','. Default: detected.")] = None
    encoding: Encoding = None

    def arguments(self) -> dict[str, Any]:
        """Return the chosen options as keyword arguments of `orcu.predictions.open_predictions`."""
        chosen = {name: value for name, value in vars(self).items() if value not in (None, False)}
        if self.probs and self.logits:
            raise InputError("--probs, --logits: give only one of the two.")
        if self.sep:
            chosen["sep"] = separator(self.sep)
        if self.decimal not in {None, ".", ","}:
            raise InputError(f"--decimal: expected . or , and got {self.decimal!r}.")
        if self.classes is not None:
            chosen["classes"] = [name.strip() for name in self.classes.split(",")]
        return chosen


@dataclass(frozen=True)
class LabelledReadOptions(ReadOptions):
    """Columns and format of a file of predictions whose labels are needed."""

    rater: Annotated[
        str | None,
        Column(help="Several raters per case, in place of --label: columns with their grades, a,b,c or 'r_*'."),
    ] = None
    label_shares: Annotated[
        str | None,
        Column(help="Votes for each class, in place of --label: columns of counts or shares, such as 'y_*'."),
    ] = None
    ratings: Annotated[
        Location | None,
        Column(help="Long table of grades, matched by --id; --rater and --label then name its columns."),
    ] = None
    unlabelled: Annotated[
        str | None, Column(help="Rows without a label: skip (they are counted) or error. Default: error.")
    ] = None


@dataclass(frozen=True)
class TableOptions:
    """The output table of a command."""

    output: Annotated[Location, Option("--output", "-o", help="Output table (.csv, .csv.gz or .parquet).")]
    escape_formulas: Annotated[
        bool, Option("--escape-formulas", help="Prefix CSV texts that a spreadsheet would run (= + - @) with a quote.")
    ] = False

    def __post_init__(self) -> None:
        """Check the ending of the name before the work."""
        check_table_name(self.output)

    def write(self, table: "Table") -> None:
        """Write the table."""
        from orcu.io.writing import write_table

        write_table(table, self.output, escape_formulas=self.escape_formulas)


@dataclass(frozen=True)
class LaunchOptions:
    """Where parallel work runs."""

    launcher: Annotated[str, Parallel(help="Backend: local (processes on this machine) or ray.")] = "local"
    address: Annotated[str | None, Parallel(help="Address of a Ray cluster. Default: a new local cluster.")] = None

    def create(self, jobs: int | None, **options: Any) -> "Launcher":
        """Create the launcher."""
        from orcu.launchers import LAUNCHERS

        if self.address is not None:
            if self.launcher != "ray":
                raise InputError(f"--address: the launcher {self.launcher!r} takes none; add --launcher ray.")
            options["address"] = self.address
        return LAUNCHERS.create(self.launcher, jobs=jobs, **options)


def separator(text: str | None) -> str | None:
    """Return the character of ``--sep``."""
    character = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if character is not None and len(character) != 1:
        raise InputError(f"--sep: expected one character or 'tab', got {text!r}.")
    return character


def names(text: str | None) -> list[str]:
    """Split a list such as "none, mild, severe"."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_value(text: str) -> Any:
    """Parse the value of a KEY=VALUE entry: true, false, none, a number, a list as in TOML, or text.

    Example:
        >>> [parse_value(text) for text in ("true", "1e-3", "[0, 1]", "resnet34")]
        [True, 0.001, [0, 1], 'resnet34']
    """
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    with contextlib.suppress(ValueError):
        return int(text) if text.lstrip("-").isdigit() else float(text)
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"--set: {text!r} is not a list ({error}).") from None
    return text


def key_values(entries: list[str] | None, *, option: str = "--set") -> dict[str, str]:
    """Parse the KEY=VALUE entries of an option."""
    pairs = {}
    for entry in entries or []:
        key, sign, value = entry.partition("=")
        if not sign:
            raise InputError(f"{option}: expected KEY=VALUE, got {entry!r}.")
        pairs[key.strip()] = value
    return pairs
