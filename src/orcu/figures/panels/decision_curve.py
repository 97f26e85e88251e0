"""Decision curve: net benefit of acting on "class k or above" against treating all and treating no row."""

from typing import Any

import numpy as np

from orcu.errors import UnknownNameError
from orcu.evaluation.decision_curves import DecisionCurve
from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten


def plot(evaluation: Evaluation, *, event: str | None = None, ax: Any = None) -> Any:
    """Plot the decision curve of a threshold and return the axes.

    Args:
        evaluation: result of `orcu.evaluate`.
        event: event of ``evaluation.decision_curves``, such as "mild or above"; the first by default.
        ax: matplotlib axes; a new pyplot figure by default.

    Raises:
        UnknownNameError: if the event is unknown.
    """
    curves = {curve.event: curve for curve in evaluation.decision_curves}
    if event is not None and event not in curves:
        raise UnknownNameError("event", event, list(curves))
    with axes_or_new(ax) as ax:
        draw(ax, evaluation.decision_curves[0] if event is None else curves[event])
    return ax


def draw(ax: Any, curve: DecisionCurve) -> None:
    """Draw the net benefit of the model with its interval, of treating all rows, and of treating none."""
    points, values = curve.threshold_probability, [estimate.value for estimate in curve.net_benefit]
    low, high = ([getattr(estimate, end) for estimate in curve.net_benefit] for end in ("low", "high"))
    ax.fill_between(points, low, high, color=ROLES["accent"], alpha=0.18, linewidth=0)
    ax.plot(points, values, color=ROLES["accent"], linewidth=1.6, label="model")
    ax.plot(points, curve.treat_all, color=ROLES["alarm"], linewidth=1.2, linestyle="--", label="treat all")
    ax.axhline(0, color=ROLES["muted"], linewidth=1.0, linestyle=":", label="treat none")
    top = np.nanmax([*values, *high, curve.treat_all[0], 0.01])
    ax.set(xlim=(0, 1), ylim=(-0.25 * top, 1.05 * top), ylabel="net benefit")
    ax.set_xlabel(f"threshold probability of {shorten(curve.event, 22)}")
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.legend(loc="best")
