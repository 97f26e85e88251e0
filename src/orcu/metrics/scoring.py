"""Proper scores of the whole distribution."""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray, IntArray, as_labels, as_probs


def rps(probs: Any, y: Any) -> float:
    """Ranked probability score, mean over rows (Eq. 39): sum_k (F(k) - 1[y <= k])^2.

    The plain sum over the C - 1 thresholds; lower is better.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(rps([[0.2, 0.5, 0.3]], [1]), 4)
        0.13
    """
    probs = as_probs(probs)
    return float(np.mean(rps_rows(probs, as_labels(y, probs.shape[1], rows=len(probs)))))


def rps_rows(probs: FloatArray, y: IntArray) -> FloatArray:
    """The score of each row of checked arrays, shape (n,)."""
    outcome = y[:, None] <= np.arange(probs.shape[1] - 1)
    score: FloatArray = ((geometry.cumulative(probs) - outcome) ** 2).sum(axis=1)
    return score
