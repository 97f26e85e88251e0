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
    doubt: str | None = None
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
        classes = [name[len(before) : len(name) - len(after)] for name in columns]
    else:
        columns = [part.strip() for part in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
        for column in columns:
            if column not in names:
                raise InputError(no_column(column, names, file, "predictions"))
        classes = without_common_prefix(columns)
    if len(columns) < 2:
        raise InputError(
            f"{file}: {wanted!r} matches {listed(columns) or 'no column'}; one column per class and at least "
            f"two classes are needed. The columns are: {listed(names)}."
        )
    return columns, classes


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
    given: Sequence[Any] | None, names: list[str], columns: list[str], file: str
) -> tuple[tuple[str, ...], list[str]]:
    """The class names in order, and the columns in the same order.

    Columns are matched to the given classes by name. Where no name is the same, they stand for the classes in their
    order; so do columns that are numbered 0, 1, ... in this order.

    Args:
        given: the classes, lowest first, if the caller has named them.
        names: what the columns call their classes.
        columns: the columns.
        file: its name, in messages.

    Raises:
        InputError: if only some names are the same, or all but for capital letters; if numbered columns do not stand in
            the order of their numbers; or if names stand in the order of the alphabet and no one has said theirs.

    Example:
        >>> ordered_classes(["low", "high"], ["high", "low"], ["p_high", "p_low"], "preds.csv")
        (('low', 'high'), ['p_low', 'p_high'])
    """
    classes = class_names(names if given is None else given, len(columns))
    by_name = {canonical(name): column for name, column in zip(names, columns, strict=True)}
    if given is not None and set(by_name) == set(classes):
        return classes, [by_name[name] for name in classes]
    check_positions([*by_name], None if given is None else classes, file)
    if given is None:
        _check_alphabet([*by_name], file)
    elif {name.casefold() for name in set(by_name) - set(classes)} & {name.casefold() for name in classes}:
        raise InputError(
            f"{file}: the columns call the classes {', '.join(by_name)}, classes= (--classes) {', '.join(classes)}: "
            "some are the same but for capital letters. Write them as the columns do."
        )
    return classes, columns


def _check_alphabet(names: list[str], file: str) -> None:
    """Refuse three or more names in the order of the alphabet: it is seldom theirs, and most metrics need theirs."""
    numbers = [int(re.findall(r"\d+", name)[-1]) for name in names if re.search(r"\d", name)]
    map_ordered = len(numbers) == len(names) and numbers == sorted(
        numbers
    )  # grade 1, grade 2; not grade 1, grade 10, grade 2
    if len(names) > 2 and names == sorted(names) and not map_ordered:
        raise InputError(
            f"{file}: the classes stand in the order of the alphabet ({', '.join(names)}), which says nothing about "
            f"theirs. Say it, lowest first: classes= (--classes {','.join(names)} if this is it)."
        )


def check_positions(names: list[str], classes: tuple[str, ...] | None, what: str) -> None:
    """Refuse columns that are taken in their order although their names speak against it.

    Args:
        names: what the columns call their classes.
        classes: the classes that the caller has named, if any.
        what: the file or argument, in messages.

    Raises:
        InputError: if some names are classes and others are not, or numbers do not stand in their order.

    Example:
        >>> check_positions(["low", "mid"], ("low", "middle"), "preds.csv")
        Traceback (most recent call last):
        orcu.errors.InputError: preds.csv: of the columns' names low, mid only low is a class (low, middle); name all \
classes as the columns do, or none.
    """
    numbers = [int(name) for name in names if re.fullmatch(r"-?[0-9]+", name)]
    if numbers == list(range(len(names))):
        return
    if len(numbers) == len(names) and numbers != sorted(numbers):
        right = ",".join(str(number) for number in sorted(numbers))
        raise InputError(
            f"{what}: the classes stand in the order {', '.join(names)}, which is not their numeric order. "
            f"Say the order: classes= (--classes {right})."
        )
    known = [name for name in names if classes is not None and name in classes]
    if known:
        verb = "is a class" if len(known) == 1 else "are classes"
        raise InputError(
            f"{what}: of the columns' names {', '.join(names)} only {', '.join(known)} {verb} "
            f"({', '.join(classes or ())}); name all classes as the columns do, or none."
        )


def no_column(column: str, names: list[str], file: str, role: str) -> str:
    """The words for a column that is not there."""
    close = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{file}: there is no column {column!r} ({role}).{hint} The columns are: {listed(names)}."


def listed(names: list[str]) -> str:
    """Column names for a message, at most thirty."""
    shown = ", ".join(names[:30])
    return shown + (f", and {len(names) - 30} more" if len(names) > 30 else "")
