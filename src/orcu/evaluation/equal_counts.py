"""Equal-count groups of a stream too long to sort: exact, in four passes over the values.

The bits of non-negative floats sort like the floats. Each pass counts how often the next 16 bits
occur among the values that still compete for a group's first position, so after four passes the
value there is known to the last bit. Counts of several parts of the stream add up, so the parts may
be counted anywhere, in any order. Rows of the same value as a boundary are dealt in the order of the
stream, as a stable sort would.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import group_starts

_BITS = 16  # per pass
_CELLS = 1 << _BITS
# Of each column: the occupied cells (prefix times 2^16 plus the next bits), and their counts.
Counts = list[tuple[IntArray, IntArray]]


@dataclass(frozen=True)
class Pass:
    """What one pass counts: of values that begin with one of the prefixes, the next 16 bits.

    Attributes:
        prefixes: of each column, distinct and sorted; ``None`` in the first pass.
        shift: where the next bits stand.
    """

    prefixes: list[npt.NDArray[np.uint64]] | None
    shift: int

    def counts(self, batches: Iterable[FloatArray]) -> Counts:
        """The counts of one part of the stream; batches have the shape (C, n)."""
        totals: list[IntArray] = []
        for batch in batches:
            for k, values in enumerate(batch):
                prefixes = None if self.prefixes is None else self.prefixes[k]
                if len(totals) == k:
                    size = _CELLS * (1 if prefixes is None else len(prefixes))
                    totals.append(np.zeros(size, dtype=np.int64))
                self._count(totals[k], _bits(values), prefixes)
        cells = [np.flatnonzero(counts) for counts in totals]  # few, but in the first passes
        return [(at, counts[at]) for at, counts in zip(cells, totals, strict=True)]

    def _count(self, counts: IntArray, bits: npt.NDArray[np.uint64], prefixes: npt.NDArray[np.uint64] | None) -> None:
        tail = (bits >> np.uint64(self.shift)).astype(np.intp) & (_CELLS - 1)
        if prefixes is None:
            counts += np.bincount(tail, minlength=_CELLS)
            return
        head = bits >> np.uint64(self.shift + _BITS)
        for i, prefix in enumerate(prefixes):
            mine = tail[head == prefix]
            if len(mine):
                counts[i * _CELLS : (i + 1) * _CELLS] += np.bincount(mine, minlength=_CELLS)


class StreamGroups:
    """The equal-count group of each value of several streams.

    Args:
        columns: C streams are grouped side by side.
        groups: R.
        count: does a pass over all parts of the stream, and gives the counts of each, in their order.

    Example:
        >>> parts = [np.array([[0.3, 0.1]]), np.array([[0.2, 0.9, 0.5]])]
        >>> def count(one_pass):
        ...     return [one_pass.counts([part]) for part in parts]
        >>> stream = StreamGroups(1, groups=2, count=count)
        >>> [stream.dealer(k).assign(part).tolist() for k, part in enumerate(parts)]
        [[[0, 0]], [[0, 1, 1]]]
    """

    def __init__(self, columns: int, *, groups: int, count: Callable[[Pass], Iterable[Counts]]) -> None:
        shift = 64 - _BITS
        first = _totals(columns, 1, count(Pass(None, shift)))
        self.rows = int(first[0].sum())
        starts = group_starts(self.rows, groups)[1:]
        self._starts = starts[starts < self.rows]
        self._ties: list[list[IntArray]] = []  # of each part and column, rows that equal a boundary
        prefixes = [np.zeros(len(self._starts), np.uint64) for _ in range(columns)]
        ranks = [self._starts.copy() for _ in range(columns)]
        counts = first
        while len(self._starts):  # with one group there is nothing to find
            for k in range(columns):
                prefixes[k], ranks[k] = _narrow(counts[k], prefixes[k], ranks[k])
            if shift == 0:
                break
            shift -= _BITS
            distinct = [np.unique(prefix) for prefix in prefixes]
            parts: Iterable[Counts] = count(Pass(distinct, shift))
            if shift == 0:
                parts = list(parts)  # a handful of cells each
                last, before = parts, prefixes.copy()
            counts = _totals(columns, max(len(one) for one in distinct), parts)
        # The value at each group's first position, and how many smaller values there are.
        self._first = [prefix.view(np.float64) for prefix in prefixes]
        self._below = [self._starts - rank for rank in ranks]
        if len(self._starts):
            self._ties = [[_at(part[k], before[k], prefixes[k]) for k in range(columns)] for part in last]

    def dealer(self, part: int) -> "Dealer":
        """What assigns the groups of one part of the stream."""
        dealt = [
            sum((ties[k] for ties in self._ties[:part]), np.zeros(len(self._starts), np.int64))
            for k in range(len(self._first))
        ]
        return Dealer(self._starts, self._first, self._below, dealt)


@dataclass(frozen=True)
class Dealer:
    """Assigns groups batch by batch, in order; rows that equal a boundary are dealt one by one."""

    starts: IntArray
    first: list[FloatArray]
    below: list[IntArray]
    dealt: list[IntArray]  # rows that equal each boundary and have their group

    def assign(self, batch: FloatArray) -> IntArray:
        """The groups of the next batch, shape (C, n)."""
        groups = np.empty(batch.shape, dtype=np.intp)
        for k, values in enumerate(batch):
            first = self.first[k]
            groups[k] = np.searchsorted(first, values, side="right")
            for boundary in np.unique(first):
                tied = np.flatnonzero(values == boundary)
                if len(tied):
                    mine = first == boundary
                    at = int(self.below[k][mine][0] + self.dealt[k][mine][0])
                    position = at + np.arange(len(tied))
                    groups[k, tied] = np.searchsorted(self.starts, position, side="right")
                    # Anew, as arrays from another process may be read-only.
                    self.dealt[k] = self.dealt[k] + len(tied) * mine
        return groups


def _bits(values: FloatArray) -> npt.NDArray[np.uint64]:
    return (np.ascontiguousarray(values) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0


def _totals(columns: int, prefixes: int, parts: Iterable[Counts]) -> list[IntArray]:
    """The counts of all parts together, of shape (prefixes, 2^16) for each column."""
    totals = np.zeros((columns, prefixes * _CELLS), dtype=np.int64)
    for part in parts:
        for total, (cells, counts) in zip(totals, part, strict=True):
            total[cells] += counts
    return list(totals.reshape(columns, prefixes, _CELLS))


def _at(
    counts: tuple[IntArray, IntArray], prefixes: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64]
) -> IntArray:
    """How many of a part's values equal each boundary, from its counts of the last pass."""
    cells, number = counts
    wanted = np.searchsorted(np.unique(prefixes), prefixes) * _CELLS
    wanted += (values & np.uint64(_CELLS - 1)).astype(np.intp)
    place = np.searchsorted(cells, wanted).clip(max=max(len(cells) - 1, 0))
    if not len(cells):
        return np.zeros(len(values), dtype=np.int64)
    return np.where(cells[place] == wanted, number[place], 0)


def _narrow(
    counts: IntArray, prefixes: npt.NDArray[np.uint64], ranks: IntArray
) -> tuple[npt.NDArray[np.uint64], IntArray]:
    """The longer prefix in which each rank falls, and the rank among the values of that prefix."""
    distinct = np.unique(prefixes)
    longer, left = np.empty_like(prefixes), np.empty_like(ranks)
    for i, prefix in enumerate(distinct):
        mine = prefixes == prefix
        upto = np.cumsum(counts[i])
        cell = np.searchsorted(upto, ranks[mine], side="right")
        longer[mine] = (prefix << np.uint64(_BITS)) | cell.astype(np.uint64)
        left[mine] = ranks[mine] - (upto[cell] - counts[i][cell])
    return longer, left
