"""One predicted distribution with the true class, or the votes of several raters, marked."""

from typing import Any

import numpy as np

from orcu.figures.style import ROLES, shorten, tick_positions
from orcu.inputs import FloatArray

MOST_BARS = 60


def draw(
    ax: Any, probs: FloatArray, classes: tuple[str, ...], *, label: int | None = None, shares: FloatArray | None = None
) -> None:
    """Draw a bar for each class.

    The true class has the accent colour and a triangle below; the shares of the votes are points on stems.
    """
    size = len(classes)
    if size <= MOST_BARS:
        colors = [ROLES["accent"] if k == label else ROLES["quiet"] for k in range(size)]
        ax.bar(np.arange(size), probs, color=colors, width=0.8, linewidth=0)
    else:  # an outline instead of hundreds of bars
        ax.fill_between(np.arange(size), probs, step="mid", color=ROLES["quiet"], linewidth=0)
    if label is not None:
        ax.plot([label], [-0.06], marker="^", color=ROLES["accent"], markersize=5, clip_on=False)
    if shares is not None:
        voted = np.flatnonzero(shares)
        ax.vlines(voted, 0, shares[voted], color=ROLES["accent"], linewidth=1.5)
        ax.plot(voted, shares[voted], marker="o", linestyle="", color=ROLES["accent"], markersize=4.5, clip_on=False)
    positions = tick_positions(size, most=20 if size <= MOST_BARS else 6)
    names = [shorten(classes[k], 9) for k in positions]
    long = max(map(len, names)) > 4 or size > 8
    ax.set_xticks(positions, names, rotation=40 if long else 0, ha="right" if long else "center")
    ax.set(ylim=(-0.1, 1.0), xlim=(-0.6, size - 0.4))
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.tick_params(axis="x", length=0)
