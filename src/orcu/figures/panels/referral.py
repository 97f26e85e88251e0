"""Referral curve: what remains wrong when the least certain rows go to a human."""

from typing import Any

from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes
from orcu.figures.style import ROLES
from orcu.metrics.referral import ReferralCurve

FIRST = {"confidence": "least certain", "doubt": "most doubtful"}


def plot(evaluation: Evaluation, *, ax: Any = None) -> Any:
    """The referral curve of all rows; gives the axes back, to be changed.

    Args:
        evaluation: what `orcu.evaluate` gave.
        ax: matplotlib axes to draw on; without, new ones of pyplot.
    """
    with axes(ax) as ax:
        draw(ax, evaluation.referral)
    return ax


def draw(ax: Any, curve: ReferralCurve) -> None:
    """Error and mean absolute error of the rows that stay."""
    ax.plot(curve.referred, curve.error, ROLES["accent"], linewidth=1.6, label="error rate")
    ax.plot(curve.referred, curve.mae, ROLES["alarm"], linewidth=1.6, linestyle="--", label="MAE (classes)")
    ax.axhline(curve.error[0], color=ROLES["muted"], linewidth=0.6, linestyle=":")
    ax.set(xlim=(0, 0.96), xlabel=f"referred to a human, {FIRST[curve.by]} first", ylabel="of what remains")
    ax.set_ylim(0, max(curve.error.max(), curve.mae.max()) * 1.15 or 1)
    ax.set_xticks([0, 0.25, 0.5, 0.75], ["0", "25 %", "50 %", "75 %"])
    ax.legend(loc="best")
