"""Reliability diagrams: observed frequency against predicted probability.

They are drawn as points with confidence intervals for one model, or as the paper's bars for many losses and data sets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from orcu.errors import UnknownNameError
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.tally import Tally
from orcu.figures.base import FIGURES, Figure, add_note, axes_or_new, check_at_least, grid
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, PAGE, ROLES, shorten, wrap_name
from orcu.figures.titles import data_title, loss_title
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.predictions import Predictions
from orcu.resampling import TAILS

SPARSE = 30  # a bin with fewer rows is uncertain and drawn hollow
_DIAGONAL = (0, (4, 2))  # dashes
_Z = float(ndtri(TAILS[1]))  # quantile of the standard normal distribution


@dataclass(frozen=True)
class Reliability:
    """Non-empty bins: mean predicted probability, observed frequency with 95 % Wilson interval, number of rows."""

    prob_pred: FloatArray
    prob_true: FloatArray
    low: FloatArray
    high: FloatArray
    count: FloatArray
    center: FloatArray  # centre of the bin
    width: float


def plot(evaluation: Evaluation, *, class_name: str | None = None, ax: Any = None) -> Any:
    """Plot the reliability of the most likely class, or of one class, and return the axes.

    Args:
        evaluation: result of `orcu.evaluate`.
        class_name: name of a class; the most likely class of each row by default.
        ax: matplotlib axes; a new pyplot figure by default.

    Raises:
        UnknownNameError: if the class is unknown.
    """
    table, xlabel = evaluation.sums.top, "confidence"
    if class_name is not None:
        if class_name not in evaluation.classes:
            raise UnknownNameError("class", class_name, evaluation.classes)
        table = evaluation.sums.classes[evaluation.classes.index(class_name)]
        xlabel = f"probability of {shorten(class_name, 16)}"
    diagram = data(table, rows=float(evaluation.rows) if evaluation.weighted else None)
    with axes_or_new(ax) as ax:
        draw(ax, diagram, xlabel=xlabel)
    return ax


def data(table: FloatArray, *, rows: float | None = None) -> Reliability:
    """The non-empty bins of a table (3, B) of summed weights, probabilities and outcomes.

    Args:
        table: sums of one reliability diagram.
        rows: number of rows if the weights do not sum to it.

    Example:
        >>> diagram = data(np.array([[0.0, 4.0], [0.0, 3.0], [0.0, 2.0]]))
        >>> diagram.prob_pred.tolist(), diagram.prob_true.tolist(), diagram.low.round(3).tolist()
        ([0.75], [0.5], [0.15])
    """
    weight, value, outcome = table
    bins = table.shape[1]
    filled = np.flatnonzero(weight > 0)
    weight, value, outcome = weight[filled], value[filled], outcome[filled]
    count = weight * (1 if rows is None else rows / weight.sum())
    rate = outcome / weight
    # Wilson's interval stays inside [0, 1] and is accurate for few rows.
    base = 1 + _Z**2 / count
    middle = (rate + _Z**2 / (2 * count)) / base
    half = _Z * np.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / base
    return Reliability(value / weight, rate, middle - half, middle + half, count, (filled + 0.5) / bins, 1 / bins)


def draw(ax: Any, diagram: Reliability, *, xlabel: str = "predicted probability") -> None:
    """Draw points with intervals, the diagonal, and the rows of each bin as bars below; sparse bins are hollow."""
    top = diagram.count.max()
    ax.bar(
        diagram.center,
        0.16 * diagram.count / top,
        width=0.9 * diagram.width,
        bottom=-0.22,
        color=ROLES["quiet"],
        linewidth=0,
    )
    ax.text(1.0, -0.045, f"rows per bin, at most {top:,.0f}", color=ROLES["muted"], fontsize=7, va="bottom", ha="right")
    ax.plot([0, 1], [0, 1], color=ROLES["muted"], linewidth=0.8, linestyle=(0, (4, 3)))
    ax.vlines(diagram.prob_pred, diagram.low, diagram.high, color=ROLES["accent"], linewidth=1.4, alpha=0.55)
    dense = diagram.count >= SPARSE
    ax.plot(
        diagram.prob_pred[dense],
        diagram.prob_true[dense],
        color=ROLES["accent"],
        linewidth=1.0,
        marker="o",
        markersize=4.5,
        markeredgewidth=0,
    )
    ax.plot(
        diagram.prob_pred[~dense],
        diagram.prob_true[~dense],
        linestyle="none",
        marker="o",
        markersize=4.5,
        markerfacecolor="none",
        markeredgecolor=ROLES["accent"],
        markeredgewidth=1.0,
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.22, 1.03), xlabel=xlabel, ylabel="observed frequency")
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])


def of_predictions(predictions: Predictions, *, n_bins: int = 15) -> tuple[Reliability, float]:
    """The reliability diagram of the predicted class and its ECE, both with bins (a, b].

    Example:
        >>> diagram, ece = of_predictions(Predictions(probs=[[0.8, 0.2], [0.9, 0.1]], y=[0, 1]))
        >>> diagram.prob_true.tolist(), round(ece, 3)
        ([1.0, 0.0], 0.55)
    """
    tally = Tally(predictions.num_classes, n_bins=n_bins)
    tally.add(Rows.from_predictions(predictions))
    return data(tally.sums().top, rows=len(predictions)), tally.compute()["ece"]


def draw_bars(ax: Any, diagram: Reliability, *, ece: float, box: str = "white") -> None:
    """Draw the paper's version: accuracy as bars, the gap to the mean confidence, the diagonal, and the ECE.

    Bars above the diagonal mean under-confidence, bars below it over-confidence. Bins with few rows are pale.

    Args:
        ax: matplotlib axes.
        diagram: bins of the diagram.
        ece: ECE as a fraction; printed above the panel.
        box: background colour of the ECE; "none" on pages with a dark mode.
    """
    low, high = np.minimum(diagram.prob_pred, diagram.prob_true), np.maximum(diagram.prob_pred, diagram.prob_true)
    sparse = diagram.count < SPARSE
    for rows, strength in ((~sparse, 1.0), (sparse, 0.35)):
        centers, bars = diagram.center[rows], {"width": 0.94 * diagram.width, "linewidth": 0}
        ax.bar(centers, low[rows], color=ROLES["accent"], alpha=0.75 * strength, **bars)
        ax.bar(centers, (high - low)[rows], bottom=low[rows], color=ROLES["alarm"], alpha=0.5 * strength, **bars)
        ax.hlines(
            diagram.prob_true[rows],
            centers - 0.47 * diagram.width,
            centers + 0.47 * diagram.width,
            color=ROLES["accent"],
            linewidth=1.4,
            alpha=max(strength, 0.5),
        )
    ax.plot([0, 1], [0, 1], color=ROLES["ink"], linewidth=0.8, linestyle=_DIAGONAL)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    size = ax.xaxis.get_ticklabels()[0].get_fontsize()
    ax.annotate(
        f"ECE {100 * ece:.1f} %",
        (0.5, 1.0),
        (0, 0.5 * size),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=size,
        annotation_clip=False,
        bbox={"facecolor": box, "edgecolor": "none", "pad": 0.0},
    )


def set_title(ax: Any, text: str) -> None:
    """Set a panel's title above its ECE."""
    size = ax.xaxis.get_ticklabels()[0].get_fontsize()
    ax.set_title(text, pad=2.0 * size)


def legend_handles() -> dict[str, Any]:
    """Legend handles by label, in the colours of bins with many rows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return {
        "accuracy": Line2D([], [], color=ROLES["accent"], linewidth=1.4),
        "gap": Patch(facecolor=ROLES["alarm"], alpha=0.5, linewidth=0),
        "perfect calibration": Line2D([], [], color=ROLES["ink"], linewidth=0.8, linestyle=_DIAGONAL),
    }


@FIGURES.register("reliability")
class ReliabilityGrid(Figure):
    """Reliability diagrams in the paper's style: a panel for each loss, rows of panels for each data set."""

    title = "Reliability diagrams of losses on data sets"
    paper = "Fig. 4, S2"
    needs = "test predictions"
    command = "orcu bench run SPEC"
    filters = ("data", "losses", "calibrator")

    def make(self, sources: Sources, *, width: str = PAGE, n_bins: int = 15) -> Any:
        """Draw the pooled test rows of all folds with ``n_bins`` bins of equal width."""
        check_at_least(1, n_bins=n_bins)
        datasets = sources.datasets()
        if not datasets:
            raise self.missing_input(sources)
        panels = {name: sources.losses(name) for name in datasets}
        most = 3 if width == COLUMN else 6
        columns = min(most, max(len(losses) for losses in panels.values()))
        lines = [
            (name, losses[start : start + columns], start)
            for name, losses in panels.items()
            for start in range(0, len(losses), columns)
        ]
        side = (2.9 if width == COLUMN else 6.5) / max(columns, 3)
        figure, axes = grid(width, len(lines), columns, height=side + 0.32, around=0.75, square=True)
        for row, (name, losses, start) in enumerate(lines):
            for column, ax in enumerate(axes[row]):
                if column >= len(losses):
                    ax.set_axis_off()
                    continue
                diagram, ece = of_predictions(sources.predictions(name, losses[column]), n_bins=n_bins)
                draw_bars(ax, diagram, ece=ece)
                set_title(ax, wrap_name(loss_title(losses[column]), int(side * 13)))
                last = row + 1 == len(lines)
                ax.tick_params(labelbottom=last, labelleft=column == 0)
                if column == 0:
                    prefix = f"{data_title(name)}\n" if start == 0 and name else ""
                    ax.set_ylabel(f"{prefix}accuracy")
                if last:
                    ax.set_xlabel("confidence")
        handles = legend_handles()
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3)
        add_note(
            figure,
            f"{n_bins} bins, {sources.rows_caption()}; gap: to the mean confidence of the bin; pale: fewer than "
            f"{SPARSE} rows",
        )
        return figure
