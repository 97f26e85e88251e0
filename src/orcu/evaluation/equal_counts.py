"""Equal-count bins of a stream that is too long to sort: exact, usually in two passes over the values.

The bits of non-negative floats sort like the floats. The first pass counts the leading bits of the values, which
leaves few candidates for the first value of each bin. The second pass counts these candidates exactly. If there are
still many, as with a probability that half of the rows share, passes in between count further bits. Counts of several
parts of the stream are additive, so the parts may be counted in any process and order. Rows with the same value as a
bin boundary are assigned in the order of the stream, as by a stable sort.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import equal_count_starts

_SHIFT = 44  # bits that the first pass omits: 256 cells between a number and its double
_CELLS = 1 << 18  # cells of the first pass for numbers below 2
_MIDDLE_BITS = 16  # bits counted by a pass in between
_MAX_CANDIDATES = 4_000_000  # values of all columns that are counted exactly
# For each column: the occupied cells (index of the prefix, then the next bits), sorted, and their counts.
Counts = list[tuple[IntArray, IntArray]]
Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class CountingPass:
    """One pass: counts the next bits of all values that start with one of the prefixes."""

    prefixes: list[Bits] | None  # distinct sorted prefixes of each column; None in the first pass
    shift: int  # number of trailing bits that are not counted yet
    bits: int  # number of bits counted in this pass

    def counts(self, columns: FloatArray) -> Counts:
        """Counts of one part of the stream, of shape (C, n)."""
        return [self._count_column(k, _bits(values)) for k, values in enumerate(columns)]

    def _count_column(self, k: int, bits: Bits) -> tuple[IntArray, IntArray]:
        if self.prefixes is None:
            counts = np.bincount(_cells(bits), minlength=_CELLS)
            occupied = np.flatnonzero(counts)
            return occupied, counts[occupied]
        index, bits = self._with_prefix(self.prefixes[k], bits)
        tail = (bits >> np.uint64(self.shift)) & np.uint64((1 << self.bits) - 1)
        return np.unique((index << self.bits) | tail.astype(np.int64), return_counts=True)

    def _with_prefix(self, prefixes: Bits, bits: Bits) -> tuple[IntArray, Bits]:
        """Values that start with a prefix, and the index of the prefix."""
        remaining = self.shift + self.bits
        table = np.zeros(_CELLS, dtype=bool)
        table[prefixes >> np.uint64(_SHIFT - remaining)] = True
        bits = bits[table[_cells(bits)]]
        head = bits >> np.uint64(remaining)
        index = np.searchsorted(prefixes, head)
        equal = prefixes.take(index, mode="clip") == head
        return index[equal], bits[equal]


class StreamedBins:
    """Equal-count bins of several streamed columns.

    Args:
        columns: number of columns C, which are binned independently.
        n_bins: number of bins R.
        count: function that runs a pass over all parts of the stream and returns the counts of each, in their order.

    Example:
        >>> parts = [np.array([[0.3, 0.1]]), np.array([[0.2, 0.9, 0.5]])]
        >>> def count(counting_pass):
        ...     return [counting_pass.counts(part) for part in parts]
        >>> stream = StreamedBins(1, n_bins=2, count=count)
        >>> [stream.assigner(k).assign(part).tolist() for k, part in enumerate(parts)]
        [[[0, 0]], [[0, 1, 1]]]
    """

    def __init__(self, columns: int, *, n_bins: int, count: Callable[[CountingPass], Iterable[Counts]]) -> None:
        shift, bits = _SHIFT, 64 - _SHIFT
        parts = list(count(CountingPass(None, shift, bits)))
        counts = _total(columns, parts)
        self.rows = int(counts[0][1].sum())
        starts = equal_count_starts(self.rows, n_bins)[1:]
        self._starts = starts[starts < self.rows]
        prefixes = [np.zeros(len(self._starts), np.uint64) for _ in range(columns)]
        ranks = [self._starts.copy() for _ in range(columns)]
        while len(self._starts):  # with one bin there are no boundaries
            previous, candidates = prefixes.copy(), 0
            for k in range(columns):
                prefixes[k], ranks[k], matching = _narrow(counts[k], prefixes[k], ranks[k], bits)
                candidates += matching
            if shift == 0:
                break
            bits = shift if candidates <= _MAX_CANDIDATES else min(_MIDDLE_BITS, shift)
            shift -= bits
            parts = list(count(CountingPass([np.unique(prefix) for prefix in prefixes], shift, bits)))
            counts = _total(columns, parts)
        # The first value of each bin, the number of smaller values, and the number of values equal to it in
        # earlier parts.
        self._first = [prefix.view(np.float64) for prefix in prefixes]
        self._below = [self._starts - rank for rank in ranks]
        ties = np.zeros((len(parts) + 1, columns, len(self._starts)), dtype=np.int64)
        if len(self._starts):
            for part, part_counts in enumerate(parts):
                for k in range(columns):
                    ties[part + 1, k] = _count_equal(part_counts[k], previous[k], prefixes[k], bits)
        self._earlier_ties = ties.cumsum(axis=0)

    def assigner(self, part: int) -> "BinAssigner":
        """Assigner of the bins of one part of the stream."""
        return BinAssigner(self._starts, self._first, self._below, list(self._earlier_ties[part]))


@dataclass(frozen=True)
class BinAssigner:
    """Assigns the equal-count bins of a part of the stream."""

    starts: IntArray
    first: list[FloatArray]
    below: list[IntArray]
    earlier_ties: list[IntArray]  # rows of earlier parts that equal each boundary

    def assign(self, columns: FloatArray) -> IntArray:
        """Bin of each value of the part, shape (C, n)."""
        index = np.zeros(columns.shape, dtype=np.intp)
        for k, values in enumerate(columns):
            if not len(self.starts):
                continue
            first = self.first[k]
            # The leading bits determine most bins; values in the cell of a boundary are searched exactly.
            cells, boundary_cells = _cells(_bits(values)), _cells(_bits(first))
            bin_of_cell = np.cumsum(np.bincount(boundary_cells, minlength=_CELLS)).astype(np.int32)
            bin_of_cell[boundary_cells] = -1
            index[k] = bin_of_cell[cells]
            close = np.flatnonzero(index[k] < 0)
            index[k, close] = np.searchsorted(first, values[close], side="right")
            for boundary in np.unique(first):
                tied = close[values[close] == boundary]
                if len(tied):
                    b = np.flatnonzero(first == boundary)[0]
                    position = self.below[k][b] + self.earlier_ties[k][b] + np.arange(len(tied))
                    index[k, tied] = np.searchsorted(self.starts, position, side="right")
        return index


def _bits(values: FloatArray) -> Bits:
    return (np.ascontiguousarray(values) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0


def _cells(bits: Bits) -> IntArray:
    return (bits >> np.uint64(_SHIFT)).view(np.int64)


def _total(columns: int, parts: list[Counts]) -> Counts:
    """Sum of the counts of all parts."""
    counts = []
    for k in range(columns):
        cells, index = np.unique(np.concatenate([part[k][0] for part in parts]), return_inverse=True)
        number = np.concatenate([part[k][1] for part in parts])
        counts.append((cells, np.bincount(index, weights=number, minlength=len(cells)).astype(np.int64)))
    return counts


def _count_equal(counts: tuple[IntArray, IntArray], prefixes: Bits, values: Bits, bits: int) -> IntArray:
    """Number of a part's values that equal each boundary, from its counts of the last pass."""
    cells, number = counts
    if not len(cells):
        return np.zeros(len(values), dtype=np.int64)
    tail = (values & np.uint64((1 << bits) - 1)).astype(np.int64)
    wanted = (np.searchsorted(np.unique(prefixes), prefixes) << bits) | tail
    index = np.searchsorted(cells, wanted).clip(max=len(cells) - 1)
    return np.where(cells[index] == wanted, number[index], 0)


def _narrow(
    counts: tuple[IntArray, IntArray], prefixes: Bits, ranks: IntArray, bits: int
) -> tuple[Bits, IntArray, int]:
    """Longer prefix that contains each rank, the rank within it, and the number of values with such a prefix."""
    cells, number = counts
    cumulative = np.concatenate([[0], np.cumsum(number)])
    begins = np.searchsorted(cells, np.searchsorted(np.unique(prefixes), prefixes) << bits)  # first cell of a prefix
    ranks = ranks + cumulative[begins]
    cell = np.searchsorted(cumulative[1:], ranks, side="right")
    tail = (cells[cell] & ((1 << bits) - 1)).astype(np.uint64)
    longer = (prefixes << np.uint64(bits)) | tail
    return longer, ranks - cumulative[cell], int(number[np.unique(cell)].sum())
