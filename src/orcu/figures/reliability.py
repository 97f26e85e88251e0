"""Reliability diagram: how often it came true against what was said, bin by bin."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures.style import ROLES
from orcu.inputs import FloatArray

SPARSE = 30  # a bin of fewer rows says little and is drawn hollow
_Z = 1.959963984540054


@dataclass(frozen=True)
class Reliability:
    """Per filled bin: mean probability, observed rate, its 95 % Wilson interval, number of rows."""

    said: FloatArray
    seen: FloatArray
    low: FloatArray
    high: FloatArray
    count: FloatArray
    center: FloatArray  # of the bin on the axis
    width: float


def data(table: FloatArray, *, rows: float | None = None) -> Reliability:
    """From a binned table (3, B) of weight, value, outcome.

    Args:
        table: the sums of one reliability diagram.
        rows: the number of rows, if the weights do not count them.

    Example:
        >>> found = data(np.array([[0.0, 4.0], [0.0, 3.0], [0.0, 2.0]]))
        >>> found.said.tolist(), found.seen.tolist(), found.low.round(3).tolist()
        ([0.75], [0.5], [0.15])
    """
    weight, value, outcome = table
    bins = table.shape[1]
    filled = np.flatnonzero(weight > 0)
    weight, value, outcome = weight[filled], value[filled], outcome[filled]
    count = weight * (1 if rows is None else rows / weight.sum())
    rate = outcome / weight
    # Wilson's interval stays inside [0, 1] and is honest for few rows.
    base = 1 + _Z**2 / count
    middle = (rate + _Z**2 / (2 * count)) / base
    half = _Z * np.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / base
    return Reliability(
        value / weight, rate, middle - half, middle + half, count, (filled + 0.5) / bins, 1 / bins
    )


def draw(ax: Any, found: Reliability, *, xlabel: str = "said") -> None:
    """Points with intervals against the diagonal, rows per bin as bars below, sparse bins hollow."""
    top = found.count.max()
    ax.bar(
        found.center, 0.16 * found.count / top, width=0.9 * found.width, bottom=-0.22,
        color=ROLES["quiet"], linewidth=0,
    )  # fmt: skip
    ax.text(
        1.0,
        -0.045,
        f"rows per bin, at most {top:,.0f}",
        color=ROLES["muted"],
        fontsize=7,
        va="bottom",
        ha="right",
    )
    ax.plot([0, 1], [0, 1], color=ROLES["muted"], linewidth=0.8, linestyle=(0, (4, 3)))
    ax.vlines(found.said, found.low, found.high, color=ROLES["accent"], linewidth=1.4, alpha=0.55)
    dense = found.count >= SPARSE
    ax.plot(
        found.said[dense], found.seen[dense], color=ROLES["accent"], linewidth=1.0, marker="o",
        markersize=4.5, markeredgewidth=0,
    )  # fmt: skip
    ax.plot(
        found.said[~dense], found.seen[~dense], linestyle="none", marker="o", markersize=4.5,
        markerfacecolor="none", markeredgecolor=ROLES["accent"], markeredgewidth=1.0,
    )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.22, 1.03), xlabel=xlabel, ylabel="came true")
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
