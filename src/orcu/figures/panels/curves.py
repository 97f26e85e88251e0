"""Validation curves: how calibration and agreement develop over the epochs, loss by loss."""

from collections.abc import Sequence
from typing import Any

from orcu.figures import bands
from orcu.figures.bands import Band
from orcu.figures.base import FIGURES, Figure, grid, letter, note
from orcu.figures.sources import RunFiles, Sources
from orcu.figures.style import COLUMN, PAGE, data_title, looks, loss_title, shortened

METRICS = {"ece": "ECE (%)", "sce": "SCE (%)", "ace": "ACE (%)", "qwk": "QWK (%)"}


def data(runs: Sequence[RunFiles]) -> dict[str, Band]:
    """The validation metrics of a loss's runs, means over folds, in percent, over epochs from 1."""
    folds = [run.curves() for run in runs if run.has("curves.parquet")]
    return {
        metric: bands.data([(one["epoch"] + 1, 100 * one[f"validation_{metric}"]) for one in folds])
        for metric in METRICS
    }


def draw(ax: Any, lines: dict[str, Band]) -> None:
    """A line for each loss."""
    from matplotlib.ticker import MaxNLocator

    for loss, look in looks(list(lines)).items():
        bands.draw(ax, lines[loss], look, label=shortened(loss_title(loss), 20))
    ax.set_xlim(1, max(float(band.x[-1]) for band in lines.values()))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))


@FIGURES.register("curves")
class CurvesFigure(Figure):
    """ECE, SCE, ACE and QWK of the validation rows over the epochs; a row of panels for each data set."""

    title = "Validation curves of ECE, SCE, ACE and QWK"
    paper = "S7"
    needs = "the curves of runs"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE) -> Any:
        """Every loss that has runs; the band is a standard deviation over folds."""
        datasets = [n for n in sources.datasets() if _has_curves(sources, n)]
        if not datasets:
            raise self.lacks(sources.missing())
        columns = 2 if width == COLUMN else 4
        lines = len(METRICS) // columns
        figure, axes = grid(width, lines * len(datasets), columns, height=1.5, around=0.75)
        for row, name in enumerate(datasets):
            by_loss = {
                loss: data(sources.runs(name, loss))
                for loss in sources.losses(data=name)
                if any(run.has("curves.parquet") for run in sources.runs(name, loss))
            }
            panels = [ax for line in axes[row * lines : (row + 1) * lines] for ax in line]
            for place, (ax, (metric, text)) in enumerate(zip(panels, METRICS.items(), strict=True)):
                draw(ax, {loss: by_metric[metric] for loss, by_metric in by_loss.items()})
                ax.set_title(letter(row * len(METRICS) + place, text))
                if place % columns == 0:
                    ax.set_ylabel(data_title(name) if name else "validation rows")
                if row + 1 == len(datasets) and place + columns >= len(METRICS):
                    ax.set_xlabel("epoch")
        known: dict[str, Any] = {}
        for ax in figure.axes:
            handles, labels = ax.get_legend_handles_labels()
            known |= dict(zip(labels, handles, strict=True))
        figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=3 if width == COLUMN else 6)
        note(figure, "validation rows; mean over folds, band: one standard deviation")
        return figure


def _has_curves(sources: Sources, name: str) -> bool:
    return any(run.has("curves.parquet") for run in sources.runs(name))
