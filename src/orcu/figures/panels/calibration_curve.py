"""Calibration curve of "class k or above": isotonic with the band of a calibrated model (CORP), or a smooth spline."""

from typing import Any, Literal, get_args

from orcu.errors import UnknownNameError
from orcu.evaluation.corp import CalibrationCurve
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.smooth_curves import SmoothCurve
from orcu.figures.base import axes_or_new
from orcu.figures.style import ROLES, shorten
from orcu.inputs import FloatArray

Kind = Literal["isotonic", "smooth"]
PERCENT_TICKS = [0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"]


def plot(evaluation: Evaluation, *, event: str | None = None, kind: Kind = "isotonic", ax: Any = None) -> Any:
    """Plot the calibration curve of a threshold and return the axes.

    Args:
        evaluation: result of `orcu.evaluate`.
        event: event of ``evaluation.per_threshold``, such as "mild or above"; the first by default.
        kind: "isotonic", with the band of a calibrated model, or "smooth", a spline with its confidence band.
        ax: matplotlib axes; a new pyplot figure by default.

    Raises:
        UnknownNameError: if the event or the kind is unknown.
    """
    if kind not in get_args(Kind):
        raise UnknownNameError("kind of curve", kind, get_args(Kind))
    events = [record["event"] for record in evaluation.per_threshold]
    if event is not None and event not in events:
        raise UnknownNameError("event", event, events)
    with axes_or_new(ax) as ax:
        draw_threshold(ax, evaluation=evaluation, threshold=0 if event is None else events.index(event), kind=kind)
    return ax


def draw_threshold(ax: Any, *, evaluation: Evaluation, threshold: int, kind: Kind = "isotonic") -> None:
    """Draw the curve of a threshold, and the rows in bins of its probability below."""
    weight = evaluation.sums.thresholds[threshold][0][::-1]  # bins of P(Y <= k): reversed, those of P(Y > k)
    count = weight * (evaluation.rows / weight.sum())
    event = evaluation.per_threshold[threshold]["event"]
    curves: Any = evaluation.calibration_curves if kind == "isotonic" else evaluation.smooth_curves
    draw(ax, curves[threshold], count=count, xlabel=f"P({shorten(event, 30)})")


def draw(
    ax: Any, curve: CalibrationCurve | SmoothCurve, *, count: FloatArray, xlabel: str = "predicted probability"
) -> None:
    """Draw the curve with its band, the diagonal, and the rows of each bin as bars below."""
    bins = len(count)
    centers = [(number + 0.5) / bins for number in range(bins)]
    heights = 0.16 * count / count.max()
    ax.bar(centers, heights, width=0.9 / bins, bottom=-0.22, color=ROLES["quiet"], linewidth=0)
    label = f"rows per bin, at most {count.max():,.0f}"
    ax.text(1.0, -0.045, label, color=ROLES["muted"], fontsize=7, va="bottom", ha="right")
    ax.plot([0, 1], [0, 1], color=ROLES["muted"], linewidth=0.8, linestyle=(0, (4, 3)))
    (_draw_smooth if isinstance(curve, SmoothCurve) else _draw_isotonic)(ax, curve)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.22, 1.03), xlabel=xlabel, ylabel="observed frequency")
    ax.set_xticks(*PERCENT_TICKS)
    ax.set_yticks(*PERCENT_TICKS)
    ax.legend(loc="best", bbox_to_anchor=(0, 0.22, 1, 0.78))  # above the bars


def _draw_isotonic(ax: Any, curve: Any) -> None:
    band = curve.band_pred, curve.band_low, curve.band_high
    ax.fill_between(*band, color=ROLES["muted"], alpha=0.22, linewidth=0, label="95 % band if calibrated")
    ax.plot(curve.prob_pred, curve.prob_true, color=ROLES["accent"], linewidth=1.6, label="observed (isotonic)")
    if len(curve.prob_pred) == 1:  # a constant prediction is a point
        ax.plot(curve.prob_pred, curve.prob_true, color=ROLES["accent"], marker="o", markersize=4.5)


def _draw_smooth(ax: Any, curve: Any) -> None:
    label = "95 % confidence band"
    ax.fill_between(curve.prob_pred, curve.low, curve.high, color=ROLES["accent"], alpha=0.18, linewidth=0, label=label)
    ax.plot(curve.prob_pred, curve.prob_true, color=ROLES["accent"], linewidth=1.6, label="observed (spline)")
    if not len(curve.prob_pred):
        ax.text(0.5, 0.5, "no curve can be fitted", color=ROLES["muted"], ha="center", va="center")
