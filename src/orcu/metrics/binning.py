"""Equal-width and equal-count bins, under the rules that libraries and papers use."""

from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray

# name -> which side of a bin is closed, and where the value at the open end of [0, 1] goes
CONVENTIONS = {
    "paper": "(a, b], 0 in the first bin",
    "mdca": "(a, b], 0 in no bin",
    "torchmetrics": "[a, b), 1 in an extra bin",
    "nixon": "[a, b), 1 in an extra bin",
    "netcal": "[a, b), 1 in the last bin",
}


def check_convention(name: str, known: Any = CONVENTIONS) -> str:
    """The name itself.

    Raises:
        UnknownNameError: if there is no such convention.
    """
    if name not in known:
        raise UnknownNameError("convention", name, list(known))
    return name


def bin_index(values: FloatArray, bins: int, *, convention: str = "paper") -> IntArray:
    """The bin of each value in [0, 1]; by default bin i is (i/B, (i+1)/B] and 0 is in the first.

    The rules that have an extra bin for 1, or none for 0, give B there.

    Example:
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), bins=5)
        array([0, 0, 1, 4])
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), bins=5, convention="torchmetrics")
        array([0, 1, 1, 5])
    """
    edges = np.arange(bins + 1) / bins
    index = (values * bins).astype(np.intp)
    np.minimum(index, bins - 1, out=index)
    # The product may round across an edge, so the edges themselves decide.
    if CONVENTIONS[convention].startswith("("):
        index -= values <= edges.take(index)
        index += values > edges.take(index + 1)
        np.clip(index, 0, bins - 1, out=index)  # a cumulative sum may pass 1 by its rounding
        if convention == "mdca":
            index[values == 0] = bins
    else:
        index -= values < edges.take(index)
        index += values >= edges.take(index + 1)
        if convention == "netcal":
            np.minimum(index, bins - 1, out=index)
    return index


def even_groups(values: FloatArray, groups: int) -> npt.NDArray[np.intp]:
    """The group of each value when the stably sorted values are dealt out as evenly as can be.

    The first n mod R groups hold one value more, as ``numpy.array_split`` cuts.

    Example:
        >>> even_groups(np.array([0.3, 0.1, 0.2, 0.9, 0.5]), groups=2)
        array([0, 0, 0, 1, 1])
    """
    group = np.empty(len(values), dtype=np.intp)
    order = np.argsort(values, kind="stable")
    group[order] = np.searchsorted(group_starts(len(values), groups)[1:], np.arange(len(values)), "right")
    return group


def group_starts(rows: int, groups: int) -> IntArray:
    """The position in sorted order where each of R groups begins, shape (R,).

    Example:
        >>> group_starts(5, 2)
        array([0, 3])
    """
    r = np.arange(groups)
    return r * (rows // groups) + np.minimum(r, rows % groups)


def binned_sums(
    index: IntArray, values: FloatArray, outcome: npt.NDArray[Any], weight: FloatArray | None, bins: int
) -> FloatArray:
    """Weight, values and outcomes summed in each bin, shape (3, B); indices from B on are left out.

    Example:
        >>> binned_sums(np.array([0, 1, 1]), np.array([0.1, 0.9, 0.8]), np.array([0, 1, 0]), None, 2)
        array([[1. , 2. ],
               [0.1, 1.7],
               [0. , 1. ]])
    """
    columns: tuple[Any, ...] = (None, values, outcome)
    if weight is not None:
        columns = (weight, weight * values, weight * outcome)
    sums = [np.bincount(index, weights=column, minlength=bins)[:bins] for column in columns]
    return np.array(sums, dtype=np.float64)


def weighted_gap(table: FloatArray, total: Any) -> Any:
    """sum_b n_b/N |mean outcome - mean value| of tables (..., 3, B) (the sums of Eqs. 11-12).

    n_b |mean - mean| is the absolute difference of the sums, so an empty bin adds nothing.

    Args:
        table: what `binned_sums` gives.
        total: N, the number or weight of all rows, shape (...).

    Example:
        >>> float(weighted_gap(np.array([[1.0, 2.0], [0.1, 1.7], [0.0, 1.0]]), 3).round(4))
        0.2667
    """
    return np.abs(table[..., 2, :] - table[..., 1, :]).sum(-1) / total


def bin_gaps(table: FloatArray) -> FloatArray:
    """Mean outcome minus mean value of each bin of tables (..., 3, B); 0 where a bin is empty.

    Example:
        >>> bin_gaps(np.array([[1.0, 2.0], [0.1, 1.7], [0.0, 1.0]]))
        array([-0.1 , -0.35])
    """
    weight = table[..., 0, :]
    gap: FloatArray = table[..., 2, :] - table[..., 1, :]
    return np.divide(gap, weight, out=np.zeros_like(gap), where=weight > 0)
