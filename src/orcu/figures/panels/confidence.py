"""Histogram of the confidence: how sure the model says it is, right and wrong rows apart."""

from typing import Any

import numpy as np

from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes
from orcu.figures.style import ROLES
from orcu.inputs import FloatArray
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT


def plot(evaluation: Evaluation, *, ax: Any = None) -> Any:
    """The confidence of all rows; gives the axes back, to be changed.

    Args:
        evaluation: what `orcu.evaluate` gave.
        ax: matplotlib axes to draw on; without, new ones of pyplot.
    """
    top = evaluation.tables.top.sum(-1)
    confidence, accuracy = float(top[VALUE] / top[WEIGHT]), float(top[OUTCOME] / top[WEIGHT])
    with axes(ax) as ax:
        draw(ax, data(evaluation.tables.top), confidence=confidence, accuracy=accuracy)
    return ax


def data(top: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of rows per confidence bin that are right and wrong, from the top-label table (3, B).

    Example:
        >>> right, wrong = data(np.array([[1.0, 3.0], [0.4, 2.7], [0.0, 2.0]]))
        >>> right.tolist(), wrong.tolist()
        ([0.0, 0.5], [0.25, 0.25])
    """
    total = top[0].sum()
    return top[2] / total, (top[0] - top[2]) / total


def draw(ax: Any, shares: tuple[FloatArray, FloatArray], *, confidence: float, accuracy: float) -> None:
    """Stacked bars; the mean confidence and the accuracy as lines."""
    from matplotlib.ticker import MaxNLocator

    right, wrong = shares
    bins = len(right)
    centers = (np.arange(bins) + 0.5) / bins
    ax.bar(centers, right, width=0.9 / bins, color=ROLES["accent"], linewidth=0, label="right")
    ax.bar(centers, wrong, width=0.9 / bins, bottom=right, color=ROLES["alarm"], linewidth=0, label="wrong")
    top = float((right + wrong).max())
    ax.set_ylim(0, top * 1.35)
    for value, name, style in ((confidence, "mean confidence", "-"), (accuracy, "accuracy", ":")):
        label = f"{name} {100 * value:.0f} %"
        ax.axvline(value, ymax=0.82, color=ROLES["ink"], linewidth=1.2, linestyle=style, label=label)
    ax.set(xlim=(0, 1), xlabel="confidence (largest probability)", ylabel="share of rows")
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(lambda v, _: f"{100 * v:g} %")
    ax.legend(loc="upper left", ncols=2, columnspacing=1, handlelength=1.2)
