"""Learning curve: score of calibrated judges by the number of human grades."""

from collections.abc import Sequence
from typing import Any

from orcu.figures.style import ROLES


def draw(
    ax: Any, items: Sequence[int], values: Sequence[float], stds: Sequence[float], *, percent: bool, name: str
) -> None:
    """Draw the mean score over the number of graded items, with a band of one standard deviation."""
    scale = 100 if percent else 1
    low = [scale * (value - std) for value, std in zip(values, stds, strict=True)]
    high = [scale * (value + std) for value, std in zip(values, stds, strict=True)]
    ax.fill_between(items, low, high, color=ROLES["accent"], alpha=0.15, linewidth=0)
    ax.plot(items, [scale * value for value in values], color=ROLES["accent"], marker="o", markersize=4, linewidth=1.6)
    ax.set_xscale("log")
    ax.set_xticks(items, [str(count) for count in items])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="items with a human grade", ylabel=f"{name}, %" if percent else name)
    margin = 0.15 * (max(high) - min(low)) or 0.01
    ax.set_ylim(max(0.0, min(low) - margin), max(high) + margin)
