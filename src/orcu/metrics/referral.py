"""Referral curve: error of the remaining rows when the least certain rows are referred to a human."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, as_uncertainty
from orcu.metrics.base import function_of
from orcu.metrics.rows import Rows, checked_rows

REFERRED = np.arange(0, 1, 0.05)  # referred shares at which the curve is evaluated


@dataclass(frozen=True)
class ReferralCurve:
    """Error and mean absolute error of the remaining rows, by share of referred rows.

    ``error_area`` and ``mae_area`` are means over all shares from 0 to 1; an uninformative score would have the overall
    error and MAE. ``by`` is the score that orders the rows: "confidence" (lowest first) or "uncertainty" (highest
    first).
    """

    referred: FloatArray  # (m,)
    error: FloatArray  # (m,)
    mae: FloatArray  # (m,)
    error_area: float
    mae_area: float
    by: str = "confidence"


def _referral_rows(probs: Any, y: Any, *, sample_weight: Any = None, uncertainty: Any = None) -> Rows:
    rows = checked_rows(probs, y, sample_weight=sample_weight)
    if uncertainty is None:
        return rows
    return replace(rows, uncertainty=rows.spread(as_uncertainty(uncertainty, rows=rows.cases)))


@function_of(_referral_rows)
def referral_curve(rows: Rows) -> ReferralCurve:
    """Error and MAE of the remaining rows when the least certain x % are referred.

    Rows are referred by their largest probability, lowest first, or by their uncertainty, highest first. Rows with
    equal scores are referred proportionally, so the order of the rows does not matter.

    Example:
        >>> curve = referral_curve([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5]], [0, 0, 1, 1])
        >>> float(curve.error[0]), float(curve.error[10])
        (0.5, 0.0)
        >>> referral_curve([[0.9, 0.1], [0.6, 0.4]], [1, 0], uncertainty=[0.7, 0.1]).error[10].item()
        0.0
    """
    return curve_from_rows(rows)


def curve_from_rows(rows: Rows) -> ReferralCurve:
    """Referral curve of checked rows."""
    uncertainty = -rows.confidence if rows.uncertainty is None else rows.uncertainty
    _, cell = np.unique(uncertainty, return_inverse=True)  # most certain first
    losses = 1, rows.decision != rows.y, np.abs(rows.decision - rows.y)
    # Cumulative weight and losses of the remaining rows, most certain first.
    mass, *lost = (np.append(0.0, np.cumsum(np.bincount(cell, weights=rows.weights * loss))) for loss in losses)
    remaining = mass[-1] * (1 - REFERRED)
    error, mae = (np.interp(remaining, mass, loss) / remaining for loss in lost)
    error_area, mae_area = (_area(mass, loss) for loss in lost)
    by = "confidence" if rows.uncertainty is None else "uncertainty"
    return ReferralCurve(REFERRED, error, mae, error_area, mae_area, by)


def _area(mass: FloatArray, lost: FloatArray) -> float:
    """Mean of lost(m)/m over 0 < m <= M, for a loss that is linear between the given masses."""
    filled = np.diff(mass, prepend=-1) > 0
    mass, lost = mass[filled], lost[filled]
    a, b = mass[:-1], mass[1:]
    slope = np.diff(lost) / (b - a)
    start = lost[:-1] - slope * a  # lost(m)/m = slope + start/m
    logs = np.log(b[1:] / a[1:])  # the first piece starts at 0, where start is 0
    return float(((slope * (b - a)).sum() + (start[1:] * logs).sum()) / mass[-1])
