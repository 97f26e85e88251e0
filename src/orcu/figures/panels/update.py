"""One gradient step of ORCU on given logits: response to the gaps, and effect on the probabilities."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, add_note, class_or_middle, grid, panel_title, shared_legend
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, GREEN, LOSS_STYLES, PAGE, ROLES, class_axis
from orcu.inputs import FloatArray, as_positive
from orcu.kernels import penalties
from orcu.kernels.soft_targets import log_targets
from orcu.theory.alignment import regularizer_gradient

# Eight classes as in the paper's example with the true class in the middle: all gaps clearly ordered, and a neighbour
# above the true class with the other gaps near the boundary.
ORDERED = (-5.4, -3.6, -1.8, 0.0, -1.8, -3.6, -5.4, -7.2)
VIOLATED = (-3.0, -1.6, -0.06, 0.0, 0.5, -0.8, -2.0, -3.5)
_BLUE, _RED, _AMBER = LOSS_STYLES["sord"].color, LOSS_STYLES["flsd"].color, LOSS_STYLES["ls"].color


@dataclass(frozen=True)
class Update:
    """Gaps (C-1,) with their derivatives l'(r), and probabilities (C,) before and after the steps."""

    true_class: int
    scale: float
    gaps: FloatArray
    derivatives: FloatArray
    target: FloatArray
    before: FloatArray
    without: FloatArray  # after a step on SoftCE
    with_lbe: FloatArray  # after a step on SoftCE + LBE


def data(
    logits: Any, *, true_class: int = 3, scale: float = 3.0, step_size: float = 0.3, distance: str = "squared"
) -> Update:
    """A step of gradient descent on the logits, with and without the barrier; other arguments as `equilibrium.data`.

    Example:
        >>> update = data(VIOLATED)
        >>> [round(float(p[3]), 3) for p in (update.before, update.without, update.with_lbe)]
        [0.224, 0.248, 0.775]
    """
    z = np.asarray(logits, dtype=np.float64)
    scale, step_size = as_positive(scale, name="scale"), as_positive(step_size, name="step_size")
    if z.ndim != 1 or len(z) < 2 or not np.isfinite(z).all():
        raise InputError(f"logits: expected at least two finite numbers, got {logits!r}.")
    if not 0 <= true_class < len(z):
        raise InputError(f"true_class: expected 0..{len(z) - 1}, got {true_class}.")
    y = np.array(true_class)
    gaps = geometry.directed_gaps(z, y)
    target, before = np.exp(log_targets(len(z), distance)[true_class]), geometry.probs(z)
    softce = before - target
    lbe = regularizer_gradient(z[None], y[None], regularizer="lbe", scale=scale)[0]
    without, with_lbe = (geometry.probs(z - step_size * gradient) for gradient in (softce, softce + lbe))
    derivatives = penalties.log_barrier_gradient(gaps, scale=scale)
    return Update(true_class, scale, gaps, derivatives, target, before, without, with_lbe)


def draw_response(ax: Any, update: Update) -> None:
    """Draw the derivative of the barrier over r, and mark the gaps of the logits on it."""
    margin = 1 / update.scale**2
    low = min(-4.0, float(update.gaps.min()) - 0.4)
    high = max(1.0, float(update.gaps.max()) + 0.4)
    r = np.unique(np.concatenate([np.linspace(low, high, 400), [-margin]]))
    ax.plot(r, penalties.log_barrier_gradient(r, scale=update.scale), color=GREEN, linewidth=1.2, zorder=2)
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
            update.derivatives[which],
            linestyle="none",
            marker=marker,
            markersize=4.5,
            color=color,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=f"gap, {name}",
            zorder=3,
        )
    ax.set(xlim=(low, high), ylim=(0, 1.15 * update.scale), xlabel="directed gap r", ylabel="derivative ℓ′(r)")
    _count_gaps(ax, update, low, high)


def _count_gaps(ax: Any, update: Update, low: float, high: float) -> None:
    """Annotate markers that overlap with the number of gaps."""
    near, last = 0.03 * (high - low), -np.inf
    order = np.sort(update.gaps)
    for group in np.split(order, np.flatnonzero(np.diff(order) > near) + 1):
        center = float(group.mean())
        if len(group) < 2 or center - last < 0.25 * (high - low):
            continue
        height = float(penalties.log_barrier_gradient(np.array([center]), scale=update.scale)[0])
        # The curve rises to the right, so the space above and to the left is free.
        left = center - low > 0.25 * (high - low)
        ax.annotate(
            f"{len(group)} gaps",
            (center, height),
            (1 if left else -2, 4),
            textcoords="offset points",
            ha="right" if left else "left",
            va="bottom",
            fontsize=ax.xaxis.get_ticklabels()[0].get_fontsize(),
        )
        last = center


def draw(ax: Any, update: Update, *, with_lbe: bool) -> None:
    """Draw the probabilities before and after the step, the soft target, and a dashed line at the true class."""
    classes = np.arange(len(update.before))
    after, color = (update.with_lbe, GREEN) if with_lbe else (update.without, _BLUE)
    name = "after, SoftCE + LBE" if with_lbe else "after, SoftCE alone"
    ax.bar(classes - 0.2, update.before, width=0.38, color=ROLES["quiet"], linewidth=0, label="before")
    ax.bar(classes + 0.2, after, width=0.38, color=color, linewidth=0, label=name)
    ax.hlines(update.target, classes - 0.42, classes + 0.42, color=ROLES["ink"], linewidth=0.9, label="soft target")
    # The text is above 1, where no bar ends.
    ax.plot([update.true_class] * 2, [0, 1], color=ROLES["muted"], linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    class_axis(ax, [str(k) for k in classes])
    ax.set(ylim=(0, 1.22), xlim=(-0.6, len(classes) - 0.4), xlabel="class", ylabel="probability")
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    change = f"p(y): {update.before[update.true_class]:.2f} → {after[update.true_class]:.2f}"
    ax.text(
        0.5,
        0.98,
        change,
        transform=ax.transAxes,
        va="top",
        ha="center",
        fontsize=ax.xaxis.get_ticklabels()[0].get_fontsize(),
    )


@FIGURES.register("update")
class UpdateFigure(Figure):
    """Two sets of logits: response to the gaps, a step without LBE, and a step with LBE."""

    title = "One gradient step of ORCU for given logits"
    paper = "Fig. 2"
    filters = ()

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        logits: str = "",
        true_class: int | str = "",
        scale: float = 3.0,
        step_size: float = 0.3,
        distance: str = "squared",
    ) -> Any:
        """Draw the figure; see `data`. ``logits`` are lists such as "0,1,2;2,1,0"; the middle class is the default."""
        cases = _cases(logits) if logits else [ORDERED, VIOLATED]
        columns = 3
        if width == COLUMN:  # a column of three panels for each case
            figure, axes = grid(width, columns, len(cases), height=1.4, around=0.75)
            axes = [list(line) for line in zip(*axes, strict=True)]
        else:
            figure, axes = grid(width, len(cases), columns, height=1.5, around=0.65)
        for number, (case, panels) in enumerate(zip(cases, axes, strict=True)):
            y = class_or_middle(true_class, len(case))
            update = data(case, true_class=y, scale=scale, step_size=step_size, distance=distance)
            draw_response(panels[0], update)
            draw(panels[1], update, with_lbe=False)
            draw(panels[2], update, with_lbe=True)
            prefix = f"case {number + 1}: " if width != COLUMN else f"{number + 1}: "
            for position, text in enumerate(("gap response", "step without LBE", "step with LBE")):
                panels[position].set_title(panel_title(number * columns + position, prefix + text))
                if width == COLUMN and number > 0:
                    panels[position].set_ylabel("")
        columns = 2 if width == COLUMN else 7
        shared_legend(figure, ncols=columns, handletextpad=0.4, columnspacing=1.0, handlelength=1.4)
        add_note(
            figure,
            f"one gradient step of size {step_size:g} on the logits, s = {scale:g}, {distance} distance; ℓ′(r): "
            f"derivative of the barrier; dashed: r = −1/s², and the true class; shaded: violated order",
        )
        return figure


def _cases(text: str) -> list[tuple[float, ...]]:
    try:
        return [tuple(float(number) for number in part.split(",")) for part in text.split(";")]
    except ValueError:
        raise InputError(f"logits: expected numbers such as 0,1,2, or two lists 0,1,2;2,1,0, got {text!r}.") from None
