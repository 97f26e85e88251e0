"""Reliability diagram: how often it came true against what was said, bin by bin.

Drawn in two ways from the same data: points with intervals, for one model that is looked at closely,
and the paper's bars, for a grid of losses and data sets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from orcu.errors import UnknownNameError
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.intervals import TAILS
from orcu.evaluation.tally import Tally
from orcu.figures.base import FIGURES, Figure, at_least, axes, grid, note
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, PAGE, ROLES, data_title, fitted, loss_title, shortened
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.predictions.predictions import Predictions

SPARSE = 30  # a bin of fewer rows says little and is drawn hollow
_EXPECTED = (0, (4, 2))  # dashes
_Z = float(ndtri(TAILS[1]))  # of the standard normal distribution


@dataclass(frozen=True)
class Reliability:
    """Per filled bin: mean probability, observed rate, its 95 % Wilson interval, number of rows."""

    said: FloatArray
    seen: FloatArray
    low: FloatArray
    high: FloatArray
    count: FloatArray
    center: FloatArray  # of the bin on the axis
    width: float


def plot(evaluation: Evaluation, *, of: str | None = None, ax: Any = None) -> Any:
    """The reliability of the most likely class, or of one class; gives the axes back, to be changed.

    Args:
        evaluation: what `orcu.evaluate` gave.
        of: the name of a class; without, the most likely class of each row.
        ax: matplotlib axes to draw on; without, new ones of pyplot.

    Raises:
        UnknownNameError: if there is no such class.
    """
    table, said = evaluation.tables.top, "confidence"
    if of is not None:
        if of not in evaluation.classes:
            raise UnknownNameError("class", of, evaluation.classes)
        table, said = evaluation.tables.classes[evaluation.classes.index(of)], f"probability of {shortened(of, 16)}"
    diagram = data(table, rows=float(evaluation.rows) if evaluation.weighted else None)
    with axes(ax) as ax:
        draw(ax, diagram, xlabel=said)
    return ax


def data(table: FloatArray, *, rows: float | None = None) -> Reliability:
    """From a binned table (3, B) of weight, value, outcome.

    Args:
        table: the sums of one reliability diagram.
        rows: the number of rows, if the weights do not count them.

    Example:
        >>> diagram = data(np.array([[0.0, 4.0], [0.0, 3.0], [0.0, 2.0]]))
        >>> diagram.said.tolist(), diagram.seen.tolist(), diagram.low.round(3).tolist()
        ([0.75], [0.5], [0.15])
    """
    weight, value, outcome = table
    bins = table.shape[1]
    filled = np.flatnonzero(weight > 0)
    weight, value, outcome = weight[filled], value[filled], outcome[filled]
    count = weight * (1 if rows is None else rows / weight.sum())
    rate = outcome / weight
    # Wilson's interval stays inside [0, 1] and is honest for few rows.
    base = 1 + _Z**2 / count
    middle = (rate + _Z**2 / (2 * count)) / base
    half = _Z * np.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / base
    return Reliability(value / weight, rate, middle - half, middle + half, count, (filled + 0.5) / bins, 1 / bins)


def draw(ax: Any, diagram: Reliability, *, xlabel: str = "said") -> None:
    """Points with intervals against the diagonal, rows per bin as bars below, sparse bins hollow."""
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
    ax.vlines(diagram.said, diagram.low, diagram.high, color=ROLES["accent"], linewidth=1.4, alpha=0.55)
    dense = diagram.count >= SPARSE
    ax.plot(
        diagram.said[dense],
        diagram.seen[dense],
        color=ROLES["accent"],
        linewidth=1.0,
        marker="o",
        markersize=4.5,
        markeredgewidth=0,
    )
    ax.plot(
        diagram.said[~dense],
        diagram.seen[~dense],
        linestyle="none",
        marker="o",
        markersize=4.5,
        markerfacecolor="none",
        markeredgecolor=ROLES["accent"],
        markeredgewidth=1.0,
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.22, 1.03), xlabel=xlabel, ylabel="came true")
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])


def of_predictions(predictions: Predictions, *, bins: int = 15) -> tuple[Reliability, float]:
    """The reliability of the top label and its ECE, both over bins (a, b].

    Example:
        >>> diagram, ece = of_predictions(Predictions(probs=[[0.8, 0.2], [0.9, 0.1]], y=[0, 1]))
        >>> diagram.seen.tolist(), round(ece, 3)
        ([1.0, 0.0], 0.55)
    """
    tally = Tally(predictions.num_classes, bins=bins)
    tally.add(Rows.of(predictions))
    return data(tally.tables().top, rows=len(predictions)), tally.compute()["ece"]


def draw_bars(ax: Any, diagram: Reliability, *, ece: float, box: str = "white") -> None:
    """The paper's form: accuracy as bars, the gap to the mean confidence, the expected line, the ECE.

    Bars above the line mean too little confidence, below it too much. Bins of few rows are pale.

    Args:
        ax: to draw on.
        diagram: the bins.
        ece: a fraction, written above the panel, where it hides nothing.
        box: the colour behind it; "none" on a page whose background may be dark.
    """
    low, high = np.minimum(diagram.said, diagram.seen), np.maximum(diagram.said, diagram.seen)
    sparse = diagram.count < SPARSE
    for rows, strength in ((~sparse, 1.0), (sparse, 0.35)):
        places, bars = diagram.center[rows], {"width": 0.94 * diagram.width, "linewidth": 0}
        ax.bar(places, low[rows], color=ROLES["accent"], alpha=0.75 * strength, **bars)
        ax.bar(places, (high - low)[rows], bottom=low[rows], color=ROLES["alarm"], alpha=0.5 * strength, **bars)
        ax.hlines(
            diagram.seen[rows],
            places - 0.47 * diagram.width,
            places + 0.47 * diagram.width,
            color=ROLES["accent"],
            linewidth=1.4,
            alpha=max(strength, 0.5),
        )
    ax.plot([0, 1], [0, 1], color=ROLES["ink"], linewidth=0.8, linestyle=_EXPECTED)
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


def title(ax: Any, text: str) -> None:
    """A panel's title above its ECE."""
    size = ax.xaxis.get_ticklabels()[0].get_fontsize()
    ax.set_title(text, pad=2.0 * size)


def keys() -> dict[str, Any]:
    """What a legend shows, by name: the colours of bins with many rows, whether or not there are any."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return {
        "accuracy": Line2D([], [], color=ROLES["accent"], linewidth=1.4),
        "gap": Patch(facecolor=ROLES["alarm"], alpha=0.5, linewidth=0),
        "expected": Line2D([], [], color=ROLES["ink"], linewidth=0.8, linestyle=_EXPECTED),
    }


@FIGURES.register("reliability")
class ReliabilityGrid(Figure):
    """Reliability diagrams in the paper's form, a panel for each loss, rows of panels for each data set."""

    title = "Reliability diagrams of losses on data sets"
    paper = "Fig. 4, S2"
    needs = "test predictions"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE, bins: int = 15) -> Any:
        """Test rows of all folds together; ``bins`` of equal width."""
        at_least(1, bins=bins)
        datasets = sources.datasets()
        if not datasets:
            raise self.lacks(sources.missing())
        panels = {name: sources.losses(data=name) for name in datasets}
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
                diagram, ece = of_predictions(sources.predictions(name, losses[column]), bins=bins)
                draw_bars(ax, diagram, ece=ece)
                title(ax, fitted(loss_title(losses[column]), int(side * 13)))
                last = row + 1 == len(lines)
                ax.tick_params(labelbottom=last, labelleft=column == 0)
                if column == 0:
                    prefix = f"{data_title(name)}\n" if start == 0 and name else ""
                    ax.set_ylabel(f"{prefix}accuracy")
                if last:
                    ax.set_xlabel("confidence")
        figure.legend(keys().values(), keys().keys(), loc="outside upper center", ncols=3)
        note(
            figure,
            f"{bins} bins, {sources.rows_caption()}; gap: to the bin's mean confidence; pale: fewer than {SPARSE} rows",
        )
        return figure
