"""Validation of the arguments of ``fit`` that are one value per row: labels, sample weights and groups."""

import numbers
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import MIN_WEIGHT, FloatArray, IntArray, as_array, as_codes, as_numbers
from orcu.predictions.labels import check_no_missing


def check_no_mask(values: Any, name: str) -> None:
    """Raise `InputError` if an entry of a masked array is masked; numpy would use the value under the mask."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise InputError(f"{name}: row {row} is masked. Fill in the masked entries, or drop their rows.")


def scaled_sample_weight(sample_weight: Any, rows: int) -> FloatArray | None:
    """Sample weights scaled to mean one over the rows of positive weight, shape (n,); ``None`` stays ``None``.

    Trees and networks have thresholds in units of rows, such as a least sum of Hessians in a leaf, so without the
    scaling a common factor of the weights would change the model. The scaled weights are rounded to 24 bits, so that
    those of w and of c w are the same numbers: trees and networks would turn differences of rounding into others.

    Args:
        sample_weight: weight of each row, or a number for all rows.
        rows: number of rows, n.

    Raises:
        InputError: if a weight is negative, not finite or negligible beside the mean, or if all are 0.

    Example:
        >>> scaled_sample_weight([1, 3, 0], 3).tolist(), scaled_sample_weight([100, 300, 0], 3).tolist()
        ([0.5, 1.5, 0.0], [0.5, 1.5, 0.0])
    """
    if sample_weight is None:
        return None
    check_no_mask(sample_weight, "sample_weight")
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(rows, float(sample_weight))
    array = as_numbers(sample_weight, "sample_weight")
    if array.shape != (rows,):
        raise InputError(f"sample_weight: expected one weight per row, shape ({rows},); got {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"sample_weight: expected real numbers, got {array.dtype}.")
    array = array.astype(np.float64)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"sample_weight: row {row} has {array[row]:g}, expected a finite weight of 0 or more.")
    if not array.any():
        raise InputError("sample_weight: every weight is zero; at least one must be positive.")
    relative = array / array.max()
    scaled = (relative / relative[array > 0].mean()).astype(np.float32).astype(np.float64)
    negligible = (array > 0) & (scaled < MIN_WEIGHT)
    if negligible.any():
        row = int(np.argmax(negligible))
        raise InputError(
            f"sample_weight: row {row} has {array[row]:g}, less than {MIN_WEIGHT:.2g} times the mean weight; use 0 to "
            "leave the row out."
        )
    return scaled


def group_codes(groups: Any, rows: int) -> IntArray | None:
    """Number of each row's group, shape (n,); ``None`` stays ``None``.

    Raises:
        InputError: if a group is missing, or there is not one per row.

    Example:
        >>> group_codes(["b", "a", "b"], 3).tolist()
        [0, 1, 0]
    """
    if groups is None:
        return None
    check_no_mask(groups, "groups")
    check_no_missing(groups, name="groups")
    array = as_array(groups, "groups")
    if array.shape == (rows, 1):
        array = array[:, 0]
    return as_codes(array, rows=rows, name="groups")


def warn_of_empty_classes(codes: IntArray, weight: FloatArray, classes: npt.NDArray[Any], *, stacklevel: int) -> None:
    """Warn of classes all of whose rows have weight 0: they stay classes, without training rows."""
    empty = np.setdiff1d(codes, codes[weight > 0])
    if len(empty):
        names = ", ".join(str(classes[code]) for code in empty)
        warnings.warn(
            f"sample_weight: every row of class {names} has weight 0. The class stays in classes_, without training "
            "rows.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def without_mask(X: Any) -> Any:
    """The rows with missing values in place of masked ones: NaN, or ``None`` among objects."""
    if not np.ma.isMaskedArray(X):
        return X
    if not np.ma.getmaskarray(X).any():
        return X.data
    is_number = X.dtype.kind in "biuf"
    cells = X.data.astype(np.float64 if is_number else object)
    cells[np.ma.getmaskarray(X)] = np.nan if is_number else None
    return cells
