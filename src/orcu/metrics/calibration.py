"""Calibration errors (Appendix III): is a class that is predicted with probability 0.8 right 8 times in 10?

``convention`` names the rule for the bins. The default is the paper's; the others reproduce the numbers of
torchmetrics, netcal, and the code of MDCA and of Nixon et al. Names: paper, mdca, torchmetrics, nixon, netcal.
"""

from functools import partial
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, IntArray, as_n_bins
from orcu.metrics.base import documented, function_of, largest_gap, metric, metric_function, total_gap
from orcu.metrics.binning import CONVENTIONS, PAPER, check_convention, equal_count_bins
from orcu.metrics.rows import checked_rows
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT, Sums, binned_sums, row_sums

ACE_CONVENTIONS = {
    "paper": "equal-count bins of equal weight",
    "weighted": "equal-count bins weighted by their rows",
    "mdca": "edges at every floor(n/R)-th value, (a, b], weighted by rows; the minimum is in no bin",
    "nixon": "edges at every round(i n/R)-th value, [a, b), weighted by rows",
    "netcal": "its 'average' calibration error: equal-width bins of the top label, of equal weight",
}


_BINS = f"{{bins}} equal-width bins {PAPER.words}"
_calibration_error = partial(
    metric, family="calibration", better="lower", percent=True, reduce=total_gap, bounds=(0, 1)
)


@metric_function(binned_sums)
@_calibration_error("ece", "Expected calibration error (ECE)", convention=f"top label, {_BINS}")
def ece(sums: Sums) -> FloatArray:
    """Expected calibration error of the top label (Eq. 11).

    ECE = sum_b n_b/N |acc(b) - conf(b)| over B equal-width bins (a, b] of the largest probability.
    The predicted class is the first argmax.

    Example:
        >>> round(ece([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    return _gaps(sums.top) / sums.total[..., None]


@metric_function(binned_sums)
@_calibration_error("sce", "Class-wise calibration error (SCE)", convention=f"mean over classes, {_BINS}")
def sce(sums: Sums) -> FloatArray:
    """Static calibration error: mean calibration error of the class probabilities (Eq. 12).

    SCE = (1/C) sum_k sum_b n_{b,k}/N |acc(b, k) - conf(b, k)| with equal-width bins (a, b] of p_k.
    acc(b, k) is the share of the bin's rows with label k. The mean includes classes without rows.

    Example:
        >>> round(sce([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    return _mean_gaps(sums.classes, sums.total)


@_calibration_error(
    "ace",
    "Adaptive calibration error (ACE)",
    convention=f"mean over classes, {{bins}} {ACE_CONVENTIONS['paper']}; bins stay fixed in resamples",
)
def _ace(sums: Sums) -> FloatArray:
    filled = (sums.adaptive[..., WEIGHT, :] > 0).sum(-1)
    with np.errstate(invalid="ignore"):  # NaN without equal-count bins
        return _flat(bin_gaps(sums.adaptive) / filled[..., None]) / filled.shape[-1]


@metric_function(binned_sums)
@_calibration_error("threshold_ce", "Threshold-wise calibration error", convention=f"mean over P(Y <= k), {_BINS}")
def threshold_ce(sums: Sums) -> FloatArray:
    """Threshold-wise calibration error: mean calibration error of the cumulative probabilities P(Y <= k).

    TCE = (1/(C-1)) sum_k sum_b n_{b,k}/N |mean 1[y <= k] - mean F(k)| with equal-width bins (a, b]
    of F(k), k = 0..C-2. Decisions on ordered classes ("grade 2 or worse") use these probabilities.

    Example:
        >>> round(threshold_ce([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [0, 2]), 4)
        0.125
    """
    return _mean_gaps(sums.thresholds, sums.total)


@metric_function(binned_sums)
@_calibration_error(
    "mce", "Maximum calibration error (MCE)", convention="largest gap of any bin of the ECE", reduce=largest_gap
)
def mce(sums: Sums) -> FloatArray:
    """Maximum calibration error of the top label: the largest |acc(b) - conf(b)| of any bin.

    The bin with the fewest rows often determines it; compare it with its reference in `orcu.evaluate`.

    Example:
        >>> round(mce([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.8
    """
    return bin_gaps(sums.top)


@function_of(binned_sums)
def classwise_ece(sums: Sums) -> FloatArray:
    """Calibration error of each class's probability, shape (C,); `sce` is its mean.

    Example:
        >>> classwise_ece([[0.9, 0.1], [0.8, 0.2]], [0, 1]).round(4)
        array([0.45, 0.45])
    """
    return total_gap(np.abs(class_gaps(sums)))


@documented
def ace(probs: Any, y: Any, *, n_bins: int = 15, convention: str = "paper", sample_weight: Any = None) -> float:
    """Adaptive calibration error: mean calibration error of the classes over equal-count bins (Eq. 13).

    ACE = (1/(C R)) sum_k sum_r |acc(r, k) - conf(r, k)|: the rows are sorted stably by p_k and cut
    into R bins of equal count (the first n mod R have one row more). All bins have the same weight.
    If there are fewer rows than bins, empty bins do not count. Bins are cut by number of rows; row weights
    act inside them. Conventions: paper, weighted (bins weighted by their rows), mdca, nixon, and netcal for
    the error that netcal calls ACE.

    Example:
        >>> round(ace([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], n_bins=2), 4)
        0.325
    """
    rows = checked_rows(probs, y, sample_weight=sample_weight)
    n_bins = as_n_bins(n_bins)
    check_convention(convention, ACE_CONVENTIONS)
    if convention == "netcal":
        top = row_sums(rows, n_bins, CONVENTIONS["netcal"]).top
        return float(np.abs(bin_gaps(top))[top[WEIGHT] > 0].mean())
    assign = {"mdca": _mdca_bins, "nixon": _nixon_bins}.get(convention, equal_count_bins)
    sums = row_sums(rows.with_adaptive_bins(n_bins, assign), n_bins)
    if convention == "paper":
        return float(_ace(sums))
    return float(total_gap(np.abs(_mean_gaps(sums.adaptive, sums.total))))


def class_gaps(sums: Sums) -> FloatArray:
    """Signed gaps of the bins of each class's probability, shape (..., C, B); their absolute sums are the errors."""
    return _gaps(sums.classes) / sums.total[..., None, None]


def threshold_gaps(sums: Sums) -> FloatArray:
    """Signed gaps of the bins of each cumulative probability, shape (..., C-1, B)."""
    return _gaps(sums.thresholds) / sums.total[..., None, None]


def bin_gaps(table: FloatArray) -> FloatArray:
    """Mean outcome minus mean value of each bin of tables (..., 3, B); 0 where a bin is empty.

    Example:
        >>> bin_gaps(np.array([[1.0, 2.0], [0.1, 1.7], [0.0, 1.0]]))
        array([-0.1 , -0.35])
    """
    gaps, weight = _gaps(table), table[..., WEIGHT, :]
    return np.divide(gaps, weight, out=np.zeros_like(gaps), where=weight > 0)


def _gaps(table: FloatArray) -> FloatArray:
    """n_b (mean outcome - mean value) of each bin, shape (..., B); 0 for an empty bin."""
    return table[..., OUTCOME, :] - table[..., VALUE, :]


def _mean_gaps(tables: FloatArray, total: FloatArray) -> FloatArray:
    """n_b/N (mean outcome - mean value), divided by the number K of tables (..., K, 3, B), shape (..., K B)."""
    gaps = _gaps(tables)
    return _flat(gaps) / (gaps.shape[-2] * total[..., None])


def _flat(gaps: FloatArray) -> FloatArray:
    return gaps.reshape(*gaps.shape[:-2], -1)


def _mdca_bins(values: FloatArray, n_bins: int) -> IntArray:
    """Bins (a, b] with edges at every floor(n/R)-th sorted value and 1 at the end."""
    edges = np.sort(values)[np.arange(n_bins) * (len(values) // n_bins)]
    index = np.searchsorted(edges, values, side="left") - 1
    return np.where(index < 0, n_bins, index)  # not above the first edge: in no bin


def _nixon_bins(values: FloatArray, n_bins: int) -> IntArray:
    """Bins [a, b) with edges at every round(i n/R)-th sorted value."""
    starts = np.round(np.arange(1, n_bins) * len(values) / n_bins).astype(np.intp)
    edges = np.sort(values)[np.minimum(starts, len(values) - 1)]
    return np.searchsorted(edges, values, side="right")
