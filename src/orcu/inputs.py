"""The door for user data: arrays, tensors, frames and lists come in, checked arrays go out.

What goes out is read-only: where the type already fits, it is the caller's own memory.

Everything that judges predictions reads them through these functions, so every part of orcu
answers bad input with the same words: which argument, which row, what was expected, what to do.
"""

import math
import numbers
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[Any]

SUM_TOLERANCE = 1e-3
LARGEST_TOLERANCE = 5e-2  # however few digits are printed: a row that misses 1 by more is no distribution
_FLOAT_NOISE = 1e-6  # sums this close to 1 are rounding of the floating-point type, and stay
MIN_WEIGHT, MAX_WEIGHT = 2.0**-40, 2.0**40  # between them exact sums are exact; see orcu.evaluation.tally


def as_probs(probs: Any, *, name: str = "probs") -> FloatArray:
    """Class probabilities as a float64 array of shape (n, C).

    Args:
        probs: anything that numpy, torch, pandas or polars can turn into a 2-D array.
        name: what the argument is called in messages.

    Raises:
        InputError: if the shape is not (n, C) with n >= 1 and C >= 2, if a value is not finite or
            outside [0, 1], or if a row misses 1 by more than 1e-3 (by more than the rounding of C
            values, for half types). Rows are not renormalised.

    Example:
        >>> as_probs([[0.2, 0.8]])
        array([[0.2, 0.8]])
    """
    check_numbered_columns(probs, name)
    array = as_matrix(probs, name=name)
    hint = "If these are logits, turn them into probabilities with softmax first; percentages are divided by 100."
    sums_of_distributions(array, rounding=half_unit(probs), name=name, hint=hint)
    return read_only(array)


def normalised(
    probs: FloatArray,
    *,
    rounding: float,
    name: str = "probs",
    first_row: int = 0,
    columns: Sequence[Any] | None = None,
    hint: str = "If these are logits, say logits= (--logits); if they sum to 100, say --percent or divide by 100.",
) -> tuple[FloatArray, FloatArray]:
    """Probability rows that sum to 1, and by how much those missed it that had to be normalised.

    A row may miss 1 by the rounding of its C values, at most by 5e-2, and by 1e-3 in any case.

    Args:
        probs: finite values, shape (n, C).
        rounding: how far each value may be off: half a unit of its last printed digit or bit.
        name: what the values are called in messages.
        first_row: the number of the first row in messages.
        columns: what the columns are called in messages, if not by number.
        hint: what to do about values that are no probabilities.

    Raises:
        InputError: if a value is outside [0, 1] or a row misses 1 by more.

    Example:
        >>> rows, missed = normalised(np.array([[0.33, 0.33, 0.33]]), rounding=0.005)
        >>> rows.round(4).tolist(), missed.round(4).tolist()
        ([[0.3333, 0.3333, 0.3333]], [0.01])
    """
    sums = sums_of_distributions(probs, rounding=rounding, name=name, hint=hint, first_row=first_row, columns=columns)
    miss = np.abs(sums - 1)
    off = miss > _FLOAT_NOISE
    if not off.any():
        return probs, miss[off]
    moved = probs / sums[:, None]
    return moved if off.all() else np.where(off[:, None], moved, probs), miss[off]


def sums_of_distributions(
    probs: FloatArray,
    *,
    rounding: float,
    name: str,
    hint: str,
    first_row: int = 0,
    columns: Sequence[Any] | None = None,
) -> FloatArray:
    """The sum of each row, shape (n,), if the rows are distributions but for the rounding of their values.

    Raises:
        InputError: if a value is outside [0, 1], or a row misses 1 by more than C times the rounding and by more than
            1e-3, or by more than 5e-2; the text ends in the hint.
    """
    if probs.min() < 0 or probs.max() > 1:
        outside = (probs < 0) | (probs > 1)
        row, column = (int(i) for i in np.argwhere(outside)[0])
        place = column if columns is None else repr(columns[column])
        value, shown = float(probs[row, column]), f"{probs[row, column]:.6g}"
        if 0 <= float(shown) <= 1:  # too near to be told apart in six digits
            shown = repr(value)
        raise InputError(
            f"{name}: row {row + first_row} has {shown} in column {place}, expected values in [0, 1]. {hint}"
        )
    sums: FloatArray = probs @ np.ones(probs.shape[1])
    tolerance = min(max(SUM_TOLERANCE, probs.shape[1] * rounding), LARGEST_TOLERANCE)
    off = np.abs(sums - 1) > tolerance * (1 + 1e-9)
    if off.any():
        row = int(np.argmax(off))
        over = "" if columns is None else f" over {', '.join(map(str, columns))}"
        raise InputError(
            f"{name}: row {row + first_row} sums to {sums[row]:.6g}, expected 1 ± {tolerance:g}{over}. {hint}"
        )
    return sums


def as_logits(logits: Any, *, name: str = "logits") -> FloatArray:
    """Logits as a finite float64 array of shape (n, C).

    Raises:
        InputError: if the shape is not (n, C) with n >= 1 and C >= 2, or a value is not finite.

    Example:
        >>> as_logits([[0, 1, -2]])
        array([[ 0.,  1., -2.]])
    """
    check_numbered_columns(logits, name)
    return read_only(as_matrix(logits, name=name))


def refuse_distributions(logits: FloatArray, *, name: str, hint: str) -> None:
    """Refuse logits of which every row is a distribution: a softmax of probabilities is a silent fault.

    Args:
        logits: finite values, shape (n, C).
        name: what the values are called in messages.
        hint: how to hand over probabilities.

    Raises:
        InputError: if all rows are non-negative and sum to 1; rows of a network's logits never all do.

    Example:
        >>> refuse_distributions(np.array([[0.3, 0.7], [0.9, 0.1]]), name="logits", hint="Say probs=.")
        Traceback (most recent call last):
        orcu.errors.InputError: logits: every row is a distribution, but logits are expected. Say probs=.
    """
    if logits.min() >= 0 and (np.abs(logits.sum(axis=1) - 1) <= SUM_TOLERANCE).all():
        raise InputError(f"{name}: every row is a distribution, but logits are expected. {hint}")


def check_numbered_columns(values: Any, name: str) -> None:
    """Refuse a frame whose columns are numbered but do not stand in the order of their numbers.

    Raises:
        InputError: which names the order.

    Example:
        >>> import pandas as pd
        >>> check_numbered_columns(pd.DataFrame([[0.3, 0.7]], columns=["p_1", "p_0"]), "probs")
        Traceback (most recent call last):
        orcu.errors.InputError: probs: the columns stand in the order p_1, p_0, which is not that of their numbers; \
put them in order, or pass an array if their order is right.
    """
    texts = [str(column) for column in getattr(values, "columns", [])]
    parts = [re.fullmatch(r"(.*?)([0-9]+)", text) for text in texts]
    numbered = [part for part in parts if part is not None]
    if len(numbered) < 2 or len(numbered) < len(texts) or len({part[1] for part in numbered}) > 1:
        return
    numbers = [int(part[2]) for part in numbered]
    if numbers != sorted(numbers):
        raise InputError(
            f"{name}: the columns stand in the order {', '.join(texts)}, which is not that of their numbers; put them "
            "in order, or pass an array if their order is right."
        )


def as_labels(y: Any, num_classes: int | None, *, rows: int | None = None, name: str = "y") -> IntArray:
    """Labels as an int64 array of shape (n,) with values 0..C-1.

    Args:
        y: integer labels.
        num_classes: C, or ``None`` if any label from 0 on will do.
        rows: how many there must be, or ``None``.
        name: what the argument is called in messages.

    Raises:
        InputError: if y is not one-dimensional, empty, of another length, not of an integer type,
            or has a label outside 0..C-1.

    Example:
        >>> as_labels([0, 2, 1], num_classes=3)
        array([0, 2, 1])
    """
    array = _as_numbers(y, name)
    if array.ndim != 1:
        raise InputError(f"{name}: expected one label per row, shape (n,); got shape {array.shape}.")
    if array.size == 0:
        raise InputError(f"{name}: empty; at least one label is needed.")
    if not np.issubdtype(array.dtype, np.integer):
        expected = "from 0 on" if num_classes is None else f"0..{num_classes - 1}"
        raise InputError(
            f"{name}: expected integer labels {expected}, got {array.dtype} "
            f"(row 0 is {array[0]!r}). Number the classes in their order, starting with 0."
        )
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: {len(array)} labels for {rows} rows; there must be one label per row.")
    array = array.astype(np.int64, copy=False)
    if array.min() < 0 or (num_classes is not None and array.max() >= num_classes):
        row = int(np.argmax((array < 0) | (num_classes is not None and array >= num_classes)))
        if num_classes is None:
            raise InputError(f"{name}: row {row} has label {array[row]}, expected 0 or more.")
        raise InputError(label_out_of_range(name, row, int(array[row]), num_classes))
    return read_only(array)


def _one_per_row(values: Any, rows: int, name: str, what: str) -> FloatArray:
    """Real numbers of shape (n,) as float64."""
    array = _as_numbers(values, name)
    if array.shape != (rows,):
        raise InputError(f"{name}: expected one {what} per row, shape ({rows},); got {array.shape}.")
    if not (np.issubdtype(array.dtype, np.number) and np.isrealobj(array)):
        raise InputError(f"{name}: expected real numbers, got {array.dtype}.")
    return array.astype(np.float64, copy=False)


def as_doubt(doubt: Any, *, rows: int, name: str = "doubt", first_row: int = 0) -> FloatArray:
    """Scores by which rows are referred to a human, the highest first, as a float64 array of shape (n,).

    Args:
        doubt: one finite number per row.
        rows: how many there must be.
        name: what the argument is called in messages.
        first_row: the number of the first row in messages.

    Raises:
        InputError: if one is no number or not finite, or the length is wrong.

    Example:
        >>> as_doubt([0.2, -1], rows=2)
        array([ 0.2, -1. ])
    """
    array = _one_per_row(doubt, rows, name, "score")
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name}: row {row + first_row} has {array[row]:g}; a score is a finite number.")
    return read_only(array)


def as_weight(weight: Any, *, rows: int, name: str = "weight", first_row: int = 0) -> FloatArray:
    """Weights as a float64 array of shape (n,): 0 or from 9.1e-13 to 1.1e12, not all 0.

    Args:
        weight: one number per row.
        rows: how many there must be.
        name: what the argument is called in messages.
        first_row: the number of the first row in messages.

    Raises:
        InputError: if a weight is negative, too small, too large or not finite, all are zero, or the length is wrong.

    Example:
        >>> as_weight([1, 2], rows=2)
        array([1., 2.])
    """
    array = _one_per_row(weight, rows, name, "weight")
    bad = ~((array == 0) | ((array >= MIN_WEIGHT) & (array < MAX_WEIGHT)))
    if bad.any():
        row = int(np.argmax(bad))
        if not array[row] > 0:
            raise InputError(f"{name}: row {row + first_row} has {array[row]:g}; a weight is 0 or more.")
        raise InputError(
            f"{name}: row {row + first_row} has {array[row]:g}, expected 0, or a number from {MIN_WEIGHT:.2g} to "
            f"{MAX_WEIGHT:.2g}. A factor of all weights changes no result: multiply them by one that brings them there."
        )
    if not array.any():
        raise InputError(f"{name}: all weights are 0; at least one row must count.")
    return read_only(array)


def as_codes(entries: Any, *, rows: int, name: str) -> IntArray:
    """A number 0..S-1 for each different entry, in the order in which they first stand, shape (n,).

    Args:
        entries: a text or a number per row.
        rows: how many there must be.
        name: what the argument is called in messages.

    Raises:
        InputError: if the length is wrong or an entry is missing.

    Example:
        >>> as_codes(["q7", "q2", "q7"], rows=3, name="subject")
        array([0, 1, 0])
    """
    array = as_array(entries, name)
    if array.shape != (rows,):
        raise InputError(f"{name}: expected one entry per row, shape ({rows},); got {array.shape}.")
    known: dict[Any, int] = {}
    codes = np.empty(rows, dtype=np.int64)
    for row, entry in enumerate(array.tolist()):
        if entry is None or entry != entry:
            raise InputError(f"{name}: row {row} is empty; every row needs an entry there.")
        codes[row] = known.setdefault(entry, len(known))
    return codes


def as_texts(entries: Any, *, rows: int, name: str) -> ObjectArray:
    """The text of each entry, shape (n,): the number 2.0 is "2", blanks around a text are gone.

    Args:
        entries: a text or a number per row.
        rows: how many there must be.
        name: what the argument is called in messages.

    Raises:
        InputError: if the length is wrong or an entry is missing.

    Example:
        >>> as_texts([2.0, 3.0], rows=2, name="group").tolist()
        ['2', '3']
    """
    codes = as_codes(entries, rows=rows, name=name)
    first = np.unique(codes, return_index=True)[1]
    values = as_array(entries, name).tolist()
    return np.array([entry_text(values[row]) for row in first], dtype=object)[codes]


def entry_text(value: Any) -> str:
    """The text of a group, subject, split or fold: as it is written, but for blanks around it; 2.0 is "2"."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def label_out_of_range(name: str, row: int | tuple[int, ...], label: int, num_classes: int) -> str:
    """The words for a label that is no class; losses and metrics share them."""
    hint = " Labels that start at 1 need `y - 1`." if label == num_classes else " Check num_classes."
    expected = f"expected 0..{num_classes - 1} for {num_classes} classes"
    return f"{name}: row {row} has label {label}, {expected}.{hint}"


def as_count(value: Any, *, name: str, minimum: int, maximum: int | None = None) -> int:
    """A whole number that is at least ``minimum``, and at most ``maximum`` if there is one.

    Raises:
        InputError: if it is anything else, booleans and floats included.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise InputError(f"{name}: expected a whole number of at least {minimum}, got {value!r}.")
    if maximum is not None and int(value) > maximum:
        raise InputError(f"{name}: expected a whole number from {minimum} to {maximum:,}, got {value!r}.")
    return int(value)


def as_bins(value: Any) -> int:
    """A number of bins, from 1 to 10,000: more would hold hardly a row each, and take all memory.

    Raises:
        InputError: if it is anything else.
    """
    return as_count(value, name="bins", minimum=1, maximum=10_000)


def as_positive(value: Any, *, name: str) -> float:
    """A finite number above zero.

    Raises:
        InputError: if it is anything else.
    """
    number = float(value) if isinstance(value, numbers.Real) and value is not True else math.nan
    if not 0 < number < math.inf:
        raise InputError(f"{name}: expected a finite number above 0, got {value!r}.")
    return number


def as_fraction(value: Any, *, name: str) -> float:
    """A number in [0, 1).

    Raises:
        InputError: if it is anything else.
    """
    number = float(value) if isinstance(value, numbers.Real) and value is not True else math.nan
    if not 0 <= number < 1:
        raise InputError(f"{name}: expected a number in [0, 1), got {value!r}.")
    return number


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_matrix(values: Any, *, name: str, first_row: int = 0, columns: Sequence[Any] | None = None) -> FloatArray:
    """Finite float64 values of shape (n, C), n >= 1 and C >= 2.

    Raises:
        InputError: if the shape, the type or a value is another; rows count from ``first_row``, and
            columns have names where they are given.
    """
    array = _as_numbers(values, name)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise InputError(f"{name}: expected shape (n, C) with at least one row and two classes, got {array.shape}.")
    if not (np.issubdtype(array.dtype, np.number) and np.isrealobj(array)):
        raise InputError(f"{name}: expected real numbers, got {array.dtype}.")
    array = array.astype(np.float64, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        named = column if columns is None else repr(columns[column])
        raise InputError(
            f"{name}: row {row + first_row} has {array[row, column]} in column {named}; every value must be "
            "finite. Drop or repair such rows first."
        )
    return array


def is_dense(values: Any) -> bool:
    """Whether these are outputs of shape (n, C, d1, ...), not rows."""
    return getattr(values, "ndim", 0) > 2


def dense_outputs(
    values: Any, columns: Mapping[str, Any], *, mask: Any = None, name: str
) -> Iterator[tuple[npt.NDArray[Any], dict[str, Any]]]:
    """Outputs of shape (n, C, d1, ...) one after the other, each as the rows of its positions that count.

    Args:
        values: shape (n, C, d1, ...), or rows, (n, C), which are then a single output.
        columns: what else each position has, by name: arrays of shape (n, d1, ...), or ``None``; those of "group" and
            "subject" may be of shape (n,), one for each output.
        mask: booleans of shape (n, d1, ...), true where a position counts; ``None`` if all do.
        name: what the values are called in messages.

    Returns:
        Of each output that has such positions the rows, shape (positions, C), and the columns, shape (positions,).

    Raises:
        InputError: if a shape or the type of the mask does not fit, or no position counts.

    Example:
        >>> logits = np.arange(12.0).reshape(1, 2, 3, 2)
        >>> mask = np.array([[[True, False], [False, False], [False, True]]])
        >>> [(rows, columns)] = dense_outputs(logits, {"y": np.ones((1, 3, 2))}, mask=mask, name="logits")
        >>> rows.tolist(), columns["y"].tolist()
        ([[0.0, 6.0], [5.0, 11.0]], [1.0, 1.0])
    """
    array = as_array(values, name)
    if array.ndim < 2 or not array.size:
        raise InputError(f"{name}: expected shape (n, C) or (n, C, d1, ...), none of them 0, got {array.shape}.")
    shape = array.shape[:1] + array.shape[2:]
    arrays = {role: None if column is None else as_array(column, role) for role, column in columns.items()}
    for role, column in arrays.items():
        if column is not None and role in ("group", "subject") and column.shape == shape[:1]:
            arrays[role] = column = np.broadcast_to(column.reshape(-1, *[1] * (len(shape) - 1)), shape)
        if column is not None and column.shape != shape:
            raise InputError(
                f"{role}: expected shape {shape}, one value for each position of {name} of shape {array.shape}; "
                f"got {column.shape}."
            )
    counts = np.ones(shape, dtype=bool) if mask is None else as_array(mask, "mask")
    if counts.dtype != np.bool_:
        raise InputError(f"mask: expected booleans, true where a position counts, got {counts.dtype}.")
    if counts.shape != shape:
        raise InputError(f"mask: expected shape {shape}, as the labels, got {counts.shape}.")
    if not counts.any():
        raise InputError("mask: no position counts; at least one must be true.")
    if array.ndim == 2:
        array, counts = array.T[None], counts[None]
        arrays = {role: None if column is None else column[None] for role, column in arrays.items()}
    for i in np.flatnonzero(counts.reshape(len(counts), -1).any(axis=1)):
        kept = counts[i].reshape(-1)
        rows = array[i].reshape(array.shape[1], -1)[:, kept].T
        yield rows, {role: None if column is None else column[i].reshape(-1)[kept] for role, column in arrays.items()}


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Whatever numpy, torch, pandas or polars hold, as an array.

    Raises:
        InputError: if rows are of unequal length.
    """
    if hasattr(values, "detach"):  # a torch tensor; numpy has no bfloat16
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise InputError(f"{name}: some entries are masked; fill them in, or drop their rows.")
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except ValueError as error:
        raise InputError(f"{name}: rows of unequal length or mixed content ({error}).") from error


def _as_numbers(values: Any, name: str) -> npt.NDArray[Any]:
    array = as_array(values, name)
    if array.dtype == object:  # a nullable or mixed column; fine if every entry is a number
        entries = array.reshape(-1).tolist()
        for position, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, numbers.Real):
                row = position // max(1, array[0].size if array.ndim > 1 else 1)
                raise InputError(f"{name}: row {row} has {entry!r}; every entry must be a number.")
        array = np.array(entries).reshape(array.shape)
    return array


def half_unit(values: Any) -> float:
    """Half a unit in the last place at 1 of the type that the values came in."""
    dtype = str(getattr(values, "dtype", "float64"))
    return 2.0**-9 if "bfloat16" in dtype else 2.0**-12 if "float16" in dtype else 0.0
