"""Checked rows, and what follows from each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from orcu import geometry
from orcu.decisions.rules import decide_checked
from orcu.errors import InputError
from orcu.inputs import BoolArray, FloatArray, IntArray, as_labels, as_logits, as_probs, as_weight
from orcu.metrics.binning import even_groups

if TYPE_CHECKING:
    from orcu.predictions.predictions import Predictions


_IN_CACHE = 1 << 14  # rows that are turned at once


@dataclass(frozen=True)
class Rows:
    """Checked predictions: probabilities (n, C), labels (n,), weights (n,) or none.

    ``log_likelihood`` comes from logits where there are logits; zeros of probabilities give -inf.
    """

    probs: FloatArray
    y: IntArray
    weight: FloatArray | None = None
    logits: FloatArray | None = None
    rule: Any = "argmax"  # of the decisions, see orcu.decide
    doubt: FloatArray | None = None  # (n,): by which rows are referred, in place of the confidence
    groups: IntArray | None = None  # (C, n): the group of even count of each class's probability, see `grouped`

    @classmethod
    def of(cls, predictions: "Predictions", decide: Any = "argmax", groups: IntArray | None = None) -> "Rows":
        """The rows of predictions, decided by a rule.

        Raises:
            InputError: if there are no labels.

        Example:
            >>> from orcu import Predictions
            >>> rows = Rows.of(Predictions(probs=[[0.4, 0.25, 0.35]], y=[1]), decide="median")
            >>> rows.pred.tolist(), rows.decision.tolist()
            ([0], [1])
        """
        values = predictions.probs, predictions.labels, predictions.weight, predictions.logits
        return cls(*values, decide, predictions.doubt, groups)

    @classmethod
    def of_logits(cls, logits: FloatArray, y: IntArray, weight: FloatArray | None = None) -> "Rows":
        """Rows from checked logits."""
        return cls(geometry.probs(logits), y, weight, logits)

    def __len__(self) -> int:
        return len(self.probs)

    def __getitem__(self, rows: Any) -> "Rows":
        part = Rows(
            self.probs[rows],
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.logits is None else self.logits[rows],
            self.rule,
            None if self.doubt is None else self.doubt[rows],
            None if self.groups is None else self.groups[:, rows],
        )
        if isinstance(rows, slice) and "columns" in self.__dict__:  # a view of what is made already
            part.__dict__["columns"] = self.columns[:, rows]
        return part

    def grouped(self, count: int, cut: Callable[[FloatArray, int], IntArray] = even_groups) -> "Rows":
        """The same rows, their probabilities cut into groups of even count, class by class, as the ACE needs."""
        groups = np.empty((self.num_classes, len(self)), dtype=np.int64)
        for k in range(self.num_classes):
            groups[k] = cut(self.probs[:, k], count)
        return replace(self, groups=groups)

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.probs.shape[1])

    @property
    def total(self) -> float:
        """N, the number of the rows, or their weight."""
        return float(len(self) if self.weight is None else self.weight.sum())

    @cached_property
    def columns(self) -> FloatArray:
        """The probabilities class by class, shape (C, n), contiguous."""
        return np.ascontiguousarray(self.probs.T)

    @cached_property
    def cumulative(self) -> FloatArray:
        """F(k) = P(Y <= k) for the thresholds k = 0..C-2, shape (C-1, n)."""
        cumulative = self.columns[:-1].copy()
        for k in range(1, len(cumulative)):  # numpy.cumsum gives the same bits in ten times the time
            cumulative[k] += cumulative[k - 1]
        return cumulative

    def threshold_squares(self) -> Iterator[FloatArray]:
        """(F(k) - 1[y <= k])^2 of each row, threshold by threshold."""
        columns = self.__dict__.get("columns", self.probs.T)
        below = columns[0].copy()  # F(k); two columns at a time, as whole matrices would take most of the time
        for k in range(self.num_classes - 1):
            miss = below - (self.y <= k)
            miss *= miss
            yield miss
            below += columns[k + 1]

    @cached_property
    def pred(self) -> IntArray:
        """The first argmax of each row."""
        return self._top[0]

    @cached_property
    def decision(self) -> IntArray:
        """The decided class of each row; the first argmax unless another rule was asked for."""
        if isinstance(self.rule, str) and self.rule == "argmax":
            return self.pred
        return decide_checked(self.probs, self.rule)

    @cached_property
    def confidence(self) -> FloatArray:
        """The largest probability of each row."""
        return self._top[1]

    @cached_property
    def _top(self) -> tuple[IntArray, FloatArray]:
        """The first argmax and the largest probability; class by class, several times quicker than numpy along rows."""
        pred, confidence = np.zeros(len(self), dtype=np.int64), np.empty(len(self))
        for start in range(0, len(self), _IN_CACHE):
            part = slice(start, start + _IN_CACHE)
            columns = self.__dict__["columns"][:, part] if "columns" in self.__dict__ else self.probs[part].T.copy()
            top = np.max(columns, axis=0, out=confidence[part])
            for k in reversed(range(self.num_classes)):
                np.copyto(pred[part], k, where=columns[k] == top)
        return pred, confidence

    @cached_property
    def correct(self) -> BoolArray:
        """Whether the first argmax is the label."""
        return self.pred == self.y

    @property
    def likelihood(self) -> FloatArray:
        """p_y of each row."""
        return _entry(self.probs, self.y)

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """Log p_y of each row, -inf where p_y is 0."""
        if self.logits is not None:
            return _entry(geometry.log_probs(self.logits), self.y)
        with np.errstate(divide="ignore"):
            return np.log(self.likelihood)


def _entry(matrix: FloatArray, column: IntArray) -> FloatArray:
    """The entry of each row in its column; flat positions are quicker than pairs of indices."""
    return matrix.take(column + np.arange(0, matrix.size, matrix.shape[1]))


def checked_rows(probs: Any, y: Any, weight: Any = None) -> Rows:
    """Probabilities, labels and weights of equal length.

    Raises:
        InputError: if an argument cannot be used; the text names the row.
    """
    probs = as_probs(probs)
    return Rows(probs, as_labels(y, probs.shape[1], rows=len(probs)), _checked_weight(weight, len(probs)))


def checked_distributions(probs: Any, weight: Any = None) -> Rows:
    """Rows for what does not look at labels; all of them are 0 here.

    Raises:
        InputError: if an argument cannot be used; the text names the row.
    """
    probs = as_probs(probs)
    return Rows(probs, np.zeros(len(probs), dtype=np.int64), _checked_weight(weight, len(probs)))


def checked_likelihoods(probs: Any, y: Any, logits: Any, weight: Any = None) -> Rows:
    """Rows for what reads the log-likelihood alone, from probabilities or logits.

    Raises:
        InputError: if not exactly one of ``probs`` and ``logits`` is given, or one cannot be used.
    """
    if (probs is None) == (logits is None):
        raise InputError("probs, logits: give exactly one of the two.")
    if logits is None:
        return checked_rows(probs, y, weight)
    logits = as_logits(logits)
    y = as_labels(y, logits.shape[1], rows=len(logits))
    # Logits stand where probabilities belong: nobody looks there, and to compute them would double the time.
    return Rows(logits, y, _checked_weight(weight, len(logits)), logits)


def checked_confusion(probs: Any, y: Any, pred: Any, weight: Any) -> FloatArray:
    """Weighted counts of (label, prediction), shape (C, C), from probabilities or decisions.

    Raises:
        InputError: if not exactly one of ``probs`` and ``pred`` is given, or one cannot be used.
    """
    if (probs is None) == (pred is None):
        raise InputError("probs, pred: give exactly one of the two: probabilities or decisions.")
    if probs is not None:
        rows = checked_rows(probs, y, weight)
        return confusion_counts(rows.pred, rows.y, rows.num_classes, rows.weight)
    pred = as_labels(pred, None, name="pred")
    y = as_labels(y, None, rows=len(pred))
    return confusion_counts(pred, y, int(max(pred.max(), y.max())) + 1, _checked_weight(weight, len(pred)))


def confusion_counts(pred: IntArray, y: IntArray, num_classes: int, weight: Any = None) -> FloatArray:
    """Counts of (label, prediction) in checked arrays, shape (C, C)."""
    counts = np.bincount(confusion_cells(pred, y, num_classes), weights=weight, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes).astype(np.float64)


def confusion_cells(pred: IntArray, y: IntArray, num_classes: int) -> IntArray:
    """Where each row stands in the flat matrix of (label, prediction)."""
    return y * num_classes + pred


def _checked_weight(weight: Any, rows: int) -> FloatArray | None:
    return None if weight is None else as_weight(weight, rows=rows)
