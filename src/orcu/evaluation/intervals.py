"""Intervals of metrics, and the reference distribution of binned errors under perfect calibration."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import bin_index
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import OUTCOME, Sums
from orcu.resampling import TAILS, Interval, max_draws, widen

MIN_CLUSTERS = 5  # with fewer, a warning is given
MANY_BINS = 4_000  # reached with hundreds of classes; empty ones are then skipped
NORMAL_ROWS = 5_000  # above this number of rows the sums of bins are drawn from a normal distribution,
MANY_CLASSES = 20  # unless there are more classes than this, whose covariance would be too large
FEW_IN_BIN = 200  # bins with fewer rows are not normal: their outcomes are drawn row by row


def default_draws(rows: int, layout: Layout) -> int:
    """Number of simulated outcomes for the calibrated reference: 1000, fewer for many rows of many classes.

    Example:
        >>> default_draws(200_000, Layout(8, n_bins=15)), default_draws(200_000, Layout(30, n_bins=15))
        (1000, 100)
    """
    draws = max(50, min(1000, 20_000_000 // rows)) if _simulate_rows(rows, layout) else 1000
    return min(draws, max_draws(layout.size))


def _simulate_rows(rows: int, layout: Layout) -> bool:
    """Whether outcomes are simulated for each row; else for whole bins at once."""
    return rows <= NORMAL_ROWS or layout.num_classes > MANY_CLASSES


def unit_sums(layout: Layout, rows: Rows, unit: npt.NDArray[np.intp], units: int) -> Any:
    """Sums of each unit, shape (units, size), sparse: for units of few rows."""
    terms = [
        (unit, start + column, np.ones(len(rows)) if value is None else value)
        for start, _, column, value in layout.terms(rows)
    ]
    row, cell, values = (np.concatenate(part) for part in zip(*terms, strict=True))
    return sparse.csr_array((values, (row, cell)), shape=(units, layout.size))


def gap_interval(
    gaps: FloatArray, draws: FloatArray, reduce: Callable[[FloatArray], FloatArray], factor: float = 1.0
) -> Interval:
    """95 % interval of a binned error, corrected for the bias of absolute gaps.

    Noise alone increases the sum of |gap|, in the sample and again in each resample, so that percentiles of resamples
    do not cover the true error. Instead, the observed gaps are multiplied by a scale and combined with the noise of the
    resamples: the interval contains the errors of all scales for which the observed value lies within the central
    95 %. It starts at 0 if a calibrated model could have produced the value, which then lies at or above its end.
    ``gaps`` are the signed gaps (G,), ``draws`` those of the resamples; ``reduce`` turns |gaps| into the error. With
    clusters the interval also contains that of the noise multiplied by ``factor``, see `small_sample_factor`.

    Example:
        >>> from orcu.metrics.base import total_gap
        >>> noise = np.random.default_rng(0).normal(0, 0.01, size=(1000, 1))
        >>> ends = gap_interval(np.array([0.1]), 0.1 + noise, total_gap)
        >>> round(ends.low, 2), round(ends.high, 2)
        (0.08, 0.12)
    """
    value = float(reduce(np.abs(gaps)))
    if not np.isfinite(value) or not np.isfinite(draws).all():
        return Interval(np.nan, np.nan)
    gaps, draws = _filled_bins(gaps, draws)
    ends = []
    for noise in {1.0: draws - gaps, factor: factor * (draws - gaps)}.values():
        low, high = np.array([np.quantile(reduce(np.abs(scale * gaps + noise)), TAILS) for scale in _SCALES]).T
        ends.append((value * _crossing(high, value), value * _crossing(low, value)))
    return Interval(min(ends)[0], max(high for _, high in ends))


def gap_difference_interval(
    gaps: tuple[FloatArray, FloatArray],
    draws: tuple[FloatArray, FloatArray],
    reduce: Callable[[FloatArray], FloatArray],
    factor: float = 1.0,
) -> Interval:
    """95 % interval of the binned error of a first model minus that of a second one, on the same rows.

    Noise increases the error of a calibrated model more than that of a miscalibrated one, so it does not cancel in the
    difference, and percentiles around the observed difference do not cover the true one. As in `gap_interval`, the
    gaps of each model are multiplied by a scale and combined with the noise of its resamples, which are paired. The
    interval contains the differences of all pairs of scales for which the observed difference lies within the central
    95 %, and the error of each model within its central 99 %. The observed difference may lie outside the interval.
    Errors differ by at most the error of the differences of the gaps, which limits the interval of similar models.

    Args:
        gaps: signed gaps of both models, (G,) each.
        draws: gaps of the same resamples for both models, (n_resamples, G) each.
        reduce: function that turns |gaps| into the error.
        factor: multiplies the noise of few clusters, see `small_sample_factor`.

    Example:
        >>> from orcu.metrics.base import total_gap
        >>> noise = np.random.default_rng(0).normal(0, 0.01, size=(1000, 1))
        >>> first, second = np.array([0.1]), np.array([0.3])
        >>> ends = gap_difference_interval((first, second), (first + noise, second + 2 * noise), total_gap)
        >>> (
        ...     round(ends.low, 2),
        ...     round(ends.high, 2),
        ... )  # the noise is that of the difference, not of the single errors
        (-0.22, -0.18)
    """
    shift = gaps[0] - gaps[1]
    limit = np.quantile(reduce(np.abs(widen(draws[0] - draws[1], shift, factor))), TAILS[1])
    errors, scales, noisy_errors = [], [], []
    for model_gaps, model_draws in zip(gaps, draws, strict=True):
        error = float(reduce(np.abs(model_gaps)))
        if not np.isfinite(error) or not np.isfinite(model_draws).all():
            return Interval(np.nan, np.nan)
        center, resampled = _filled_bins(model_gaps, model_draws)
        noise = factor * (resampled - center)
        low, high = np.array([np.quantile(reduce(np.abs(scale * center + noise)), _WIDE_TAILS) for scale in _SCALES]).T
        scales.append(np.linspace(_crossing(high, error), _crossing(low, error), _SCALE_STEPS))
        noisy_errors.append(np.array([reduce(np.abs(scale * center + noise)) for scale in scales[-1]]))
        errors.append(error)
    differences = noisy_errors[0][:, None] - noisy_errors[1]  # (scales of the first, of the second, n_resamples)
    low, high = np.minimum.accumulate(np.quantile(differences, TAILS, axis=-1), axis=-1)  # decrease with the second
    observed = errors[0] - errors[1]
    possible = (low[:, -1] <= observed) & (observed <= high[:, 0])
    if not possible.any():  # both models have errors that noise alone explains
        possible[:] = True
    ends = []
    for scale, lower, upper in zip(scales[0][possible], low[possible], high[possible], strict=True):
        second = [np.interp(-observed, -quantile, scales[1]) for quantile in (upper, lower)]
        ends.append(scale * errors[0] - np.array(second) * errors[1])
    return Interval(float(np.clip(np.min(ends), -limit, limit)), float(np.clip(np.max(ends), -limit, limit)))


def _filled_bins(gaps: FloatArray, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gaps and draws without empty bins, which contribute nothing, if there are many bins."""
    if gaps.size <= MANY_BINS:
        return gaps, draws
    filled = (gaps != 0) | (draws != 0).any(axis=0)
    return gaps[filled], draws[:, filled]


_SCALES = np.concatenate([np.linspace(0, 2, 61), np.linspace(2.2, 4, 10)])
_SCALE_STEPS = 15  # scales of each model in an interval of a difference
_WIDE_TAILS = (0.005, 0.995)


def _crossing(quantile: FloatArray, value: float) -> float:
    """Scale at which a quantile, which increases with the scale, reaches the value."""
    increasing = np.maximum.accumulate(quantile)
    if increasing[0] >= value:
        return 0.0
    return float(np.interp(value, increasing, _SCALES))


def calibrated_sums(layout: Layout, rows: Rows, vector: FloatArray, draws: int, random_state: int) -> Sums:
    """Sums of simulated outcomes y ~ p for the given probabilities, with (draws) as leading axis.

    Only the binned tables are simulated, which binned errors read. Up to 5,000 rows (or for more than 20 classes) the
    outcome of each row is drawn; for more rows the sums of the bins, from a normal distribution with the covariance
    that follows from the probabilities. ``vector`` are the sums with the observed outcomes.
    """
    rng = np.random.default_rng(random_state)
    out = np.repeat(vector[None, layout.binned], draws, axis=0)

    def outcomes(name: str) -> FloatArray:
        """View of the outcomes in the tables of a name, shape (draws, tables, B)."""
        return out[:, layout.slices[name]].reshape(draws, -1, 3, layout.n_bins)[:, :, OUTCOME]

    bins = {
        "top": bin_index(rows.confidence, layout.n_bins)[None],
        "classes": np.array([bin_index(p, layout.n_bins) for p in rows.columns]),
        "thresholds": np.array([bin_index(f, layout.n_bins) for f in rows.cumulative]),
    }
    if rows.adaptive_bins is not None:
        bins["adaptive"] = rows.adaptive_bins
    draw = _draw_rows if _simulate_rows(len(rows), layout) else _draw_bins
    draw(rows, bins, outcomes, rng)
    return layout.sums(out, total=float(layout.sums(vector).total))


def _draw_rows(
    rows: Rows, bins: dict[str, IntArray], outcomes: Callable[[str], FloatArray], rng: np.random.Generator
) -> None:
    """Draw a label for each row, and sum the outcomes in each bin."""
    n, size, weights, number = len(rows), rows.num_classes, rows.weights, np.arange(len(rows))
    draws, _, b = outcomes("top").shape
    # Cell in which a row counts if its label is class k, in the concatenated tables of all classes; flat, (C n).
    tables = {
        name: (np.arange(size)[:, None] * b + bins[name]).ravel() for name in ("classes", "adaptive") if name in bins
    }
    for draw in range(draws):
        uniform = rng.random(n)
        y = np.zeros(n, dtype=np.intp)
        for below in rows.cumulative:
            y += uniform > below
        outcomes("top")[draw, 0] = np.bincount(bins["top"][0], weights=weights * (y == rows.pred), minlength=b)
        label_cell = y * n + number
        for name, cells in tables.items():
            outcomes(name)[draw] = np.bincount(cells[label_cell], weights=weights, minlength=size * b).reshape(size, b)
        for k, index in enumerate(bins["thresholds"]):
            outcomes("thresholds")[draw, k] = np.bincount(index, weights=weights * (y <= k), minlength=b)


def _draw_bins(
    rows: Rows, bins: dict[str, IntArray], outcomes: Callable[[str], FloatArray], rng: np.random.Generator
) -> None:
    """Draw the sums of all bins from a normal distribution with mean sum p and the covariance of independent rows."""
    p, below = rows.columns, rows.cumulative.clip(max=1.0)  # a cumulative sum may exceed 1 by its rounding error
    values = {"top": rows.confidence[None], "classes": p, "thresholds": below, "adaptive": p}

    def covariance_of(name: str, k: int, j: int) -> FloatArray:
        """Covariance of the outcomes of tables k <= j in each row."""
        if name in ("top", "thresholds"):  # Cov(1[y <= k], 1[y <= j])
            return values[name][k] * (1 - values[name][j])
        return p[k] * (1 - p[k]) if k == j else -p[k] * p[j]  # Cov(1[y = k], 1[y = j])

    weights, squares = rows.weights, rows.weights**2
    draws, _, b = outcomes("top").shape
    for name, index in bins.items():
        tables = len(index)
        covariance = np.zeros((tables, b, tables, b))
        for k in range(tables):
            for j in range(k, tables):
                products = squares * covariance_of(name, k, j)
                cells = np.bincount(index[k] * b + index[j], weights=products, minlength=b * b).reshape(b, b)
                covariance[k, :, j], covariance[j, :, k] = cells, cells.T
        mean = [
            np.bincount(cells, weights=weights * value, minlength=b)
            for cells, value in zip(index, values[name], strict=True)
        ]
        eigenvalues, vectors = np.linalg.eigh(covariance.reshape(tables * b, tables * b))
        noise = rng.standard_normal((draws, tables * b)) @ (vectors * np.sqrt(eigenvalues.clip(min=0))).T
        outcomes(name)[:] = np.array(mean) + noise.reshape(draws, tables, b)
    # The maximum calibration error depends on the bins with the fewest rows, whose sums are not normal.
    for small in np.flatnonzero(np.bincount(bins["top"][0], minlength=b) < FEW_IN_BIN):
        members = np.flatnonzero(bins["top"][0] == small)
        correct = rng.random((draws, len(members))) < rows.confidence[members]
        outcomes("top")[:, 0, small] = correct @ weights[members]


def reference_p_value(value: Any, errors: FloatArray) -> Any:
    """Probability that the binned error of a calibrated model is at least ``value``.

    The errors of the calibrated reference, shape (draws, ...), are sums of absolute values of nearly normal gaps. Their
    distribution is taken as a gamma distribution with their mean and variance, whose tail is smooth.

    Example:
        >>> errors = np.abs(np.random.default_rng(0).normal(size=(500, 20))).mean(axis=1)
        >>> bool(reference_p_value(np.quantile(errors, 0.95), errors) < 0.07)
        True
    """
    mean, variance = errors.mean(axis=0), errors.var(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = special.gammaincc(mean**2 / variance, np.asarray(value) * mean / variance)
    # Without noise, an error above the reference is certain.
    return np.where(variance > 0, p_value, np.where(np.asarray(value) > mean, 0.0, 1.0))
