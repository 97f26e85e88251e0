"""Confusion matrix: true class against predicted class."""

from typing import Any

import numpy as np

from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten, tick_positions
from orcu.inputs import FloatArray

_MOST_WITH_TEXT = 12
_MOST_WITH_ALL_CELLS = 40
_MOST_CELLS = 5_000


def plot(evaluation: Evaluation, *, ax: Any = None) -> Any:
    """Plot the confusion matrix and return the axes; arguments as for `reliability.plot`.

    Sample weights are rescaled to sum to the number of rows.
    """
    counts = evaluation.sums.confusion * (evaluation.rows / evaluation.sums.total)
    with axes_or_new(ax, size=(4.2, 3.8)) as ax:
        draw(ax, data(counts), evaluation.classes)
    return ax


def data(confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Counts, and their shares of the true class, both (C, C).

    Example:
        >>> data(np.array([[3.0, 1.0], [0.0, 0.0]]))[1].tolist()
        [[0.75, 0.25], [0.0, 0.0]]
    """
    rows = confusion.sum(1, keepdims=True)
    return confusion, np.divide(confusion, rows, out=np.zeros_like(confusion), where=rows > 0)


def draw(ax: Any, table: tuple[FloatArray, FloatArray], classes: tuple[str, ...]) -> None:
    """Draw cells shaded by their share of the true class; correct and wrong predictions differ in colour."""
    from matplotlib.patches import Rectangle

    counts, shares = table
    size = len(classes)
    for i, j in _cells(counts):
        color = ROLES["accent"] if i == j else ROLES["alarm"]
        alpha = round(0.05 + 0.65 * float(shares[i, j]), 3)
        ax.add_patch(Rectangle((j, i), 0.96, 0.96, facecolor=color, alpha=alpha, linewidth=0))
        if size <= _MOST_WITH_TEXT and counts[i, j] > 0:
            text = f"{counts[i, j]:,.0f}" if counts[i, j] >= 1 else f"{counts[i, j]:.2g}"
            ax.text(j + 0.48, i + 0.4, text, ha="center", va="center", fontsize=8 if size < 8 else 6)
            share = f"{shares[i, j]:.0%}".replace("%", " %")
            if size < 8:
                ax.text(j + 0.48, i + 0.72, share, ha="center", va="center", fontsize=6.5, color=ROLES["muted"])
    positions = tick_positions(size, most=_MOST_WITH_ALL_CELLS if size <= _MOST_WITH_ALL_CELLS else 10)
    names = [shorten(classes[k], 12) for k in positions]
    ax.set_xticks(np.array(positions) + 0.48, names, rotation=30 if max(map(len, names)) > 5 else 0, ha="center")
    ax.set_yticks(np.array(positions) + 0.48, names)
    ax.tick_params(length=0, labelsize=8 if size <= 12 else 5)
    ax.set(xlim=(0, size), ylim=(size, 0), xlabel="predicted class", ylabel="true class", aspect="equal")
    for spine in ax.spines.values():
        spine.set_visible(False)


def _cells(counts: FloatArray) -> list[tuple[int, int]]:
    """Cells to draw: all of them, or the largest non-empty ones if there are very many classes."""
    size = len(counts)
    if size <= _MOST_WITH_ALL_CELLS:
        return [(i, j) for i in range(size) for j in range(size)]
    largest = np.argsort(-counts, axis=None, kind="stable")[: min(_MOST_CELLS, int((counts > 0).sum()))]
    return [(int(cell) // size, int(cell) % size) for cell in np.sort(largest)]
