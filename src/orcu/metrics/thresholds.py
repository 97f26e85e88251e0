"""Discrimination, calibration lines and decision rates of the cumulative events "class k or above".

Threshold k = 1..C-1 divides the classes into those below k and those from k. The event is Y >= k with
probability 1 - P(Y <= k-1), and the decision is whether the first argmax is k or above.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import BoolArray, FloatArray
from orcu.metrics.base import function_of
from orcu.metrics.rows import Rows, checked_rows

_NEWTON_STEPS = 50
_TOLERANCE = 1e-10
_MAX_COEFFICIENT = 1e3  # a larger coefficient diverges: the event is perfectly separated


@dataclass(frozen=True)
class ThresholdFit:
    """AUC, calibration intercept and slope of one threshold, with the influence of each row on them.

    NaN where they are not defined: if no row or all rows have the event, or (slope) if the event is perfectly
    separated.
    """

    auc: float
    intercept: float
    slope: float
    influence: FloatArray  # (3, n): on auc, intercept and slope; the means are 0. NaN if the likelihood is flat


@function_of(checked_rows)
def auc(rows: Rows) -> FloatArray:
    """Area under the ROC curve of each threshold, shape (C-1,); NaN where it is not defined.

    The probability that a row with Y >= k gets a larger P(Y >= k) than a row without; ties count half.

    Example:
        >>> auc([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5], [0.5, 0.5]], [0, 1, 1, 0])
        array([0.875])
    """
    return np.array([_auc(-below, rows.y > k, rows.weights)[0] for k, below in enumerate(rows.cumulative)])


@function_of(checked_rows)
def calibration_line(rows: Rows) -> FloatArray:
    """Calibration intercept and slope of each threshold, shape (C-1, 2); (0, 1) is calibrated.

    Logistic regression of the event on the log-odds of its probability. The slope b is fitted in
    logit P = a + b log-odds (below 1: too extreme), the intercept with b = 1 (above 0: the event is more frequent
    than predicted). Log-odds of 0 and 1 use half the smallest positive probability of the event or its complement.

    Example:
        >>> calibration_line([[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.4, 0.6]], [0, 1, 1, 0]).round(3)
        array([[0.227, 0.968]])
    """
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

    def diagonal_increments(part: FloatArray) -> FloatArray:
        """Counts by the smaller (or larger) of label and decision, (..., C); their running sums count squares."""
        return np.einsum("...ij,ij->...i", confusion, part) + np.einsum(
            "...ij,ji->...j", confusion, part - np.eye(len(part))
        )

    def above(classes: FloatArray) -> FloatArray:
        return np.cumsum(classes[..., ::-1], axis=-1)[..., -2::-1]

    def below(classes: FloatArray) -> FloatArray:
        return np.cumsum(classes, axis=-1)[..., :-1]

    true_positive = above(diagonal_increments(np.triu(square)))
    true_negative = below(diagonal_increments(np.tril(square)))
    labels, decisions = confusion.sum(-1), confusion.sum(-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "sensitivity": true_positive / above(labels),
            "specificity": true_negative / below(labels),
            "ppv": true_positive / above(decisions),
            "npv": true_negative / below(decisions),
        }


def rate_cells(name: str, num_classes: int) -> BoolArray:
    """Cells of the confusion matrix of which a rate of `decision_rates` is a share, shape (C-1, C, C).

    Example:
        >>> rate_cells("ppv", 2).astype(int).tolist()
        [[[0, 1], [0, 1]]]
    """
    number = np.arange(num_classes)
    above = number > number[:-1, None]  # (C-1, C): classes from each threshold
    chosen = above if name in ("sensitivity", "ppv") else ~above
    part = chosen[:, :, None] if name in ("sensitivity", "specificity") else chosen[:, None, :]
    return np.broadcast_to(part, (num_classes - 1, num_classes, num_classes))


def rate_totals(confusion: FloatArray) -> dict[str, FloatArray]:
    """Weight of the rows of which each rate of `decision_rates` is a share, shape (C-1,).

    Example:
        >>> {name: total.tolist() for name, total in rate_totals(np.array([[3.0, 1.0], [2.0, 4.0]])).items()}
        {'sensitivity': [6.0], 'specificity': [4.0], 'ppv': [5.0], 'npv': [5.0]}
    """
    labels, decisions = confusion.sum(1), confusion.sum(0)
    return {
        "sensitivity": labels.sum() - np.cumsum(labels)[:-1],
        "specificity": np.cumsum(labels)[:-1],
        "ppv": decisions.sum() - np.cumsum(decisions)[:-1],
        "npv": np.cumsum(decisions)[:-1],
    }


def threshold_fit(rows: Rows, k: int) -> ThresholdFit:
    """AUC and calibration line of the event Y > k, with their influence functions."""
    weight = rows.weights / rows.weights.mean()
    event = rows.y > k
    area, area_influence = _auc(-rows.cumulative[k], event, weight)
    odds = log_odds(rows, k)
    intercept, intercept_influence = _logistic(odds, event, weight, slope=False)
    slope, slope_influence = _logistic(odds, event, weight, slope=True)
    influence = np.stack([area_influence, intercept_influence, slope_influence])
    return ThresholdFit(area, intercept, slope, influence)


def log_odds(rows: Rows, k: int) -> FloatArray:
    """Log P(Y > k) - log P(Y <= k) of each row, finite.

    Exact for logits; for probabilities, 0 is replaced by half the smallest positive value.
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
    """Area under the curve, and the influence of each row (its placement among the rows of the other kind)."""
    n = len(score)
    positive, negative = weight * event, weight * ~event
    if positive.sum() == 0 or negative.sum() == 0:
        return np.nan, np.zeros(n)
    # Sums of rounded probabilities differ in the last bits: 0.1 + 0.2 must tie with 0.3.
    _, cell = np.unique(score.round(12), return_inverse=True)
    below = _share_below(np.bincount(cell, weights=negative))[cell]  # negatives with lower scores
    above = 1 - _share_below(np.bincount(cell, weights=positive))[cell]
    area = float((positive * below).sum() / positive.sum())
    influence = np.where(
        event, weight * (below - area) * n / positive.sum(), weight * (above - area) * n / negative.sum()
    )
    return area, influence


def _share_below(cells: Any) -> FloatArray:
    """Share of the mass in lower cells, plus half of the cell's own."""
    cumulative = np.cumsum(cells)
    return (cumulative - cells / 2) / cumulative[-1]


def _logistic(odds: FloatArray, event: Any, weight: FloatArray, *, slope: bool) -> tuple[float, FloatArray]:
    """Weighted logistic regression on the log-odds.

    With ``slope`` it fits a + b odds and returns b, else a + odds and returns a: the coefficient, and the influence
    of each row on it, shape (n,).
    """
    undefined = float("nan"), np.zeros(len(odds))
    if not (weight * event).any() or not (weight * ~event).any():
        return undefined
    with np.errstate(over="ignore", invalid="ignore"):
        fit = _newton(odds, event, weight, np.array([0.0, 1.0]), slope=slope)
        if fit is None and slope:  # for log-odds of hundreds the likelihood is flat at slope 1, but not at 0
            fit = _newton(odds, event, weight, np.zeros(2), slope=slope)
    if fit is None and not slope:
        fit = _flat_intercept(odds, event, weight), np.full(len(odds), np.nan)
    return undefined if fit is None else fit


def _newton(
    odds: FloatArray, event: Any, weight: FloatArray, beta: FloatArray, *, slope: bool
) -> tuple[float, FloatArray] | None:
    """Safeguarded Newton steps of `_logistic` from a start (a, b); ``None`` if they do not converge."""
    step, loss = np.zeros(2), np.inf
    free = slice(0, 2) if slope else slice(0, 1)
    for _ in range(_NEWTON_STEPS):
        z = beta[0] + beta[1] * odds
        small = np.exp(-np.abs(z))
        new_loss = float(weight @ (np.log1p(small) + np.maximum(z, 0) - event * z))
        if new_loss > loss * (1 + 1e-12) and np.abs(step).max() > _TOLERANCE:
            step = step / 2  # overshot: halve the step
            beta = beta - step
            continue
        loss = new_loss
        p = np.where(z >= 0, 1.0, small) / (1 + small)
        residual, variance = weight * (event - p), weight * p * (1 - p)
        mixed = variance * odds
        score = np.array([residual.sum(), residual @ odds])[free]
        hessian = np.array([[variance.sum(), mixed.sum()], [mixed.sum(), mixed @ odds]])[free, free]
        if not _condition(hessian) < 1e14 or np.abs(beta).max() > _MAX_COEFFICIENT:
            return None
        step = np.zeros(2)
        step[free] = np.linalg.solve(hessian, score)
        if np.abs(step).max() < _TOLERANCE:
            row = np.linalg.inv(hessian)[-1]
            influence = residual * (row[0] + row[1] * odds if slope else row[0])
            return float(beta[1] if slope else beta[0]), len(odds) * influence
        beta = beta + step
    return None


def _flat_intercept(odds: FloatArray, event: Any, weight: FloatArray) -> float:
    """Intercept that equates mean prediction and observed rate; the middle of the interval if many do."""
    from scipy.optimize import brentq

    def excess(intercept: float, target: float) -> float:
        return float(weight @ (event - geometry.sigmoid(intercept + odds))) - target

    margin = 1e-9 * min((weight * event).sum(), (weight * ~event).sum())
    ends = -odds.max() - 100, -odds.min() + 100
    return float(np.mean([brentq(excess, *ends, args=(target,), maxiter=1000) for target in (margin, -margin)]))


def _condition(matrix: FloatArray) -> float:
    """Ratio of the eigenvalues of a symmetric non-negative matrix of one or two rows, in closed form."""
    if len(matrix) == 1:
        return 1.0 if matrix[0, 0] > 0 else np.inf
    half, determinant = (matrix[0, 0] + matrix[1, 1]) / 2, matrix[0, 0] * matrix[1, 1] - matrix[0, 1] ** 2
    largest = half + np.sqrt(max(half**2 - determinant, 0.0))
    return float(largest**2 / determinant) if determinant > 0 else np.inf
