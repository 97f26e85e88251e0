"""Selection of a table's columns by name or pattern, and the order of the classes.

Errors are `InputError`; they name the file and list its columns.
"""

import difflib
import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orcu.errors import InputError, UnknownNameError
from orcu.predictions.labels import canonical_label, class_names

MAX_NAMES_SHOWN = 30
UNLABELLED = ("error", "skip")


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns by role, and how to read them; rows are numbered from 1 below the header."""

    label: str | None = None
    rater: str | Sequence[str] | None = None  # columns with the grade of each rater; of a long table: the raters
    label_shares: str | Sequence[str] | None = None  # columns with the votes for each class, as counts or shares
    ratings: str | os.PathLike[str] | None = None  # file with a long table of grades, whose cases match the ids
    probs: str | Sequence[str] | None = None
    logits: str | Sequence[str] | None = None
    classes: Sequence[Any] | None = None
    id: str | None = None
    sample_weight: str | None = None
    uncertainty: str | None = None
    subgroup: str | None = None
    cluster: str | None = None
    split: str | None = None
    fold: str | None = None
    percent: bool = False
    unlabelled: str = "error"  # rows whose label is missing: "error" or "skip"

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> "Columns":
        """Make columns from keyword arguments; an unknown one raises `UnknownNameError`."""
        for option in options:
            if option not in cls.__dataclass_fields__:
                raise UnknownNameError("option", option, list(cls.__dataclass_fields__))
        columns = cls(**options)
        if columns.unlabelled not in UNLABELLED:
            raise UnknownNameError("value of unlabelled (--unlabelled)", str(columns.unlabelled), list(UNLABELLED))
        columns._check_one_kind_of_label()
        return columns

    def _check_one_kind_of_label(self) -> None:
        """Raise `InputError` unless labels, raters and shares are given in one way."""
        if self.ratings is not None:
            needed = {"id": self.id, "label": self.label, "rater": self.rater}
            missing = [f"{role}= (--{role})" for role, column in needed.items() if column is None]
            if missing or self.label_shares is not None or not isinstance(self.rater, str) or "*" in self.rater:
                raise InputError(
                    "ratings: a long table of grades needs the names of its columns: id= (--id) for the case, as in "
                    "the predictions, rater= (--rater) and label= (--label)"
                    + (f"; {', '.join(missing)} is missing." if missing else ".")
                )
            return
        names = {"label": self.label, "rater": self.rater, "label_shares": self.label_shares}
        given = [name for name, column in names.items() if column is not None]
        if len(given) > 1:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise InputError(
                f"{', '.join(given)}: pass only one of them ({options}). The raters of a long table are named with "
                "ratings= (--ratings FILE)."
            )

    @property
    def has_votes(self) -> bool:
        """Whether cases have several raters."""
        return self.rater is not None or self.label_shares is not None

    @property
    def label_column(self) -> str | None:
        """Column of one label per row, if there is one."""
        return None if self.ratings is not None else self.label


def select_rater_columns(selection: str | Sequence[str], names: list[str], file: str) -> tuple[list[str], list[str]]:
    """Select the columns of the raters by a pattern such as "r_*", a list, or names separated by commas."""
    if isinstance(selection, str) and "*" not in selection and "," not in selection:
        columns = [selection]
    elif isinstance(selection, str) and "*" in selection:
        columns, raters = select_value_columns(selection, names, file, one_per="rater")
        return columns, raters
    else:
        columns = [part.strip() for part in selection.split(",")] if isinstance(selection, str) else list(selection)
    for column in columns:
        if column not in names:
            raise InputError(missing_column_message(column, names, file, "rater"))
    return columns, strip_common_prefix(columns) if len(columns) > 1 else columns


def match_share_columns(
    selection: str | Sequence[str], names: list[str], classes: tuple[str, ...], file: str
) -> list[str]:
    """Select the columns of label shares, in the order of the classes, whose names they must have."""
    columns, derived = select_value_columns(selection, names, file)
    column_of = {canonical_label(name): column for name, column in zip(derived, columns, strict=True)}
    if set(column_of) != set(classes):
        raise InputError(
            f"{file}: the columns of label shares ({join_names(columns)}) are of {', '.join(column_of)}, expected one "
            f"column for each class: {', '.join(classes)}. Rename them, such as share_{classes[0]}."
        )
    return [column_of[name] for name in classes]


def select_value_columns(
    selection: Any, names: list[str], file: str, *, one_per: str = "class"
) -> tuple[list[str], list[str]]:
    """Select columns by a pattern such as "p_*", a list, or names separated by commas, and derive their class names."""
    if isinstance(selection, str) and "*" in selection:
        if selection.count("*") > 1:
            raise InputError(f"{selection!r}: expected one star, which stands for the name of the {one_per}.")
        literal = re.sub(r"([\[\]?])", r"[\1]", selection)
        columns = [name for name in names if fnmatch.fnmatchcase(name, literal)]
        before, after = selection.split("*")
        classes = [name[len(before) : len(name) - len(after)] for name in columns]
    else:
        columns = [part.strip() for part in selection.split(",")] if isinstance(selection, str) else list(selection)
        for column in columns:
            if column not in names:
                raise InputError(missing_column_message(column, names, file, "predictions"))
        classes = strip_common_prefix(columns)
    if len(columns) < 2:
        hint = ""
        if isinstance(selection, str):
            other_case = [name for name in names if fnmatch.fnmatchcase(name.casefold(), selection.casefold())]
            if len(other_case) > 1 and not columns:
                hint = f" Upper and lower case differ: did you mean {os.path.commonprefix(other_case) + '*'!r}?"  # noqa: RUF071 - names, not paths
        raise InputError(
            f"{file}: {selection!r} matches {join_names(columns) or 'no column'}, expected one column per {one_per}, "
            f"at least two.{hint} The columns are: {join_names(names)}."
        )
    return columns, classes


def strip_common_prefix(columns: list[str]) -> list[str]:
    """Remove the common prefix of column names if it ends in _ . - or a space."""
    prefix = re.sub(r"\d+$", "", os.path.commonprefix(columns))  # noqa: RUF071 - names, not paths
    stripped = [name[len(prefix) :] for name in columns]
    return stripped if all(stripped) and re.search(r"[_.\- ]$", prefix) else columns


def order_classes(
    classes: Sequence[Any] | None, names: list[str], columns: list[str], file: str
) -> tuple[tuple[str, ...], list[str]]:
    """Return the class names in order, and the columns in the same order.

    Columns, whose ``names`` are derived from them, are matched to the ``classes`` of the caller by name. If no name
    matches, or the columns are numbered 0, 1, ..., the columns are taken in their own order. It is an error if only
    some names match, or match only without regard to case; if numbered columns are not in numeric order; or if names
    are in alphabetical order and ``classes`` is ``None``.
    """
    ordered = class_names(names if classes is None else classes, len(columns))
    column_of = {canonical_label(name): column for name, column in zip(names, columns, strict=True)}
    if classes is not None and set(column_of) == set(ordered):
        return ordered, [column_of[name] for name in ordered]
    check_column_names([*column_of], None if classes is None else ordered, file)
    if classes is None:
        _check_not_alphabetical([*column_of], file)
    elif {name.casefold() for name in set(column_of) - set(ordered)} & {name.casefold() for name in ordered}:
        raise InputError(
            f"{file}: the class names of the columns ({', '.join(column_of)}) and classes= (--classes) "
            f"({', '.join(ordered)}) differ only in upper and lower case. Write them as in the columns."
        )
    return ordered, columns


def _check_not_alphabetical(names: list[str], file: str) -> None:
    """Raise for three or more names in alphabetical order, which is rarely the order of the classes."""
    numbers = [int(re.findall(r"\d+", name)[-1]) for name in names if re.search(r"\d", name)]
    # Numbered names are in order: grade 1, grade 2, but not grade 1, grade 10, grade 2.
    numbered = len(numbers) == len(names) and numbers == sorted(numbers)
    if len(names) > 2 and names == sorted(names) and not numbered:
        raise InputError(
            f"{file}: the classes are in alphabetical order ({', '.join(names)}), which may not be their order. Give "
            f"the order, lowest first: classes= (--classes {','.join(names)} if this is it)."
        )


def check_column_names(names: list[str], classes: tuple[str, ...] | None, source: str) -> None:
    """Raise if columns would be taken in their own order although their names contradict it.

    This is the case if some names are classes and others are not, or if numbers are not in numeric order.
    """
    numbers = [int(name) for name in names if re.fullmatch(r"-?[0-9]+", name)]
    if numbers == list(range(len(names))):
        return
    if len(numbers) == len(names) and numbers != sorted(numbers):
        raise InputError(
            f"{source}: the classes {', '.join(names)} are not in numeric order. Give the order: classes= "
            f"(--classes {','.join(map(str, sorted(numbers)))})."
        )
    matching = [name for name in names if classes is not None and name in classes]
    if matching:
        verb = "matches a class" if len(matching) == 1 else "match classes"
        raise InputError(
            f"{source}: of the column names {', '.join(names)} only {', '.join(matching)} {verb} "
            f"({', '.join(classes or ())}). Name all classes as in the columns, or none."
        )


def missing_column_message(column: str, names: list[str], file: str, role: str) -> str:
    """Return the error message for a column that does not exist."""
    close = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{file}: there is no column {column!r} ({role}).{hint} The columns are: {join_names(names)}."


def join_names(names: list[str]) -> str:
    """Join column names for a message, at most thirty."""
    shown = ", ".join(names[:MAX_NAMES_SHOWN])
    return shown + (f", and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else "")
