"""Equal-width and equal-count bins, under the rules that libraries and papers use."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray


@dataclass(frozen=True)
class BinRule:
    """Which side of an equal-width bin is closed, and where the value at the open end of [0, 1] goes.

    That value is 0 where bins are closed on the right, and 1 where they are closed on the left.

    Example:
        >>> CONVENTIONS["torchmetrics"].width(bins=15)
        16
    """

    closed: Literal["left", "right"]
    open_end: Literal["end bin", "extra bin", "no bin"]
    words: str

    def width(self, bins: int) -> int:
        """How many bins there are, the extra one included."""
        return bins + (self.open_end == "extra bin")


_NEAR = 1e-6  # of an edge, in units of bins: far more than a product of numbers up to a million is off by rounding
PAPER = BinRule("right", "end bin", "(a, b], 0 in the first bin")
CONVENTIONS = {
    "paper": PAPER,
    "mdca": BinRule("right", "no bin", "(a, b], 0 in no bin"),
    "torchmetrics": BinRule("left", "extra bin", "[a, b), 1 in an extra bin"),
    "nixon": BinRule("left", "extra bin", "[a, b), 1 in an extra bin"),
    "netcal": BinRule("left", "end bin", "[a, b), 1 in the last bin"),
}


def check_convention(name: str, known: Iterable[str] = CONVENTIONS) -> str:
    """The name itself.

    Raises:
        UnknownNameError: if there is no such convention.
    """
    if name not in known:
        raise UnknownNameError("convention", name, list(known))
    return name


def bin_index(values: FloatArray, bins: int, rule: BinRule = PAPER) -> IntArray:
    """The bin of each value in [0, 1]; by default bin i is (i/B, (i+1)/B] and 0 is in the first.

    The value at the open end gets B under the rules that have an extra bin for it, or none.

    Example:
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), bins=5)
        array([0, 0, 1, 4])
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), bins=5, rule=CONVENTIONS["torchmetrics"])
        array([0, 1, 1, 5])
    """
    edges = np.arange(bins + 1) / bins
    product = values * bins
    if rule.closed == "right":
        upper = np.ceil(product)
        index: IntArray = upper.astype(np.intp)
        index -= 1
        np.minimum(index, bins - 1, out=index)  # a cumulative sum passes 1 by as much as its row does
        # The product may round across an edge, so near one the edges themselves decide.
        np.rint(product, out=upper)
        product -= upper
        np.abs(product, out=product)
        near = np.flatnonzero(product < _NEAR)
        if len(near):
            place = np.clip(index[near], 0, bins - 1)
            place -= values[near] <= edges.take(place)
            place += values[near] > edges.take(place + 1)
            index[near] = np.clip(place, 0, bins - 1)
        if rule.open_end != "end bin":
            index[values == 0] = bins
    else:
        index = product.astype(np.intp)
        np.minimum(index, bins - 1, out=index)
        index -= values < edges.take(index)
        index += values >= edges.take(index + 1)
        if rule.open_end == "end bin":
            np.minimum(index, bins - 1, out=index)
    return index


def even_groups(values: FloatArray, groups: int) -> npt.NDArray[np.intp]:
    """The group of each value when the stably sorted values are dealt out as evenly as can be.

    The first n mod R groups hold one value more, as ``numpy.array_split`` cuts.

    Example:
        >>> even_groups(np.array([0.3, 0.1, 0.2, 0.9, 0.5]), groups=2)
        array([0, 0, 0, 1, 1])
    """
    starts = group_starts(len(values), groups)[1:]
    starts = starts[starts < len(values)]
    first = np.partition(values, starts)[starts]  # of each group but the lowest: all that a sort would be needed for
    group: npt.NDArray[np.intp] = np.searchsorted(first, values, side="right")
    upto = np.cumsum(np.bincount(group, minlength=groups))
    tied = np.flatnonzero(values == np.append(np.nan, first)[group])
    for k in np.unique(group[tied]):  # values that equal the first of a group are dealt in their order
        mine = tied[group[tied] == k]
        group[mine] = np.searchsorted(starts, upto[k - 1] + np.arange(len(mine)), side="right")
    return group


def group_starts(rows: int, groups: int) -> IntArray:
    """The position in sorted order where each of R groups begins, shape (R,).

    Example:
        >>> group_starts(5, 2)
        array([0, 3])
    """
    r = np.arange(groups)
    return r * (rows // groups) + np.minimum(r, rows % groups)
