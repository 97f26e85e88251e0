"""Lines over folds: the mean, and a thin band of a standard deviation to both sides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures.style import Look
from orcu.inputs import FloatArray


@dataclass(frozen=True)
class Band:
    """Mean and sample standard deviation at each x; the deviation of a single fold is 0."""

    x: FloatArray
    mean: FloatArray
    deviation: FloatArray


def data(folds: Sequence[tuple[FloatArray, FloatArray]]) -> Band:
    """Mean over folds of curves (x, y); each x counts the folds that reach it.

    Example:
        >>> one = np.array([0.0, 1.0]), np.array([1.0, 2.0])
        >>> two = np.array([0.0]), np.array([3.0])
        >>> band = data([one, two])
        >>> band.mean.tolist(), band.deviation.round(3).tolist()
        ([2.0, 2.0], [1.414, 0.0])
    """
    places = np.unique(np.concatenate([x for x, _ in folds]))
    means, deviations = [], []
    for place in places:
        values = np.concatenate([y[x == place] for x, y in folds])
        means.append(values.mean())
        deviations.append(values.std(ddof=1) if len(values) > 1 else 0.0)
    return Band(places, np.array(means), np.array(deviations))


def draw(ax: Any, band: Band, look: Look, *, label: str, markers: bool = False) -> None:
    """The line with its band; markers where the points are few and far between."""
    ax.fill_between(
        band.x, band.mean - band.deviation, band.mean + band.deviation, color=look.color, alpha=0.1, linewidth=0
    )
    ax.plot(
        band.x,
        band.mean,
        color=look.color,
        linestyle=look.line,
        linewidth=look.width,
        label=label,
        marker=look.marker if markers else None,
        markersize=3.5,
    )
