"""Calibration of the events "class k or above" without bins: isotonic recalibration, its decomposition, smooth ECE.

CORP (Dimitriadis, Gneiting and Jordan, PNAS 2021) recalibrates the probability of an event by isotonic regression,
fitted by the pool-adjacent-violators algorithm (PAV). The mean score then splits exactly into miscalibration,
discrimination and uncertainty. The ranked probability score (RPS) is the sum of the Brier scores of the thresholds, so
the parts of the thresholds add up to those of the RPS.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft
from scipy.optimize import isotonic_regression

from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import function_of
from orcu.metrics.rows import Rows, checked_rows

GRID = 512  # cells of [0, 1] for the smooth calibration error
_HALVINGS = 10  # of the interval of the bandwidth, before it is interpolated


@dataclass(frozen=True)
class CorpDecomposition:
    """RPS = miscalibration - discrimination + uncertainty, exactly; each has a value per threshold, shape (C-1,).

    ``miscalibration`` (MCB) is what recalibration would gain, 0 for isotonically calibrated probabilities.
    ``discrimination`` (DSC) is the gain of the recalibrated probabilities over the frequency of the event.
    ``uncertainty`` (UNC) is the Brier score of always predicting this frequency.
    """

    miscalibration: FloatArray
    discrimination: FloatArray
    uncertainty: FloatArray

    @property
    def score(self) -> FloatArray:
        """Brier score of each threshold, shape (C-1,); their sum is the RPS."""
        return self.miscalibration - self.discrimination + self.uncertainty


@dataclass(frozen=True)
class CorpFit:
    """Isotonic recalibration of one event, with the influence of each row on the parts of its Brier score."""

    parts: FloatArray  # (3,): miscalibration, discrimination, uncertainty
    influence: FloatArray  # (3, n): of each row on the parts; the means are 0
    prob_pred: FloatArray  # (m,): distinct predicted probabilities, ascending
    prob_true: FloatArray  # (m,): recalibrated probabilities
    weight: FloatArray  # (m,): weight of the rows with this probability
    cell: IntArray  # (n,): index of each row in the arrays of length m


@function_of(checked_rows)
def corp_decomposition(rows: Rows) -> CorpDecomposition:
    """Miscalibration, discrimination and uncertainty of the ranked probability score, by isotonic recalibration.

    For the event Y > k with probability p and outcome o, S is the mean of (p - o)^2, S_C that of the recalibrated
    probability and S_R that of the event's frequency. Then MCB = S - S_C, DSC = S_R - S_C and UNC = S_R.

    Example:
        >>> parts = corp_decomposition([[0.8, 0.2], [0.6, 0.4], [0.7, 0.3], [0.1, 0.9]], [0, 0, 1, 1])
        >>> parts.miscalibration.round(4), parts.discrimination.round(4), parts.uncertainty
        (array([0.05]), array([0.125]), array([0.25]))
        >>> parts.score.round(4)
        array([0.175])
    """
    parts = [corp_fit(1 - below, rows.y > k, rows.weights).parts for k, below in enumerate(rows.cumulative)]
    return CorpDecomposition(*np.transpose(parts))


@function_of(checked_rows)
def smooth_ece(rows: Rows) -> FloatArray:
    """Smooth calibration error (smECE) of each threshold, shape (C-1,): Błasiok and Nakkiran (2023).

    The residuals o - p of the event are smoothed over p by a Gaussian kernel that is reflected at 0 and 1. The error
    is the integral of their absolute value, at the bandwidth that equals this integral. It has no bins, and it changes
    continuously with the probabilities.

    Example:
        >>> smooth_ece([[0.9, 0.1]] * 50 + [[0.2, 0.8]] * 50, [0] * 40 + [1] * 10 + [0] * 20 + [1] * 30).round(
        ...     2
        ... )
        array([0.15])
    """
    errors = [
        smooth_error(residual_density(1 - below, (rows.y > k) - (1 - below), rows.weights))
        for k, below in enumerate(rows.cumulative)
    ]
    return np.array(errors).reshape(-1)


def corp_fit(prob: FloatArray, event: Any, weight: FloatArray) -> CorpFit:
    """Recalibrate the probability of an event of checked rows by weighted isotonic regression.

    The recalibrated probabilities minimise the score, so to first order a row changes the parts only through its own
    scores: this is its influence.
    """
    prob = np.clip(prob, 0.0, 1.0)
    # Sums of rounded probabilities differ in the last bits: 0.1 + 0.2 must tie with 0.3.
    prob_pred, cell = np.unique(prob.round(12), return_inverse=True)
    mass: Any = np.bincount(cell, weights=weight)
    prob_true = pool_adjacent_violators(np.bincount(cell, weights=weight * event), mass)
    rate = np.average(event, weights=weight)
    original, recalibrated, constant = ((p - event) ** 2 for p in (prob, prob_true[cell], rate))
    scores = np.stack([original - recalibrated, constant - recalibrated, constant])
    share = weight / weight.sum()
    parts = scores @ share
    return CorpFit(parts, len(prob) * share * (scores - parts[:, None]), prob_pred, prob_true, mass, cell)


def pool_adjacent_violators(outcome: Any, mass: Any) -> FloatArray:
    """Increasing rates that are closest to outcome / mass in the weighted mean square, shape (m,).

    Cells without mass have the rate of the cell before them, or of the first with mass.

    Example:
        >>> pool_adjacent_violators(np.array([1.0, 0.0, 2.0]), np.array([2.0, 1.0, 2.0])).round(3)
        array([0.333, 0.333, 1.   ])
    """
    filled = np.flatnonzero(mass > 0)
    rates = isotonic_regression(outcome[filled] / mass[filled], weights=mass[filled]).x
    if len(filled) == len(mass):
        return rates
    return rates[np.maximum(np.searchsorted(filled, np.arange(len(mass)), side="right") - 1, 0)]


def residual_density(prob: Any, residual: Any, weight: Any) -> FloatArray:
    """Weighted residuals on a grid of cells of [0, 1], as shares of the total weight, shape (GRID,).

    Each row is divided between the two nearest cell centres, so that the result is continuous.
    """
    position = np.clip(np.clip(prob, 0.0, 1.0) * GRID - 0.5, 0, GRID - 1)
    left = np.minimum(position.astype(np.intp), GRID - 2)
    right_share = position - left
    value = weight * residual / weight.sum()
    density: Any = np.bincount(left, weights=value * (1 - right_share), minlength=GRID)
    return density + np.bincount(left + 1, weights=value * right_share, minlength=GRID)


def smooth_error(density: FloatArray) -> FloatArray:
    """Smooth calibration error of residuals on the grid, shape (..., GRID) to (...).

    A reflected Gaussian kernel multiplies the j-th cosine coefficient by exp(-(pi j sigma)^2 / 2). The error decreases
    with the bandwidth sigma, so the bandwidth that equals it is found by halving an interval
    and interpolating.
    """
    coefficients = fft.dct(density, axis=-1)
    frequency = np.pi * np.arange(GRID)

    def error(bandwidth: FloatArray) -> FloatArray:
        damping = np.exp(-((frequency * bandwidth[..., None]) ** 2) / 2)
        return np.abs(fft.idct(coefficients * damping, axis=-1)).sum(axis=-1)

    low, high = np.zeros(density.shape[:-1]), np.ones(density.shape[:-1])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = error(middle) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    excess_low, excess_high = error(low) - low, error(high) - high
    slope = excess_low - excess_high  # positive: the error decreases with the bandwidth
    return error(low + (high - low) * np.clip(excess_low / slope, 0.0, 1.0))
