"""Which columns of a table hold what, and in which order the classes stand."""

import difflib
import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orcu.errors import InputError, UnknownNameError
from orcu.predictions.labels import canonical, class_names


@dataclass(frozen=True)
class Columns:
    """Which column holds what; rows are numbered from 1 below the header."""

    label: str | None = None
    probs: str | Sequence[str] | None = None
    logits: str | Sequence[str] | None = None
    classes: Sequence[Any] | None = None
    id: str | None = None
    weight: str | None = None
    group: str | None = None
    subject: str | None = None
    split: str | None = None
    fold: str | None = None
    percent: bool = False


def columns_of(options: dict[str, Any]) -> Columns:
    """The columns that a caller has named.

    Raises:
        UnknownNameError: if there is no such option.
    """
    for option in options:
        if option not in Columns.__dataclass_fields__:
            raise UnknownNameError("option", option, list(Columns.__dataclass_fields__))
    return Columns(**options)


def value_columns(wanted: Any, names: list[str], file: str) -> tuple[list[str], list[str]]:
    """The columns of a pattern or list, in the file's or the list's order, and their class names."""
    if isinstance(wanted, str) and "*" in wanted:
        if wanted.count("*") > 1:
            raise InputError(f"{wanted!r}: expected one star, which stands for the class name.")
        columns = [name for name in names if fnmatch.fnmatchcase(name, _literal(wanted))]
        before, after = wanted.split("*")
        found = [name[len(before) : len(name) - len(after)] for name in columns]
    else:
        columns = [part.strip() for part in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
        for column in columns:
            if column not in names:
                raise InputError(no_column(column, names, file, "predictions"))
        found = without_common_prefix(columns)
    if len(columns) < 2:
        raise InputError(
            f"{file}: {wanted!r} matches {listed(columns) or 'no column'}; one column per class and at least "
            f"two classes are needed. The columns are: {listed(names)}."
        )
    return columns, found


def _literal(pattern: str) -> str:
    return re.sub(r"([\[\]?])", r"[\1]", pattern)


def without_common_prefix(columns: list[str]) -> list[str]:
    """Class names from column names: what follows a prefix that ends in _ . - or a space.

    Example:
        >>> without_common_prefix(["p_low", "p_high"])
        ['low', 'high']
    """
    prefix = os.path.commonprefix(columns)  # noqa: RUF071 - names, not paths
    prefix = prefix[: re.search(r"\d*$", prefix).start()]  # type: ignore[union-attr]
    cut = [name[len(prefix) :] for name in columns]
    return cut if all(cut) and re.search(r"[_.\- ]$", prefix) else columns


def ordered_classes(
    given: Sequence[Any] | None, found: list[str], columns: list[str], file: str
) -> tuple[tuple[str, ...], list[str]]:
    """The class names in order, and the columns in the same order."""
    if given is not None:
        names = class_names(given, len(columns))
        by_name = {canonical(name): column for name, column in zip(found, columns, strict=True)}
        if set(by_name) == set(names):
            return names, [by_name[name] for name in names]
        return names, columns
    names = class_names(found, len(columns))
    numbers = [int(name) for name in names if name.lstrip("-").isdigit()]
    if len(numbers) == len(names) and numbers != sorted(numbers):
        right = ",".join(str(number) for number in sorted(numbers))
        raise InputError(
            f"{file}: the classes stand in the order {', '.join(names)}, which is not their numeric order. "
            f"Say the order: classes= (--classes {right})."
        )
    return names, columns


def no_column(column: str, names: list[str], file: str, role: str) -> str:
    """The words for a column that is not there."""
    close = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{file}: there is no column {column!r} ({role}).{hint} The columns are: {listed(names)}."


def listed(names: list[str]) -> str:
    """Column names for a message, at most thirty."""
    shown = ", ".join(names[:30])
    return shown + (f", and {len(names) - 30} more" if len(names) > 30 else "")
