"""The sums from which every metric follows.

A metric of the judging half is a function of `Tables`: weighted counts and sums over rows. Sums can
be added, so one formula serves a whole file, a group, a bootstrap resample (rows counted several
times), a simulated outcome and partial states from other machines. The leading axes of a table are
whatever is judged side by side.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from orcu import geometry
from orcu.decisions import decide_checked
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import bin_index
from orcu.registry import Registry

WEIGHT, VALUE, OUTCOME = range(3)  # the second-last axis of a binned table


@dataclass(frozen=True)
class Rows:
    """Checked predictions: probabilities (n, C), labels (n,), weights (n,) or none.

    ``log_probs`` comes from logits where there are logits; zeros of probabilities give -inf.
    """

    probs: FloatArray
    y: IntArray
    weight: FloatArray | None = None
    logits: FloatArray | None = None
    rule: Any = "argmax"  # of the decisions, see orcu.decide

    @classmethod
    def of(cls, values: FloatArray, y: IntArray, weight: FloatArray | None, *, is_logits: bool) -> "Rows":
        """Rows from checked logits or probabilities."""
        if not is_logits:
            return cls(values, y, weight)
        return cls(geometry.probs(values), y, weight, logits=values)

    def __len__(self) -> int:
        return len(self.probs)

    def __getitem__(self, rows: Any) -> "Rows":
        return Rows(
            self.probs[rows],
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.logits is None else self.logits[rows],
            self.rule,
        )

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.probs.shape[1])

    @cached_property
    def columns(self) -> FloatArray:
        """The probabilities class by class, shape (C, n), contiguous."""
        return np.ascontiguousarray(self.probs.T)

    @cached_property
    def cumulative(self) -> FloatArray:
        """F(k) = P(Y <= k) for the thresholds k = 0..C-2, shape (C-1, n)."""
        return np.cumsum(self.columns[:-1], axis=0)

    @cached_property
    def pred(self) -> IntArray:
        """The first argmax of each row."""
        return self.probs.argmax(axis=1)

    @cached_property
    def decision(self) -> IntArray:
        """The decided class of each row; the first argmax unless another rule was asked for."""
        return decide_checked(self.probs, self.rule)

    @cached_property
    def confidence(self) -> FloatArray:
        """The largest probability of each row."""
        return self.probs[np.arange(len(self)), self.pred]

    @cached_property
    def correct(self) -> FloatArray:
        """1 where the first argmax is the label, else 0."""
        return (self.pred == self.y).astype(np.float64)

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """Log p_y of each row, -inf where p_y is 0."""
        if self.logits is not None:
            log_probs: FloatArray = geometry.log_probs(self.logits)
            return log_probs[np.arange(len(self)), self.y]
        with np.errstate(divide="ignore"):
            return np.log(self.probs[np.arange(len(self)), self.y])


@dataclass(frozen=True)
class Tables:
    """Sums over rows, each with the same leading axes (...).

    Binned tables hold weight, value and outcome (3) per bin (B): of the top label, of each class's
    probability, of each cumulative probability, and of each class over groups of equal count.
    """

    top: FloatArray  # (..., 3, B)
    classes: FloatArray  # (..., C, 3, B)
    thresholds: FloatArray  # (..., C-1, 3, B)
    adaptive: FloatArray  # (..., C, 3, B); zero where the groups were not given
    confusion: FloatArray  # (..., C, C): label, decision
    threshold_squares: FloatArray  # (..., C-1): sum of (F(k) - 1[y <= k])^2
    scores: dict[str, FloatArray]  # (...) each: sums of the registered row scores

    @property
    def total(self) -> FloatArray:
        """N, the number or weight of the rows."""
        total: FloatArray = self.confusion.sum((-2, -1))
        return total

    def mean(self, score: str) -> FloatArray:
        """The average of a row score."""
        return self.scores[score] / self.total


def summed(terms: Iterable[FloatArray]) -> FloatArray:
    """The sum of arrays, one after the other: a row's result does not depend on the rows beside it.

    ``numpy.sum`` orders its additions by the shape of the whole array, which would break the
    promise of `Tally` in the last bit.
    """
    return functools.reduce(operator.add, terms)


def total_gap(gaps: FloatArray) -> FloatArray:
    """The sum over bins (..., G)."""
    return gaps.sum(-1)


def largest_gap(gaps: FloatArray) -> FloatArray:
    """The largest of the bins (..., G)."""
    return gaps.max(-1)


Family = Literal["calibration", "decision", "distribution"]
FromTables = Callable[[Tables], Any]


@dataclass(frozen=True)
class Metric:
    """One number of a report: how it is called, read and computed."""

    name: str
    title: str
    family: Family
    better: Literal["higher", "lower", "zero", ""]
    percent: bool  # a fraction, shown as percent in printed tables
    convention: str
    rank: int
    from_tables: FromTables
    # A binned error gives the signed gap of every bin in place of its value, and how |gaps| add up.
    reduce: Callable[[FloatArray], FloatArray] | None = None

    def __call__(self, tables: Tables) -> FloatArray:
        """The metric of each of the tables, shape (...)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is NaN: not defined
            found = np.asarray(self.from_tables(tables), dtype=np.float64)
        return found if self.reduce is None else self.reduce(np.abs(found))

    @property
    def binned(self) -> bool:
        """Whether it sums absolute gaps, so that noise alone makes it larger."""
        return self.reduce is not None


METRICS: Registry[Metric] = Registry("metric", package="orcu.metrics")
_ROW_SCORES: dict[str, Callable[[Rows], FloatArray]] = {}


def metric(
    name: str,
    title: str,
    *,
    family: Family,
    better: Literal["higher", "lower", "zero", ""],
    percent: bool = False,
    convention: str = "",
    reduce: Callable[[FloatArray], FloatArray] | None = None,
) -> Callable[[FromTables], Metric]:
    """Decorator that makes a function of `Tables` a metric of every evaluation.

    With ``reduce`` the function gives signed gaps (..., G) and the metric is reduce(|gaps|).
    """

    def add(function: FromTables) -> Metric:
        made = Metric(name, title, family, better, percent, convention, len(_RANKS), function, reduce)
        _RANKS.append(name)
        return METRICS.register(name)(made)

    return add


_RANKS: list[str] = []


def row_score(name: str) -> Callable[[Callable[[Rows], FloatArray]], Callable[[Rows], FloatArray]]:
    """Decorator for a score of each row, (n,): its sum joins the tables as ``scores[name]``."""

    def add(function: Callable[[Rows], FloatArray]) -> Callable[[Rows], FloatArray]:
        _ROW_SCORES[name] = function
        return function

    return add


def all_metrics() -> list[Metric]:
    """The registered metrics in the order of a report."""
    families = ["calibration", "decision", "distribution"]
    found = [METRICS.get(name) for name in METRICS.names()]
    return sorted(found, key=lambda m: (families.index(m.family), m.rank))


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
