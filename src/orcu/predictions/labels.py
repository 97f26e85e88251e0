"""Names of ordered classes, and the conversion of labels to class indices; errors are `InputError` and name the row."""

import difflib
import math
import numbers
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import IntArray, as_array
from orcu.inputs import is_missing as is_missing
from orcu.inputs import is_null as is_null

_SURROGATE = re.compile("[\ud800-\udfff]")
BY_VALUE = "labels matched to class names by value"
POSITIONS = "integer labels taken as positions 0, 1, ... of the class names"


@dataclass(frozen=True)
class EncodedLabels:
    """Labels of a file as distinct values, and the index of each row's value."""

    values: list[Any]
    index: npt.NDArray[np.intp]


def class_names(classes: Sequence[Any] | None, num_classes: int) -> tuple[str, ...]:
    """Return the class names in order as text; "0".."C-1" by default."""
    if classes is None:
        return tuple(str(k) for k in range(num_classes))
    if isinstance(classes, str):
        raise InputError(f"classes: expected a list of names, got the text {classes!r}.")
    names = tuple(canonical_label(name) for name in classes)
    if len(names) != num_classes:
        raise InputError(
            f"classes: {len(names)} names ({', '.join(names)}) for {num_classes} columns of predictions. "
            "Name each class once, lowest first."
        )
    broken = next((name for name in names if is_broken_text(name)), None)
    if broken is not None:
        raise InputError(f"classes: the name {broken!r} is not valid Unicode; correct its encoding.")
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"classes: expected different, non-empty names, got {', '.join(names)}.")
    return names


def canonical_label(value: Any) -> str:
    """Return one text for all spellings of a label: 2, 2.0 and "2.0" are "2"; names are stripped.

    Letters with accents have one form (NFC), however they were typed.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    text = unicodedata.normalize("NFC", str(value).strip())
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
    labels: Any,
    classes: tuple[str, ...],
    *,
    explicit_order: bool,
    rows: int | None = None,
    first_row: int = 0,
    name: str = "y",
) -> tuple[IntArray, str]:
    """Convert labels (names, integers or `EncodedLabels`) to class indices 0..C-1.

    Labels are matched to the class names by value. Integers that are not names are taken as positions 0..C-1, but only
    if the caller has given the class names in order (``explicit_order``). Also returns a description of how labels were
    matched: `BY_VALUE` or `POSITIONS`.
    """
    encoded = labels if isinstance(labels, EncodedLabels) else _encode(labels, rows, name)
    values, index = encoded.values, encoded.index
    if any(isinstance(value, bool) for value in values):
        raise InputError(f"{name}: expected class names or integers, got booleans.")
    null = next((k for k, value in enumerate(values) if is_null(value)), None)
    if null is not None:  # before names are matched, since a class may be called None
        raise InputError(_missing_label_message(name, index == null, first_row))
    texts = [canonical_label(value) for value in values]
    code, mapping = {class_name: k for k, class_name in enumerate(classes)}, BY_VALUE
    by_value = all(text in code for text in texts)
    if not by_value and explicit_order and not any(map(_is_integer, classes)) and all(map(_is_integer, texts)):
        code, mapping = {str(k): k for k in range(len(classes))}, POSITIONS
    unknown = [k for k, text in enumerate(texts) if text not in code]
    if not unknown:
        return np.array([code[text] for text in texts], dtype=np.int64)[index], mapping
    row, label = int(np.argmax(index == unknown[0])), texts[unknown[0]]
    if is_missing(values[unknown[0]]):
        missing = [k for k, value in enumerate(values) if is_missing(value)]
        raise InputError(_missing_label_message(name, np.isin(index, missing), first_row))
    if label == str(len(classes)) and (mapping == POSITIONS or classes[0] == "0"):
        numbers = ",".join(map(str, range(1, len(classes) + 1)))
        hint = f"Labels that start at 1 need `y - 1`, or classes= (--classes {numbers})."
    elif len(unknown) < len(texts):  # other labels are classes, so this is a typing error or an extra label
        by_lower = {class_name.lower(): class_name for class_name in code}
        close = difflib.get_close_matches(label.lower(), by_lower, n=1)
        hint = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
        count = int(np.isin(index, unknown).sum())
        hint += f"Correct the labels, or drop these rows ({count:,} of {len(index):,} have an unknown label)."
    elif same := [class_name for class_name in code if class_name.casefold() == label.casefold()]:
        hint = f"It differs from the class {same[0]!r} only in upper and lower case; write both the same way."
    else:
        hint = "Name the classes in order with classes= (--classes low,mid,high)."
    shown = ", ".join(code) if len(code) <= 12 else f"{len(code)} names"
    raise InputError(
        f"{name}: row {row + first_row} has label {label!r}, which is not one of the classes ({shown}). {hint}"
    )


def _missing_label_message(name: str, missing: npt.NDArray[np.bool_], first_row: int) -> str:
    row, count = int(np.argmax(missing)) + first_row, f"{int(missing.sum()):,} of {len(missing):,} rows"
    return (
        f"{name}: row {row} has no label ({count} have none). "
        'Leave them out with unlabelled="skip" (--unlabelled skip), or pass no labels at all for new cases.'
    )


def _encode(labels: Any, rows: int | None, name: str) -> EncodedLabels:
    array = as_array(labels, name)
    if array.ndim != 1:
        raise InputError(f"{name}: expected one label per row, shape (n,); got shape {array.shape}.")
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: {len(array)} labels for {rows} rows; expected one label per row.")
    if array.dtype == object:  # mixed types cannot be sorted
        code: dict[Any, int] = {}
        index = np.array([code.setdefault(None if is_null(v) else v, len(code)) for v in array.tolist()], dtype=np.intp)
        return EncodedLabels(list(code), index)
    values, inverse = np.unique(array, return_inverse=True)
    return EncodedLabels(values.tolist(), inverse)


def check_zero_based(lowest: int, name: str) -> None:
    """Raise if the lowest of the labels that are taken as positions is not 0: they may start at 1."""
    if lowest != 0:
        raise InputError(
            f"{name}: integer labels are taken as positions 0, 1, ... of the class names, but none is 0, so they may "
            "start at 1. Use the class names as labels, or pass the labels as class names."
        )


def check_class_order(estimator: Any) -> None:
    """Raise if the classes of a fitted classifier, pipeline or search are names in alphabetical order by default."""
    inner = getattr(estimator, "best_estimator_", estimator)
    inner = inner.steps[-1][1] if hasattr(inner, "steps") else inner
    names = [str(name) for name in estimator.classes_]
    if getattr(inner, "knows_order", False) or all(map(_is_integer, names)) or names != sorted(names):
        return
    raise InputError(
        f"classes: the classes of {type(inner).__name__} are in alphabetical order ({', '.join(names)}), which may not "
        "be their order. Use integer labels, or CalibratedOrdinal(estimator, classes=[lowest, ..., highest])."
    )


def is_broken_text(value: Any) -> bool:
    """Return whether a text has half of a surrogate pair, which no file can hold: it was decoded wrongly."""
    return isinstance(value, str) and not value.isascii() and _SURROGATE.search(value) is not None


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", text) is not None


def check_no_missing(values: Any, classes: Sequence[Any] | None = None, *, name: str = "y") -> None:
    """Raise if a value is missing; a text such as "nan" is not missing if it is the name of a class."""
    cells = np.asarray(values, dtype=object)
    if cells.ndim != 1:
        return
    names = set() if classes is None else {canonical_label(class_name) for class_name in classes}
    for row, value in enumerate(cells.tolist()):
        if is_null(value) or (is_missing(value) and canonical_label(value) not in names):
            raise InputError(f"{name}: row {row} is missing ({value!r}). Drop or repair such rows.")
