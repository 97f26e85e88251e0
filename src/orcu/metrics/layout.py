"""Positions of all sums in one flat vector."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray
from orcu.metrics.base import METRICS
from orcu.metrics.binning import PAPER
from orcu.metrics.rows import Rows
from orcu.metrics.sums import PARTS, TABLES, Sums, Term


class Layout:
    """Positions of all sums in one flat vector, for C classes and B bins.

    Row scores that are registered later do not change it. ``row_scores`` are their names in order, by default all that
    are registered.

    Example:
        >>> Layout(num_classes=3, n_bins=15).size
        421
    """

    def __init__(self, num_classes: int, n_bins: int, row_scores: Sequence[str] | None = None) -> None:
        METRICS.names()  # imports all modules that register row scores
        registered = [name for name in PARTS if name not in TABLES]
        self.num_classes, self.n_bins = num_classes, n_bins
        self.row_scores = registered if row_scores is None else list(row_scores)
        for name in self.row_scores:
            if name not in registered:
                raise UnknownNameError("row score", name, registered)
        self._parts = {name: PARTS[name] for name in (*TABLES, *self.row_scores)}
        self.shapes = {name: part.shape(num_classes, n_bins) for name, part in self._parts.items()}
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        ends = [0, *np.cumsum(sizes).tolist()]
        self.slices = dict(zip(self.shapes, map(slice, ends, ends[1:]), strict=True))
        self.size = ends[-1]

    def __reduce__(self) -> tuple[Any, ...]:  # the functions of the parts cannot be pickled
        return Layout, (self.num_classes, self.n_bins, self.row_scores)

    def sums(self, vector: FloatArray, total: float | None = None) -> Sums:
        """Sums in a flat vector of shape (..., size); with the total, the part of the binned tables is enough."""
        return Sums(partial(self._part, vector), total)

    def _part(self, vector: FloatArray, name: str) -> FloatArray:
        return vector[..., self.slices[name]].reshape((*vector.shape[:-1], *self.shapes[name]))

    @property
    def binned(self) -> slice:
        """Part of the vector with the binned tables."""
        return slice(0, self.slices["confusion"].start)

    def terms(self, rows: Rows) -> Iterator[Term]:
        """Contributions of the rows to the vector, one term at a time."""
        for name, where in self.slices.items():
            for start, width, column, value in self._parts[name].terms(rows, self.n_bins, PAPER):
                yield where.start + start, width, column, value
