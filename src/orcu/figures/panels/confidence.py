"""Histogram of the confidence, split into correct and wrong predictions."""

from typing import Any

import numpy as np

from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES
from orcu.inputs import FloatArray
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT


def plot(evaluation: Evaluation, *, ax: Any = None) -> Any:
    """Plot the confidence of all rows and return the axes; arguments as for `reliability.plot`."""
    top = evaluation.sums.top.sum(-1)
    confidence, accuracy = float(top[VALUE] / top[WEIGHT]), float(top[OUTCOME] / top[WEIGHT])
    with axes_or_new(ax) as ax:
        draw(ax, data(evaluation.sums.top), confidence=confidence, accuracy=accuracy)
    return ax


def data(top: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of correct and of wrong rows in each confidence bin, from the top-label sums (3, B).

    Example:
        >>> correct, wrong = data(np.array([[1.0, 3.0], [0.4, 2.7], [0.0, 2.0]]))
        >>> correct.tolist(), wrong.tolist()
        ([0.0, 0.5], [0.25, 0.25])
    """
    total = top[0].sum()
    return top[2] / total, (top[0] - top[2]) / total


def draw(ax: Any, shares: tuple[FloatArray, FloatArray], *, confidence: float, accuracy: float) -> None:
    """Draw stacked bars, and lines at the mean confidence and the accuracy."""
    from matplotlib.ticker import MaxNLocator

    correct, wrong = shares
    n_bins = len(correct)
    centers = (np.arange(n_bins) + 0.5) / n_bins
    ax.bar(centers, correct, width=0.9 / n_bins, color=ROLES["accent"], linewidth=0, label="correct")
    ax.bar(centers, wrong, width=0.9 / n_bins, bottom=correct, color=ROLES["alarm"], linewidth=0, label="wrong")
    top = float((correct + wrong).max())
    ax.set_ylim(0, top * 1.35)
    for value, name, style in ((confidence, "mean confidence", "-"), (accuracy, "accuracy", ":")):
        label = f"{name} {100 * value:.0f} %"
        ax.axvline(value, ymax=0.82, color=ROLES["ink"], linewidth=1.2, linestyle=style, label=label)
    ax.set(xlim=(0, 1), xlabel="confidence (largest probability)", ylabel="share of rows")
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(lambda v, _: f"{100 * v:g} %")
    ax.legend(loc="upper left", ncols=2, columnspacing=1, handlelength=1.2)
