"""CORP of an evaluation: intervals, the reference of a calibrated model, and reliability curves with bands."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcu.evaluation.intervals import reference_p_value
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.corp import CorpFit, corp_fit, pool_adjacent_violators, residual_density, smooth_error
from orcu.metrics.rows import Rows
from orcu.resampling import CONFIDENCE_LEVEL, TAILS, Estimate, interval, intervals, resampled_means
from orcu.threads import map_ordered

PARTS = ("miscalibration", "discrimination", "uncertainty")
POOLS = 1_000  # groups of neighbouring probabilities in which simulated outcomes are summed
MIN_DRAWS, MAX_DRAWS = 20, 100  # simulations of a calibrated model; fewer for many classes
POINTS = np.linspace(0, 1, 101)  # predicted probabilities at which the bands are computed


@dataclass(frozen=True)
class CalibrationCurve:
    """Recalibrated against predicted probability of an event, with the band of a calibrated model.

    95 % of the curves of a calibrated model with the same probabilities are within the band at each point.
    """

    prob_pred: FloatArray  # (m,): ends of the pieces with equal recalibrated probability
    prob_true: FloatArray  # (m,)
    band_pred: FloatArray  # (b,): points of the band, within the range of the predictions
    band_low: FloatArray  # (b,)
    band_high: FloatArray  # (b,)


@dataclass(frozen=True)
class Corp:
    """CORP of all thresholds: the parts of the ranked probability score, and records and curves of each threshold."""

    parts: dict[str, Estimate]  # by `PARTS`, sums over the thresholds, and "skill"
    per_threshold: list[dict[str, Estimate]]  # by `PARTS`, and "smooth_ece"
    curves: list[CalibrationCurve]


def corp(
    rows: Rows,
    unit: npt.NDArray[np.intp],
    units: int,
    *,
    clustered: bool,
    n_resamples: int,
    factor: float,
    random_state: int,
    threads: int | None = 1,
) -> Corp:
    """Decomposition with intervals, smooth calibration errors, and reliability curves with consistency bands.

    Isotonic regression fits noise, which adds to miscalibration and discrimination alike. A calibrated model with the
    same probabilities has this excess as its whole miscalibration, so its mean is subtracted from the intervals.

    Args:
        rows: checked rows.
        unit: resampling unit of each row.
        units: number of units.
        clustered: whether the rows of a unit are correlated.
        n_resamples: number of resamples; 0 for no intervals.
        factor: see `orcu.evaluation.intervals.small_sample_factor`.
        random_state: seed.
        threads: number of threads.
    """
    draws = max(MIN_DRAWS, min(MAX_DRAWS, 2_000 // (rows.num_classes - 1)))
    simulation = _Simulation(rows.y, rows.weights, unit if clustered else None, units, factor, draws, random_state + 2)

    def threshold(k: int) -> tuple[CorpFit, _Reference, Estimate]:
        prob = np.clip(1 - rows.cumulative[k], 0.0, 1.0)
        fit = corp_fit(prob, rows.y > k, rows.weights)
        reference = simulation.reference(k, prob, fit)
        residuals = residual_density(prob, (rows.y > k) - prob, rows.weights)
        return fit, reference, _against(float(smooth_error(residuals)), reference.smooth_errors)

    fits, references, smooth = zip(*map_ordered(threshold, range(rows.num_classes - 1), threads=threads), strict=True)
    values = np.array([fit.parts for fit in fits])  # (C-1, 3)
    excess = np.array([reference.miscalibration for reference in references])  # (C-1, draws)
    changes = None
    if n_resamples:
        influence = np.concatenate([fit.influence for fit in fits])
        changes = resampled_means(influence, unit, units, n_resamples, random_state).reshape(n_resamples, -1, 3)
    per_threshold = [
        _parts(values[k], None if changes is None else changes[:, k], excess[k], factor) | {"smooth_ece": smooth[k]}
        for k in range(len(fits))
    ]
    total = _parts(values.sum(0), None if changes is None else changes.sum(1), excess.sum(0), factor)
    total["skill"] = _skill(values.sum(0), None if changes is None else changes.sum(1), factor)
    return Corp(total, per_threshold, [reference.curve for reference in references])


def _against(value: float, errors: FloatArray) -> Estimate:
    """Value with the mean, the 95 % quantile and the p-value of a calibrated model, without an interval."""
    limit = float(np.quantile(errors, CONFIDENCE_LEVEL))
    return Estimate(value, expected=float(errors.mean()), limit=limit, p_value=float(reference_p_value(value, errors)))


def _skill(values: FloatArray, changes: FloatArray | None, factor: float) -> Estimate:
    """Share of the uncertainty that the model removes, (DSC - MCB) / UNC; recalibration cancels in the difference."""

    def skill(parts: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):  # a subgroup may have one class only: no uncertainty
            value = (parts[..., 1] - parts[..., 0]) / parts[..., 2]
        # A constant prediction has the skill 0, not that of its rounding errors.
        return np.where(parts[..., 2] > 0, value.round(12) + 0.0, np.nan)

    value = float(skill(values))
    return (
        Estimate(value, *interval(value, skill(values + changes), factor)) if changes is not None else Estimate(value)
    )


def _parts(values: FloatArray, changes: FloatArray | None, excess: FloatArray, factor: float) -> dict[str, Estimate]:
    """Parts of the score with intervals, from changes of shape (n_resamples, 3)."""
    reference = _against(float(values[0]), excess)
    bias = np.array([excess.mean(), excess.mean(), 0.0])
    draws = None if changes is None else values - bias + changes
    estimates = {}
    for name, value, ends in zip(PARTS, values, intervals(values - bias, draws, factor), strict=True):
        low, high = (np.maximum(end, 0.0) for end in ends)
        estimates[name] = Estimate(float(value), float(low), float(high))
    mcb = estimates["miscalibration"]
    # A value that a calibrated model could have does not show an error.
    low = 0.0 if reference.limit is not None and mcb.value <= reference.limit and changes is not None else mcb.low
    estimates["miscalibration"] = Estimate(
        mcb.value, low, mcb.high, reference.expected, reference.limit, reference.p_value
    )
    return estimates


@dataclass(frozen=True)
class _Reference:
    """Errors of simulated outcomes of one threshold, shape (draws,) each, and the reliability curve with its band."""

    miscalibration: FloatArray
    smooth_errors: FloatArray
    curve: CalibrationCurve


@dataclass(frozen=True)
class _Simulation:
    """Outcomes of a calibrated model with the same probabilities.

    Labels are drawn from the probabilities. Rows of a cluster are correlated, which drawn labels would not be: with
    clusters the outcome is the probability plus the residual of the recalibrated probability, with a random sign for
    each cluster (wild bootstrap).
    """

    y: IntArray
    weight: FloatArray
    unit: npt.NDArray[np.intp] | None  # cluster of each row; None for independent rows
    units: int
    factor: float
    draws: int
    random_state: int

    def outcomes(self, k: int, prob: FloatArray, fit: CorpFit) -> Iterator[FloatArray]:
        """Outcomes of the event Y > k, shape (n,), one draw at a time; all thresholds have the same labels."""
        rng = np.random.default_rng(self.random_state)
        for _ in range(self.draws):
            if self.unit is None:
                yield (1 - rng.random(len(prob)) <= prob).astype(np.float64)
            else:
                sign = self.factor * rng.choice([-1.0, 1.0], size=self.units)[self.unit]
                yield prob + sign * ((self.y > k) - fit.prob_true[fit.cell])

    def reference(self, k: int, prob: FloatArray, fit: CorpFit) -> _Reference:
        """Miscalibration, smooth errors and curves of the simulated outcomes."""
        pool = np.arange(len(fit.prob_pred))
        if len(pool) > POOLS:  # sums of neighbouring probabilities: isotonic regression then is faster
            pool = pool * POOLS // len(pool)
        mass = np.bincount(pool, weights=fit.weight)
        filled, row_pool = mass > 0, pool[fit.cell]
        pred = np.bincount(pool, weights=fit.weight * fit.prob_pred) / np.where(filled, mass, 1)
        ends = fit.prob_pred[[0, -1]]
        points = np.unique(np.concatenate([ends, POINTS[(ends[0] <= POINTS) & (ends[1] >= POINTS)]]))
        miscalibration, densities, curves = [], [], []
        for outcome in self.outcomes(k, prob, fit):
            total = np.bincount(row_pool, weights=self.weight * outcome, minlength=len(mass))
            rate = pool_adjacent_violators(total, mass)
            # sum of w (p - o)^2 - w (r - o)^2, in which the squares of the outcomes cancel
            miscalibration.append((mass * (pred**2 - rate**2) - 2 * (pred - rate) * total).sum() / mass.sum())
            curves.append(np.interp(points, pred[filled], rate[filled]))
            densities.append(residual_density(pred, total / np.where(filled, mass, 1) - pred, mass))
        low, high = np.clip(np.quantile(curves, TAILS, axis=0), 0.0, 1.0)
        curve = CalibrationCurve(*_ends_of_pieces(fit), points, low, high)
        return _Reference(np.array(miscalibration), smooth_error(np.array(densities)), curve)


def _ends_of_pieces(fit: CorpFit) -> tuple[FloatArray, FloatArray]:
    """Predicted and recalibrated probabilities at the ends of the pieces on which the latter are equal."""
    pred, true = fit.prob_pred[fit.weight > 0], fit.prob_true[fit.weight > 0]
    step = np.flatnonzero(np.diff(true) > 0)
    ends = np.unique(np.concatenate([[0, len(true) - 1], step, step + 1]))
    return pred[ends], true[ends]
