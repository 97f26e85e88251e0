"""Ordinal C-index: how often the row with the higher label has the higher expected class."""

from dataclasses import dataclass

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.base import function_of
from orcu.metrics.rows import Rows, checked_rows


@dataclass(frozen=True)
class ConcordanceFit:
    """C-index with the influence of each row on it, shape (n,); NaN if all rows have the same label."""

    value: float
    influence: FloatArray


@function_of(checked_rows)
def c_index(rows: Rows) -> float:
    """Ordinal C-index: share of the pairs of rows with different labels that the expected class orders correctly.

    The expected class is sum_k k p_k; ties count half, and a pair has the product of its weights. 0.5 is no better than
    chance. For two classes it is the area under the ROC curve.

    Example:
        >>> c_index([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]], [0, 1, 2, 2])
        0.8
    """
    return concordance_fit(rows).value


def concordance_fit(rows: Rows) -> ConcordanceFit:
    """C-index of checked rows, in O(n log n + n C)."""
    expected = rows.probs @ np.arange(rows.num_classes)
    weight = rows.weights / rows.weights.mean()
    # Sums of rounded probabilities differ in the last bits: equal expectations must tie.
    _, cell = np.unique(expected.round(12), return_inverse=True)
    cells = int(cell.max()) + 1
    lower, higher = np.zeros(cells), np.bincount(cell, weights=weight, minlength=cells)
    concordant, comparable = np.zeros(len(rows)), np.zeros(len(rows))
    for k in range(rows.num_classes):
        members = np.flatnonzero(rows.y == k)
        own = np.bincount(cell[members], weights=weight[members], minlength=cells)
        higher = higher - own
        below = np.cumsum(lower) - lower / 2  # weight of lower labels at smaller expectations; ties count half
        above = higher.sum() - np.cumsum(higher) + higher / 2
        concordant[members] = (below + above)[cell[members]]
        comparable[members] = lower.sum() + higher.sum()
        lower = lower + own
    pairs = float(weight @ comparable)  # each pair twice
    if not pairs > 0:
        return ConcordanceFit(float("nan"), np.zeros(len(rows)))
    value = float(weight @ concordant) / pairs
    return ConcordanceFit(value, len(rows) * weight * (concordant - value * comparable) * 2 / pairs)
