"""Calibration errors (Appendix III): does a probability of 0.8 come true 8 times in 10?

``convention`` names the rule for the bins; the paper's is the default, the others reproduce the
numbers of torchmetrics, netcal, MDCA's code and Nixon's.
"""

from typing import Any

import numpy as np

from orcu.inputs import FloatArray, IntArray, as_bins
from orcu.metrics.base import largest_gap, metric, total_gap
from orcu.metrics.binning import CONVENTIONS, PAPER, check_convention, even_groups
from orcu.metrics.rows import checked_rows
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT, Sums, row_sums

ACE_CONVENTIONS = {
    "paper": "groups of even count, all weighted alike",
    "weighted": "groups of even count, weighted by their rows",
    "mdca": "edges at every floor(n/R)-th value, (a, b], weighted by rows; the minimum drops out",
    "nixon": "edges at every round(i n/R)-th value, [a, b), weighted by rows",
    "netcal": "its 'average' calibration error: equal-width bins of the top label, weighted alike",
}


def ece(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> float:
    """Expected calibration error of the top label (Eq. 11).

    ECE = sum_b n_b/N |acc(b) - conf(b)| over B equal-width bins (a, b] of the largest probability;
    ties between classes go to the first.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B; the paper does not say how many, 15 is usual.
        convention: the rule for the edges: paper, mdca, torchmetrics, nixon or netcal.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(ece([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    return float(_ece(_checked_sums(probs, y, weight, bins, convention)))


def mce(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> float:
    """Maximum calibration error of the top label: the largest |acc(b) - conf(b)| of any bin.

    It answers for the emptiest bin: read it beside its reference in `orcu.evaluate`.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B, 15 as for `ece`.
        convention: the rule for the edges: paper, mdca, torchmetrics, nixon or netcal.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(mce([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.8
    """
    return float(_mce(_checked_sums(probs, y, weight, bins, convention)))


def sce(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> float:
    """Static calibration error, class by class (Eq. 12).

    SCE = (1/C) sum_k sum_b n_{b,k}/N |acc(b, k) - conf(b, k)| with equal-width bins (a, b] of p_k;
    acc(b, k) is the share of the bin's samples whose label is k, and every class counts, also one
    without a sample.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B; the paper does not say how many, 15 is usual.
        convention: the rule for the edges: paper, mdca, torchmetrics, nixon or netcal.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(sce([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    return float(_sce(_checked_sums(probs, y, weight, bins, convention)))


def class_ce(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> FloatArray:
    """The calibration error of each class's probability, shape (C,); `sce` is its mean.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B; the paper does not say how many, 15 is usual.
        convention: the rule for the edges: paper, mdca, torchmetrics, nixon or netcal.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> class_ce([[0.9, 0.1], [0.8, 0.2]], [0, 1]).round(4)
        array([0.45, 0.45])
    """
    return total_gap(np.abs(class_gaps(_checked_sums(probs, y, weight, bins, convention))))


def threshold_ce(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> float:
    """Threshold-wise calibration error: are the cumulative probabilities P(Y <= k) right?

    TCE = (1/(C-1)) sum_k sum_b n_{b,k}/N |mean 1[y <= k] - mean F(k)| with equal-width bins (a, b]
    of F(k), k = 0..C-2. Decisions on ordered classes ("grade 2 or worse") use these probabilities.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B, 15 as for `sce`.
        convention: the rule for the edges: paper, mdca, torchmetrics, nixon or netcal.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(threshold_ce([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [0, 2]), 4)
        0.125
    """
    return float(_threshold_ce(_checked_sums(probs, y, weight, bins, convention)))


def ace(probs: Any, y: Any, *, bins: int = 15, convention: str = "paper", weight: Any = None) -> float:
    """Adaptive calibration error, class by class over groups of even count (Eq. 13).

    ACE = (1/(C R)) sum_k sum_r |acc(r, k) - conf(r, k)|: the rows are sorted stably by p_k and cut
    into R groups as even as can be (the first n mod R hold one row more); all groups count alike.
    With fewer rows than groups the empty ones add nothing and do not count.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: R; the paper does not say how many, 15 as for the others.
        convention: paper, weighted (groups count by their rows), mdca, nixon, or netcal for what
            that library calls ACE.
        weight: one non-negative weight per row; groups are cut by number of rows, weights act inside.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(ace([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], bins=2), 4)
        0.325
    """
    rows = checked_rows(probs, y, weight)
    bins = as_bins(bins)
    check_convention(convention, ACE_CONVENTIONS)
    if convention == "netcal":
        top = row_sums(rows, bins, CONVENTIONS["netcal"]).top
        return float(np.abs(bin_gaps(top))[top[WEIGHT] > 0].mean())
    cut = {"mdca": _mdca_groups, "nixon": _nixon_groups}.get(convention, even_groups)
    sums = row_sums(rows.grouped(bins, cut), bins)
    if convention == "paper":
        return float(_ace(sums))
    return float(total_gap(np.abs(_weighted_gaps(sums.adaptive, sums.total))))


def _checked_sums(probs: Any, y: Any, weight: Any, bins: int, convention: str) -> Sums:
    """The sums of checked rows over equal-width bins under the rule that the convention names."""
    rows = checked_rows(probs, y, weight)
    bins = as_bins(bins)
    return row_sums(rows, bins, CONVENTIONS[check_convention(convention)])


@metric(
    "ece",
    "Expected calibration error (ECE)",
    family="calibration",
    better="lower",
    percent=True,
    convention=f"top label, {{bins}} equal-width bins {PAPER.words}",
    reduce=total_gap,
)
def _ece(sums: Sums) -> Any:
    return _gaps(sums.top) / sums.total[..., None]


@metric(
    "sce",
    "Class-wise calibration error (SCE)",
    family="calibration",
    better="lower",
    percent=True,
    convention=f"mean over classes, {{bins}} equal-width bins {PAPER.words}",
    reduce=total_gap,
)
def _sce(sums: Sums) -> Any:
    return _weighted_gaps(sums.classes, sums.total)


@metric(
    "ace",
    "Adaptive calibration error (ACE)",
    family="calibration",
    better="lower",
    percent=True,
    convention=f"mean over classes, {{bins}} {ACE_CONVENTIONS['paper']}; groups stay fixed in resamples",
    reduce=total_gap,
)
def _ace(sums: Sums) -> Any:
    filled = (sums.adaptive[..., WEIGHT, :] > 0).sum(-1)
    return _flat(bin_gaps(sums.adaptive) / filled[..., None]) / filled.shape[-1]


@metric(
    "threshold_ce",
    "Threshold-wise calibration error",
    family="calibration",
    better="lower",
    percent=True,
    convention=f"mean over P(Y <= k), {{bins}} equal-width bins {PAPER.words}",
    reduce=total_gap,
)
def _threshold_ce(sums: Sums) -> Any:
    return _weighted_gaps(sums.thresholds, sums.total)


@metric(
    "mce",
    "Maximum calibration error (MCE)",
    family="calibration",
    better="lower",
    percent=True,
    convention="largest gap of any bin of the ECE",
    reduce=largest_gap,
)
def _mce(sums: Sums) -> Any:
    return bin_gaps(sums.top)


def class_gaps(sums: Sums) -> FloatArray:
    """Signed gaps of each class's bins, shape (..., C, B); the sums of |gaps| are the errors."""
    return _gaps(sums.classes) / sums.total[..., None, None]


def threshold_gaps(sums: Sums) -> FloatArray:
    """Signed gaps of each cumulative probability's bins, shape (..., C-1, B)."""
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
    """n_b (mean outcome - mean value) of each bin, shape (..., B): an empty bin adds nothing."""
    return table[..., OUTCOME, :] - table[..., VALUE, :]


def _weighted_gaps(tables: FloatArray, total: FloatArray) -> FloatArray:
    """n_b/N (mean outcome - mean value), divided by the number K of tables (..., K, 3, B), shape (..., K B)."""
    gaps = _gaps(tables)
    return _flat(gaps) / (gaps.shape[-2] * total[..., None])


def _flat(gaps: FloatArray) -> FloatArray:
    return gaps.reshape(*gaps.shape[:-2], -1)


def _mdca_groups(values: FloatArray, groups: int) -> IntArray:
    """Bins (a, b] with edges at every floor(n/R)-th sorted value and 1 at the end."""
    edges = np.sort(values)[np.arange(groups) * (len(values) // groups)]
    index = np.searchsorted(edges, values, side="left") - 1
    return np.where(index < 0, groups, index)  # not above the first edge: in no bin


def _nixon_groups(values: FloatArray, groups: int) -> IntArray:
    """Bins [a, b) with edges at every round(i n/R)-th sorted value."""
    starts = np.round(np.arange(1, groups) * len(values) / groups).astype(np.intp)
    edges = np.sort(values)[np.minimum(starts, len(values) - 1)]
    return np.searchsorted(edges, values, side="right")
