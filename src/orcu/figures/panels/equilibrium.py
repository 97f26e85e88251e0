"""Anchor against equilibrium: where the soft target stands and where ORCU pulls, for every label."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures.base import FIGURES, Figure, grid, note
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, PAGE, ROLES, class_axis
from orcu.inputs import FloatArray
from orcu.theory.equilibrium import equilibrium


@dataclass(frozen=True)
class Pull:
    """Soft target and free-logit equilibrium of each label, both (C, C); row y is label y."""

    anchor: FloatArray
    probs: FloatArray


def data(classes: int = 5, *, scale: float = 3.0, distance: str = "squared") -> Pull:
    """Anchor and equilibrium for all labels.

    Args:
        classes: C.
        scale: s.
        distance: of the soft targets.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> pull = data(5)
        >>> pull.anchor[2].round(2).tolist(), pull.probs[2].round(2).tolist()
        ([0.01, 0.21, 0.56, 0.21, 0.01], [0.0, 0.08, 0.84, 0.08, 0.0])
    """
    solution = equilibrium(classes, np.arange(classes), scale, distance)
    return Pull(solution.anchor, solution.probs)


def draw(ax: Any, pull: Pull, label: int) -> None:
    """Two bars per class; the label's tick is marked."""
    classes = np.arange(len(pull.anchor))
    bars = (("soft target (anchor)", pull.anchor, ROLES["quiet"]), ("equilibrium", pull.probs, GREEN))
    for place, (name, values, color) in zip((-0.2, 0.2), bars, strict=True):
        ax.bar(classes + place, values[label], width=0.38, color=color, linewidth=0, label=name)
    class_axis(ax, [str(k) for k in classes])
    ax.set(ylim=(0, 1), xlim=(-0.6, len(classes) - 0.4))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.axvline(label, color=ROLES["muted"], linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)


@FIGURES.register("equilibrium")
class EquilibriumFigure(Figure):
    """A panel for each label: the soft target, and the minimiser of ORCU when nothing else pulls."""

    title = "Soft target against ORCU's equilibrium, for every label"
    paper = "Eq. 8"
    takes = ()

    def make(
        self, sources: Sources, *, width: str = PAGE, classes: int = 5, scale: float = 3.0, distance: str = "squared"
    ) -> Any:
        """See `data` for the options."""
        pull = data(classes, scale=scale, distance=distance)
        columns = min(classes, 3 if width == COLUMN else (5 if classes in (5, 9, 10) else 4))
        rows = -(-classes // columns)
        figure, axes = grid(width, rows, columns, height=1.3, around=0.4)
        for place in range(rows * columns):
            ax = axes[place // columns][place % columns]
            if place >= classes:
                figure.delaxes(ax)
                continue
            draw(ax, pull, place)
            ax.set_title(f"label {place}")
            ax.tick_params(labelleft=place % columns == 0)
            if place % columns == 0:
                ax.set_ylabel("probability")
            if place + columns >= classes:
                ax.set_xlabel("class")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
        note(figure, f"s = {scale:g}, {distance} distance; dashed: the label")
        return figure
