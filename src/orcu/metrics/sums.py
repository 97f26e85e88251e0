"""The sums from which every metric follows, and what every row adds to each of them.

A metric is a function of `Sums`: weighted counts and sums over rows. Sums can be added, so one formula serves a
whole file, a group, a bootstrap resample (rows counted several times), a simulated outcome and partial states from
other machines. The leading axes of a sum are whatever is judged side by side.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import BoolArray, FloatArray, IntArray
from orcu.metrics.binning import PAPER, BinRule, bin_index
from orcu.metrics.rows import Rows, checked_confusion, confusion_cells

WEIGHT, VALUE, OUTCOME = range(3)  # the second-last axis of a binned table


class Sums:
    """Sums over rows, each with the same leading axes (...), and each made when it is first read.

    Binned tables hold weight, value and outcome (3) per bin (B): of the top label, of each class's
    probability, of each cumulative probability, and of each class over groups of equal count.

    Args:
        part: gives the sum of a name in `PARTS`.
        total: N, where it is known without the confusion matrix.
    """

    def __init__(self, part: Callable[[str], FloatArray], total: float | None = None) -> None:
        self._part, self._total = part, total

    @cached_property
    def top(self) -> FloatArray:
        """Of the top label, shape (..., 3, B)."""
        return self._part("top")

    @cached_property
    def classes(self) -> FloatArray:
        """Of each class's probability, shape (..., C, 3, B)."""
        return self._part("classes")

    @cached_property
    def thresholds(self) -> FloatArray:
        """Of each cumulative probability, shape (..., C-1, 3, B)."""
        return self._part("thresholds")

    @cached_property
    def adaptive(self) -> FloatArray:
        """Of each class over its groups of equal count, shape (..., C, 3, B); zero where rows have no groups."""
        return self._part("adaptive")

    @cached_property
    def confusion(self) -> FloatArray:
        """Of (label, decision), shape (..., C, C)."""
        return self._part("confusion")

    @cached_property
    def threshold_squares(self) -> FloatArray:
        """Of (F(k) - 1[y <= k])^2, shape (..., C-1)."""
        return self._part("threshold_squares")

    @cached_property
    def total(self) -> FloatArray:
        """N, the number or weight of the rows, shape (...)."""
        return np.asarray(self.confusion.sum((-2, -1)) if self._total is None else self._total)

    def score(self, name: str) -> FloatArray:
        """The sum of a row score, shape (...)."""
        return self._part(name)

    def mean(self, score: str) -> FloatArray:
        """The average of a row score, shape (...)."""
        return self.score(score) / self.total


# Where a row's value goes: (start, width, column, value). The columns (n,) lie in 0..width-1 and count from start;
# a value of None means 1, and truth values count where they are true.
Term = tuple[int, int, IntArray, Any]


@dataclass(frozen=True)
class Part:
    """One of the sums: its shape for C classes and B bins, and what every row adds to it, term by term."""

    shape: Callable[[int, int], tuple[int, ...]]
    terms: Callable[[Rows, int, BinRule], Iterator[Term]]


def _top(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    index = bin_index(rows.confidence, bins, rule)
    yield from _binned(0, rule.width(bins), index, rows.confidence, rows.correct, rows.weight)


def _classes(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    for k, values in enumerate(rows.columns):
        yield from _binned(k, rule.width(bins), bin_index(values, bins, rule), values, rows.y == k, rows.weight)


def _thresholds(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    for k, values in enumerate(rows.cumulative):
        yield from _binned(k, rule.width(bins), bin_index(values, bins, rule), values, rows.y <= k, rows.weight)


def _adaptive(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    if rows.groups is not None:
        for k, (values, group) in enumerate(zip(rows.columns, rows.groups, strict=True)):
            yield from _binned(k, rule.width(bins), group, values, rows.y == k, rows.weight)


def _confusion(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    yield 0, rows.num_classes**2, confusion_cells(rows.decision, rows.y, rows.num_classes), rows.weight


def _threshold_squares(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
    for k, square in enumerate(rows.threshold_squares()):
        yield k, 1, _one_place(rows), _weighted(square, rows.weight)


def _binned(
    table: int, width: int, index: IntArray, value: FloatArray, outcome: BoolArray, weight: FloatArray | None
) -> Iterator[Term]:
    start = 3 * width * table
    yield start + WEIGHT * width, width, index, weight
    yield start + VALUE * width, width, index, _weighted(value, weight)
    yield start + OUTCOME * width, width, index, outcome if weight is None else weight * outcome


def _weighted(values: Any, weight: FloatArray | None) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    return values if weight is None else weight * values


def _one_place(rows: Rows) -> IntArray:
    """The same column for all rows, without memory for each."""
    return np.broadcast_to(np.intp(0), len(rows))


def _scalar(num_classes: int, bins: int) -> tuple[int, ...]:
    return ()


PARTS: dict[str, Part] = {
    "top": Part(lambda num_classes, bins: (3, bins), _top),
    "classes": Part(lambda num_classes, bins: (num_classes, 3, bins), _classes),
    "thresholds": Part(lambda num_classes, bins: (num_classes - 1, 3, bins), _thresholds),
    "adaptive": Part(lambda num_classes, bins: (num_classes, 3, bins), _adaptive),
    "confusion": Part(lambda num_classes, bins: (num_classes, num_classes), _confusion),
    "threshold_squares": Part(lambda num_classes, bins: (num_classes - 1,), _threshold_squares),
}  # and the row scores, which are scalars


def row_score(name: str) -> Callable[[Callable[[Rows], FloatArray]], Callable[[Rows], FloatArray]]:
    """Decorator for a score of each row, (n,): metrics read its sum as ``sums.score(name)``, its average as `mean`.

    Raises:
        InputError: if the name is that of another sum.
    """
    if name in PARTS and PARTS[name].shape is not _scalar:
        raise InputError(f"row score {name!r}: the sums have a part of that name; choose another.")

    def add(function: Callable[[Rows], FloatArray]) -> Callable[[Rows], FloatArray]:
        def terms(rows: Rows, bins: int, rule: BinRule) -> Iterator[Term]:
            yield 0, 1, _one_place(rows), _weighted(function(rows), rows.weight)

        PARTS[name] = Part(_scalar, terms)
        return function

    return add


def row_sums(rows: Rows, bins: int = 15, rule: BinRule = PAPER) -> Sums:
    """The sums of some rows in plain float64; what a metric does not read is not computed.

    Example:
        >>> rows = Rows(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
        >>> row_sums(rows).confusion
        array([[1., 0.],
               [1., 0.]])
    """

    def part(name: str) -> FloatArray:
        shape = PARTS[name].shape(rows.num_classes, rule.width(bins))
        sums = np.zeros(int(np.prod(shape)))
        for start, width, column, value in PARTS[name].terms(rows, bins, rule):
            if column.strides == (0,) and value is not None:  # one place for all: a plain sum is quicker
                sums[start] += value.sum()
            else:  # a column beyond the width is in no bin
                sums[start : start + width] += np.bincount(column, weights=value, minlength=width)[:width]
        return sums.reshape(shape)

    return Sums(part, rows.total)


def decision_sums(probs: Any, y: Any, pred: Any, weight: Any) -> Sums:
    """The sums that metrics of decisions read, the confusion matrix, from probabilities or decisions.

    Raises:
        InputError: if not exactly one of ``probs`` and ``pred`` is given, or one cannot be used.

    Example:
        >>> decision_sums(None, [0, 1, 1], [0, 1, 0], None).confusion
        array([[1., 0.],
               [1., 1.]])
    """
    return Sums({"confusion": checked_confusion(probs, y, pred, weight)}.__getitem__)


def summed(terms: Iterable[FloatArray]) -> FloatArray:
    """The sum of arrays, one after the other: a row's result does not depend on the rows beside it.

    ``numpy.sum`` orders its additions by the shape of the whole array, which would break the
    promise of `Tally` in the last bit.
    """
    return functools.reduce(operator.add, terms)
