"""Gradients of Table I as curves: log-barrier extension (LBE), hinge and SoftPlus."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, add_note, class_or_middle, grid, panel_title
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, LOSS_STYLES, PAGE, ROLES
from orcu.inputs import FloatArray, as_positive
from orcu.kernels import penalties
from orcu.kernels.soft_targets import check_positive, log_targets

_LINES = {
    "SoftCE alone": ("#0072b2", (0, (1.2, 1.2))),
    "LBE": (GREEN, "-"),
    "hinge": (LOSS_STYLES["hinge"].color, (0, (5, 1.5))),
    "SoftPlus": (LOSS_STYLES["co2"].color, (0, (3, 1, 1, 1))),
}


@dataclass(frozen=True)
class Gradients:
    """Derivatives l'(r) of each penalty over a grid of directed gaps r, and the gradients of Table I.

    ``below`` and ``above`` are dL/dz_k of the pair (k, k + 1) for k < y and k >= y, by penalty; "SoftCE alone" is
    part (a) of the table.
    """

    r: FloatArray
    derivative: dict[str, FloatArray]
    below: dict[str, FloatArray]
    above: dict[str, FloatArray]
    margin: float


def data(
    *,
    scale: float = 3.0,
    num_classes: int = 5,
    true_class: int = 2,
    distance: str = "squared",
    max_gap: float | None = None,
) -> Gradients:
    """Derivatives and gradients over gaps from -max_gap to max_gap / 6.

    The pairs are the two that contain the true class; all other gaps are those of the soft target, so SoftCE alone has
    a zero gradient where r is the gap of the soft target. Arguments are those of `equilibrium.data`, a true class with
    two neighbours, and ``max_gap``, by default 6 or four times the margin 1/s^2.

    Example:
        >>> gradients = data(scale=3.0)
        >>> index = abs(gradients.r + 2).argmin()
        >>> {name: round(float(values[index]), 3) for name, values in gradients.derivative.items()}
        {'LBE': 0.167, 'hinge': 0.0, 'SoftPlus': 0.119}
    """
    scale = as_positive(scale, name="scale")
    margin = 1 / scale**2
    max_gap = as_positive(max(6.0, 4 * margin) if max_gap is None else max_gap, name="max_gap")
    if num_classes < 3:
        raise InputError(f"num_classes: expected at least 3, so that y has two neighbours, got {num_classes}.")
    if not 0 < true_class < num_classes - 1:
        raise InputError(f"true_class: expected 1..{num_classes - 2}, a class with two neighbours, got {true_class}.")
    ends = -margin, -margin * (1 - 1e-8)
    r = np.unique(np.concatenate([np.linspace(-max_gap, max_gap / 6, 561), ends]))
    derivative = {
        "LBE": penalties.log_barrier_gradient(r, scale=scale),
        "hinge": penalties.hinge_gradient(r, margin=margin),
        "SoftPlus": geometry.sigmoid(r),
    }
    log_anchor = log_targets(num_classes, distance)[true_class]
    check_positive(log_anchor, distance)
    sides = {}
    for side, k in (("below", true_class - 1), ("above", true_class)):
        logits = np.tile(log_anchor, (len(r), 1))
        anchor_gap = geometry.directed_gaps(log_anchor, np.array(true_class))[k]
        # All classes beyond the gap move with it, so the other gaps do not change.
        beyond = np.s_[:, : k + 1] if side == "below" else np.s_[:, k + 1 :]
        logits[beyond] += (r - anchor_gap)[:, None]
        softce = np.exp(geometry.log_probs(logits)[:, k]) - np.exp(log_anchor[k])
        sign = -geometry.gap_signs(num_classes)[true_class, k]  # of dr/dz_k
        sides[side] = {"SoftCE alone": softce} | {name: softce + sign * value for name, value in derivative.items()}
    return Gradients(r, derivative, sides["below"], sides["above"], margin)


def draw(ax: Any, gradients: Gradients, family: str) -> None:
    """Draw one family of curves over r: "derivative", "below" or "above"; the margin is marked."""
    from matplotlib.ticker import MaxNLocator

    lines: dict[str, FloatArray] = getattr(gradients, family)
    for name, values in lines.items():
        color, line = _LINES[name]
        ax.plot(gradients.r, values, color=color, linestyle=line, linewidth=1.3, label=name)
    ax.axvline(-gradients.margin, color=ROLES["muted"], linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    ax.axvspan(0, float(gradients.r[-1]), color=ROLES["grid"], alpha=0.5, linewidth=0, zorder=0)
    ax.set_xlim(float(gradients.r[0]), float(gradients.r[-1]))
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    ax.set_xlabel("directed gap r")


@FIGURES.register("gradient")
class GradientFigure(Figure):
    """Derivatives l'(r) on a linear and a logarithmic axis, and dL/dz_k on both sides of the true class."""

    title = "Gradients of LBE, hinge and SoftPlus over the gap"
    paper = "Table I"
    filters = ()

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        scale: float = 3.0,
        num_classes: int = 5,
        true_class: int | str = "",
        distance: str = "squared",
    ) -> Any:
        """Draw the figure; see `data` for the options. The true class is the middle class by default."""
        y = class_or_middle(true_class, num_classes)
        gradients = data(scale=scale, num_classes=num_classes, true_class=y, distance=distance)
        columns = 2 if width == COLUMN else 4
        figure, axes = grid(width, 4 // columns, columns, height=1.6, around=0.4)
        flat = [ax for row in axes for ax in row]
        for ax, family in zip(flat, ("derivative", "derivative", "below", "above"), strict=True):
            draw(ax, gradients, family)
        flat[0].set_title(panel_title(0, "derivative ℓ′(r)"))
        decades = _decades(gradients)
        flat[1].set(yscale="log", ylim=(decades[0], decades[-1]))
        ticks = decades[:: -(-len(decades) // 6)]
        flat[1].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        flat[1].minorticks_off()
        flat[1].set_title(panel_title(1, "ℓ′(r), log axis"))
        flat[2].set_title(panel_title(2, "∂L/∂z for k < y"))
        flat[3].set_title(panel_title(3, "∂L/∂z for k ≥ y"))
        flat[0].set_ylabel("gradient")
        handles, labels = flat[2].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
        add_note(
            figure,
            f"s = {scale:g}, true class y = {y} of {num_classes} classes; ℓ′(r): derivative of the penalty on a gap r; "
            f"k: lower class of the pair (k, k + 1) with that gap, next to y; dashed line: r = −1/s²; shaded: "
            f"violated order; (c, d): each penalty added to SoftCE",
        )
        return figure


def _decades(gradients: Gradients) -> list[float]:
    """Powers of ten for the logarithmic axis of the barrier, at least from 0.001 to 10."""
    ends = np.log10([gradients.derivative["LBE"].min(), gradients.derivative["LBE"].max()])
    return [10.0**p for p in range(min(-3, int(np.floor(ends[0]))), max(1, int(np.ceil(ends[1]))) + 1)]
