"""Bootstrap: resamples of rows, clusters or blocks as counts, and percentile intervals.

The bootstrap draws units with replacement: rows, clusters, or random blocks of these if there are very many. A
resample counts each unit a number of times, so all statistics of all resamples follow from one product of counts and
sums per unit. Two models on the same rows get the same counts, which makes their comparison paired.

Resamples of few clusters vary too little: of five equal clusters by a factor of sqrt(4/5), and their quantiles are
those of a normal instead of a t distribution. `small_sample_factor` corrects both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

MAX_UNITS = 20_000  # more units are grouped into random blocks
N_BLOCKS = 2_000
CONFIDENCE_LEVEL = 0.95
TAILS = ((1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2)  # quantiles at the ends of an interval
MIN_RESAMPLES = 30  # of fewer, the 2.5 % quantile is arbitrary
MAX_CELLS = 500_000_000  # sums of all resamples: 4 GB
MANY_SUMS = 100_000  # reached with hundreds of classes; empty ones are then skipped
_RESAMPLE_BATCH = 64  # resamples in memory at a time
_MAX_CACHED = 20_000_000  # cached counts of units: 40 MB


@dataclass(frozen=True)
class Estimate:
    """Value with its 95 % interval, and the reference of a calibrated model for metrics that have one.

    The interval of a binned error is that of the true error (see `orcu.evaluation.intervals.gap_interval`).
    ``expected`` and ``limit`` are the mean and the 95 % quantile of the error if labels were drawn from the same
    probabilities, and ``p_value`` is the probability of an error at least as large. NaN means not defined.
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")
    expected: float | None = None
    limit: float | None = None
    p_value: float | None = None


def number_of_resamples(n_resamples: int | None, rows: int, size: int = 1) -> int:
    """Number of resamples: by default 2000, fewer for many rows or many sums per resample (hundreds of classes).

    Example:
        >>> [number_of_resamples(None, rows) for rows in (500, 10_000, 10**6)]
        [2000, 1000, 400]
    """
    if n_resamples is None:
        return min(2000 if rows < 5_000 else 1000 if rows <= MAX_UNITS else 400, max_draws(size))
    if 0 < n_resamples < MIN_RESAMPLES:
        raise InputError(
            f"n_resamples: expected 0 for no intervals, or at least {MIN_RESAMPLES}, got {n_resamples}; the quantiles "
            "of fewer resamples are arbitrary."
        )
    maximum = max(100, MAX_CELLS // size)  # the sums of all resamples must fit into memory
    if n_resamples > maximum:
        raise InputError(f"n_resamples: expected at most {maximum:,} for this number of classes, got {n_resamples:,}.")
    return n_resamples


def max_draws(size: int) -> int:
    """Number of draws of this many sums each that fit into memory."""
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


def resampled_sums(sums: Any, n_resamples: int, random_state: int) -> FloatArray:
    """Sums of all bootstrap resamples, shape (n_resamples, size)."""
    units, size = sums.shape
    if size > MANY_SUMS and sparse.issparse(sums):  # most columns are empty: only the others are resampled
        filled, out = np.unique(sums.indices), np.zeros((n_resamples, size))
        out[:, filled] = resampled_sums(sums[:, filled], n_resamples, random_state)
        return out
    batches = (_cached_counts if n_resamples * units <= _MAX_CACHED else _counts)(units, n_resamples, random_state)
    return np.concatenate([(sums.T @ counts.T.astype(np.float64)).T for counts in batches])


def resampled_means(
    influence: FloatArray, unit: npt.NDArray[np.intp], units: int, n_resamples: int, random_state: int
) -> FloatArray:
    """Change of each statistic in each resample by its influence function, shape (n_resamples, m).

    ``influence`` is that of each row on m statistics, shape (m, n), and ``unit`` the resampling unit of each row.
    """
    per_unit = np.stack([np.bincount(unit, weights=row, minlength=units) for row in influence], axis=1)
    return resampled_sums(per_unit, n_resamples, random_state) / len(unit)


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


def clopper_pearson(part: float, total: float) -> Interval:
    """Exact 95 % interval of a probability that was observed ``part`` times in ``total``; NaN if the total is 0.

    Example:
        >>> low, high = clopper_pearson(0, 8)
        >>> low, round(high, 4)
        (0.0, 0.3694)
    """
    if not total > 0:
        return Interval(np.nan, np.nan)
    low = 0.0 if part <= 0 else float(special.betaincinv(part, total - part + 1, TAILS[0]))
    high = 1.0 if part >= total else float(special.betaincinv(part + 1, total - part, TAILS[1]))
    return Interval(low, high)


def effective_size(weights: FloatArray) -> float:
    """Number of equally weighted units with the same variance of a mean, (sum w)^2 / sum w^2 (Kish, 1965).

    For clusters, ``weights`` are their numbers of rows. The rows of a cluster then count as one unit, as if they were
    all equal.

    Example:
        >>> effective_size(np.array([2.0, 2.0, 2.0])), round(effective_size(np.array([1.0, 1.0, 6.0])), 2)
        (3.0, 1.68)
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


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
