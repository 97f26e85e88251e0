"""Proper scores of the whole distribution, and what they are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_count, as_labels, as_logits, as_probs, as_weight
from orcu.metrics.base import metric, row_score
from orcu.metrics.binning import bin_index, binned_sums
from orcu.metrics.rows import Rows, checked_rows
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT, Tables, summed


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
    score = float(np.average(rps_rows(rows.probs, rows.y), weights=rows.weight))
    return score / (rows.num_classes - 1) if normalized else score


def rps_rows(probs: FloatArray, y: IntArray) -> FloatArray:
    """The score of each row of checked arrays, shape (n,)."""
    below, score = probs[:, 0].copy(), np.zeros(len(probs))
    for k in range(probs.shape[1] - 1):
        miss = below - (y <= k)
        score += miss * miss
        below += probs[:, k + 1]
    return score


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
    bins = as_count(bins, name="bins", minimum=1)
    table = np.array(
        [binned_sums(bin_index(F, bins), F, rows.y <= k, rows.weight, bins) for k, F in enumerate(rows.cumulative)]
    )
    score = float(np.average(rps_rows(rows.probs, rows.y), weights=rows.weight))
    reliability, resolution, uncertainty = map(float, _decompose(table))
    rest = score - reliability + resolution - uncertainty
    return Decomposition(reliability, resolution, uncertainty, within_bins=rest)


def decomposition(t: Tables) -> dict[str, FloatArray]:
    """The parts of the RPS from tables, each of shape (...)."""
    reliability, resolution, uncertainty = _decompose(t.thresholds)
    score = t.threshold_squares.sum(-1) / t.total
    return {
        "reliability": reliability,
        "resolution": resolution,
        "uncertainty": uncertainty,
        "within_bins": score - reliability + resolution - uncertainty,
    }


def _decompose(table: FloatArray) -> tuple[Any, Any, Any]:
    """Reliability, resolution, uncertainty, summed over thresholds, of tables (..., C-1, 3, B)."""
    weight, value, outcome = (table[..., part, :] for part in (WEIGHT, VALUE, OUTCOME))
    total = weight.sum(-1, keepdims=True)
    filled = np.where(weight > 0, weight, 1.0)
    rate, base = outcome / filled, outcome.sum(-1, keepdims=True) / total
    share = weight / total
    reliability = (share * (value / filled - rate) ** 2).sum((-2, -1))
    resolution = (share * (rate - base) ** 2).sum((-2, -1))
    return reliability, resolution, (base * (1 - base)).sum((-2, -1))


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
    rows = checked_rows(probs, y, weight)
    return float(np.average(_brier_rows(rows), weights=rows.weight))


def nll(probs: Any = None, y: Any = None, *, logits: Any = None, weight: Any = None) -> float:
    """Negative log-likelihood, mean of -log p_y; infinite where some p_y is 0.

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
    if (probs is None) == (logits is None):
        raise InputError("probs, logits: give exactly one of the two.")
    if logits is not None:
        logits = as_logits(logits)
        y = as_labels(y, logits.shape[1], rows=len(logits))
        weight = None if weight is None else as_weight(weight, rows=len(logits))
        rows = Rows(logits, y, weight, logits=logits)
    else:
        rows = checked_rows(probs, y, weight)
    likelihood = rows.log_likelihood
    if rows.weight is not None:  # a row of weight 0 does not count, however wrong
        likelihood, weight = likelihood[rows.weight > 0], rows.weight[rows.weight > 0]
    return float(-np.average(likelihood, weights=weight))


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
    probs = as_probs(probs)
    weight = None if weight is None else as_weight(weight, rows=len(probs))
    below = geometry.cumulative(probs)
    return float(np.average((below * (1 - below)).sum(axis=1), weights=weight))


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
    rows = checked_rows(probs, y, weight)
    return float(np.average(rows.confidence - rows.correct, weights=rows.weight))


@row_score("brier")
def _brier_rows(rows: Rows) -> FloatArray:
    # sum_k (p_k - 1[y=k])^2 = sum_k p_k^2 - 2 p_y + 1
    own = rows.probs[np.arange(len(rows)), rows.y]
    return summed(p * p for p in rows.columns) - 2 * own + 1


@row_score("sharpness")
def _sharpness_rows(rows: Rows) -> FloatArray:
    return summed(below * (1 - below) for below in rows.cumulative)


_IMPOSSIBLE = -(2.0**19)  # log-likelihoods below, which only absurd logits have, count as log 0


@row_score("nll")
def _nll_rows(rows: Rows) -> FloatArray:
    return np.where(rows.log_likelihood < _IMPOSSIBLE, 0.0, -rows.log_likelihood)


@row_score("impossible")
def _impossible_rows(rows: Rows) -> FloatArray:
    """1 where the model gave the label no chance: there the log-likelihood is infinite."""
    return (rows.log_likelihood < _IMPOSSIBLE).astype(np.float64)


@metric(
    "overconfidence",
    "Confidence minus accuracy",
    family="calibration",
    better="zero",
    percent=True,
    convention="signed: above 0 over-confident",
)
def _overconfidence(t: Tables) -> Any:
    return (t.top[..., VALUE, :].sum(-1) - t.top[..., OUTCOME, :].sum(-1)) / t.total


@metric(
    "rps", "Ranked probability score", family="distribution", better="lower", convention="sum over the C-1 thresholds"
)
def _rps(t: Tables) -> Any:
    return t.threshold_squares.sum(-1) / t.total


@metric("brier", "Brier score", family="distribution", better="lower", convention="sum over the C classes")
def _brier(t: Tables) -> Any:
    return t.mean("brier")


@metric(
    "nll",
    "Negative log-likelihood",
    family="distribution",
    better="lower",
    convention="natural logarithm; infinite where p_y = 0",
)
def _nll(t: Tables) -> Any:
    return np.where(t.scores["impossible"] > 0, np.inf, t.mean("nll"))


@metric(
    "sharpness",
    "Sharpness (the RPS it expects)",
    family="distribution",
    better="",
    convention="sum over thresholds of F(1-F)",
)
def _sharpness(t: Tables) -> Any:
    return t.mean("sharpness")
