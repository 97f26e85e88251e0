"""Bootstrap intervals, and the reference distribution of binned errors under perfect calibration.

The bootstrap draws units with replacement: rows, clusters, or random blocks of these if there are very many. A
resample counts each unit a number of times, so all metrics of all resamples follow from one product of counts and
sums per unit. Two models on the same rows get the same counts, which makes their comparison paired.

Resamples of few clusters vary too little: of five equal clusters by a factor of sqrt(4/5), and their quantiles are
those of a normal instead of a t distribution. `small_sample_factor` corrects both.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import bin_index
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import OUTCOME, Sums

MAX_UNITS = 20_000  # more units are grouped into random blocks
N_BLOCKS = 2_000
CONFIDENCE_LEVEL = 0.95
TAILS = ((1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2)  # quantiles at the ends of an interval
MIN_CLUSTERS = 5  # with fewer, a warning is given
MIN_RESAMPLES = 30  # of fewer, the 2.5 % quantile is arbitrary
MAX_CELLS = 500_000_000  # sums of all resamples: 4 GB
MANY_BINS, MANY_SUMS = 4_000, 100_000  # reached with hundreds of classes; empty ones are then skipped
NORMAL_ROWS = 5_000  # above this number of rows the sums of bins are drawn from a normal distribution,
MANY_CLASSES = 20  # unless there are more classes than this, whose covariance would be too large
FEW_IN_BIN = 200  # bins with fewer rows are not normal: their outcomes are drawn row by row
_RESAMPLE_BATCH = 64  # resamples in memory at a time
_MAX_CACHED = 20_000_000  # cached counts of units: 40 MB


def number_of_resamples(n_resamples: int | None, rows: int, size: int = 1) -> int:
    """Number of resamples: by default 2000, fewer for many rows or many sums per resample (hundreds of classes).

    Example:
        >>> [number_of_resamples(None, rows) for rows in (500, 10_000, 10**6)]
        [2000, 1000, 400]
    """
    if n_resamples is None:
        return min(2000 if rows < 5_000 else 1000 if rows <= MAX_UNITS else 400, _max_draws(size))
    if 0 < n_resamples < MIN_RESAMPLES:
        raise InputError(
            f"n_resamples: expected 0 for no intervals, or at least {MIN_RESAMPLES}, got {n_resamples}; the quantiles "
            "of fewer resamples are arbitrary."
        )
    maximum = max(100, MAX_CELLS // size)  # the sums of all resamples must fit into memory
    if n_resamples > maximum:
        raise InputError(f"n_resamples: expected at most {maximum:,} for this number of classes, got {n_resamples:,}.")
    return n_resamples


def default_draws(rows: int, layout: Layout) -> int:
    """Number of simulated outcomes for the calibrated reference: 1000, fewer for many rows of many classes.

    Example:
        >>> default_draws(200_000, Layout(8, n_bins=15)), default_draws(200_000, Layout(30, n_bins=15))
        (1000, 100)
    """
    draws = max(50, min(1000, 20_000_000 // rows)) if _simulate_rows(rows, layout) else 1000
    return min(draws, _max_draws(layout.size))


def _simulate_rows(rows: int, layout: Layout) -> bool:
    """Whether outcomes are simulated for each row; else for whole bins at once."""
    return rows <= NORMAL_ROWS or layout.num_classes > MANY_CLASSES


def _max_draws(size: int) -> int:
    return max(MIN_RESAMPLES, MAX_CELLS // 10 // size)


def random_blocks(units: IntArray) -> npt.NDArray[np.intp]:
    """Random block of each unit number, the same in every run (a mixing hash of the number).

    Example:
        >>> random_blocks(np.arange(4)).tolist()
        [0, 1561, 1078, 615]
    """
    mixed = units.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(N_BLOCKS)).astype(np.intp)


def resampling_units(rows: int, cluster: npt.NDArray[Any] | None) -> tuple[npt.NDArray[np.intp], int]:
    """Resampling unit of each row, and the number of units: rows or clusters, in blocks if there are many."""
    unit: npt.NDArray[np.intp] = np.arange(rows)
    if cluster is not None:
        try:
            unit = np.unique(cluster, return_inverse=True)[1]
        except TypeError:  # numbers and texts have no common order
            unit = np.unique(cluster.astype(str), return_inverse=True)[1]
    count = int(unit.max()) + 1
    return (random_blocks(unit), N_BLOCKS) if count > MAX_UNITS else (unit, count)


def unit_sums(layout: Layout, rows: Rows, unit: npt.NDArray[np.intp], units: int) -> Any:
    """Sums of each unit, shape (units, size), sparse: for units of few rows."""
    terms = [
        (unit, start + column, np.ones(len(rows)) if value is None else value)
        for start, _, column, value in layout.terms(rows)
    ]
    row, cell, values = (np.concatenate(part) for part in zip(*terms, strict=True))
    return sparse.csr_array((values, (row, cell)), shape=(units, layout.size))


def resampled_sums(sums: Any, n_resamples: int, random_state: int) -> FloatArray:
    """Sums of all bootstrap resamples, shape (n_resamples, size)."""
    units, size = sums.shape
    if size > MANY_SUMS and sparse.issparse(sums):  # most columns are empty: only the others are resampled
        filled, out = np.unique(sums.indices), np.zeros((n_resamples, size))
        out[:, filled] = resampled_sums(sums[:, filled], n_resamples, random_state)
        return out
    batches = (_cached_counts if n_resamples * units <= _MAX_CACHED else _counts)(units, n_resamples, random_state)
    return np.concatenate([(sums.T @ counts.T.astype(np.float64)).T for counts in batches])


def _counts(units: int, n_resamples: int, random_state: int) -> Iterator[npt.NDArray[np.uint16]]:
    """Number of times that each resample contains each unit, in batches of shape (resamples, units)."""
    rng = np.random.default_rng(random_state)
    for start in range(0, n_resamples, _RESAMPLE_BATCH):
        count = min(_RESAMPLE_BATCH, n_resamples - start)
        picks = rng.integers(units, size=(count, units)) + units * np.arange(count)[:, None]
        yield np.bincount(picks.ravel(), minlength=count * units).reshape(count, units).astype(np.uint16)


@lru_cache(maxsize=1)
def _cached_counts(units: int, n_resamples: int, random_state: int) -> list[npt.NDArray[np.uint16]]:
    """`_counts`, cached: several sums use the same resamples."""
    return list(_counts(units, n_resamples, random_state))


def small_sample_factor(cluster_totals: FloatArray) -> float:
    """Factor by which the deviations of cluster resamples are multiplied, from the total weight of each cluster.

    The factor is t / z * sqrt((G - 1) / G * sum(w^2 / (1 - w)^2) / sum(w^2)). The first ratio is that of the 97.5 %
    quantiles of the t distribution with G - 1 degrees of freedom and the normal distribution. The root is the ratio of
    the standard errors of the jackknife and the bootstrap for a mean over clusters with the shares w. It is
    sqrt(G / (G - 1)) for equal clusters, and larger if few clusters have most of the weight.

    Example:
        >>> [round(small_sample_factor(np.ones(clusters)), 3) for clusters in (3, 5, 20, 200)]
        [2.689, 1.584, 1.096, 1.009]
        >>> round(small_sample_factor(np.array([1, 1, 1, 1, 6])), 3)
        3.038
    """
    share = cluster_totals[cluster_totals > 0] / cluster_totals.sum()
    count = len(share)
    variance_ratio = (count - 1) / count * ((share / (1 - share)) ** 2).sum() / (share**2).sum()
    return float(special.stdtrit(count - 1, TAILS[1]) / special.ndtri(TAILS[1]) * np.sqrt(variance_ratio))


def widen(draws: Any, center: Any, factor: float) -> Any:
    """Draws with their deviations from the center multiplied by a factor; unchanged, to the last bit, by 1."""
    return draws if factor == 1 else center + factor * (draws - center)


class Interval(NamedTuple):
    """A 95 % interval; NaN if it is not defined."""

    low: float
    high: float


def interval(
    value: float, draws: FloatArray, factor: float = 1.0, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """95 % bootstrap interval of a metric, from its values in all resamples; arguments as for `intervals`."""
    return intervals(np.array([value]), draws[:, None], factor, bounds)[0]


def intervals(
    values: FloatArray, draws: FloatArray | None, factor: float = 1.0, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> list[Interval]:
    """95 % bootstrap interval of each of several metrics, from draws (n_resamples, metrics); NaN without draws.

    It is the percentile interval if the factor is 1. With another factor, see `small_sample_factor`, half the width of
    the percentile interval is multiplied by it and put on both sides of the value. The percentiles of few clusters
    have an end at the smallest and largest clusters, which says little about the skewness of all clusters. The
    skewness of a bounded metric follows from its bounds: the sides are those of its logarithm (lower bound) or its
    log-odds (both), so the interval stays within them.

    Example:
        >>> draws = np.linspace([0.4, 0.0], [0.6, 1.0], 101)
        >>> intervals(np.array([0.5, np.nan]), draws)
        [Interval(low=0.405, high=0.595), Interval(low=nan, high=nan)]
        >>> low, high = interval(0.9, np.linspace(0.8, 1.0, 101), 1.5, (0, 1))
        >>> round(low, 3), round(high, 3)
        (0.649, 0.978)
    """
    ends = np.full((2, len(values)), np.nan)
    finite = np.isfinite(values) & (draws is not None and np.isfinite(draws).all(axis=0))
    if draws is not None and finite.any():
        ends[:, finite] = np.quantile(draws[:, finite], TAILS, axis=0)
        if factor != 1:
            half = factor * np.diff(ends[:, finite], axis=0) / 2
            ends[:, finite] = _around(values[finite], np.concatenate([-half, half]), *bounds)
    return [Interval(float(low), float(high)) for low, high in ends.T]


def _around(values: FloatArray, steps: FloatArray, low: float, high: float) -> FloatArray:
    """Values plus steps, on the scale of the logarithm or log-odds of bounded values."""
    if np.isinf(low):
        return values + steps
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a value at a bound does not vary
        if np.isinf(high):
            moved = low + (values - low) * np.exp(steps / (values - low))
        else:
            share = (values - low) / (high - low)
            odds = special.logit(share) + steps / (high - low) / (share * (1 - share))
            moved = low + (high - low) * special.expit(odds)
    return np.where(np.isfinite(moved), moved, values)


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
    if gaps.size > MANY_BINS:  # empty bins contribute nothing
        filled = (gaps != 0) | (draws != 0).any(axis=0)
        gaps, draws = gaps[filled], draws[:, filled]
    ends = []
    for noise in {1.0: draws - gaps, factor: factor * (draws - gaps)}.values():
        low, high = np.array([np.quantile(reduce(np.abs(scale * gaps + noise)), TAILS) for scale in _SCALES]).T
        ends.append((value * _crossing(high, value), value * _crossing(low, value)))
    return Interval(min(ends)[0], max(high for _, high in ends))


_SCALES = np.concatenate([np.linspace(0, 2, 61), np.linspace(2.2, 4, 10)])


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
