"""Proper scores of the predicted distribution, and the decomposition of the ranked probability score."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import documented, function_of, metric, metric_function
from orcu.metrics.rows import Rows, checked_rows
from orcu.metrics.sums import (
    OUTCOME,
    VALUE,
    WEIGHT,
    Sums,
    binned_sums,
    distribution_sums,
    labelled_sums,
    likelihood_sums,
    ordered_sum,
    row_score,
    row_sums,
)

_MAX_NLL = 2.0**19  # a larger negative log-likelihood, which only extreme logits have, counts as infinite
_score = partial(metric, family="distribution", bounds=(0, np.inf))


@metric_function(labelled_sums)
@metric(
    "overconfidence",
    "Confidence minus accuracy",
    family="calibration",
    better="zero",
    percent=True,
    convention="signed: above 0 over-confident",
    bounds=(-1, 1),
)
def overconfidence(sums: Sums) -> Any:
    """Mean confidence minus accuracy: above 0 over-confident, below 0 under-confident.

    Example:
        >>> round(overconfidence([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.35
    """
    return (sums.top[..., VALUE, :].sum(-1) - sums.top[..., OUTCOME, :].sum(-1)) / sums.total


@_score("rps", "Ranked probability score", better="lower", convention="sum over the C-1 thresholds")
def _rps(sums: Sums) -> Any:
    return sums.threshold_squares.sum(-1) / sums.total


@metric_function(labelled_sums)
@_score("brier", "Brier score", better="lower", convention="sum over the C classes")
def brier(sums: Sums) -> Any:
    """Brier score over the classes, mean over rows: sum_k (p_k - 1[y = k])^2, in [0, 2].

    Example:
        >>> round(brier([[0.2, 0.5, 0.3]], [1]), 4)
        0.38
    """
    return sums.mean("brier")


@metric_function(likelihood_sums)
@_score("nll", "Negative log-likelihood", better="lower", convention="natural logarithm; infinite where p_y = 0")
def nll(sums: Sums) -> Any:
    """Negative log-likelihood, mean of -log p_y; infinite if any p_y is 0.

    Logits for which log p_y is below -2^19 count as p_y = 0.

    Example:
        >>> round(nll([[0.5, 0.5], [0.2, 0.8]], [0, 1]), 4)
        0.4581
    """
    return np.where(sums.score("impossible") > 0, np.inf, sums.mean("nll"))


@metric_function(distribution_sums)
@_score("sharpness", "Sharpness (expected RPS)", better="", convention="sum over thresholds of F(1-F)")
def sharpness(sums: Sums) -> Any:
    """Sharpness: the RPS that the predictions imply, mean of sum_k F(k) (1 - F(k)).

    0 for certain predictions, larger for wider distributions. It does not depend on labels. The `rps` of a calibrated
    model equals it in expectation.

    Example:
        >>> round(sharpness([[0.2, 0.5, 0.3]]), 4)
        0.37
    """
    return sums.mean("sharpness")


@row_score("brier")
def _brier_rows(rows: Rows) -> FloatArray:
    # sum_k (p_k - 1[y=k])^2 = sum_k p_k^2 - 2 p_y + 1
    return ordered_sum(p * p for p in rows.columns) - 2 * rows.likelihood + 1


@row_score("sharpness")
def _sharpness_rows(rows: Rows) -> FloatArray:
    return ordered_sum(below * (1 - below) for below in rows.cumulative)


@row_score("nll")
def _nll_rows(rows: Rows) -> FloatArray:
    score = -rows.log_likelihood
    score[score > _MAX_NLL] = 0.0
    return score


@row_score("impossible")
def impossible_rows(rows: Rows) -> FloatArray:
    """1 for each row whose label has probability 0, so that its log-likelihood is infinite; else 0."""
    return (rows.log_likelihood < -_MAX_NLL).astype(np.float64)


@documented
def rps(probs: Any, y: Any, *, normalized: bool = False, sample_weight: Any = None) -> float:
    """Ranked probability score, mean over rows (Eq. 39): sum_k (F(k) - 1[y <= k])^2.

    The sum over the C - 1 thresholds; lower is better.

    Example:
        >>> round(rps([[0.2, 0.5, 0.3]], [1]), 4)
        0.13
    """
    rows = checked_rows(probs, y, sample_weight=sample_weight)
    score = rps_unchecked(rows.probs, rows.y, rows.sample_weight)
    return score / (rows.num_classes - 1) if normalized else score


def rps_unchecked(probs: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> float:
    """`rps` without validation, for arrays that are known to be valid: float64 (n, C), integers (n,), float64 (n,)."""
    return float(_rps(row_sums(Rows(probs, y, sample_weight))))


def rps_per_row(probs: FloatArray, y: IntArray) -> FloatArray:
    """Ranked probability score of each row of checked arrays, shape (n,)."""
    return ordered_sum(Rows(probs, y).threshold_squares())


@dataclass(frozen=True)
class Decomposition:
    """RPS = reliability - resolution + uncertainty + within_bins, summed over the thresholds.

    ``reliability`` is the cost of miscalibration (0 is best). ``resolution`` is the gain from predictions that differ
    between rows (higher is better). ``uncertainty`` is the score of always predicting the class frequencies.
    ``within_bins`` is the remainder due to different probabilities in the same bin.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bins: float


@function_of(binned_sums)
def rps_decomposition(sums: Sums) -> Decomposition:
    """Reliability, resolution and uncertainty of the ranked probability score.

    The Brier score of each threshold is decomposed over B equal-width bins of F(k):
    sum_b n_b/N (mean F - mean o)^2 - sum_b n_b/N (mean o - o_all)^2 + o_all (1 - o_all), and the
    remainder within the bins.

    Example:
        >>> rps_decomposition([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1]).uncertainty.__round__(4)
        0.2222
    """
    return decomposition(sums)


def decomposition(sums: Sums) -> Decomposition:
    """`rps_decomposition` of sums without leading axes."""
    weight, value, outcome = (sums.thresholds[..., part, :] for part in (WEIGHT, VALUE, OUTCOME))
    total = weight.sum(-1, keepdims=True)
    filled = np.where(weight > 0, weight, 1.0)
    rate, base = outcome / filled, outcome.sum(-1, keepdims=True) / total
    share = weight / total
    reliability = float((share * (value / filled - rate) ** 2).sum((-2, -1)))
    resolution = float((share * (rate - base) ** 2).sum((-2, -1)))
    uncertainty = float((base * (1 - base)).sum((-2, -1)))
    within_bins = float(_rps(sums)) - reliability + resolution - uncertainty
    return Decomposition(reliability, resolution, uncertainty, within_bins)
