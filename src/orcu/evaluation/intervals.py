"""Intervals and references: the paired bootstrap, and what a calibrated model would show.

The bootstrap draws units with replacement: rows, whole subjects, or, where there are very many,
random blocks of these. A resample only counts units several times, so all metrics of all resamples
follow from one product of counts and sums per unit. Two models on the same rows get the same
counts, which pairs them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.binning import bin_index
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import OUTCOME, Sums

MOST_UNITS = 20_000  # above, units are dealt into blocks
BLOCKS = 2_000
LEVEL = 0.95  # of every interval
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # the quantiles at its ends
MOST_CELLS = 500_000_000  # sums of all resamples together: 4 GB
MANY_BINS, MANY_SUMS = 4_000, 100_000  # of hundreds of classes
_AT_ONCE = 64  # resamples in memory at a time


def default_resamples(rows: int, size: int = 1) -> int:
    """How many resamples are drawn when the caller does not say: 2000, for many rows or hundreds of classes fewer.

    Args:
        rows: n.
        size: of the sums of one resample, which grow with the square of the number of classes.

    Example:
        >>> (
        ...     default_resamples(500),
        ...     default_resamples(10_000),
        ...     default_resamples(10**6),
        ...     default_resamples(50, 10**6),
        ... )
        (2000, 1000, 400, 50)
    """
    return min(2000 if rows < 5_000 else 1000 if rows <= MOST_UNITS else 400, _within_memory(size))


def check_resamples(resamples: int, size: int) -> None:
    """Refuse more resamples than memory holds.

    Raises:
        InputError: which says how many there may be.
    """
    most = max(100, MOST_CELLS // size)
    if resamples > most:
        raise InputError(
            f"bootstrap: expected at most {most:,} resamples for this number of classes, got {resamples:,}."
        )


def default_draws(rows: int, size: int = 1) -> int:
    """How many outcomes are simulated for the calibrated reference; arguments as for `default_resamples`.

    Example:
        >>> default_draws(500), default_draws(10**6)
        (1000, 50)
    """
    return min(max(50, min(1000, 20_000_000 // rows)), _within_memory(size))


def _within_memory(size: int) -> int:
    return max(30, MOST_CELLS // 10 // size)


def blocks_of(units: IntArray) -> npt.NDArray[np.intp]:
    """A block at random for each unit number, the same in every run (a mixing hash of the number).

    Example:
        >>> blocks_of(np.arange(4)).tolist()
        [0, 1561, 1078, 615]
    """
    mixed = units.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(BLOCKS)).astype(np.intp)


def unit_numbers(rows: int, subject: npt.NDArray[Any] | None) -> tuple[npt.NDArray[np.intp], int]:
    """The unit of each row and how many units there are: rows or subjects, dealt if many."""
    unit: npt.NDArray[np.intp] = np.arange(rows)
    if subject is not None:
        unit = np.unique(subject, return_inverse=True)[1]
    count = int(unit.max()) + 1
    return (blocks_of(unit), BLOCKS) if count > MOST_UNITS else (unit, count)


def unit_sums(layout: Layout, rows: Rows, unit: npt.NDArray[np.intp], units: int) -> Any:
    """What each unit adds to the sums, shape (units, size); sparse where units are small."""
    if units != BLOCKS:
        terms = [
            (unit, start + column, np.ones(len(rows)) if value is None else value)
            for start, _, column, value in layout.terms(rows)
        ]
        row, cell, added = (np.concatenate(part) for part in zip(*terms, strict=True))
        return sparse.csr_array((added, (row, cell)), shape=(units, layout.size))
    sums = np.zeros((units, layout.size))
    for start, width, column, value in layout.terms(rows):
        cells = np.bincount(unit * width + column, weights=value, minlength=units * width)
        sums[:, start : start + width] += cells.reshape(units, width)
    return sums


def resampled_sums(sums: Any, resamples: int, seed: int) -> FloatArray:
    """The sums of every bootstrap resample, shape (resamples, size)."""
    units, size = sums.shape
    rng = np.random.default_rng(seed)
    if size > MANY_SUMS and sparse.issparse(sums):  # most of them are empty: only the others are drawn
        filled, out = np.unique(sums.indices), np.zeros((resamples, size))
        out[:, filled] = resampled_sums(sums[:, filled], resamples, seed)
        return out
    draws = []
    for start in range(0, resamples, _AT_ONCE):
        count = min(_AT_ONCE, resamples - start)
        picks = rng.integers(units, size=(count, units)) + units * np.arange(count)[:, None]
        times = np.bincount(picks.ravel(), minlength=count * units).reshape(count, units)
        draws.append((sums.T @ times.T.astype(np.float64)).T)
    return np.concatenate(draws)


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; NaN where it could not be had."""

    low: float
    high: float


def interval(value: float, draws: FloatArray) -> Interval:
    """The 95 % bootstrap interval of a metric, by percentiles.

    Args:
        value: the metric on all rows.
        draws: the metric on each resample, shape (resamples,).

    Example:
        >>> interval(0.5, np.linspace(0.4, 0.6, 101))
        Interval(low=0.405, high=0.595)
    """
    if not np.isfinite(value) or not np.isfinite(draws).all():
        return Interval(np.nan, np.nan)
    low, high = np.quantile(draws, TAILS)
    return Interval(float(low), float(high))


def intervals(values: FloatArray, draws: FloatArray | None) -> list[Interval]:
    """The `interval` of each of several metrics, from draws of shape (resamples, metrics); NaN without draws.

    Example:
        >>> intervals(np.array([0.5, np.nan]), np.linspace([0.4, 0.0], [0.6, 1.0], 101))
        [Interval(low=0.405, high=0.595), Interval(low=nan, high=nan)]
    """
    undefined = [Interval(np.nan, np.nan)] * len(values)
    if draws is None:
        return undefined
    known = np.isfinite(values) & np.isfinite(draws).all(axis=0)
    if not known.any():
        return undefined
    ends = np.full((2, len(values)), np.nan)
    ends[:, known] = np.quantile(draws[:, known], TAILS, axis=0)
    return [Interval(float(low), float(high)) for low, high in ends.T]


def gap_interval(gaps: FloatArray, draws: FloatArray, reduce: Callable[[FloatArray], FloatArray]) -> Interval:
    """The 95 % interval of a binned error, corrected for the bias of absolute gaps.

    The sum of |gap| grows with noise alone, in the sample and once more in every resample, so
    percentiles of resamples miss the true error. Here the observed gaps, shrunk or stretched by a
    factor, are met with the noise of the resamples: the interval holds the errors of those factors
    under which the observed value lies within the central 95 %. It starts at 0 where a calibrated
    model could have shown the value; the value itself then lies at or above its end.

    Args:
        gaps: the signed gap of each bin, shape (G,).
        draws: the same of each resample, shape (resamples, G).
        reduce: turns |gaps| into the error.

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
    if gaps.size > MANY_BINS:  # empty bins add nothing
        filled = (gaps != 0) | (draws != 0).any(axis=0)
        gaps, draws = gaps[filled], draws[:, filled]
    noise = draws - gaps
    low, high = np.array([np.quantile(reduce(np.abs(factor * gaps + noise)), TAILS) for factor in _FACTORS]).T
    return Interval(value * _crossing(high, value), value * _crossing(low, value))


_FACTORS = np.concatenate([np.linspace(0, 2, 61), np.linspace(2.2, 4, 10)])


def _crossing(quantile: FloatArray, value: float) -> float:
    """The factor at which a quantile, growing with the factor, reaches the value."""
    growing = np.maximum.accumulate(quantile)
    if growing[0] >= value:
        return 0.0
    return float(np.interp(value, growing, _FACTORS))


def calibrated_sums(layout: Layout, rows: Rows, vector: FloatArray, draws: int, seed: int) -> Sums:
    """Sums of simulated outcomes y ~ p for these very probabilities, with (draws) as their leading axis.

    Only the binned tables are there, which binned errors read: the outcomes are simulated, the rest is kept.

    Args:
        layout: of the vector.
        rows: the predictions.
        vector: the sums with the real outcomes.
        draws: how many outcomes.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    n, b, w = len(rows), layout.bins, rows.weight
    out = np.repeat(vector[None, layout.binned], draws, axis=0)
    size, at = layout.num_classes, np.arange(n)
    top = bin_index(rows.confidence, b)
    # Where a row counts if class k comes true, in the tables of all classes below each other; flat, (C n).
    tables = {"classes": np.array([k * b + bin_index(p, b) for k, p in enumerate(rows.columns)]).ravel()}
    if rows.groups is not None:
        tables["adaptive"] = (np.arange(size)[:, None] * b + rows.groups).ravel()
    by_threshold = np.array([bin_index(f, b) for f in rows.cumulative])

    def outcomes(name: str) -> FloatArray:
        """The places of the outcomes in the tables of a name, shape (draws, tables, B)."""
        return out[:, layout.slices[name]].reshape(draws, -1, 3, b)[:, :, OUTCOME]

    for draw in range(draws):
        uniform = rng.random(n)
        y = np.zeros(n, dtype=np.intp)
        for below in rows.cumulative:
            y += uniform > below
        right = y == rows.pred
        outcomes("top")[draw, 0] = np.bincount(top[right], weights=None if w is None else w[right], minlength=b)
        place = y * n + at
        for name, cells in tables.items():
            outcomes(name)[draw] = np.bincount(cells[place], weights=w, minlength=size * b).reshape(size, b)
        for k, index in enumerate(by_threshold):
            below = y <= k
            came_true = None if w is None else w[below]
            outcomes("thresholds")[draw, k] = np.bincount(index[below], weights=came_true, minlength=b)
    return layout.sums(out, total=float(layout.sums(vector).total))
