"""Net benefit of acting on "class k or above" at a threshold probability (Vickers and Elkin, 2006)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.metrics.base import documented
from orcu.metrics.rows import Rows, checked_rows

POINTS = np.arange(1, 20) / 20  # threshold probabilities of a decision curve


@documented
def net_benefit(
    probs: Any, y: Any, *, threshold_probabilities: Sequence[float] = tuple(POINTS), sample_weight: Any = None
) -> FloatArray:
    """Net benefit of each threshold k = 1..C-1 at each threshold probability t, shape (C-1, m).

    A row is treated if P(Y >= k) >= t. The net benefit is TP/N - FP/N * t / (1 - t): t states how many false positives
    a true positive is worth. Treating no row has the net benefit 0.

    Example:
        >>> net_benefit(
        ...     [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]],
        ...     [0, 1, 0, 1],
        ...     threshold_probabilities=[0.2, 0.5],
        ... )
        array([[0.4375, 0.    ]])
    """
    points = np.asarray(threshold_probabilities, dtype=np.float64)
    if points.ndim != 1 or not points.size or not ((points > 0) & (points < 1)).all():
        raise InputError(
            f"threshold_probabilities: expected numbers above 0 and below 1, got {threshold_probabilities}."
        )
    rows = checked_rows(probs, y, sample_weight=sample_weight)
    benefit = [(row @ rows.weights) / rows.weights.sum() for row in row_benefits(rows, points)]
    return np.array(benefit).reshape(-1, len(points))


def row_benefits(rows: Rows, points: FloatArray = POINTS) -> Iterator[FloatArray]:
    """Contribution of each row to the net benefit, shape (n,), for each threshold and each of its points."""
    for k, below in enumerate(rows.cumulative):
        prob, event = (1 - below).round(12), rows.y > k  # a rounded sum such as 0.3 counts as at least 0.3
        for point in points:
            yield (prob >= point) * np.where(event, 1.0, -point / (1 - point))


def treat_all(rows: Rows, points: FloatArray = POINTS) -> FloatArray:
    """Net benefit of treating all rows, shape (C-1, m)."""
    rates = np.array([np.average(rows.y > k, weights=rows.weights) for k in range(rows.num_classes - 1)])[:, None]
    return rates - (1 - rates) * points / (1 - points)
