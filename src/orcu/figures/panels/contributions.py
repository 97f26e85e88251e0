"""Contributions of the columns to one prediction, as a waterfall from the mean to the row's expected grade."""

from typing import Any

import numpy as np

from orcu.explain.row_explanation import RowExplanation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten

MAX_COLUMNS = 8


def plot(explanation: RowExplanation, *, ax: Any = None) -> Any:
    """Plot what moved the expected grade of a row, and return the axes.

    Args:
        explanation: result of ``explain_row``.
        ax: matplotlib axes; a new pyplot figure by default.
    """
    with axes_or_new(ax, size=(4.6, height(explanation))) as ax:
        draw(ax, explanation)
    return ax


def height(explanation: RowExplanation) -> float:
    """Height of the figure in inches."""
    return 1.0 + 0.28 * min(len(explanation.columns), MAX_COLUMNS + 1)


def draw(ax: Any, explanation: RowExplanation) -> None:
    """Draw a bar from the sum before to the sum after each column; the others beyond the eighth are one bar."""
    steps, labels = (
        explanation.grade_contributions,
        [
            f"{shorten(name, 16)} = {shorten(value, 10)}"
            for name, value in zip(explanation.columns, explanation.values, strict=True)
        ],
    )
    if len(steps) > MAX_COLUMNS + 1:
        rest = len(steps) - MAX_COLUMNS
        steps = np.append(steps[:MAX_COLUMNS], steps[MAX_COLUMNS:].sum())
        labels = [*labels[:MAX_COLUMNS], f"{rest} other columns"]
    ends = explanation.mean_grade + np.cumsum(steps)
    starts = ends - steps
    spread = float(max(ends.max(), starts.max()) - min(ends.min(), starts.min())) or 1.0
    for position, (start, step, end) in enumerate(zip(starts, steps, ends, strict=True)):
        color = ROLES["alarm"] if step > 0 else ROLES["accent"]
        ax.barh(position, step, left=start, height=0.62, color=color, linewidth=0)
        side, where = ("left", max(start, end) + 0.02 * spread)
        ax.text(where, position, f"{step:+.2f}", va="center", ha=side, fontsize=8, color=ROLES["ink"])
        if position + 1 < len(steps):
            ax.vlines(end, position, position + 1, color=ROLES["muted"], linewidth=0.7)
    for value, name, style in (
        (explanation.mean_grade, "average case", (0, (4, 3))),
        (explanation.expected_grade, "this case", "-"),
    ):
        ax.axvline(value, color=ROLES["muted"], linewidth=0.8, linestyle=style, label=f"{name} {value:.2f}", zorder=0)
    low, high = float(min(ends.min(), starts.min())), float(max(ends.max(), starts.max()))
    ax.set_xlim(low - 0.08 * spread, high + 0.22 * spread)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("expected grade")
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2, handlelength=1.6)
