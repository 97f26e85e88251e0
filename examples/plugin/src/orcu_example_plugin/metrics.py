"""How often a decision is far off."""

from typing import Any

import numpy as np

from orcu.metrics.base import metric
from orcu.metrics.sums import Sums, decision_sums


def far_off(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """The share of decisions that are two classes off or more.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> far_off(y=[0, 1, 2, 2], pred=[1, 1, 2, 0])
        0.25
    """
    return float(_far_off(decision_sums(probs, y, pred, weight)))


@metric("far_off", "Two classes off or more", family="decision", better="lower", percent=True)
def _far_off(sums: Sums) -> Any:
    k = np.arange(sums.confusion.shape[-1])  # (..., label, decision)
    return (sums.confusion * (np.abs(k - k[:, None]) > 1)).sum((-2, -1)) / sums.total
