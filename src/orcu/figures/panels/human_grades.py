"""How many human grades are enough: what calibrated judges are worth after so many."""

from collections.abc import Sequence
from typing import Any

from orcu.figures.style import ROLES


def draw(
    ax: Any, items: Sequence[int], values: Sequence[float], spreads: Sequence[float], *, percent: bool, name: str
) -> None:
    """A line over the number of graded items, with the spread of the draws."""
    scale = 100 if percent else 1
    means = [scale * value for value in values]
    low = [scale * (value - spread) for value, spread in zip(values, spreads, strict=True)]
    high = [scale * (value + spread) for value, spread in zip(values, spreads, strict=True)]
    ax.fill_between(items, low, high, color=ROLES["accent"], alpha=0.15, linewidth=0)
    ax.plot(items, means, color=ROLES["accent"], marker="o", markersize=4, linewidth=1.6)
    ax.set_xscale("log")
    ax.set_xticks(items, [str(one) for one in items])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="items that people have graded", ylabel=f"{name}, %" if percent else name)
    room = 0.15 * (max(high) - min(low)) or 0.01
    ax.set_ylim(max(0.0, min(low) - room), max(high) + room)
