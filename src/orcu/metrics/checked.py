"""From what a caller hands in to checked rows."""

from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import IntArray, as_labels, as_probs, as_weight
from orcu.metrics.tables import Rows


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
