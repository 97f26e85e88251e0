"""Permutation importance of columns with confidence intervals."""

from typing import Any

from orcu.explain.permutation_importance import PermutationImportance
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten

MAX_COLUMNS = 15


def plot(importance: PermutationImportance, *, ax: Any = None) -> Any:
    """Plot the most important columns and return the axes.

    Args:
        importance: result of `orcu.explain.permutation_importance`.
        ax: matplotlib axes; a new pyplot figure by default.
    """
    with axes_or_new(ax, size=(4.2, height(importance))) as ax:
        draw(ax, importance)
    return ax


def height(importance: PermutationImportance) -> float:
    """Height of the figure in inches."""
    return 0.8 + 0.24 * min(len(importance.names), MAX_COLUMNS)


def draw(ax: Any, importance: PermutationImportance) -> None:
    """Draw a point and a 95 % interval for each of the 15 most important columns; grey if the interval contains 0."""
    shown = slice(0, MAX_COLUMNS)
    names = [shorten(name, 22) for name in importance.names[shown]]
    rows = zip(importance.importance[shown], importance.low[shown], importance.high[shown], strict=True)
    ax.axvline(0, color=ROLES["muted"], linewidth=0.8)
    for position, (value, low, high) in enumerate(rows):
        color = ROLES["accent"] if low > 0 else ROLES["quiet"]
        ax.hlines(position, low, high, color=color, linewidth=3, alpha=0.5)
        ax.plot([value], [position], marker="o", color=color, markersize=5, clip_on=False)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("rise of the RPS when the column is shuffled")
