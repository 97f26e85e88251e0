"""Names of ordered classes, and how labels are matched to them."""

import difflib
import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import IntArray, as_array

BY_VALUE = "labels matched to class names by value"
POSITIONS = "integer labels taken as positions 0, 1, ... of the class names"


@dataclass(frozen=True)
class Coded:
    """Labels of a file: the different ones, and which of them each row has."""

    values: list[Any]
    index: npt.NDArray[np.intp]


def class_names(classes: Sequence[Any] | None, num_classes: int) -> tuple[str, ...]:
    """The names of the classes in their order, as text; "0".."C-1" if none are given.

    Raises:
        InputError: if there are not C different names.

    Example:
        >>> class_names(None, 3), class_names([1, 2.0], 2)
        (('0', '1', '2'), ('1', '2'))
    """
    if classes is None:
        return tuple(str(k) for k in range(num_classes))
    if isinstance(classes, str):
        raise InputError(f"classes: expected a list of names, got the text {classes!r}.")
    names = tuple(canonical(name) for name in classes)
    if len(names) != num_classes:
        raise InputError(
            f"classes: {len(names)} names ({', '.join(names)}) for {num_classes} columns of predictions; "
            "name each class once, lowest first."
        )
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"classes: names must be different and not empty, got {', '.join(names)}.")
    return names


def canonical(value: Any) -> str:
    """One text for a label however it was written: 2, 2.0 and "2.0" are "2"; names are stripped.

    Example:
        >>> canonical(2.0), canonical(" mild "), canonical("007")
        ('2', 'mild', '7')
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    text = str(value).strip()
    if "_" in text:  # Python reads 4_6 as 46; here it is a name
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if math.isfinite(number) and number == int(number) and abs(number) < 2**53:
        return str(int(number))
    return text


def label_codes(
    labels: Any, classes: tuple[str, ...], *, given: bool, rows: int | None = None, first_row: int = 0, name: str = "y"
) -> tuple[IntArray, str]:
    """The number of each label's class, and how labels were matched.

    Labels are matched to the names by value. Integers that are no names are taken as positions
    0..C-1 only where the caller has given the names, so that the order is not guessed.

    Args:
        labels: names or integers, one per row.
        classes: the names, in order.
        given: whether the caller has named the classes.
        rows: how many labels there must be.
        first_row: the number of the first row in messages.
        name: what the labels are called in messages.

    Raises:
        InputError: if a label is missing or is no class; the text names the row.

    Example:
        >>> codes, how = label_codes(["mild", "none"], ("none", "mild"), given=True)
        >>> codes.tolist(), how
        ([1, 0], 'labels matched to class names by value')
    """
    if isinstance(labels, Coded):
        values, index = labels.values, labels.index
        return _codes(values, index, classes, given=given, first_row=first_row, name=name)
    array = as_array(labels, name)
    if array.dtype.kind == "b":
        raise InputError(f"{name}: expected class names or integers, got booleans.")
    if array.ndim != 1:
        raise InputError(f"{name}: expected one label per row, shape (n,); got shape {array.shape}.")
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: {len(array)} labels for {rows} rows; there must be one per row.")
    values, index = _distinct(array)
    return _codes(values, index, classes, given=given, first_row=first_row, name=name)


def _codes(
    values: list[Any], index: npt.NDArray[np.intp], classes: tuple[str, ...], *, given: bool, first_row: int, name: str
) -> tuple[IntArray, str]:
    """`label_codes` from the different labels and which of them each row has."""
    if any(isinstance(value, bool) for value in values):
        raise InputError(f"{name}: expected class names or integers, got booleans.")
    texts = [canonical(value) for value in values]
    null = next((k for k, value in enumerate(values) if is_null(value)), None)
    if null is not None:  # before names are matched: a class may be called None
        raise InputError(_no_label(name, int(np.flatnonzero(index == null)[0]) + first_row))
    number = {class_name: k for k, class_name in enumerate(classes)}
    if all(text in number for text in texts):
        codes = np.array([number[text] for text in texts], dtype=np.int64)
        return codes[index], BY_VALUE
    positions = {str(k): k for k in range(len(classes))}
    named = not any(_is_number(class_name) for class_name in classes)
    if given and named and all(_is_number(text) for text in texts):
        number, how = positions, POSITIONS
    else:
        how = ""
    wrong = next((i for i, text in enumerate(texts) if text not in number), None)
    if wrong is None:
        codes = np.array([number[text] for text in texts], dtype=np.int64)
        return codes[index], how
    row = int(np.flatnonzero(index == wrong)[0])
    if is_missing(values[wrong]):
        raise InputError(_no_label(name, row + first_row))
    known = ", ".join(number) if len(number) <= 12 else f"{len(number)} names"
    one_based = texts[wrong] == str(len(classes)) and (how or classes[0] == "0")
    strange = [k for k, text in enumerate(texts) if text not in number]
    if one_based:
        hint = "Labels that start at 1 need `y - 1`, or classes= (--classes 1,2,3)."
    elif len(strange) < len(texts):  # the others are classes, so these are slips or grades that no column stands for
        lower = {class_name.lower(): class_name for class_name in number}
        near = difflib.get_close_matches(texts[wrong].lower(), lower, n=1)
        hint = f"Did you mean {lower[near[0]]!r}? " if near else ""
        rows = int(np.isin(index, strange).sum())
        hint += f"Mend it, or leave such rows out ({rows:,} of {len(index):,} have a label that is no class)."
    else:
        hint = "Name the classes in their order with classes= (--classes low,mid,high)."
    raise InputError(
        f"{name}: row {row + first_row} has label {texts[wrong]!r}, which is none of the classes ({known}). {hint}"
    )


def _no_label(name: str, row: int) -> str:
    return f"{name}: row {row} has no label. Fill it in or drop the row; for new cases leave the labels out altogether."


def _distinct(array: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    if array.dtype == object:  # mixed entries cannot be sorted
        seen: dict[Any, int] = {}
        index = np.array([seen.setdefault(None if is_null(v) else v, len(seen)) for v in array.tolist()], dtype=np.intp)
        return list(seen), index
    values, inverse = np.unique(array, return_inverse=True)
    return values.tolist(), inverse


def need_position_zero(lowest: int, name: str) -> None:
    """Refuse integer labels taken as positions among which 0 never occurs: they may start at 1.

    Raises:
        InputError: if the lowest is not 0.
    """
    if lowest != 0:
        raise InputError(
            f"{name}: integer labels are taken as positions 0, 1, ... of the named classes, but none is 0, "
            "so they may start at 1. Write the class names as labels, or name the classes by the labels."
        )


def need_order(estimator: Any) -> None:
    """Refuse a fitted classifier whose classes are names in the order of the alphabet, unless it was told their order.

    Args:
        estimator: of scikit-learn's kind; a pipeline or a search is asked for what it holds.

    Raises:
        InputError: if the order of its classes is only the alphabet's.
    """
    inner = getattr(estimator, "best_estimator_", estimator)
    inner = inner.steps[-1][1] if hasattr(inner, "steps") else inner
    names = [str(name) for name in estimator.classes_]
    if getattr(inner, "knows_order", False) or all(map(_is_number, names)) or names != sorted(names):
        return
    raise InputError(
        f"classes: {type(inner).__name__} has {', '.join(names)} in the order of the alphabet, which says nothing "
        "about theirs. Number the labels, or wrap it: CalibratedOrdinal(estimator, classes=[lowest, ..., highest])."
    )


def is_null(value: Any) -> bool:
    """Whether a cell is no value at all: None, NaN, or what pandas writes for them.

    Example:
        >>> is_null(float("nan")), is_null("nan")
        (True, False)
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def is_missing(value: Any) -> bool:
    """Whether a cell stands for no entry: no value, nothing but blanks, or the text that programs write for it.

    Example:
        >>> is_missing(" "), is_missing("NaN"), is_missing("NA")
        (True, True, False)
    """
    return is_null(value) or str(value).strip() in {"", "nan", "NaN", "<NA>", "null"}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", text) is not None


def check_no_gaps(y: Any, classes: Sequence[Any] | None = None) -> None:
    """Refuse labels that are missing; a text that is the name of a class is not.

    Raises:
        InputError: which names the row.

    Example:
        >>> check_no_gaps(["low", None])
        Traceback (most recent call last):
        orcu.errors.InputError: y: row 1 has no label (NaN); drop or repair such rows first.
    """
    cells = np.asarray(y, dtype=object)
    if cells.ndim == 1:
        names = set() if classes is None else {canonical(name) for name in classes}
        gaps = (k for k, v in enumerate(cells.tolist()) if is_null(v) or (is_missing(v) and canonical(v) not in names))
        row = next(gaps, None)
        if row is not None:
            raise InputError(f"y: row {row} has no label (NaN); drop or repair such rows first.")
