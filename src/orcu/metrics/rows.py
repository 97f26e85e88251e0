"""Checked rows, and what follows from each of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orcu import geometry
from orcu.decisions.rules import decide_checked
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_labels, as_probs, as_weight


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


def checked_rows(probs: Any, y: Any, weight: Any = None) -> Rows:
    """Probabilities, labels and weights of equal length.

    Raises:
        InputError: if an argument cannot be used; the text names the row.
    """
    probs = as_probs(probs)
    y = as_labels(y, probs.shape[1], rows=len(probs))
    return Rows(probs, y, None if weight is None else as_weight(weight, rows=len(probs)))


def checked_confusion(probs: Any, y: Any, pred: Any, weight: Any) -> Any:
    """Weighted counts of (label, prediction), shape (C, C), from probabilities or decisions.

    Raises:
        InputError: if not exactly one of ``probs`` and ``pred`` is given, or one cannot be used.
    """
    if (probs is None) == (pred is None):
        raise InputError("probs, pred: give exactly one of the two: probabilities or decisions.")
    if probs is not None:
        rows = checked_rows(probs, y, weight)
        pred, y, weight, num_classes = rows.pred, rows.y, rows.weight, rows.num_classes
    else:
        pred = as_labels(pred, None, name="pred")
        y = as_labels(y, None, rows=len(pred))
        weight = None if weight is None else as_weight(weight, rows=len(pred))
        num_classes = int(max(pred.max(), y.max())) + 1
    return confusion_counts(pred, y, num_classes, weight)


def confusion_counts(pred: IntArray, y: IntArray, num_classes: int, weight: Any = None) -> Any:
    """Counts of (label, prediction) in checked arrays, shape (C, C)."""
    cells = np.bincount(y * num_classes + pred, weights=weight, minlength=num_classes**2)
    return cells.reshape(num_classes, num_classes).astype(np.float64)
