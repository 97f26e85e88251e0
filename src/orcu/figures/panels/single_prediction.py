"""One predicted distribution, with the class that came true marked."""

from typing import Any

import numpy as np

from orcu.figures.style import ROLES, shortened, ticked
from orcu.inputs import FloatArray

MOST_BARS = 60


def draw(ax: Any, probs: FloatArray, label: int, classes: tuple[str, ...]) -> None:
    """Bars per class; the true class in the accent colour with a triangle under it."""
    size = len(classes)
    if size <= MOST_BARS:
        colors = [ROLES["accent"] if k == label else ROLES["quiet"] for k in range(size)]
        ax.bar(np.arange(size), probs, color=colors, width=0.8, linewidth=0)
    else:  # bars of hundreds of classes are an outline
        ax.fill_between(np.arange(size), probs, step="mid", color=ROLES["quiet"], linewidth=0)
    ax.plot([label], [-0.06], marker="^", color=ROLES["accent"], markersize=5, clip_on=False)
    places = ticked(size, most=20 if size <= MOST_BARS else 6)
    names = [shortened(classes[k], 9) for k in places]
    long = max(map(len, names)) > 4 or size > 8
    ax.set_xticks(places, names, rotation=40 if long else 0, ha="right" if long else "center")
    ax.set(ylim=(-0.1, 1.0), xlim=(-0.6, size - 0.4))
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.tick_params(axis="x", length=0)
