"""Where each sum sits, and what every row adds to it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import _ROW_SCORES, METRICS
from orcu.metrics.binning import bin_index
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Tables


class Layout:
    """Where each sum sits in one flat vector, for C classes and B bins.

    Example:
        >>> Layout(num_classes=3, bins=15).size
        421
    """

    def __init__(self, num_classes: int, bins: int) -> None:
        METRICS.names()  # all modules have registered their row scores
        self.num_classes, self.bins = num_classes, bins
        self.scores = list(_ROW_SCORES)
        binned = (3, bins)
        self.shapes: dict[str, tuple[int, ...]] = {
            "top": binned,
            "classes": (num_classes, *binned),
            "thresholds": (num_classes - 1, *binned),
            "adaptive": (num_classes, *binned),
            "confusion": (num_classes, num_classes),
            "threshold_squares": (num_classes - 1,),
            "scores": (len(self.scores),),
        }
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        ends = np.cumsum(sizes)
        self.slices = {
            name: slice(int(end - size), int(end)) for name, size, end in zip(self.shapes, sizes, ends, strict=True)
        }
        self.size = int(ends[-1])

    def tables(self, vector: FloatArray) -> Tables:
        """The tables of flat sums, shape (..., size)."""
        parts: dict[str, Any] = {
            name: vector[..., where].reshape(*vector.shape[:-1], *self.shapes[name])
            for name, where in self.slices.items()
        }
        scores = parts.pop("scores")
        return Tables(**parts, scores={name: scores[..., i] for i, name in enumerate(self.scores)})

    def entries(
        self, rows: Rows, groups: IntArray | None = None
    ) -> Iterator[tuple[int, int, IntArray, FloatArray | None]]:
        """What every row adds to the vector: (start, width, column, value), one term at a time.

        ``column`` (n,) lies in 0..width-1 and counts from ``start``; a value of ``None`` means 1.

        Args:
            rows: the rows.
            groups: the equal-count group of each class's probability, shape (C, n), or ``None``.
        """
        n, w = len(rows), rows.weight

        def weighted(values: Any) -> FloatArray:
            values = np.asarray(values, dtype=np.float64)
            return values if w is None else w * values

        def binned(
            start: int, index: IntArray, value: FloatArray, outcome: Any
        ) -> Iterator[tuple[int, int, IntArray, FloatArray | None]]:
            yield start, self.bins, index, w
            yield start + self.bins, self.bins, index, weighted(value)
            yield start + 2 * self.bins, self.bins, index, weighted(outcome)

        yield from binned(self.slices["top"].start, self.top_bins(rows), rows.confidence, rows.correct)
        for name, values in (("classes", rows.columns), ("thresholds", rows.cumulative)):
            for k, value in enumerate(values):
                outcome = rows.y == k if name == "classes" else rows.y <= k
                start = self.slices[name].start + 3 * self.bins * k
                yield from binned(start, bin_index(value, self.bins), value, outcome)
        for k in range(self.num_classes if groups is not None else 0):
            start = self.slices["adaptive"].start + 3 * self.bins * k
            yield from binned(start, groups[k], rows.columns[k], rows.y == k)  # type: ignore[index]
        cell = rows.y * self.num_classes + rows.decision
        yield self.slices["confusion"].start, self.num_classes**2, cell, w
        nowhere = np.zeros(n, dtype=np.intp)
        for k, value in enumerate(rows.cumulative):
            square = weighted((value - (rows.y <= k)) ** 2)
            yield self.slices["threshold_squares"].start + k, 1, nowhere, square
        for i, name in enumerate(self.scores):
            yield self.slices["scores"].start + i, 1, nowhere, weighted(_ROW_SCORES[name](rows))

    def top_bins(self, rows: Rows) -> IntArray:
        """The bin of each row's confidence."""
        return bin_index(rows.confidence, self.bins)
