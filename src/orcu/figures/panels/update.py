"""One step of ORCU on given logits: what the gaps call forth, and what it does to the probabilities."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, class_or_middle, grid, letter, note
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, LOOKS, PAGE, ROLES, class_axis
from orcu.inputs import FloatArray, as_positive
from orcu.kernels.soft_targets import log_targets
from orcu.theory.alignment import regularizer_gradient

# Eight classes as in the paper's example, the label in the middle: all gaps well inside, and a neighbour
# that is above the label with the rest near the boundary.
ORDERED = (-5.4, -3.6, -1.8, 0.0, -1.8, -3.6, -5.4, -7.2)
VIOLATED = (-3.0, -1.6, -0.06, 0.0, 0.5, -0.8, -2.0, -3.5)
_BLUE, _RED, _AMBER = LOOKS["sord"].color, LOOKS["flsd"].color, LOOKS["ls"].color


@dataclass(frozen=True)
class Update:
    """One configuration: gaps (C-1,), their slopes l'(r), and the probabilities (C,) of each stage."""

    label: int
    scale: float
    gaps: FloatArray
    slopes: FloatArray
    target: FloatArray
    before: FloatArray
    without: FloatArray  # after a step on SoftCE
    with_lbe: FloatArray  # after a step on SoftCE + LBE


def data(logits: Any, *, label: int = 3, scale: float = 3.0, step: float = 0.3, distance: str = "squared") -> Update:
    """A gradient step on the logits, with and without the barrier.

    Args:
        logits: C numbers.
        label: the class y, 0..C-1.
        scale: s.
        step: how far to go against the gradient.
        distance: of the soft targets.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> update = data(VIOLATED)
        >>> [round(float(p[3]), 3) for p in (update.before, update.without, update.with_lbe)]
        [0.224, 0.248, 0.775]
    """
    z = np.asarray(logits, dtype=np.float64)
    scale, step = as_positive(scale, name="scale"), as_positive(step, name="step")
    if z.ndim != 1 or len(z) < 2 or not np.isfinite(z).all():
        raise InputError(f"logits: expected at least two finite numbers, got {logits!r}.")
    if not 0 <= label < len(z):
        raise InputError(f"label: expected 0..{len(z) - 1}, got {label}.")
    y = np.array(label)
    gaps = geometry.directed_gaps(z, y)
    target, before = np.exp(log_targets(len(z), distance)[label]), geometry.probs(z)
    softce = before - target
    lbe = regularizer_gradient(z[None], y[None], regularizer="lbe", scale=scale)[0]
    without, with_lbe = (geometry.probs(z - step * gradient) for gradient in (softce, softce + lbe))
    slopes = geometry.log_barrier_slope(gaps, scale=scale)
    return Update(label, scale, gaps, slopes, target, before, without, with_lbe)


def draw_response(ax: Any, update: Update) -> None:
    """The barrier's slope over r, and where the gaps of these logits stand on it."""
    margin = 1 / update.scale**2
    low = min(-4.0, float(update.gaps.min()) - 0.4)
    high = max(1.0, float(update.gaps.max()) + 0.4)
    r = np.unique(np.concatenate([np.linspace(low, high, 400), [-margin]]))
    ax.plot(r, geometry.log_barrier_slope(r, scale=update.scale), color=GREEN, linewidth=1.2, zorder=2)
    ax.axvspan(0, high, color=ROLES["grid"], alpha=0.5, linewidth=0, zorder=0)
    ax.axvline(-margin, color=ROLES["muted"], linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    kinds = (
        ("ordered", update.gaps <= -margin, _BLUE, "o"),
        ("near the boundary", (update.gaps > -margin) & (update.gaps <= 0), _AMBER, "s"),
        ("violated", update.gaps > 0, _RED, "D"),
    )
    for name, which, color, marker in kinds:
        ax.plot(
            update.gaps[which],
            update.slopes[which],
            linestyle="none",
            marker=marker,
            markersize=4.5,
            color=color,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=f"gap, {name}",
            zorder=3,
        )
    ax.set(xlim=(low, high), ylim=(0, 1.15 * update.scale), xlabel="directed gap r", ylabel="slope ℓ′(r)")
    _count_gaps(ax, update, low, high)


def _count_gaps(ax: Any, update: Update, low: float, high: float) -> None:
    """Say how many gaps a marker stands for, where several lie on each other."""
    near, free = 0.03 * (high - low), -np.inf
    order = np.sort(update.gaps)
    for group in np.split(order, np.flatnonzero(np.diff(order) > near) + 1):
        center = float(group.mean())
        if len(group) < 2 or center - free < 0.25 * (high - low):
            continue
        slope = float(geometry.log_barrier_slope(np.array([center]), scale=update.scale)[0])
        # The curve rises to the right, so there is room above and to the left.
        left = center - low > 0.25 * (high - low)
        ax.annotate(
            f"{len(group)} gaps",
            (center, slope),
            (1 if left else -2, 4),
            textcoords="offset points",
            ha="right" if left else "left",
            va="bottom",
            fontsize=ax.xaxis.get_ticklabels()[0].get_fontsize(),
        )
        free = center


def draw(ax: Any, update: Update, *, with_lbe: bool) -> None:
    """Probabilities before and after the step as bars, the soft target as ticks, the label dashed."""
    classes = np.arange(len(update.before))
    after, color = (update.with_lbe, GREEN) if with_lbe else (update.without, _BLUE)
    name = "after, SoftCE + LBE" if with_lbe else "after, SoftCE alone"
    ax.bar(classes - 0.2, update.before, width=0.38, color=ROLES["quiet"], linewidth=0, label="before")
    ax.bar(classes + 0.2, after, width=0.38, color=color, linewidth=0, label=name)
    ax.hlines(update.target, classes - 0.42, classes + 0.42, color=ROLES["ink"], linewidth=0.9, label="soft target")
    # The words stand above 1, where no bar can reach.
    ax.plot([update.label] * 2, [0, 1], color=ROLES["muted"], linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    class_axis(ax, [str(k) for k in classes])
    ax.set(ylim=(0, 1.22), xlim=(-0.6, len(classes) - 0.4), xlabel="class", ylabel="probability")
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    moved = f"p(y): {update.before[update.label]:.2f} → {after[update.label]:.2f}"
    ax.text(
        0.5,
        0.98,
        moved,
        transform=ax.transAxes,
        va="top",
        ha="center",
        fontsize=ax.xaxis.get_ticklabels()[0].get_fontsize(),
    )


@FIGURES.register("update")
class UpdateFigure(Figure):
    """Two configurations of logits: response to the gaps, a step without LBE, a step with LBE."""

    title = "One ORCU update for given logits"
    paper = "Fig. 2"
    takes = ()

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        logits: str = "",
        label: int | str = "",
        scale: float = 3.0,
        step: float = 0.3,
        distance: str = "squared",
    ) -> Any:
        """``logits`` are two lists of numbers, "0,1,2;2,1,0"; the label is the middle class by default; see `data`."""
        cases = _cases(logits) if logits else [ORDERED, VIOLATED]
        columns = 3
        if width == COLUMN:  # cases beside each other, their three panels below each other
            figure, axes = grid(width, columns, len(cases), height=1.4, around=0.75)
            axes = [list(line) for line in zip(*axes, strict=True)]
        else:
            figure, axes = grid(width, len(cases), columns, height=1.5, around=0.65)
        for number, (case, panels) in enumerate(zip(cases, axes, strict=True)):
            y = class_or_middle(label, len(case))
            update = data(case, label=y, scale=scale, step=step, distance=distance)
            draw_response(panels[0], update)
            draw(panels[1], update, with_lbe=False)
            draw(panels[2], update, with_lbe=True)
            prefix = f"case {number + 1}: " if width != COLUMN else f"{number + 1}: "
            for place, text in enumerate(("gap response", "step without LBE", "step with LBE")):
                panels[place].set_title(letter(number * columns + place, prefix + text))
                if width == COLUMN and number > 0:
                    panels[place].set_ylabel("")
        known: dict[str, Any] = {}
        for ax in figure.axes:
            handles, labels = ax.get_legend_handles_labels()
            known |= dict(zip(labels, handles, strict=True))
        figure.legend(
            known.values(),
            known.keys(),
            loc="outside upper center",
            ncols=2 if width == COLUMN else 7,
            handletextpad=0.4,
            columnspacing=1.0,
            handlelength=1.4,
        )
        note(
            figure,
            f"one gradient step of {step:g} on the logits, s = {scale:g}, {distance} distance; ℓ′(r): slope of the "
            f"barrier; dashed: r = −1/s², and the label; shaded: violated order",
        )
        return figure


def _cases(text: str) -> list[tuple[float, ...]]:
    try:
        return [tuple(float(one) for one in part.split(",")) for part in text.split(";")]
    except ValueError:
        raise InputError(f"logits: expected numbers such as 0,1,2 or two lists 0,1,2;2,1,0, got {text!r}.") from None
