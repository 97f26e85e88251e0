"""Partial dependence of the expected grade, or of P(grade >= k), on a column, with individual curves."""

from typing import Any

import numpy as np

from orcu.explain.partial_dependence import PartialDependence
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, class_colors, shorten

MAX_INDIVIDUAL = 40
MAX_THRESHOLDS = 9


def plot(dependence: PartialDependence, *, thresholds: bool = False, ax: Any = None) -> Any:
    """Plot the expected grade with individual curves, or P(grade >= k) of each threshold, and return the axes.

    Args:
        dependence: result of `orcu.explain.partial_dependence`.
        thresholds: whether to plot P(grade >= k) in place of the expected grade.
        ax: matplotlib axes; a new pyplot figure by default.
    """
    with axes_or_new(ax) as ax:
        (draw_thresholds if thresholds else draw)(ax, dependence)
    return ax


def draw(ax: Any, dependence: PartialDependence) -> None:
    """Draw the mean expected grade in front of at most 40 individual curves."""
    positions = _positions(ax, dependence)
    rows = np.unique(np.linspace(0, len(dependence.probs) - 1, MAX_INDIVIDUAL).astype(int))
    individual = dependence.individual[rows]
    if dependence.is_numeric:
        ax.plot(positions, individual.T, color=ROLES["quiet"], linewidth=0.6, alpha=0.6)
    else:
        jitter = np.linspace(-0.18, 0.18, len(rows))
        for k, position in enumerate(positions):
            ax.plot(
                position + jitter, individual[:, k], linestyle="none", marker=".", markersize=3, color=ROLES["quiet"]
            )
    marker = {} if dependence.is_numeric else {"linestyle": "none", "marker": "D", "markersize": 5}
    ax.plot(positions, dependence.expected_grade, color=ROLES["accent"], linewidth=2.0, **marker)
    ax.set_ylabel("expected grade")


def draw_thresholds(ax: Any, dependence: PartialDependence) -> None:
    """Draw the mean of P(grade >= k) of each threshold, at most 9."""
    positions = _positions(ax, dependence)
    count = len(dependence.classes) - 1
    shown = np.unique(np.linspace(0, count - 1, min(count, MAX_THRESHOLDS)).astype(int))
    for k, color in zip(shown, class_colors(len(shown)), strict=True):
        label = f"≥ {shorten(dependence.classes[k + 1], 14)}"
        marker = {} if dependence.is_numeric else {"linestyle": "none", "marker": "D", "markersize": 4}
        ax.plot(positions, dependence.at_least[:, k], color=color, linewidth=1.6, label=label, **marker)
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.set_ylabel("probability")
    ax.legend(loc="best", handlelength=1.2)


def _positions(ax: Any, dependence: PartialDependence) -> Any:
    """Positions of the grid on the axis; its ticks, and where the values of the rows are."""
    ax.set_xlabel(shorten(dependence.column, 34))
    if not dependence.is_numeric:
        names = [shorten(str(value), 12) for value in dependence.values]
        long = max(map(len, names)) > 6 or len(names) > 6
        ax.set_xticks(range(len(names)), names, rotation=40 if long else 0, ha="right" if long else "center")
        ax.set_xlim(-0.5, len(names) - 0.5)
        return np.arange(len(names), dtype=float)
    low, high = float(dependence.values[0]), float(dependence.values[-1])
    inside = dependence.observed[(dependence.observed >= low) & (dependence.observed <= high)]
    marks = np.quantile(inside, np.linspace(0, 1, 11)) if len(inside) else []
    ax.plot(
        marks,
        np.zeros(len(marks)),
        "|",
        transform=ax.get_xaxis_transform(),
        color=ROLES["muted"],
        markersize=8,
        clip_on=False,
    )  # deciles of the rows
    return dependence.values
