"""Referral curve: error of the remaining rows when the most uncertain rows are referred to a human."""

from typing import Any

from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES
from orcu.metrics.referral import ReferralCurve

FIRST = {"confidence": "least confident", "uncertainty": "most uncertain"}


def plot(evaluation: Evaluation, *, ax: Any = None) -> Any:
    """Plot the referral curve of all rows and return the axes; arguments as for `reliability.plot`."""
    with axes_or_new(ax) as ax:
        draw(ax, evaluation.referral)
    return ax


def draw(ax: Any, curve: ReferralCurve) -> None:
    """Draw the error rate and the mean absolute error of the remaining rows."""
    ax.plot(curve.referred, curve.error, ROLES["accent"], linewidth=1.6, label="error rate")
    ax.plot(curve.referred, curve.mae, ROLES["alarm"], linewidth=1.6, linestyle="--", label="MAE (classes)")
    ax.axhline(curve.error[0], color=ROLES["muted"], linewidth=0.6, linestyle=":")
    ax.set(xlim=(0, 0.96), xlabel=f"referred to a human, {FIRST[curve.by]} first", ylabel="error of the remaining rows")
    ax.set_ylim(0, max(curve.error.max(), curve.mae.max()) * 1.15 or 1)
    ax.set_xticks([0, 0.25, 0.5, 0.75], ["0", "25 %", "50 %", "75 %"])
    ax.legend(loc="best")
