"""Equal-count groups of a stream too long to sort: exact, in four passes over the values.

The bits of non-negative floats sort like the floats. Each pass counts how often the next 16 bits
occur among the values that still compete for a group's first position, so after four passes the
value there is known to the last bit. Rows of the same value as a boundary are dealt in
the order of the stream, as a stable sort would.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import group_starts

_BITS = 16  # per pass


class StreamGroups:
    """The equal-count group of each value of several streams, assigned batch by batch in order.

    Args:
        columns: C streams are grouped side by side.
        groups: R.
        passes: a function that gives the batches anew, each of shape (C, n), values from 0 on.

    Example:
        >>> batches = [np.array([[0.3, 0.1]]), np.array([[0.2, 0.9, 0.5]])]
        >>> stream = StreamGroups(1, groups=2, passes=lambda: batches)
        >>> [stream.assign(batch).tolist() for batch in batches]
        [[[0, 0]], [[0, 1, 1]]]
    """

    def __init__(
        self, columns: int, *, groups: int, passes: Callable[[], Iterable[FloatArray]]
    ) -> None:
        self.rows = 0
        shift = 64
        prefixes: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)] * columns
        ranks: list[IntArray] = []
        for step in range(64 // _BITS):
            shift -= _BITS
            counts = [
                np.zeros((max(1, len(np.unique(prefixes[k]))), 1 << _BITS), dtype=np.int64)
                for k in range(columns)
            ]
            for batch in passes():
                if step == 0:
                    self.rows += batch.shape[1]
                for k in range(columns):
                    _count(counts[k], _bits(batch[k]), prefixes[k], shift)
            if step == 0:
                starts = group_starts(self.rows, groups)[1:]
                starts = starts[starts < self.rows]
                ranks = [starts.copy() for _ in range(columns)]
                self._starts = starts
                prefixes = [np.zeros(len(starts), np.uint64)] * columns
                if len(starts) == 0:  # one group
                    break
            for k in range(columns):
                prefixes[k], ranks[k] = _narrow(counts[k], prefixes[k], ranks[k])
        # The value at each group's first position, and how many smaller values there are.
        self._first = [prefix.view(np.float64) for prefix in prefixes]
        self._below = [self._starts - rank for rank in ranks]
        self._seen = [np.zeros(len(self._starts), dtype=np.int64) for _ in range(columns)]

    def assign(self, batch: FloatArray) -> IntArray:
        """The groups of the next batch, shape (C, n); batches must come in the order of the passes."""
        groups = np.empty(batch.shape, dtype=np.intp)
        for k, values in enumerate(batch):
            first = self._first[k]
            groups[k] = np.searchsorted(first, values, side="right")
            for boundary in np.unique(first):
                tied = np.flatnonzero(values == boundary)
                if len(tied):
                    mine = first == boundary
                    at = int(self._below[k][mine][0] + self._seen[k][mine][0])
                    position = at + np.arange(len(tied))
                    groups[k, tied] = np.searchsorted(self._starts, position, side="right")
                    self._seen[k][mine] += len(tied)
        return groups


def _bits(values: FloatArray) -> npt.NDArray[np.uint64]:
    return (np.ascontiguousarray(values) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0


def _count(
    counts: IntArray,
    bits: npt.NDArray[np.uint64],
    prefixes: npt.NDArray[np.uint64],
    shift: int,
) -> None:
    """Add the next bits of the values that begin with each distinct prefix."""
    if len(prefixes) == 0:
        counts[0] += np.bincount((bits >> np.uint64(shift)).astype(np.intp), minlength=1 << _BITS)
        return
    head = bits >> np.uint64(shift + _BITS)
    for i, prefix in enumerate(np.unique(prefixes)):
        tail = (bits[head == prefix] >> np.uint64(shift)) & np.uint64((1 << _BITS) - 1)
        if len(tail):
            counts[i] += np.bincount(tail.astype(np.intp), minlength=1 << _BITS)


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
