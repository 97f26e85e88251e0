"""Calibration errors (Appendix III): does a probability of 0.8 come true 8 times in 10?"""

from typing import Any

import numpy as np

from orcu.inputs import as_count, as_labels, as_probs
from orcu.metrics.binning import binned_gap


def ece(probs: Any, y: Any, *, bins: int = 15) -> float:
    """Expected calibration error of the top label (Eq. 11).

    ECE = sum_b n_b/N |acc(b) - conf(b)| over B equal-width bins (a, b] of the largest probability;
    ties between classes go to the first.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B, 15 in the paper.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(ece([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    probs = as_probs(probs)
    y = as_labels(y, probs.shape[1], rows=len(probs))
    correct = (probs.argmax(axis=1) == y).astype(np.float64)
    return binned_gap(probs.max(axis=1), correct, as_count(bins, name="bins", minimum=1))


def sce(probs: Any, y: Any, *, bins: int = 15) -> float:
    """Static calibration error, class by class (Eq. 12).

    SCE = (1/C) sum_k sum_b n_{b,k}/N |acc(b, k) - conf(b, k)| with equal-width bins (a, b] of p_k;
    acc(b, k) is the share of the bin's samples whose label is k, and every class counts, also one
    without a sample.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        bins: B, 15 in the paper.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(sce([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.45
    """
    probs = as_probs(probs)
    num_classes = probs.shape[1]
    y = as_labels(y, num_classes, rows=len(probs))
    bins = as_count(bins, name="bins", minimum=1)
    gaps = [binned_gap(probs[:, k], (y == k).astype(np.float64), bins) for k in range(num_classes)]
    return float(np.mean(gaps))
