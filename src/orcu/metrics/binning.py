"""Equal-width confidence bins."""

import numpy as np

from orcu.inputs import FloatArray, IntArray


def bin_index(values: FloatArray, bins: int) -> IntArray:
    """The bin of each value in [0, 1]: bin i is (i/B, (i+1)/B]; 0 belongs to the first bin.

    Example:
        >>> bin_index(np.array([0.0, 0.2, 0.21, 1.0]), bins=5)
        array([0, 0, 1, 4])
    """
    inner_edges = np.arange(1, bins) / bins
    return np.searchsorted(inner_edges, values, side="left")


def binned_gap(confidence: FloatArray, outcome: FloatArray, bins: int) -> float:
    """sum_b n_b/N |mean outcome - mean confidence| over equal-width bins (the sum of Eqs. 11-12).

    n_b |mean - mean| is |sum of the differences|, so one weighted count does it.

    Example:
        >>> binned_gap(np.array([0.9, 0.9, 0.1]), np.array([1.0, 0.0, 0.0]), bins=15)
        0.3
    """
    sums = np.bincount(bin_index(confidence, bins), weights=outcome - confidence, minlength=bins)
    return float(np.abs(sums).sum() / len(confidence))
