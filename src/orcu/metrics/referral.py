"""The referral curve: what remains wrong when the least certain rows go to a human."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orcu.inputs import FloatArray, as_doubt
from orcu.metrics.rows import Rows, checked_rows

REFERRED = np.arange(0, 1, 0.05)  # the shares at which the curve is drawn


@dataclass(frozen=True)
class ReferralCurve:
    """Error and mean absolute error of the rows that stay, for each share that is referred.

    ``error_area`` and ``mae_area`` average over all shares from 0 to 1; a score that says nothing would have the
    plain error and MAE. ``by`` is what rows are referred by: "confidence", the least first, or "doubt", the most first.
    """

    referred: FloatArray  # (m,)
    error: FloatArray  # (m,)
    mae: FloatArray  # (m,)
    error_area: float
    mae_area: float
    by: str = "confidence"


def referral_curve(probs: Any, y: Any, *, weight: Any = None, doubt: Any = None) -> ReferralCurve:
    """Error and MAE of what remains when the least certain x % are referred.

    Rows go in the order of their largest probability, smallest first, or of their doubt, highest first; rows of
    equal confidence or doubt go together, in shares, so the order of the file does not matter.

    Args:
        probs: class probabilities, shape (n, C).
        y: labels 0..C-1, shape (n,).
        weight: one non-negative weight per row.
        doubt: a score per row, such as what the members of an ensemble disagree about, in place of the confidence.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> curve = referral_curve([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5]], [0, 0, 1, 1])
        >>> float(curve.error[0]), float(curve.error[10])
        (0.5, 0.0)
        >>> referral_curve([[0.9, 0.1], [0.6, 0.4]], [1, 0], doubt=[0.7, 0.1]).error[10].item()
        0.0
    """
    rows = checked_rows(probs, y, weight)
    return curve_of(rows if doubt is None else replace(rows, doubt=as_doubt(doubt, rows=len(rows))))


def curve_of(rows: Rows) -> ReferralCurve:
    """The curve of checked rows."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    doubt = -rows.confidence if rows.doubt is None else rows.doubt
    _, cell = np.unique(doubt, return_inverse=True)  # most certain first
    losses = tuple(loss.astype(np.float64) for loss in (rows.decision != rows.y, np.abs(rows.decision - rows.y)))
    # Cumulative mass and loss of what is kept, most certain rows first.
    mass = np.concatenate([[0.0], np.cumsum(np.bincount(cell, weights=weight))])
    kept = mass[-1] * (1 - REFERRED)
    curves, areas = [], []
    for loss in losses:
        lost = np.concatenate([[0.0], np.cumsum(np.bincount(cell, weights=weight * loss))])
        curves.append(np.interp(kept, mass, lost) / kept)
        areas.append(_area(mass, lost))
    by = "confidence" if rows.doubt is None else "doubt"
    return ReferralCurve(REFERRED, curves[0], curves[1], areas[0], areas[1], by)


def _area(mass: FloatArray, lost: FloatArray) -> float:
    """The mean of lost(m)/m over 0 < m <= M, where lost is linear between the given masses."""
    filled = np.diff(mass, prepend=-1) > 0
    mass, lost = mass[filled], lost[filled]
    a, b = mass[:-1], mass[1:]
    slope = np.diff(lost) / (b - a)
    start = lost[:-1] - slope * a  # lost(m)/m = slope + start/m
    logs = np.log(b[1:] / a[1:])  # the first piece starts at 0, where start is 0
    return float(((slope * (b - a)).sum() + (start[1:] * logs).sum()) / mass[-1])
