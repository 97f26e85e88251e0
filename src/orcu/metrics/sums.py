"""The sums from which all metrics are computed, and the functions that compute them from arrays.

A metric is a function of `Sums`: weighted counts and sums over rows. Sums are additive, so the same formula serves a
file, a subgroup, a bootstrap resample (rows counted several times), simulated outcomes and partial states of other
machines. The leading axes of a sum index resamples or subgroups.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import BoolArray, FloatArray, IntArray, as_array, as_labels, as_logits, as_n_bins, as_probs
from orcu.metrics.binning import CONVENTIONS, PAPER, BinRule, bin_index, check_convention
from orcu.metrics.rows import Rows, checked_rows, checked_weight, confusion_cells, confusion_counts, rows_of
from orcu.raters.votes import as_votes, expand_votes, is_votes

WEIGHT, VALUE, OUTCOME = range(3)  # second-last axis of a binned table


class Sums:
    """Sums over rows with common leading axes (...); each is computed when it is first read.

    Binned tables contain weight, value and outcome (3) per bin (B).

    Args:
        part: function that returns the sum of a name in `PARTS`.
        total: N, if known without the confusion matrix.
    """

    top: FloatArray  # binned table of the top label, shape (..., 3, B)
    classes: FloatArray  # binned tables of the class probabilities, shape (..., C, 3, B)
    thresholds: FloatArray  # binned tables of the cumulative probabilities, shape (..., C-1, 3, B)
    adaptive: FloatArray  # tables of the class probabilities over equal-count bins, (..., C, 3, B); 0 without them
    confusion: FloatArray  # confusion matrix of (label, decision), shape (..., C, C)
    threshold_squares: FloatArray  # sums of (F(k) - 1[y <= k])^2, shape (..., C-1)

    def __init__(self, part: Callable[[str], FloatArray], total: float | None = None) -> None:
        self._part, self._total = part, total

    def __getattr__(self, name: str) -> FloatArray:
        if name not in TABLES:
            raise AttributeError(f"'Sums' object has no attribute {name!r}")
        self.__dict__[name] = self._part(name)
        return self.__dict__[name]

    @cached_property
    def total(self) -> FloatArray:
        """Number of rows N, or the sum of their weights, shape (...)."""
        return np.asarray(self.confusion.sum((-2, -1)) if self._total is None else self._total)

    def score(self, name: str) -> FloatArray:
        """Sum of a row score, shape (...)."""
        return self._part(name)

    def mean(self, score: str) -> FloatArray:
        """Mean of a row score, shape (...)."""
        return self.score(score) / self.total


# Contribution of all rows to a sum: (start, width, column, value). The columns (n,) lie in 0..width-1 and count from
# start; a value of None means 1, and booleans count where they are true.
Term = tuple[int, int, IntArray, Any]


@dataclass(frozen=True)
class Part:
    """One of the sums: its shape for C classes and B bins, and the contributions of the rows."""

    shape: Callable[[int, int], tuple[int, ...]]
    terms: Callable[[Rows, int, BinRule], Iterator[Term]]


def _binned_part(
    tables: Callable[[Rows], Iterable[tuple[FloatArray, BoolArray]]],
    leading: Callable[[int], tuple[int, ...]],
    *,
    adaptive: bool = False,
) -> Part:
    """Binned tables of the values and outcomes of all rows; ``leading`` is the shape before (3, B)."""

    def terms(rows: Rows, n_bins: int, rule: BinRule) -> Iterator[Term]:
        bins = rows.adaptive_bins if adaptive else None
        if adaptive and bins is None:
            return
        width, weight = rule.width(n_bins), rows.sample_weight
        for k, (value, outcome) in enumerate(tables(rows)):
            index = bin_index(value, n_bins, rule) if bins is None else bins[k]
            start = 3 * width * k
            yield start + WEIGHT * width, width, index, weight
            yield start + VALUE * width, width, index, _weighted(value, weight)
            yield start + OUTCOME * width, width, index, outcome if weight is None else weight * outcome

    return Part(lambda num_classes, n_bins: (*leading(num_classes), 3, n_bins), terms)


def _class_tables(rows: Rows) -> Iterator[tuple[FloatArray, BoolArray]]:
    return ((p, rows.y == k) for k, p in enumerate(rows.columns))


def _confusion_terms(rows: Rows, n_bins: int, rule: BinRule) -> Iterator[Term]:
    yield 0, rows.num_classes**2, confusion_cells(rows.decision, rows.y, rows.num_classes), rows.sample_weight


def _square_terms(rows: Rows, n_bins: int, rule: BinRule) -> Iterator[Term]:
    for k, square in enumerate(rows.threshold_squares()):
        yield k, 1, _same_column(rows), _weighted(square, rows.sample_weight)


def _weighted(values: Any, weight: FloatArray | None) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    return values if weight is None else weight * values


def _same_column(rows: Rows) -> IntArray:
    """Column 0 for all rows, without allocating memory for each."""
    return np.broadcast_to(np.intp(0), len(rows))


PARTS: dict[str, Part] = {
    "top": _binned_part(lambda rows: [(rows.confidence, rows.correct)], lambda num_classes: ()),
    "classes": _binned_part(_class_tables, lambda num_classes: (num_classes,)),
    "thresholds": _binned_part(
        lambda rows: ((below, rows.y <= k) for k, below in enumerate(rows.cumulative)),
        lambda num_classes: (num_classes - 1,),
    ),
    "adaptive": _binned_part(_class_tables, lambda num_classes: (num_classes,), adaptive=True),
    "confusion": Part(lambda num_classes, n_bins: (num_classes, num_classes), _confusion_terms),
    "threshold_squares": Part(lambda num_classes, n_bins: (num_classes - 1,), _square_terms),
}  # and the row scores, which are scalars
TABLES = tuple(PARTS)


def row_score(name: str) -> Callable[[Callable[[Rows], FloatArray]], Callable[[Rows], FloatArray]]:
    """Decorator that registers a score of each row, shape (n,).

    Metrics read its sum as ``sums.score(name)`` and its mean as ``sums.mean(name)``.

    Raises:
        InputError: if another sum has that name.
    """
    if name in TABLES:
        raise InputError(f"row score {name!r}: this name is taken by a part of Sums; choose another.")

    def register(function: Callable[[Rows], FloatArray]) -> Callable[[Rows], FloatArray]:
        def terms(rows: Rows, n_bins: int, rule: BinRule) -> Iterator[Term]:
            yield 0, 1, _same_column(rows), _weighted(function(rows), rows.sample_weight)

        PARTS[name] = Part(lambda num_classes, n_bins: (), terms)
        return function

    return register


def row_sums(rows: Rows, n_bins: int = 15, rule: BinRule = PAPER) -> Sums:
    """Sums of rows in float64; a part that no metric reads is not computed.

    Example:
        >>> rows = Rows(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
        >>> row_sums(rows).confusion
        array([[1., 0.],
               [1., 0.]])
    """

    def part(name: str) -> FloatArray:
        shape = PARTS[name].shape(rows.num_classes, rule.width(n_bins))
        sums = np.zeros(int(np.prod(shape)))
        for start, width, column, value in PARTS[name].terms(rows, n_bins, rule):
            if column.strides == (0,) and value is not None:  # one column for all rows: a plain sum is faster
                sums[start] += value.sum()
            else:  # a column beyond the width is in no bin
                sums[start : start + width] += np.bincount(column, weights=value, minlength=width)[:width]
        return sums.reshape(shape)

    return Sums(part, rows.total)


def labelled_sums(probs: Any, y: Any, *, sample_weight: Any = None) -> Sums:
    """Sums of probabilities and labels, after validation."""
    return row_sums(checked_rows(probs, y, sample_weight=sample_weight))


def binned_sums(probs: Any, y: Any, *, n_bins: int = 15, convention: str = "paper", sample_weight: Any = None) -> Sums:
    """Sums of probabilities and labels over equal-width bins under a convention, after validation."""
    rows = checked_rows(probs, y, sample_weight=sample_weight)
    return row_sums(rows, as_n_bins(n_bins), CONVENTIONS[check_convention(convention)])


def decision_sums(probs: Any = None, y: Any = None, *, pred: Any = None, sample_weight: Any = None) -> Sums:
    """Confusion matrix as `Sums`, of decisions or of the first argmax of probabilities, after validation.

    Example:
        >>> decision_sums(y=[0, 1, 1], pred=[0, 1, 0]).confusion
        array([[1., 0.],
               [1., 1.]])
    """
    if (probs is None) == (pred is None):
        raise InputError("probs, pred: pass exactly one of the two: probabilities or decisions.")
    if probs is not None:
        rows = checked_rows(probs, y, sample_weight=sample_weight)
        confusion = confusion_counts(rows.pred, rows.y, rows.num_classes, rows.sample_weight)
    else:
        num_classes = as_array(y, "y").shape[1] if is_votes(y) else None
        pred = as_labels(pred, num_classes, name="pred")
        weight = checked_weight(sample_weight, len(pred))
        if num_classes is not None:
            case, y, share = expand_votes(as_votes(y, num_classes, rows=len(pred)))
            pred, weight = pred[case], share if weight is None else weight[case] * share
        else:
            y = as_labels(y, None, rows=len(pred))
        confusion = confusion_counts(pred, y, num_classes or int(max(pred.max(), y.max())) + 1, weight)
    return Sums({"confusion": confusion}.__getitem__)


def likelihood_sums(probs: Any = None, y: Any = None, *, logits: Any = None, sample_weight: Any = None) -> Sums:
    """Sums that depend on the log-likelihood alone, of probabilities or logits, after validation."""
    if (probs is None) == (logits is None):
        raise InputError("probs, logits: pass exactly one of the two.")
    if logits is None:
        return labelled_sums(probs, y, sample_weight=sample_weight)
    logits = as_logits(logits)
    # The logits also stand in for the probabilities, which are not read here: computing them would double the time.
    return row_sums(rows_of(logits, y, sample_weight, logits))


def distribution_sums(probs: Any, *, sample_weight: Any = None) -> Sums:
    """Sums of probabilities that do not depend on labels, after validation."""
    probs = as_probs(probs)
    return row_sums(Rows(probs, np.zeros(len(probs), dtype=np.int64), checked_weight(sample_weight, len(probs))))


def ordered_sum(terms: Iterable[FloatArray]) -> FloatArray:
    """Sum of arrays in their order, so that the result of a row does not depend on the other rows.

    ``numpy.sum`` orders its additions by the shape of the whole array, which would change the last bit when a
    `Tally` is split.
    """
    return functools.reduce(operator.add, terms)
