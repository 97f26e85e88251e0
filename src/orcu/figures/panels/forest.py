"""Forest plot: a metric of several models or subgroups with confidence intervals."""

from typing import Any, Literal

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.evaluation import Evaluation
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten
from orcu.metrics.base import METRICS, Metric
from orcu.resampling import Estimate


def plot(evaluation: Evaluation, metric: str, *, by: Literal["subgroup", "model"] = "model", ax: Any = None) -> Any:
    """Plot a metric of all models, or of all rows and each subgroup, and return the axes.

    Args:
        evaluation: result of `orcu.evaluate` with ``compare=`` or with subgroups.
        metric: name of the metric, such as "sce".
        by: what to compare, "model" or "subgroup".
        ax: matplotlib axes; a new pyplot figure by default.

    Raises:
        UnknownNameError: if the metric is unknown.
        InputError: if the evaluation has only one model or no subgroups.
    """
    shown = METRICS.get(metric)
    evaluations = evaluations_by(evaluation, by)
    if len(evaluations) == 1:
        fix = "evaluate(..., compare={...})" if by == "model" else "Predictions(..., subgroup=...)"
        raise InputError(f"by: the evaluation has only one {by}; evaluate several with {fix}.")
    with axes_or_new(ax, size=(4.2, 0.9 + 0.3 * len(evaluations))) as ax:
        draw(ax, {name: part.metrics[metric] for name, part in evaluations.items()}, metric=shown)
        ax.set_xlabel(f"{shown.title}, %" if shown.percent else shown.title)
    return ax


def evaluations_by(evaluation: Evaluation, by: str) -> dict[str, Evaluation]:
    """The evaluations to compare by name: all rows and each subgroup, or each model.

    Raises:
        InputError: if ``by`` is neither "subgroup" nor "model".
    """
    if by == "subgroup":
        return {"all": evaluation, **evaluation.subgroups}
    if by == "model":
        return {evaluation.name: evaluation} | {other.name: other for other in evaluation.others}
    raise InputError(f"by: expected 'subgroup' or 'model', got {by!r}.")


def draw(ax: Any, estimates: dict[str, Estimate], *, metric: Metric) -> None:
    """Draw a line for each estimate: value, 95 % interval, and a tick at the upper 95 % limit of a calibrated model."""
    names = list(estimates)
    scale = 100 if metric.percent else 1
    accent, alarm = ROLES["accent"], ROLES["alarm"]
    for i, estimate in enumerate(estimates.values()):
        if np.isfinite(estimate.low):
            ends = estimate.low * scale, estimate.high * scale
            ax.hlines(i, *ends, color=accent, alpha=0.5, linewidth=3)
        if estimate.limit is not None:
            tick = {"marker": "|", "markersize": 10, "markeredgewidth": 1.5, "color": alarm}
            ax.plot([estimate.limit * scale], [i], **tick)
        if np.isfinite(estimate.value):
            ax.plot([estimate.value * scale], [i], marker="o", color=accent, markersize=5, clip_on=False)
    # The axis ends where values are impossible: there is no tick at 101 %.
    smallest, largest = metric.bounds
    ax.set_xlim(*np.clip(_limits(estimates, scale), scale * smallest, scale * largest))
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.set_yticks(range(len(names)), [shorten(name, 18) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("percent" if metric.percent else "")


def _limits(estimates: dict[str, Estimate], scale: int) -> tuple[float, float]:
    """Axis limits around all values, with a minimum width for equal values."""
    ends = [
        scale * v
        for e in estimates.values()
        for v in (e.value, e.low, e.high, e.limit)
        if v is not None and np.isfinite(v)
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = max(0.06 * (high - low), 0.01 * scale)
    return low - room, high + room
