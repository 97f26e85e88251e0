"""Smooth calibration curves of an evaluation with confidence bands, and the estimated calibration index."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.evaluation.intervals import gap_interval, reference_p_value
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.metrics.smooth_curve import SmoothFit, eci_of, smooth_fit
from orcu.metrics.thresholds import log_odds
from orcu.resampling import CONFIDENCE_LEVEL, Estimate, intervals, resampled_means
from orcu.threads import map_ordered

CURVE_POINTS = 61  # evenly spaced log-odds at which a curve is drawn
POOLS = 60  # groups of rows with similar log-odds, in which the noise of the index is computed
MAX_DRAWS = 500  # resamples for the noise of the index


@dataclass(frozen=True)
class SmoothCurve:
    """Smooth calibration curve of an event with its 95 % confidence band; empty if no curve can be fitted."""

    prob_pred: FloatArray  # (m,): predicted probabilities, ascending
    prob_true: FloatArray  # (m,): recalibrated probabilities
    low: FloatArray  # (m,): band, NaN without resamples
    high: FloatArray  # (m,)


@dataclass(frozen=True)
class SmoothCalibration:
    """Curve and estimated calibration index of each threshold."""

    curves: list[SmoothCurve]
    eci: list[Estimate]


def smooth_calibration(
    rows: Rows,
    unit: npt.NDArray[np.intp],
    units: int,
    *,
    n_resamples: int,
    factor: float,
    random_state: int,
    threads: int | None = 1,
) -> SmoothCalibration:
    """Smooth calibration curve and estimated calibration index (ECI) of each threshold, with intervals.

    The coefficients of a curve are resampled through the influence of each row. A curve fits noise, so the ECI of a
    calibrated model is positive: its mean and 95 % quantile are those of the noise of the coefficients. The interval of
    the ECI is that of `orcu.evaluation.intervals.gap_interval`, applied to the differences of curve and probability.
    Arguments as for `orcu.evaluation.corp.corp`.
    """

    def threshold(k: int) -> tuple[SmoothCurve, Estimate]:
        fit, odds = smooth_fit(rows, k), log_odds(rows, k)
        if np.isnan(fit.coefficients).any():
            return SmoothCurve(*np.empty((4, 0))), Estimate(np.nan)
        changes = None
        if n_resamples:
            changes = resampled_means(fit.influence, unit, units, n_resamples, random_state)
        return _curve(fit, odds, changes, factor), _index(rows, k, fit, odds, changes, factor)

    results = list(map_ordered(threshold, range(rows.num_classes - 1), threads=threads))
    return SmoothCalibration([curve for curve, _ in results], [index for _, index in results])


def _curve(fit: SmoothFit, odds: FloatArray, changes: FloatArray | None, factor: float) -> SmoothCurve:
    points = np.unique(np.linspace(odds.min(), odds.max(), CURVE_POINTS))
    low, high = np.full((2, len(points)), np.nan)
    if changes is not None:
        draws = (fit.coefficients + changes) @ fit.basis(points).T
        low, high = np.array(intervals(fit.log_odds(points), draws, factor)).T
    return SmoothCurve(*(geometry.sigmoid(part) for part in (points, fit.log_odds(points), low, high)))


def _index(rows: Rows, k: int, fit: SmoothFit, odds: FloatArray, changes: FloatArray | None, factor: float) -> Estimate:
    value = eci_of(rows, k, fit)
    if changes is None:
        return Estimate(value)
    order = np.argsort(odds, kind="stable")
    weight = rows.weights[order]
    pool = np.minimum((np.cumsum(weight) - weight / 2) / weight.sum() * POOLS, POOLS - 1).astype(np.intp)
    mass = np.bincount(pool, weights=weight, minlength=POOLS)
    center = np.bincount(pool, weights=weight * odds[order], minlength=POOLS)[mass > 0] / mass[mass > 0]
    scale = np.sqrt(100 * mass[mass > 0] / mass.sum())  # the index is the sum of the squares of the scaled gaps
    curve = geometry.sigmoid(fit.log_odds(center))
    gaps = scale * (curve - geometry.sigmoid(center))
    # To first order, because few rows determine the curve badly where probabilities are near 0 and 1.
    noise = scale * curve * (1 - curve) * (changes[:MAX_DRAWS] @ fit.basis(center).T)
    errors = (factor * _root(noise)) ** 2
    expected, limit = float(errors.mean()), float(np.quantile(errors, CONFIDENCE_LEVEL))
    ends = gap_interval(gaps, gaps + noise, _root, factor)
    low = 0.0 if value <= limit else ends.low**2
    return Estimate(value, low, ends.high**2, expected, limit, float(reference_p_value(value, errors)))


def _root(gaps: FloatArray) -> FloatArray:
    """Root of the sum of squares over the last axis: proportional to the gaps, as `gap_interval` needs."""
    return np.sqrt((gaps**2).sum(axis=-1))
