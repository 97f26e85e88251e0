"""Mean curves over folds with a band of one standard deviation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures.style import LineStyle
from orcu.inputs import FloatArray


@dataclass(frozen=True)
class Band:
    """Mean and sample standard deviation at each x; the deviation of a single fold is 0."""

    x: FloatArray
    mean: FloatArray
    deviation: FloatArray


def data(folds: Sequence[tuple[FloatArray, FloatArray]]) -> Band:
    """Mean of curves (x, y) over folds; each x averages the folds that have it.

    Example:
        >>> first = np.array([0.0, 1.0]), np.array([1.0, 2.0])
        >>> second = np.array([0.0]), np.array([3.0])
        >>> band = data([first, second])
        >>> band.mean.tolist(), band.deviation.round(3).tolist()
        ([2.0, 2.0], [1.414, 0.0])
    """
    positions = np.unique(np.concatenate([x for x, _ in folds]))
    means, deviations = [], []
    for position in positions:
        values = np.concatenate([y[x == position] for x, y in folds])
        means.append(values.mean())
        deviations.append(values.std(ddof=1) if len(values) > 1 else 0.0)
    return Band(positions, np.array(means), np.array(deviations))


def draw(ax: Any, band: Band, style: LineStyle, *, label: str, markers: bool = False) -> None:
    """Draw the mean as a line and the standard deviation as a band; markers are for few points."""
    ax.fill_between(
        band.x, band.mean - band.deviation, band.mean + band.deviation, color=style.color, alpha=0.1, linewidth=0
    )
    ax.plot(
        band.x,
        band.mean,
        color=style.color,
        linestyle=style.line,
        linewidth=style.width,
        label=label,
        marker=style.marker if markers else None,
        markersize=3.5,
    )
