"""Where each sum sits in one flat vector."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.base import METRICS
from orcu.metrics.binning import PAPER
from orcu.metrics.rows import Rows
from orcu.metrics.sums import PARTS, Sums, Term


class Layout:
    """Where each sum sits in one flat vector, for C classes and B bins.

    Example:
        >>> Layout(num_classes=3, bins=15).size
        421
    """

    def __init__(self, num_classes: int, bins: int) -> None:
        METRICS.names()  # all modules have registered their row scores
        self.num_classes, self.bins = num_classes, bins
        self.shapes = {name: part.shape(num_classes, bins) for name, part in PARTS.items()}
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        ends = np.cumsum(sizes)
        self.slices = {
            name: slice(int(end - size), int(end)) for name, size, end in zip(self.shapes, sizes, ends, strict=True)
        }
        self.size = int(ends[-1])

    @property
    def scores(self) -> list[str]:
        """The names of the row scores, in the order of their sums."""
        return [name for name, shape in self.shapes.items() if shape == ()]

    def sums(self, vector: FloatArray, total: float | None = None) -> Sums:
        """The sums that a flat vector of shape (..., size) holds; with the total, its binned tables are enough."""
        return Sums(partial(self._part, vector), total)

    @property
    def binned(self) -> slice:
        """The part of the vector that holds the binned tables."""
        return slice(0, self.slices["confusion"].start)

    def _part(self, vector: FloatArray, name: str) -> FloatArray:
        return vector[..., self.slices[name]].reshape((*vector.shape[:-1], *self.shapes[name]))

    def terms(self, rows: Rows) -> Iterator[Term]:
        """What every row adds to the vector, one term at a time."""
        for name, where in self.slices.items():
            for start, width, column, value in PARTS[name].terms(rows, self.bins, PAPER):
                yield where.start + start, width, column, value
