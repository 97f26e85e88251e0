"""The gradient of Table I as curves: the barrier beside the hinge and the SoftPlus."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, class_or_middle, grid, letter, note
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, LOOKS, PAGE, ROLES
from orcu.inputs import FloatArray, as_positive
from orcu.kernels.soft_targets import log_targets

_LINES = {
    "SoftCE alone": ("#0072b2", (0, (1.2, 1.2))),
    "LBE": (GREEN, "-"),
    "hinge": (LOOKS["hinge"].color, (0, (5, 1.5))),
    "SoftPlus": (LOOKS["co2"].color, (0, (3, 1, 1, 1))),
}


@dataclass(frozen=True)
class Slopes:
    """Over a grid of directed gaps r: each penalty's slope l'(r), and the gradients of Table I.

    ``below`` and ``above`` hold dL/dz_k of the pair (k, k + 1) for k < y and k >= y, by penalty; "SoftCE
    alone" is the part (a) of the table.
    """

    r: FloatArray
    slope: dict[str, FloatArray]
    below: dict[str, FloatArray]
    above: dict[str, FloatArray]
    margin: float


def data(
    *, scale: float = 3.0, classes: int = 5, label: int = 2, distance: str = "squared", deepest: float | None = None
) -> Slopes:
    """Slopes and gradients over gaps from -deepest to deepest / 6.

    The pairs are those that touch the label; the other gaps are the soft target's own,
    so that SoftCE alone is at rest where r is its gap too.

    Args:
        scale: s.
        classes: C.
        label: the class y, 0..C-1, with a neighbour on both sides.
        distance: of the soft targets.
        deepest: how far into the ordered side the grid goes; by default 6, or four times the margin 1/s^2.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> slopes = data(scale=3.0)
        >>> deep = abs(slopes.r + 2).argmin()
        >>> {name: round(float(slope[deep]), 3) for name, slope in slopes.slope.items()}
        {'LBE': 0.167, 'hinge': 0.0, 'SoftPlus': 0.119}
    """
    scale = as_positive(scale, name="scale")
    margin = 1 / scale**2
    deepest = as_positive(max(6.0, 4 * margin) if deepest is None else deepest, name="deepest")
    if classes < 3:
        raise InputError(f"classes: expected at least 3, for a label with a class on both sides, got {classes}.")
    if not 0 < label < classes - 1:
        raise InputError(f"label: expected 1..{classes - 2}, with a class on both sides, got {label}.")
    ends = -margin, -margin * (1 - 1e-8)
    r = np.unique(np.concatenate([np.linspace(-deepest, deepest / 6, 561), ends]))
    slope = {
        "LBE": geometry.log_barrier_slope(r, scale=scale),
        "hinge": geometry.hinge_slope(r, margin=margin),
        "SoftPlus": geometry.sigmoid(r),
    }
    log_anchor = log_targets(classes, distance)[label]
    sides = {}
    for side, k in (("below", label - 1), ("above", label)):
        logits = np.tile(log_anchor, (len(r), 1))
        own = geometry.directed_gaps(log_anchor, np.array(label))[k]
        # What lies beyond the gap moves with it, and the other gaps stay.
        beyond = np.s_[:, : k + 1] if side == "below" else np.s_[:, k + 1 :]
        logits[beyond] += (r - own)[:, None]
        softce = np.exp(geometry.log_probs(logits)[:, k]) - np.exp(log_anchor[k])
        sign = -geometry.gap_signs(classes)[label, k]  # of dr/dz_k
        sides[side] = {"SoftCE alone": softce} | {name: softce + sign * value for name, value in slope.items()}
    return Slopes(r, slope, sides["below"], sides["above"], margin)


def draw(ax: Any, slopes: Slopes, what: str) -> None:
    """One family of curves over r: "slope", "below" or "above"; the margin is marked."""
    from matplotlib.ticker import MaxNLocator

    lines: dict[str, FloatArray] = getattr(slopes, what)
    for name, values in lines.items():
        color, line = _LINES[name]
        ax.plot(slopes.r, values, color=color, linestyle=line, linewidth=1.3, label=name)
    ax.axvline(-slopes.margin, color=ROLES["muted"], linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    ax.axvspan(0, float(slopes.r[-1]), color=ROLES["grid"], alpha=0.5, linewidth=0, zorder=0)
    ax.set_xlim(float(slopes.r[0]), float(slopes.r[-1]))
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    ax.set_xlabel("directed gap r")


@FIGURES.register("gradient")
class GradientFigure(Figure):
    """The slopes l'(r), on a linear and a logarithmic axis, and dL/dz_k on both sides of the label."""

    title = "Gradient of ORCU over the gap, hinge and SoftPlus beside"
    paper = "Table I"
    takes = ()

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        scale: float = 3.0,
        classes: int = 5,
        label: int | str = "",
        distance: str = "squared",
    ) -> Any:
        """See `data` for the options; the label is the middle class by default."""
        y = class_or_middle(label, classes)
        slopes = data(scale=scale, classes=classes, label=y, distance=distance)
        columns = 2 if width == COLUMN else 4
        figure, axes = grid(width, 4 // columns, columns, height=1.6, around=0.4)
        flat = [ax for row in axes for ax in row]
        for ax, what in zip(flat, ("slope", "slope", "below", "above"), strict=True):
            draw(ax, slopes, what)
        flat[0].set_title(letter(0, "slope ℓ′(r)"))
        decades = _decades(slopes)
        flat[1].set(yscale="log", ylim=(decades[0], decades[-1]))
        ticks = decades[:: -(-len(decades) // 6)]
        flat[1].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        flat[1].minorticks_off()
        flat[1].set_title(letter(1, "slope, log axis"))
        flat[2].set_title(letter(2, "∂L/∂z for k < y"))
        flat[3].set_title(letter(3, "∂L/∂z for k ≥ y"))
        flat[0].set_ylabel("gradient")
        handles, labels = flat[2].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
        note(
            figure,
            f"s = {scale:g}, label y = {y} of {classes} classes; ℓ′(r): slope of the penalty on a gap r; k: the lower "
            f"class of the pair (k, k + 1) with that gap, next to y; dashed line: r = −1/s²; shaded: violated "
            f"order; (c, d): each penalty added to SoftCE",
        )
        return figure


def _decades(slopes: Slopes) -> list[float]:
    """The powers of ten that a logarithmic axis needs for the barrier, from 0.001 to 10 at least."""
    ends = np.log10([slopes.slope["LBE"].min(), slopes.slope["LBE"].max()])
    return [10.0**p for p in range(min(-3, int(np.floor(ends[0]))), max(1, int(np.ceil(ends[1]))) + 1)]
