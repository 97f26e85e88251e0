"""Proper scores of the whole distribution, and what they are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, IntArray, as_bins
from orcu.metrics.base import metric
from orcu.metrics.rows import Rows, checked_distributions, checked_likelihoods, checked_rows
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT, Sums, row_score, row_sums, summed


def rps(probs: Any, y: Any, *, normalized: bool = False, weight: Any = None) -> float:
    """Ranked probability score, mean over rows (Eq. 39): sum_k (F(k) - 1[y <= k])^2.

    The plain sum over the C - 1 thresholds; lower is better.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        normalized: divide by C - 1, so that the score lies in [0, 1].
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(rps([[0.2, 0.5, 0.3]], [1]), 4)
        0.13
    """
    rows = checked_rows(probs, y, weight)
    score = float(_rps(row_sums(rows)))
    return score / (rows.num_classes - 1) if normalized else score


def rps_rows(probs: FloatArray, y: IntArray) -> FloatArray:
    """The score of each row of checked arrays, shape (n,)."""
    return summed(Rows(probs, y).threshold_squares())


@dataclass(frozen=True)
class Decomposition:
    """RPS = reliability - resolution + uncertainty + within_bins, summed over the thresholds.

    ``reliability`` is the price of miscalibration (0 is best), ``resolution`` what telling rows
    apart has earned (more is better), ``uncertainty`` what always forecasting the frequencies would
    cost; ``within_bins`` is what differing probabilities inside one bin add.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bins: float


def rps_decomposition(probs: Any, y: Any, *, bins: int = 15, weight: Any = None) -> Decomposition:
    """Reliability, resolution and uncertainty of the ranked probability score.

    Each threshold's Brier score is split over B equal-width bins (a, b] of F(k):
    sum_b n_b/N (mean F - mean o)^2 - sum_b n_b/N (mean o - o_all)^2 + o_all (1 - o_all), and the
    remainder inside the bins.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> rps_decomposition([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1]).uncertainty.__round__(4)
        0.2222
    """
    rows = checked_rows(probs, y, weight)
    sums = row_sums(rows, as_bins(bins))
    return Decomposition(**{part: float(value) for part, value in decomposition(sums).items()})


def decomposition(sums: Sums) -> dict[str, FloatArray]:
    """The parts of the RPS, each of shape (...), by their names in `Decomposition`."""
    weight, value, outcome = (sums.thresholds[..., part, :] for part in (WEIGHT, VALUE, OUTCOME))
    total = weight.sum(-1, keepdims=True)
    filled = np.where(weight > 0, weight, 1.0)
    rate, base = outcome / filled, outcome.sum(-1, keepdims=True) / total
    share = weight / total
    reliability = (share * (value / filled - rate) ** 2).sum((-2, -1))
    resolution = (share * (rate - base) ** 2).sum((-2, -1))
    uncertainty = (base * (1 - base)).sum((-2, -1))
    return {
        "reliability": reliability,
        "resolution": resolution,
        "uncertainty": uncertainty,
        "within_bins": _rps(sums) - reliability + resolution - uncertainty,
    }


def brier(probs: Any, y: Any, *, weight: Any = None) -> float:
    """Brier score over the classes, mean over rows: sum_k (p_k - 1[y = k])^2, in [0, 2].

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(brier([[0.2, 0.5, 0.3]], [1]), 4)
        0.38
    """
    return float(_brier(row_sums(checked_rows(probs, y, weight))))


def nll(probs: Any = None, y: Any = None, *, logits: Any = None, weight: Any = None) -> float:
    """Negative log-likelihood, mean of -log p_y; infinite where some p_y is 0.

    Logits that put log p_y below -2^19 count as p_y = 0.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``logits`` is given.
        y: labels 0..C-1, shape (n,).
        logits: logits, shape (n, C), in place of probs: no probability then underflows to 0.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(nll([[0.5, 0.5], [0.2, 0.8]], [0, 1]), 4)
        0.4581
    """
    return float(_nll(row_sums(checked_likelihoods(probs, y, logits, weight))))


def sharpness(probs: Any, *, weight: Any = None) -> float:
    """The RPS that the predictions expect of themselves: mean of sum_k F(k) (1 - F(k)).

    0 for certainty, larger for wider distributions; it does not look at the labels. A calibrated
    model's `rps` equals it on average.

    Args:
        probs: class probabilities, shape (n, C).
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(sharpness([[0.2, 0.5, 0.3]]), 4)
        0.37
    """
    return float(_sharpness(row_sums(checked_distributions(probs, weight))))


def overconfidence(probs: Any, y: Any, *, weight: Any = None) -> float:
    """Mean confidence minus accuracy: above 0 over-confident, below 0 under-confident.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(overconfidence([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.35
    """
    return float(_overconfidence(row_sums(checked_rows(probs, y, weight))))


@row_score("brier")
def _brier_rows(rows: Rows) -> FloatArray:
    # sum_k (p_k - 1[y=k])^2 = sum_k p_k^2 - 2 p_y + 1
    return summed(p * p for p in rows.columns) - 2 * rows.likelihood + 1


@row_score("sharpness")
def _sharpness_rows(rows: Rows) -> FloatArray:
    return summed(below * (1 - below) for below in rows.cumulative)


_IMPOSSIBLE = 2.0**19  # negative log-likelihoods above, which only absurd logits have, count as infinite


@row_score("nll")
def _nll_rows(rows: Rows) -> FloatArray:
    score = -rows.log_likelihood
    score[score > _IMPOSSIBLE] = 0.0
    return score


@row_score("impossible")
def impossible_rows(rows: Rows) -> FloatArray:
    """1 where the model gave the label no chance: there the log-likelihood is infinite."""
    return (rows.log_likelihood < -_IMPOSSIBLE).astype(np.float64)


@metric(
    "overconfidence",
    "Confidence minus accuracy",
    family="calibration",
    better="zero",
    percent=True,
    convention="signed: above 0 over-confident",
)
def _overconfidence(sums: Sums) -> Any:
    return (sums.top[..., VALUE, :].sum(-1) - sums.top[..., OUTCOME, :].sum(-1)) / sums.total


@metric(
    "rps", "Ranked probability score", family="distribution", better="lower", convention="sum over the C-1 thresholds"
)
def _rps(sums: Sums) -> Any:
    return sums.threshold_squares.sum(-1) / sums.total


@metric("brier", "Brier score", family="distribution", better="lower", convention="sum over the C classes")
def _brier(sums: Sums) -> Any:
    return sums.mean("brier")


@metric(
    "nll",
    "Negative log-likelihood",
    family="distribution",
    better="lower",
    convention="natural logarithm; infinite where p_y = 0",
)
def _nll(sums: Sums) -> Any:
    return np.where(sums.score("impossible") > 0, np.inf, sums.mean("nll"))


@metric(
    "sharpness",
    "Sharpness (the RPS it expects)",
    family="distribution",
    better="",
    convention="sum over thresholds of F(1-F)",
)
def _sharpness(sums: Sums) -> Any:
    return sums.mean("sharpness")
