"""Equal-count groups of a stream too long to sort: exact, in two passes over the values as a rule.

The bits of non-negative floats sort like the floats. The first pass counts how often their first bits occur, which
leaves few values that may stand at a group's first position; the second counts these values themselves. Where the few
are still many, as with a probability that half of the rows share, passes in between count further bits. Counts of
several parts of the stream add up, so the parts may be counted anywhere, in any order. Rows of the same value as a
boundary are dealt in the order of the stream, as a stable sort would.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import group_starts

_SHIFT = 44  # what the first pass leaves out: 256 cells between a number and its double
_CELLS = 1 << 18  # bits above the shift of numbers below 2
_NEXT = 16  # bits of a pass in between
_FEW = 4_000_000  # values, of all columns, that are counted one by one
# Of each column: the occupied cells (position of the prefix, then the next bits), sorted, and their counts.
Counts = list[tuple[IntArray, IntArray]]
Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Pass:
    """What one pass counts: of values that begin with one of the prefixes, the next bits.

    Attributes:
        prefixes: of each column, distinct and sorted; ``None`` in the first pass.
        shift: how many bits are left out still.
        bits: how many are counted.
    """

    prefixes: list[Bits] | None
    shift: int
    bits: int

    def counts(self, columns: FloatArray) -> Counts:
        """The counts of one part of the stream, of shape (C, n)."""
        return [self._column(k, _bits(values)) for k, values in enumerate(columns)]

    def _column(self, k: int, bits: Bits) -> tuple[IntArray, IntArray]:
        if self.prefixes is None:
            counts = np.bincount(_cells(bits), minlength=_CELLS)
            occupied = np.flatnonzero(counts)
            return occupied, counts[occupied]
        place, bits = self._competing(self.prefixes[k], bits)
        tail = (bits >> np.uint64(self.shift)) & np.uint64((1 << self.bits) - 1)
        return _counted((place << self.bits) | tail.astype(np.int64))

    def _competing(self, prefixes: Bits, bits: Bits) -> tuple[IntArray, Bits]:
        """Values that begin with a prefix, and the prefix's position."""
        kept = self.shift + self.bits
        table = np.zeros(_CELLS, dtype=bool)
        table[prefixes >> np.uint64(_SHIFT - kept)] = True
        bits = bits[table[_cells(bits)]]
        head = bits >> np.uint64(kept)
        place = np.searchsorted(prefixes, head)
        right = prefixes.take(place, mode="clip") == head
        return place[right], bits[right]


class StreamGroups:
    """The equal-count group of each value of several streams.

    Args:
        columns: C streams are grouped side by side.
        groups: R.
        count: does a pass over all parts of the stream, and gives the counts of each, in their order.

    Example:
        >>> parts = [np.array([[0.3, 0.1]]), np.array([[0.2, 0.9, 0.5]])]
        >>> def count(one_pass):
        ...     return [one_pass.counts(part) for part in parts]
        >>> stream = StreamGroups(1, groups=2, count=count)
        >>> [stream.dealer(k).assign(part).tolist() for k, part in enumerate(parts)]
        [[[0, 0]], [[0, 1, 1]]]
    """

    def __init__(self, columns: int, *, groups: int, count: Callable[[Pass], Iterable[Counts]]) -> None:
        shift, bits = _SHIFT, 64 - _SHIFT
        parts = list(count(Pass(None, shift, bits)))
        counts = _added(columns, parts)
        self.rows = int(counts[0][1].sum())
        starts = group_starts(self.rows, groups)[1:]
        self._starts = starts[starts < self.rows]
        prefixes = [np.zeros(len(self._starts), np.uint64) for _ in range(columns)]
        ranks = [self._starts.copy() for _ in range(columns)]
        while len(self._starts):  # with one group there is nothing to find
            before, competing = prefixes.copy(), 0
            for k in range(columns):
                prefixes[k], ranks[k], left = _narrow(counts[k], prefixes[k], ranks[k], bits)
                competing += left
            if shift == 0:
                break
            bits = shift if competing <= _FEW else min(_NEXT, shift)
            shift -= bits
            parts = list(count(Pass([np.unique(prefix) for prefix in prefixes], shift, bits)))
            counts = _added(columns, parts)
        # The value at each group's first position, how many smaller values there are, and how many of those that
        # equal it stand in earlier parts.
        self._first = [prefix.view(np.float64) for prefix in prefixes]
        self._below = [self._starts - rank for rank in ranks]
        ties = np.zeros((len(parts) + 1, columns, len(self._starts)), dtype=np.int64)
        if len(self._starts):
            for part, of_part in enumerate(parts):
                for k in range(columns):
                    ties[part + 1, k] = _at(of_part[k], before[k], prefixes[k], bits)
        self._dealt = ties.cumsum(axis=0)

    def dealer(self, part: int) -> "Dealer":
        """What assigns the groups of one part of the stream."""
        return Dealer(self._starts, self._first, self._below, list(self._dealt[part]))


@dataclass(frozen=True)
class Dealer:
    """Assigns the groups of a part of the stream."""

    starts: IntArray
    first: list[FloatArray]
    below: list[IntArray]
    dealt: list[IntArray]  # rows of earlier parts that equal each boundary

    def assign(self, columns: FloatArray) -> IntArray:
        """The groups of the part's values, shape (C, n)."""
        groups = np.zeros(columns.shape, dtype=np.intp)
        for k, values in enumerate(columns):
            if not len(self.starts):
                continue
            first = self.first[k]
            # Most first bits tell the group; values whose bits a boundary has too are looked at one by one.
            cells, borders = _cells(_bits(values)), _cells(_bits(first))
            group = np.cumsum(np.bincount(borders, minlength=_CELLS)).astype(np.int32)
            group[borders] = -1
            groups[k] = group[cells]
            close = np.flatnonzero(groups[k] < 0)
            groups[k, close] = np.searchsorted(first, values[close], side="right")
            for boundary in np.unique(first):
                tied = close[values[close] == boundary]
                if len(tied):
                    mine = np.flatnonzero(first == boundary)[0]
                    position = self.below[k][mine] + self.dealt[k][mine] + np.arange(len(tied))
                    groups[k, tied] = np.searchsorted(self.starts, position, side="right")
        return groups


def _bits(values: FloatArray) -> Bits:
    return (np.ascontiguousarray(values) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0


def _cells(bits: Bits) -> IntArray:
    return (bits >> np.uint64(_SHIFT)).view(np.int64)


def _counted(cells: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct cells, sorted, and how often each occurs."""
    return np.unique(cells, return_counts=True)


def _added(columns: int, parts: list[Counts]) -> Counts:
    """The counts of all parts together."""
    counts = []
    for k in range(columns):
        cells, place = np.unique(np.concatenate([part[k][0] for part in parts]), return_inverse=True)
        number = np.concatenate([part[k][1] for part in parts])
        counts.append((cells, np.bincount(place, weights=number, minlength=len(cells)).astype(np.int64)))
    return counts


def _at(counts: tuple[IntArray, IntArray], prefixes: Bits, values: Bits, bits: int) -> IntArray:
    """How many of a part's values equal each boundary, from its counts of the last pass."""
    cells, number = counts
    if not len(cells):
        return np.zeros(len(values), dtype=np.int64)
    tail = (values & np.uint64((1 << bits) - 1)).astype(np.int64)
    wanted = (np.searchsorted(np.unique(prefixes), prefixes) << bits) | tail
    place = np.searchsorted(cells, wanted).clip(max=len(cells) - 1)
    return np.where(cells[place] == wanted, number[place], 0)


def _narrow(
    counts: tuple[IntArray, IntArray], prefixes: Bits, ranks: IntArray, bits: int
) -> tuple[Bits, IntArray, int]:
    """The longer prefix in which each rank falls, the rank among the values of it, and how many values have one."""
    cells, number = counts
    upto = np.concatenate([[0], np.cumsum(number)])
    begins = np.searchsorted(cells, np.searchsorted(np.unique(prefixes), prefixes) << bits)  # of each prefix's cells
    ranks = ranks + upto[begins]
    cell = np.searchsorted(upto[1:], ranks, side="right")
    tail = (cells[cell] & ((1 << bits) - 1)).astype(np.uint64)
    longer = (prefixes << np.uint64(bits)) | tail
    return longer, ranks - upto[cell], int(number[np.unique(cell)].sum())
