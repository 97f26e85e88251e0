"""Forest plot: one metric of several groups or models, with intervals, side by side."""

from typing import Any, Literal

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.evaluation import Estimate, Evaluation
from orcu.figures.base import axes
from orcu.figures.style import ROLES, shortened
from orcu.metrics.base import METRICS


def plot(evaluation: Evaluation, metric: str, *, by: Literal["group", "model"] = "model", ax: Any = None) -> Any:
    """A metric of all models, or of all rows and each group; gives the axes back, to be changed.

    Args:
        evaluation: what `orcu.evaluate` gave, with ``compare=`` or with groups.
        metric: its name, such as "sce".
        by: what stands side by side.
        ax: matplotlib axes to draw on; without, new ones of pyplot.

    Raises:
        UnknownNameError: if there is no such metric.
        InputError: if there is nothing to stand beside it.
    """
    percent, title = METRICS.get(metric).percent, METRICS.get(metric).title
    several = beside(evaluation, by)
    if len(several) == 1:
        fix = "evaluate(..., compare={...})" if by == "model" else "Predictions(..., group=...)"
        raise InputError(f"by: there is no other {by} in this evaluation; judge several with {fix}.")
    with axes(ax, size=(4.2, 0.9 + 0.3 * len(several))) as ax:
        draw(ax, {name: one.metrics[metric] for name, one in several.items()}, percent=percent)
        ax.set_xlabel(f"{title}, %" if percent else title)
    return ax


def beside(evaluation: Evaluation, by: str) -> dict[str, Evaluation]:
    """What is shown side by side, by name: all rows and each group, or each model.

    Raises:
        InputError: if ``by`` is neither.
    """
    if by == "group":
        return {"all": evaluation, **evaluation.groups}
    if by == "model":
        return {evaluation.name: evaluation} | {other.name: other for other in evaluation.others}
    raise InputError(f"by: expected 'group' or 'model', got {by!r}.")


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
    low, high = _limits(estimates, scale)
    ax.set_xlim(low, high)
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.set_yticks(range(len(names)), [shortened(name, 18) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("percent" if percent else "")


def _limits(estimates: dict[str, Estimate], scale: int) -> tuple[float, float]:
    """An axis that shows all values with some room, and does not blow up equal ones."""
    ends = [
        scale * v
        for e in estimates.values()
        for v in (e.value, e.low, e.high, e.limit)
        if v is not None and np.isfinite(v)
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = max(0.06 * (high - low), 0.01 * scale)
    return low - room, high + room
