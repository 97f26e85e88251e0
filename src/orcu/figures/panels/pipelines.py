"""Calibration error against unimodality, a point for each pipeline of a loss and a calibrator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orcu.figures.style import ROLES, loss_styles
from orcu.figures.titles import loss_title

MARKERS = "o^sDvPX*"  # one for each calibrator


@dataclass(frozen=True)
class Point:
    """A pipeline with its unimodality and calibration error; pipelines with a name are highlighted."""

    loss: str
    calibrator: str
    unimodality: float
    error: float
    name: str = ""


def draw(ax: Any, points: Sequence[Point], *, legend: bool = True) -> None:
    """Draw losses by colour and calibrators by marker; the lower right corner is best."""
    losses = list(dict.fromkeys(point.loss for point in points))
    calibrators = list(dict.fromkeys(point.calibrator for point in points))
    styles, marker = loss_styles(losses), dict(zip(calibrators, MARKERS * len(calibrators), strict=False))
    for point in points:
        ax.plot(
            100 * point.unimodality,
            100 * point.error,
            linestyle="none",
            marker=marker[point.calibrator],
            markersize=8 if point.name else 5.5,
            markerfacecolor=styles[point.loss].color if point.name else "none",
            markeredgecolor=styles[point.loss].color,
            clip_on=False,
        )
    top = 100 * max(point.error for point in points)
    ax.set(
        xlabel="unimodal rows (%)", ylabel="static calibration error, SCE (%)", xlim=(None, 100), ylim=(0, 1.15 * top)
    )
    left = ax.get_xlim()[0]
    for point in points:
        if point.name:
            position = (100 * point.unimodality, 100 * point.error)
            on_the_right = position[0] > (100 + left) / 2
            ax.annotate(
                point.name,
                position,
                xytext=(-9 if on_the_right else 9, 0),
                textcoords="offset points",
                ha="right" if on_the_right else "left",
                va="center",
                fontsize=8,
                color=ROLES["ink"],
            )
    if legend:
        handles = [ax.plot([], [], "o", color=styles[loss].color, label=loss_title(loss))[0] for loss in losses]
        handles += [
            ax.plot([], [], marker[name], color=ROLES["muted"], markerfacecolor="none", label=name)[0]
            for name in calibrators
        ]
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), handletextpad=0.3)
