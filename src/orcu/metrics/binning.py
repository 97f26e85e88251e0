"""Equal-width and equal-count bins under the conventions of the paper and of other libraries."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray


@dataclass(frozen=True)
class BinRule:
    """Closed side of the equal-width bins, and the bin of the value at the open end of [0, 1].

    The value at the open end is 0 if bins are closed on the right, and 1 if they are closed on the left.

    Example:
        >>> CONVENTIONS["torchmetrics"].width(n_bins=15)
        16
    """

    closed: Literal["left", "right"]
    open_end: Literal["end bin", "extra bin", "no bin"]
    words: str

    def width(self, n_bins: int) -> int:
        """Number of bins including the extra one."""
        return n_bins + (self.open_end == "extra bin")


_NEAR_EDGE = 1e-6  # in bins; far above the rounding error of products up to a million
PAPER = BinRule("right", "end bin", "(a, b], 0 in the first bin")
CONVENTIONS = {
    "paper": PAPER,
    "mdca": BinRule("right", "no bin", "(a, b], 0 in no bin"),
    "torchmetrics": BinRule("left", "extra bin", "[a, b), 1 in an extra bin"),
    "nixon": BinRule("left", "extra bin", "[a, b), 1 in an extra bin"),
    "netcal": BinRule("left", "end bin", "[a, b), 1 in the last bin"),
}


def check_convention(name: str, conventions: Iterable[str] = CONVENTIONS) -> str:
    """Return the name of a convention, or raise `UnknownNameError`."""
    if name not in conventions:
        raise UnknownNameError("convention", name, list(conventions))
    return name


def bin_index(values: FloatArray, n_bins: int, rule: BinRule = PAPER) -> IntArray:
    """Index of the bin of each value in [0, 1]; by default bin i is (i/B, (i+1)/B] and 0 is in the first.

    Under rules with an extra bin, or no bin, the value at the open end has index B.

    Example:
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), n_bins=5)
        array([0, 0, 1, 4])
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), n_bins=5, rule=CONVENTIONS["torchmetrics"])
        array([0, 1, 1, 5])
    """
    edges = np.arange(n_bins + 1) / n_bins
    product = values * n_bins
    if rule.closed == "right":
        upper = np.ceil(product)
        index: IntArray = upper.astype(np.intp)
        index -= 1
        np.minimum(index, n_bins - 1, out=index)  # a cumulative sum exceeds 1 by its rounding error
        # The product may round across an edge, so values near an edge are compared with the edges themselves.
        np.rint(product, out=upper)
        product -= upper
        np.abs(product, out=product)
        near = np.flatnonzero(product < _NEAR_EDGE)
        if len(near):
            nearest = np.clip(index[near], 0, n_bins - 1)
            nearest -= values[near] <= edges.take(nearest)
            nearest += values[near] > edges.take(nearest + 1)
            index[near] = np.clip(nearest, 0, n_bins - 1)
        if rule.open_end != "end bin":
            index[values == 0] = n_bins
    else:
        index = product.astype(np.intp)
        np.minimum(index, n_bins - 1, out=index)
        index -= values < edges.take(index)
        index += values >= edges.take(index + 1)
        if rule.open_end == "end bin":
            np.minimum(index, n_bins - 1, out=index)
    return index


def equal_count_bins(values: FloatArray, n_bins: int) -> npt.NDArray[np.intp]:
    """Bin of each value when the stably sorted values are cut into bins of equal count.

    The first n mod R bins contain one value more, as in ``numpy.array_split``.

    Example:
        >>> equal_count_bins(np.array([0.3, 0.1, 0.2, 0.9, 0.5]), n_bins=2)
        array([0, 0, 0, 1, 1])
    """
    starts = equal_count_starts(len(values), n_bins)[1:]
    starts = starts[starts < len(values)]
    first = np.partition(values, starts)[starts]  # smallest value of each bin but the lowest, without a full sort
    index: npt.NDArray[np.intp] = np.searchsorted(first, values, side="right")
    cumulative = np.cumsum(np.bincount(index, minlength=n_bins))
    tied = np.flatnonzero(values == np.append(np.nan, first)[index])
    for k in np.unique(index[tied]):  # values equal to the first of a bin are assigned in their order
        members = tied[index[tied] == k]
        index[members] = np.searchsorted(starts, cumulative[k - 1] + np.arange(len(members)), side="right")
    return index


def equal_count_starts(rows: int, n_bins: int) -> IntArray:
    """Position in sorted order at which each of R bins of equal count starts, shape (R,).

    Example:
        >>> equal_count_starts(5, 2)
        array([0, 3])
    """
    r = np.arange(n_bins)
    return r * (rows // n_bins) + np.minimum(r, rows % n_bins)
