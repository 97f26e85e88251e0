"""Smooth calibration curves of the events "class k or above", and the estimated calibration index (ECI).

The event is regressed on the log-odds of its probability by logistic regression with a restricted cubic spline, a
piecewise cubic function that is linear beyond its outer knots (Harrell, 2015). A straight line is the calibration line
of `orcu.metrics.thresholds`, so the curve shows what intercept and slope do not.
"""

from dataclasses import dataclass

import numpy as np

from orcu import geometry
from orcu.inputs import BoolArray, FloatArray
from orcu.metrics.base import function_of
from orcu.metrics.rows import Rows, checked_rows
from orcu.metrics.thresholds import log_odds

KNOTS = {5: (0.05, 0.275, 0.5, 0.725, 0.95), 4: (0.05, 0.35, 0.65, 0.95), 3: (0.1, 0.5, 0.9)}  # Harrell's quantiles
ROWS_FOR_FIVE = 100  # fewer rows have four knots
_STEPS = 50
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class SmoothFit:
    """Logistic regression of an event on a spline of its log-odds; NaN coefficients if there is no finite fit."""

    knots: FloatArray  # (m,): log-odds; empty for a straight line
    coefficients: FloatArray  # (d,)
    influence: FloatArray  # (d, n): of each row on the coefficients; the means are 0

    def basis(self, odds: FloatArray) -> FloatArray:
        """Columns of the spline at predicted log-odds, shape (n, d)."""
        return spline_basis(odds, self.knots)

    def log_odds(self, odds: FloatArray) -> FloatArray:
        """Recalibrated log-odds of predicted log-odds, shape (n,)."""
        return self.basis(odds) @ self.coefficients


@function_of(checked_rows)
def eci(rows: Rows) -> FloatArray:
    """Estimated calibration index of each threshold, shape (C-1,); NaN where no curve can be fitted.

    100 times the mean squared difference of the predicted probability of the event Y >= k and that of the smooth
    calibration curve (Van Hoorde et al., 2015): 0 for a calibrated model, 100 at most. The curve is a logistic
    regression on a restricted cubic spline of the log-odds with five knots.

    Example:
        >>> log_odds = np.linspace(-4, 4, 200)
        >>> prob = 1 / (1 + np.exp(-log_odds))
        >>> y = (np.arange(200) * 0.618 % 1 < 1 / (1 + np.exp(-log_odds / 2))).astype(int)
        >>> eci(np.stack([1 - prob, prob], axis=1), y).round(2)  # log-odds twice those of the labels
        array([1.65])
    """
    return np.array([eci_of(rows, k, smooth_fit(rows, k)) for k in range(rows.num_classes - 1)])


def eci_of(rows: Rows, k: int, fit: SmoothFit) -> float:
    """Estimated calibration index of the event Y > k, given its curve."""
    odds = log_odds(rows, k)
    gap = geometry.sigmoid(fit.log_odds(odds)) - geometry.sigmoid(odds)
    return float(100 * np.average(gap**2, weights=rows.weights))


def smooth_fit(rows: Rows, k: int) -> SmoothFit:
    """Smooth calibration curve of the event Y > k of checked rows.

    Fewer knots are used if quantiles coincide, or if the fit diverges.
    """
    odds, event, weight = log_odds(rows, k), rows.y > k, rows.weights / rows.weights.mean()
    if (weight * event).any() and (weight * ~event).any():
        for knots in _knot_choices(odds, weight):
            fit = _fit(spline_basis(odds, knots), event, weight)
            if fit is not None:
                return SmoothFit(knots, *fit)
    return SmoothFit(np.empty(0), np.full(2, np.nan), np.full((2, len(odds)), np.nan))


def spline_basis(odds: FloatArray, knots: FloatArray) -> FloatArray:
    """Intercept, log-odds and the cubic terms of a restricted cubic spline with m knots t, shape (n, m).

    Term j is ((x - t_j)+^3 - (x - t_(m-1))+^3 (t_m - t_j)/(t_m - t_(m-1)) + (x - t_m)+^3 (t_(m-1) - t_j)/(t_m -
    t_(m-1))) / (t_m - t_1)^2. Without knots there are two columns.

    Example:
        >>> spline_basis(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.25], [1.0, 3.0, 3.0]]
    """
    columns = [np.ones_like(odds), odds]
    if len(knots):
        last, outer = knots[-2], knots[-1]

        def cube(knot: float) -> FloatArray:
            return np.maximum(odds - knot, 0) ** 3

        for knot in knots[:-2]:
            bend = cube(knot) - (cube(last) * (outer - knot) - cube(outer) * (last - knot)) / (outer - last)
            columns.append(bend / (outer - knots[0]) ** 2)
    return np.stack(columns, axis=1)


def _knot_choices(odds: FloatArray, weight: FloatArray) -> list[FloatArray]:
    """Knots at quantiles, the most first, and none last: a straight line."""
    order = np.argsort(odds, kind="stable")
    below = np.cumsum(weight[order]) / weight.sum()
    choices = []
    for count, shares in KNOTS.items():
        if count < max(KNOTS) or len(odds) >= ROWS_FOR_FIVE:
            knots = np.unique(odds[order[np.searchsorted(below, np.array(shares) - 1e-9)]])
            if len(knots) == count:
                choices.append(knots)
    return [*choices, np.empty(0)]


def _fit(basis: FloatArray, event: BoolArray, weight: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Coefficients (d,) of a weighted logistic regression, and the influence of each row (d, n).

    Safeguarded Newton steps; ``None`` if they do not converge, as for a perfectly separated event.
    """
    scale = np.sqrt(np.average(basis**2, axis=0, weights=weight))
    if not (scale > 0).all() or not np.isfinite(scale).all():
        return None
    columns, beta, step, loss = basis / scale, np.zeros(basis.shape[1]), np.zeros(basis.shape[1]), np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_STEPS):
            z = columns @ beta
            new_loss = float(weight @ (np.logaddexp(0, z) - event * z))
            if new_loss > loss * (1 + 1e-12) and np.abs(step).max() > _TOLERANCE:
                step = step / 2  # overshot: halve the step
                beta = beta - step
                continue
            loss, p = new_loss, geometry.sigmoid(z)
            residual, variance = weight * (event - p), weight * p * (1 - p)
            hessian = columns.T @ (variance[:, None] * columns)
            if not np.isfinite(hessian).all() or np.linalg.cond(hessian) > 1e12:
                return None
            step = np.linalg.solve(hessian, columns.T @ residual)
            if np.abs(step).max() < _TOLERANCE:
                influence = np.linalg.solve(hessian, columns.T * residual) * len(z)
                return beta / scale, influence / scale[:, None]
            beta = beta + step
    return None
