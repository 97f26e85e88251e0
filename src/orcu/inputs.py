"""Input validation: convert arrays, tensors, frames and lists to checked numpy arrays.

The returned arrays are read-only; they share memory with the input where its type already fits.

Arguments with the same meaning everywhere: ``name`` is the name of the argument in error messages, ``rows`` the
expected number of rows, ``first_row`` the number of the first row in messages, and ``columns`` the names of the columns
in messages. All functions raise `InputError`, which names the argument, the row and the expected value.
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

SUM_TOLERANCE = 1e-3  # accepted difference between the sum of a probability row and 1
MAX_SUM_TOLERANCE = 5e-2  # the same for rounded values, however few digits they have
_FLOAT_NOISE = 1e-6  # sums this close to 1 differ by floating-point rounding and are left unchanged
MIN_WEIGHT, MAX_WEIGHT = 2.0**-40, 2.0**40  # within these bounds exact sums are exact; see orcu.evaluation.tally
MAX_BINS = 10_000  # more bins would hold hardly one row each, and exhaust the memory
_PER_OUTPUT = ("subgroup", "cluster")  # columns that may have one entry per dense output instead of one per position


def as_probs(probs: Any, *, name: str = "probs") -> FloatArray:
    """Convert class probabilities to a float64 array of shape (n, C), without renormalising them.

    The sum of a row may differ from 1 by 1e-3 (half types: by the rounding of C values).
    """
    check_column_order(probs, name)
    array = as_matrix(probs, name=name)
    hint = "If these are logits, apply softmax first; divide percentages by 100."
    _checked_row_sums(array, rounding=half_ulp(probs), name=name, hint=hint)
    return read_only(array)


def normalise_probs(
    probs: FloatArray,
    *,
    rounding: float,
    name: str = "probs",
    first_row: int = 0,
    columns: Sequence[Any] | None = None,
    hint: str = "Pass logits as logits= (--logits). If rows sum to 100, use --percent or divide by 100.",
) -> tuple[FloatArray, FloatArray]:
    """Normalise probability rows whose sum differs from 1 by rounding.

    The sum of a row may differ from 1 by C times ``rounding`` (the rounding error of a value, half a unit of its last
    printed digit or bit), but by no more than 5e-2; a difference of 1e-3 is always accepted. Returns the rows, and the
    absolute differences from 1 of the rows that were normalised.
    """
    sums = _checked_row_sums(probs, rounding=rounding, name=name, hint=hint, first_row=first_row, columns=columns)
    error = np.abs(sums - 1)
    off = error > _FLOAT_NOISE
    if not off.any():
        return probs, error[off]
    scaled = probs / sums[:, None]
    return scaled if off.all() else np.where(off[:, None], scaled, probs), error[off]


def _checked_row_sums(
    probs: FloatArray,
    *,
    rounding: float,
    name: str,
    hint: str,
    first_row: int = 0,
    columns: Sequence[Any] | None = None,
) -> FloatArray:
    """Return the sum of each row, shape (n,), after checking that the rows are distributions up to rounding."""
    if probs.min() < 0 or probs.max() > 1:
        row, column = (int(i) for i in np.argwhere((probs < 0) | (probs > 1))[0])
        value = float(probs[row, column])
        shown = f"{value:.6g}"
        if 0 <= float(shown) <= 1:  # six digits hide the difference
            shown = repr(value)
        raise InputError(
            f"{name}: row {row + first_row} has {shown} in column {_column_name(column, columns)}, "
            f"expected values in [0, 1]. {hint}"
        )
    sums: FloatArray = probs @ np.ones(probs.shape[1])
    tolerance = min(max(SUM_TOLERANCE, probs.shape[1] * rounding), MAX_SUM_TOLERANCE)
    off = np.abs(sums - 1) > tolerance * (1 + 1e-9)
    if off.any():
        row = int(np.argmax(off))
        over = "" if columns is None else f" over {', '.join(map(str, columns))}"
        raise InputError(
            f"{name}: row {row + first_row} sums to {sums[row]:.6g}, expected 1 ± {tolerance:g}{over}. {hint}"
        )
    return sums


def _column_name(column: int, columns: Sequence[Any] | None) -> str:
    return str(column) if columns is None else repr(columns[column])


def as_logits(logits: Any, *, name: str = "logits") -> FloatArray:
    """Convert logits to a finite float64 array of shape (n, C) with n >= 1 and C >= 2."""
    check_column_order(logits, name)
    return read_only(as_matrix(logits, name=name))


def check_not_probs(logits: FloatArray, *, name: str, hint: str) -> None:
    """Raise if every row of logits is a probability distribution: softmax of probabilities is a silent error."""
    if logits.min() >= 0 and (np.abs(logits.sum(axis=1) - 1) <= SUM_TOLERANCE).all():
        raise InputError(f"{name}: expected logits, but every row is a probability distribution. {hint}")


def check_column_order(values: Any, name: str) -> None:
    """Raise if the columns of a frame are numbered but not in numeric order."""
    names = [str(column) for column in getattr(values, "columns", [])]
    numbered = [match for match in (re.fullmatch(r"(.*?)([0-9]+)", column) for column in names) if match is not None]
    if len(numbered) < 2 or len(numbered) < len(names) or len({match[1] for match in numbered}) > 1:
        return
    order = [int(match[2]) for match in numbered]
    if order != sorted(order):
        raise InputError(
            f"{name}: the columns {', '.join(names)} are not in numeric order. Reorder them, or pass an array if the "
            "order is right."
        )


def as_labels(y: Any, num_classes: int | None, *, rows: int | None = None, name: str = "y") -> IntArray:
    """Convert integer labels to an int64 array of shape (n,) with values 0..C-1, or from 0 on without num_classes."""
    array = as_numbers(y, name)
    if array.ndim != 1:
        raise InputError(f"{name}: expected one label per row, shape (n,); got shape {array.shape}.")
    if array.size == 0:
        raise InputError(f"{name}: empty; expected at least one label.")
    if not np.issubdtype(array.dtype, np.integer):
        expected = "from 0 on" if num_classes is None else f"0..{num_classes - 1}"
        raise InputError(
            f"{name}: expected integer labels {expected}, got {array.dtype} "
            f"(row 0 is {array[0]!r}). Encode the classes as integers in their order, starting at 0."
        )
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: {len(array)} labels for {rows} rows; expected one label per row.")
    array = array.astype(np.int64, copy=False)
    if array.min() < 0 or (num_classes is not None and array.max() >= num_classes):
        row = int(np.argmax((array < 0) | (num_classes is not None and array >= num_classes)))
        if num_classes is None:
            raise InputError(f"{name}: row {row} has label {array[row]}, expected 0 or more.")
        raise InputError(label_range_message(name, row, int(array[row]), num_classes))
    return read_only(array)


def label_range_message(name: str, row: int | tuple[int, ...], label: int, num_classes: int) -> str:
    """Return the error message for a label outside 0..C-1."""
    hint = " Labels that start at 1 need `y - 1`." if label == num_classes else " Check num_classes."
    return f"{name}: row {row} has label {label}, expected 0..{num_classes - 1} for {num_classes} classes.{hint}"


def _as_column(values: Any, rows: int, name: str, entry: str) -> FloatArray:
    """Convert real numbers to a float64 array of shape (n,)."""
    array = as_numbers(values, name)
    if array.shape != (rows,):
        raise InputError(f"{name}: expected one {entry} per row, shape ({rows},); got {array.shape}.")
    if not (np.issubdtype(array.dtype, np.number) and np.isrealobj(array)):
        raise InputError(f"{name}: expected real numbers, got {array.dtype}.")
    return array.astype(np.float64, copy=False)


def as_uncertainty(uncertainty: Any, *, rows: int, name: str = "uncertainty", first_row: int = 0) -> FloatArray:
    """Convert uncertainty scores to a finite float64 array of shape (n,); the highest are referred to a human first."""
    array = _as_column(uncertainty, rows, name, "score")
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name}: row {row + first_row} has {array[row]:g}, expected a finite number.")
    return read_only(array)


def as_sample_weight(
    sample_weight: Any, *, rows: int, name: str = "sample_weight", first_row: int = 0, is_part: bool = False
) -> FloatArray:
    """Convert sample weights to a float64 array of shape (n,): each 0 or from 9.1e-13 to 1.1e12, not all 0.

    The weights of a part of the rows (``is_part``) may all be 0.
    """
    array = _as_column(sample_weight, rows, name, "weight")
    bad = ~((array == 0) | ((array >= MIN_WEIGHT) & (array < MAX_WEIGHT)))
    if bad.any():
        row = int(np.argmax(bad))
        if not array[row] > 0:
            raise InputError(f"{name}: row {row + first_row} has {array[row]:g}, expected a weight of 0 or more.")
        raise InputError(
            f"{name}: row {row + first_row} has {array[row]:g}, expected 0, or a number from {MIN_WEIGHT:.2g} to "
            f"{MAX_WEIGHT:.2g}. Rescale the weights: a common factor changes no result."
        )
    if not is_part and not array.any():
        raise InputError(zero_weights_message(name))
    return read_only(array)


def zero_weights_message(name: str) -> str:
    """Return the error message for sample weights that are all 0."""
    return f"{name}: all weights are 0; expected at least one positive weight."


def as_codes(values: Any, *, rows: int, name: str) -> IntArray:
    """Encode texts or numbers as integers 0..S-1 in order of first appearance, shape (n,)."""
    array = as_array(values, name)
    if array.shape != (rows,):
        raise InputError(f"{name}: expected one entry per row, shape ({rows},); got {array.shape}.")
    code: dict[Any, int] = {}
    codes = np.empty(rows, dtype=np.int64)
    for row, value in enumerate(array.tolist()):
        if is_null(value):
            raise InputError(missing_entry_message(name, row))
        codes[row] = code.setdefault(value, len(code))
    return codes


def missing_entry_message(name: str, row: int) -> str:
    """Return the error message for a missing value."""
    return f"{name}: row {row} is empty; expected a value in every row."


def as_strings(values: Any, *, rows: int, name: str) -> ObjectArray:
    """Convert texts or numbers to strings by `cell_text`, shape (n,)."""
    codes = as_codes(values, rows=rows, name=name)
    first = np.unique(codes, return_index=True)[1]
    entries = as_array(values, name).tolist()
    return np.array([cell_text(entries[row]) for row in first], dtype=object)[codes]


def cell_text(value: Any) -> str:
    """Return a subgroup, cluster, split or fold as text without surrounding blanks; 2.0 is "2"."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def as_count(value: Any, *, name: str, minimum: int, maximum: int | None = None) -> int:
    """Return an integer from ``minimum`` to ``maximum``; booleans and floats are errors."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise InputError(f"{name}: expected a whole number of at least {minimum}, got {value!r}.")
    if maximum is not None and int(value) > maximum:
        raise InputError(f"{name}: expected a whole number from {minimum} to {maximum:,}, got {value!r}.")
    return int(value)


def as_n_bins(n_bins: Any) -> int:
    """Return a number of bins, from 1 to 10,000."""
    return as_count(n_bins, name="n_bins", minimum=1, maximum=MAX_BINS)


def as_positive(value: Any, *, name: str) -> float:
    """Return a finite number above zero."""
    number = float(value) if isinstance(value, numbers.Real) and value is not True else math.nan
    if not 0 < number < math.inf:
        raise InputError(f"{name}: expected a finite number above 0, got {value!r}.")
    return number


def as_fraction(value: Any, *, name: str) -> float:
    """Return a number in [0, 1)."""
    number = float(value) if isinstance(value, numbers.Real) and value is not True else math.nan
    if not 0 <= number < 1:
        raise InputError(f"{name}: expected a number in [0, 1), got {value!r}.")
    return number


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_matrix(values: Any, *, name: str, first_row: int = 0, columns: Sequence[Any] | None = None) -> FloatArray:
    """Convert values to a finite float64 array of shape (n, C), n >= 1 and C >= 2."""
    array = as_numbers(values, name)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise InputError(f"{name}: expected shape (n, C) with at least one row and two classes, got {array.shape}.")
    if not (np.issubdtype(array.dtype, np.number) and np.isrealobj(array)):
        raise InputError(f"{name}: expected real numbers, got {array.dtype}.")
    array = array.astype(np.float64, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise InputError(
            f"{name}: row {row + first_row} has {array[row, column]} in column {_column_name(column, columns)}, "
            "expected finite values. Drop or repair such rows."
        )
    return array


def is_dense(values: Any) -> bool:
    """Return whether values are dense outputs of shape (n, C, d1, ...), not rows."""
    return getattr(values, "ndim", 0) > 2


def dense_outputs(
    values: Any, columns: Mapping[str, Any], *, mask: Any = None, name: str
) -> Iterator[tuple[npt.NDArray[Any], dict[str, Any]]]:
    """Iterate over dense outputs of shape (n, C, d1, ...), each as a table with one row per position.

    Rows of shape (n, C) are a single output. Each of the ``columns`` is ``None`` or has the shape (n, d1, ...); the
    columns subgroup and cluster may have shape (n,), one entry for each output. The ``mask``, (n, d1, ...), is true for
    positions to use. Yields the rows of each output, shape (positions, C), and its columns, shape (positions,).
    """
    array = as_array(values, name)
    if array.ndim < 2 or not array.size:
        raise InputError(f"{name}: expected a non-empty array of shape (n, C) or (n, C, d1, ...), got {array.shape}.")
    shape = array.shape[:1] + array.shape[2:]
    arrays = {role: None if column is None else as_array(column, role) for role, column in columns.items()}
    for role, column in arrays.items():
        if column is not None and role in _PER_OUTPUT and column.shape == shape[:1]:
            arrays[role] = column = np.broadcast_to(column.reshape(-1, *[1] * (len(shape) - 1)), shape)
        if column is not None and column.shape != shape:
            raise InputError(
                f"{role}: expected shape {shape}, one value for each position of {name} of shape {array.shape}; "
                f"got {column.shape}."
            )
    used = np.ones(shape, dtype=bool) if mask is None else as_array(mask, "mask")
    if used.dtype != np.bool_:
        raise InputError(f"mask: expected booleans, true for positions to use, got {used.dtype}.")
    if used.shape != shape:
        raise InputError(f"mask: expected shape {shape}, as the labels, got {used.shape}.")
    if not used.any():
        raise InputError("mask: no position is true; expected at least one.")
    if array.ndim == 2:
        array, used = array.T[None], used[None]
        arrays = {role: None if column is None else column[None] for role, column in arrays.items()}
    for i in np.flatnonzero(used.reshape(len(used), -1).any(axis=1)):
        positions = used[i].reshape(-1)
        rows = array[i].reshape(array.shape[1], -1)[:, positions].T
        yield (
            rows,
            {role: None if column is None else column[i].reshape(-1)[positions] for role, column in arrays.items()},
        )


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Convert values of numpy, torch, pandas, polars or lists to a numpy array."""
    if hasattr(values, "detach"):  # a torch tensor; numpy has no bfloat16
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise InputError(f"{name}: some entries are masked. Fill them in, or drop their rows.")
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except ValueError as error:
        raise InputError(f"{name}: rows of unequal length or mixed types ({error}).") from error


def as_numbers(values: Any, name: str) -> npt.NDArray[Any]:
    """Convert values to an array, of numbers if they are objects that are all real numbers."""
    array = as_array(values, name)
    if array.dtype == object:  # a nullable or mixed column, which is fine if every entry is a number
        entries = array.reshape(-1).tolist()
        for position, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, numbers.Real):
                row = position // max(1, array[0].size if array.ndim > 1 else 1)
                raise InputError(f"{name}: row {row} has {entry!r}, expected a number.")
        array = np.array(entries).reshape(array.shape)
    return array


def half_ulp(values: Any) -> float:
    """Return the rounding error at 1 of a half-precision type, half a unit in the last place; 0 for other types."""
    dtype = str(getattr(values, "dtype", "float64"))
    return 2.0**-9 if "bfloat16" in dtype else 2.0**-12 if "float16" in dtype else 0.0


def is_null(value: Any) -> bool:
    """Return whether a value is None, NaN, or the missing value of pandas."""
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: a null, blanks, or a text that programs write for a null."""
    return is_null(value) or str(value).strip() in {"", "nan", "NaN", "<NA>", "null"}
