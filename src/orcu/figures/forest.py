"""Forest plot: one metric of several groups or models, with intervals, side by side."""

from typing import Any

import numpy as np

from orcu.figures.style import ROLES, shortened
from orcu.metrics.evaluate import Estimate


def draw(ax: Any, estimates: dict[str, Estimate], *, percent: bool) -> None:
    """A line per group: the value, its 95 % interval and, as a tick, the calibrated 95 % point."""
    names = list(estimates)
    scale = 100 if percent else 1
    accent, alarm = ROLES["accent"], ROLES["alarm"]
    for i, estimate in enumerate(estimates.values()):
        if np.isfinite(estimate.low):
            ends = estimate.low * scale, estimate.high * scale
            ax.hlines(i, *ends, color=accent, alpha=0.5, linewidth=3)
        if estimate.limit is not None:
            tick = {"marker": "|", "markersize": 10, "markeredgewidth": 1.5, "color": alarm}
            ax.plot([estimate.limit * scale], [i], **tick)
        if np.isfinite(estimate.value):
            ax.plot([estimate.value * scale], [i], marker="o", color=accent, markersize=5)
    ax.set_yticks(range(len(names)), [shortened(name, 18) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("percent" if percent else "")
