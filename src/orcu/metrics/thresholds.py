"""What a clinic asks of each cumulative threshold: "grade k or worse", yes or no.

Threshold k = 1..C-1 splits the classes into below k and k or above; the event is Y >= k with
probability 1 - P(Y <= k-1), and the decision is whether the first argmax is k or above.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows, checked_rows

_NEWTON_STEPS = 50
_TOLERANCE = 1e-10
_SEPARATED = 1e3  # a slope beyond this only grows: the event can be told without error


@dataclass(frozen=True)
class ThresholdFit:
    """AUC, calibration intercept and slope of one threshold, with each row's influence on them.

    NaN where they are not defined: no row, or every row, has the event, or (slope) the event is
    separated without error.
    """

    auc: float
    intercept: float
    slope: float
    influence: FloatArray  # (3, n): of auc, intercept, slope; the means are 0


def auc(probs: Any, y: Any, *, weight: Any = None) -> FloatArray:
    """Area under the ROC curve of each threshold, shape (C-1,); NaN where it is not defined.

    The chance that a row with Y >= k gets a larger P(Y >= k) than one without, ties counted half.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> auc([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5], [0.5, 0.5]], [0, 1, 1, 0])
        array([0.875])
    """
    rows = checked_rows(probs, y, weight)
    weights = np.ones(len(rows)) if rows.weight is None else rows.weight
    return np.array([_auc(-below, rows.y > k, weights)[0] for k, below in enumerate(rows.cumulative)])


def calibration_line(probs: Any, y: Any, *, weight: Any = None) -> FloatArray:
    """Calibration intercept and slope of each threshold, shape (C-1, 2); (0, 1) is calibrated.

    Logistic regression of the event on the log-odds of its probability: the slope from
    logit P = a + b log-odds (below 1: too extreme), the intercept with b = 1 (above 0: the event
    is more frequent than said). Log-odds of 0 and 1 are taken at half the smallest positive
    probability of the event or its complement.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> calibration_line([[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.4, 0.6]], [0, 1, 1, 0]).round(3)
        array([[0.227, 0.968]])
    """
    rows = checked_rows(probs, y, weight)
    fits = [threshold_fit(rows, k) for k in range(rows.num_classes - 1)]
    return np.array([(fit.intercept, fit.slope) for fit in fits])


def decision_rates(confusion: FloatArray) -> dict[str, FloatArray]:
    """Sensitivity, specificity, PPV and NPV of "class k or above" for k = 1..C-1, shape (..., C-1).

    Example:
        >>> rates = decision_rates(np.array([[3.0, 1.0], [2.0, 4.0]]))
        >>> {name: rate.round(3).tolist() for name, rate in rates.items()}
        {'sensitivity': [0.667], 'specificity': [0.75], 'ppv': [0.8], 'npv': [0.6]}
    """
    square = np.ones(confusion.shape[-2:])

    def within(part: FloatArray) -> FloatArray:
        """What the lower of label and decision adds, (..., C); the whole of a square of classes is its running sum."""
        return np.einsum("...ij,ij->...i", confusion, part) + np.einsum(
            "...ij,ji->...j", confusion, part - np.eye(len(part))
        )

    def above(classes: FloatArray) -> FloatArray:
        return np.cumsum(classes[..., ::-1], axis=-1)[..., -2::-1]

    def upto(classes: FloatArray) -> FloatArray:
        return np.cumsum(classes, axis=-1)[..., :-1]

    hit, clear = above(within(np.triu(square))), upto(within(np.tril(square)))
    labels, decisions = confusion.sum(-1), confusion.sum(-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "sensitivity": hit / above(labels),
            "specificity": clear / upto(labels),
            "ppv": hit / above(decisions),
            "npv": clear / upto(decisions),
        }


def threshold_fit(rows: Rows, k: int) -> ThresholdFit:
    """AUC and calibration line of the event Y > k, and their influence functions."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    weight = weight / weight.mean()
    event = rows.y > k
    area, area_influence = _auc(-rows.cumulative[k], event, weight)
    odds = log_odds(rows, k)
    intercept, intercept_influence = _logistic(odds, event, weight, slope=False)
    slope, slope_influence = _logistic(odds, event, weight, slope=True)
    influence = np.stack([area_influence, intercept_influence, slope_influence])
    return ThresholdFit(area, intercept, slope, influence)


def log_odds(rows: Rows, k: int) -> FloatArray:
    """Log P(Y > k) - log P(Y <= k) of each row, finite.

    From logits it is exact; from probabilities 0 becomes half the smallest positive value.
    """
    if rows.logits is not None:
        low, high = rows.logits[:, : k + 1], rows.logits[:, k + 1 :]
        return np.logaddexp.reduce(high, axis=1) - np.logaddexp.reduce(low, axis=1)
    below = rows.columns[: k + 1].sum(axis=0)
    above = rows.columns[k + 1 :].sum(axis=0)
    positive = np.concatenate([below[below > 0], above[above > 0]])
    floor = max(positive.min() / 2, np.finfo(np.float64).tiny)  # half of a denormal may be 0
    return np.log(np.where(above > 0, above, floor)) - np.log(np.where(below > 0, below, floor))


def _auc(score: FloatArray, event: Any, weight: FloatArray) -> tuple[float, FloatArray]:
    """The area, and each row's influence on it (its placement among the other kind's rows)."""
    n = len(score)
    positive, negative = weight * event, weight * ~event
    if positive.sum() == 0 or negative.sum() == 0:
        return np.nan, np.zeros(n)
    # Sums of printed probabilities differ in the last bits: 0.1 + 0.2 must tie with 0.3.
    _, cell = np.unique(score.round(12), return_inverse=True)
    below = _share_below(np.bincount(cell, weights=negative))[cell]  # negatives under each row
    above = 1 - _share_below(np.bincount(cell, weights=positive))[cell]
    area = float((positive * below).sum() / positive.sum())
    influence = np.where(
        event, weight * (below - area) * n / positive.sum(), weight * (above - area) * n / negative.sum()
    )
    return area, influence


def _share_below(cells: Any) -> FloatArray:
    """The share of mass in lower cells, plus half of the cell's own."""
    upto = np.cumsum(cells)
    return (upto - cells / 2) / upto[-1]


def _logistic(odds: FloatArray, event: Any, weight: FloatArray, *, slope: bool) -> tuple[float, FloatArray]:
    """Weighted logistic regression on the log-odds by safeguarded Newton steps.

    With ``slope`` it fits a + b odds and answers for b, else a + odds and answers for a: the
    coefficient, and each row's influence on it, shape (n,).
    """
    undefined = float("nan"), np.zeros(len(odds))
    if not (weight * event).any() or not (weight * ~event).any():
        return undefined
    beta, step, loss = np.array([0.0, 1.0]), np.zeros(2), np.inf
    free = slice(0, 2) if slope else slice(0, 1)
    for _ in range(_NEWTON_STEPS):
        z = beta[0] + beta[1] * odds
        small = np.exp(-np.abs(z))
        now = float(weight @ (np.log1p(small) + np.maximum(z, 0) - event * z))
        if now > loss * (1 + 1e-12) and np.abs(step).max() > _TOLERANCE:
            step = step / 2  # overshot: go back half of the way
            beta = beta - step
            continue
        loss = now
        p = np.where(z >= 0, 1.0, small) / (1 + small)
        residual, spread = weight * (event - p), weight * p * (1 - p)
        mixed = spread * odds
        score = np.array([residual.sum(), residual @ odds])[free]
        hessian = np.array([[spread.sum(), mixed.sum()], [mixed.sum(), mixed @ odds]])[free, free]
        if not _condition(hessian) < 1e14 or np.abs(beta).max() > _SEPARATED:
            return undefined
        step = np.zeros(2)
        step[free] = np.linalg.solve(hessian, score)
        if np.abs(step).max() < _TOLERANCE:
            row = np.linalg.inv(hessian)[-1]
            influence = residual * (row[0] + row[1] * odds if slope else row[0])
            return float(beta[1] if slope else beta[0]), len(odds) * influence
        beta = beta + step
    return undefined


def _condition(matrix: FloatArray) -> float:
    """The ratio of the eigenvalues of a symmetric, non-negative matrix of one or two rows, in closed form."""
    if len(matrix) == 1:
        return 1.0 if matrix[0, 0] > 0 else np.inf
    half, determinant = (matrix[0, 0] + matrix[1, 1]) / 2, matrix[0, 0] * matrix[1, 1] - matrix[0, 1] ** 2
    largest = half + np.sqrt(max(half**2 - determinant, 0.0))
    return float(largest**2 / determinant) if determinant > 0 else np.inf
