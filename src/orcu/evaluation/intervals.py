"""Intervals and references: the paired bootstrap, and what a calibrated model would show.

The bootstrap draws units with replacement: rows, whole subjects, or, where there are very many,
random blocks of these. A resample only counts units several times, so all metrics of all resamples
follow from one product of counts and sums per unit. Two models on the same rows get the same
counts, which pairs them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
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
MANY_CLASSES, FEW_IN_BIN = 20, 200  # beyond and below which sums of simulated outcomes are drawn row by row
NORMAL_ROWS = 5_000  # from which sums of bins are normal
_AT_ONCE = 64  # resamples in memory at a time
_MOST_KEPT = 20_000_000  # counts of units: 40 MB


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


def default_draws(rows: int, layout: Layout) -> int:
    """How many outcomes are simulated for the calibrated reference: 1000, for many rows of many classes fewer.

    Example:
        >>> default_draws(200_000, Layout(8, bins=15)), default_draws(200_000, Layout(30, bins=15))
        (1000, 100)
    """
    draws = max(50, min(1000, 20_000_000 // rows)) if _row_by_row(rows, layout) else 1000
    return min(draws, _within_memory(layout.size))


def _row_by_row(rows: int, layout: Layout) -> bool:
    """Whether a simulated outcome is drawn for each row; else for whole bins at once."""
    return rows <= NORMAL_ROWS or layout.num_classes > MANY_CLASSES


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
    """What each unit adds to the sums, shape (units, size), sparse: for units of few rows."""
    terms = [
        (unit, start + column, np.ones(len(rows)) if value is None else value)
        for start, _, column, value in layout.terms(rows)
    ]
    row, cell, added = (np.concatenate(part) for part in zip(*terms, strict=True))
    return sparse.csr_array((added, (row, cell)), shape=(units, layout.size))


def resampled_sums(sums: Any, resamples: int, seed: int) -> FloatArray:
    """The sums of every bootstrap resample, shape (resamples, size)."""
    units, size = sums.shape
    if size > MANY_SUMS and sparse.issparse(sums):  # most of them are empty: only the others are drawn
        filled, out = np.unique(sums.indices), np.zeros((resamples, size))
        out[:, filled] = resampled_sums(sums[:, filled], resamples, seed)
        return out
    all_times = _kept_times if resamples * units <= _MOST_KEPT else _times
    return np.concatenate([(sums.T @ times.T.astype(np.float64)).T for times in all_times(units, resamples, seed)])


def _times(units: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.uint16]]:
    """How often each resample has each unit, some resamples at a time, of shape (some, units)."""
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, _AT_ONCE):
        count = min(_AT_ONCE, resamples - start)
        picks = rng.integers(units, size=(count, units)) + units * np.arange(count)[:, None]
        yield np.bincount(picks.ravel(), minlength=count * units).reshape(count, units).astype(np.uint16)


@lru_cache(maxsize=1)
def _kept_times(units: int, resamples: int, seed: int) -> list[npt.NDArray[np.uint16]]:
    """`_times`, kept: several sums are drawn by the same resamples."""
    return list(_times(units, resamples, seed))


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

    Only the binned tables are there, which binned errors read: the outcomes are simulated, the rest is kept. Up to
    5,000 rows (and for more than 20 classes) each row's outcome is drawn; of more rows the sums of the bins, which are
    then normal, with the covariance that the probabilities give them.

    Args:
        layout: of the vector.
        rows: the predictions.
        vector: the sums with the real outcomes.
        draws: how many outcomes.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    out = np.repeat(vector[None, layout.binned], draws, axis=0)

    def outcomes(name: str) -> FloatArray:
        """The places of the outcomes in the tables of a name, shape (draws, tables, B)."""
        return out[:, layout.slices[name]].reshape(draws, -1, 3, layout.bins)[:, :, OUTCOME]

    bins = _bins_of(rows, layout.bins)
    if _row_by_row(len(rows), layout):
        _draw_rows(rows, bins, outcomes, rng)
    else:
        _draw_bins(rows, bins, outcomes, rng)
    return layout.sums(out, total=float(layout.sums(vector).total))


def _bins_of(rows: Rows, bins: int) -> dict[str, IntArray]:
    """The bin of each row in the tables of each name, shape (tables, n)."""
    tables = {
        "top": bin_index(rows.confidence, bins)[None],
        "classes": np.array([bin_index(p, bins) for p in rows.columns]),
        "thresholds": np.array([bin_index(f, bins) for f in rows.cumulative]),
    }
    return tables if rows.groups is None else tables | {"adaptive": rows.groups}


def _draw_rows(
    rows: Rows, bins: dict[str, IntArray], outcomes: Callable[[str], FloatArray], rng: np.random.Generator
) -> None:
    """Draw a label for each row, and add up which came true in each bin."""
    n, size, w, at = len(rows), rows.num_classes, rows.weight, np.arange(len(rows))
    draws, _, b = outcomes("top").shape
    top, by_threshold = bins["top"][0], bins["thresholds"]
    # Where a row counts if class k comes true, in the tables of all classes below each other; flat, (C n).
    tables = {
        name: (np.arange(size)[:, None] * b + bins[name]).ravel() for name in ("classes", "adaptive") if name in bins
    }
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


def _draw_bins(
    rows: Rows, bins: dict[str, IntArray], outcomes: Callable[[str], FloatArray], rng: np.random.Generator
) -> None:
    """Draw the sums of all bins at once, normal with mean sum p and the covariance of independent rows."""
    p, below = rows.columns, rows.cumulative.clip(max=1.0)  # a cumulative sum may pass 1 by its rounding
    values = {"top": rows.confidence[None], "classes": p, "thresholds": below, "adaptive": p}

    def of_top(k: int, j: int) -> FloatArray:
        return rows.confidence * (1 - rows.confidence)

    def of_classes(k: int, j: int) -> FloatArray:
        """Cov(1[y = k], 1[y = j])."""
        return p[k] * (1 - p[k]) if k == j else -p[k] * p[j]

    def of_thresholds(k: int, j: int) -> FloatArray:
        """Cov(1[y <= k], 1[y <= j]) for k <= j."""
        return below[k] * (1 - below[j])

    covariances = {"top": of_top, "classes": of_classes, "thresholds": of_thresholds, "adaptive": of_classes}
    squares = None if rows.weight is None else rows.weight**2
    draws, _, b = outcomes("top").shape
    for name, index in bins.items():
        tables = len(index)
        covariance = np.zeros((tables, b, tables, b))
        for k in range(tables):
            for j in range(k, tables):
                spread = covariances[name](k, j)
                spread = spread if squares is None else squares * spread
                cells = np.bincount(index[k] * b + index[j], weights=spread, minlength=b * b).reshape(b, b)
                covariance[k, :, j], covariance[j, :, k] = cells, cells.T
        mean = [_bincount(cells, value, rows.weight, b) for cells, value in zip(index, values[name], strict=True)]
        level, axes = np.linalg.eigh(covariance.reshape(tables * b, tables * b))
        noise = rng.standard_normal((draws, tables * b)) @ (axes * np.sqrt(level.clip(min=0))).T
        outcomes(name)[:] = np.array(mean) + noise.reshape(draws, tables, b)
    for few in np.flatnonzero(np.bincount(bins["top"][0], minlength=b) < FEW_IN_BIN):
        # What the largest gap is read from: in a bin of few rows nothing is normal.
        mine = np.flatnonzero(bins["top"][0] == few)
        right = rng.random((draws, len(mine))) < rows.confidence[mine]
        outcomes("top")[:, 0, few] = right.sum(1) if rows.weight is None else right @ rows.weight[mine]


def _bincount(cells: IntArray, value: FloatArray, weight: FloatArray | None, bins: int) -> FloatArray:
    weights = value if weight is None else weight * value
    sums: FloatArray = np.bincount(cells, weights=weights, minlength=bins).astype(np.float64)
    return sums
