"""Soft target (anchor) and equilibrium of ORCU for every true class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures.base import FIGURES, Figure, add_note, grid
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, PAGE, ROLES, class_axis
from orcu.inputs import FloatArray
from orcu.theory.equilibrium import equilibrium


@dataclass(frozen=True)
class Equilibria:
    """Soft target and free-logit equilibrium, both (C, C); row y is for the true class y."""

    anchor: FloatArray
    probs: FloatArray


def data(num_classes: int = 5, *, scale: float = 3.0, distance: str = "squared") -> Equilibria:
    """Anchor and equilibrium for all true classes.

    Args:
        num_classes: number of classes C.
        scale: scale s of the barrier.
        distance: distance of the soft targets.

    Raises:
        InputError: if an argument is not valid.

    Example:
        >>> equilibria = data(5)
        >>> equilibria.anchor[2].round(2).tolist(), equilibria.probs[2].round(2).tolist()
        ([0.01, 0.21, 0.56, 0.21, 0.01], [0.0, 0.08, 0.84, 0.08, 0.0])
    """
    solution = equilibrium(num_classes, np.arange(num_classes), scale, distance)
    return Equilibria(solution.anchor, solution.probs)


def draw(ax: Any, equilibria: Equilibria, true_class: int) -> None:
    """Draw two bars for each class, and a dashed line at the true class."""
    classes = np.arange(len(equilibria.anchor))
    bars = (("soft target (anchor)", equilibria.anchor, ROLES["quiet"]), ("equilibrium", equilibria.probs, GREEN))
    for offset, (name, values, color) in zip((-0.2, 0.2), bars, strict=True):
        ax.bar(classes + offset, values[true_class], width=0.38, color=color, linewidth=0, label=name)
    class_axis(ax, [str(k) for k in classes])
    ax.set(ylim=(0, 1), xlim=(-0.6, len(classes) - 0.4))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.axvline(true_class, color=ROLES["muted"], linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)


@FIGURES.register("equilibrium")
class EquilibriumFigure(Figure):
    """A panel for each true class: the soft target, and the minimiser of ORCU over free logits."""

    title = "Soft target and equilibrium of ORCU for every true class"
    paper = "Eq. 8"
    filters = ()

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        num_classes: int = 5,
        scale: float = 3.0,
        distance: str = "squared",
    ) -> Any:
        """Draw the figure; see `data` for the options."""
        equilibria = data(num_classes, scale=scale, distance=distance)
        columns = min(num_classes, 3 if width == COLUMN else (5 if num_classes in (5, 9, 10) else 4))
        rows = -(-num_classes // columns)
        figure, axes = grid(width, rows, columns, height=1.3, around=0.4)
        for k in range(rows * columns):
            ax = axes[k // columns][k % columns]
            if k >= num_classes:
                figure.delaxes(ax)
                continue
            draw(ax, equilibria, k)
            ax.set_title(f"true class {k}")
            ax.tick_params(labelleft=k % columns == 0)
            if k % columns == 0:
                ax.set_ylabel("probability")
            if k + columns >= num_classes:
                ax.set_xlabel("class")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
        add_note(figure, f"s = {scale:g}, {distance} distance; dashed: true class")
        return figure
