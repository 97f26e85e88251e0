"""Validation curves of calibration errors and QWK over the epochs, for several losses."""

from collections.abc import Sequence
from typing import Any

from orcu.figures import bands
from orcu.figures.bands import Band
from orcu.figures.base import FIGURES, Figure, add_note, grid, panel_title, shared_legend
from orcu.figures.sources import RunFiles, Sources
from orcu.figures.style import COLUMN, PAGE, loss_styles, shorten
from orcu.figures.titles import data_title, loss_title

METRICS = {"ece": "ECE (%)", "sce": "SCE (%)", "ace": "ACE (%)", "qwk": "QWK (%)"}


def data(runs: Sequence[RunFiles]) -> dict[str, Band]:
    """Validation metrics of a loss in percent, mean over folds, by epoch from 1."""
    folds = [run.curves() for run in runs]
    return {
        metric: bands.data([(fold["epoch"] + 1, 100 * fold[f"validation_{metric}"]) for fold in folds])
        for metric in METRICS
    }


def draw(ax: Any, lines: dict[str, Band]) -> None:
    """Draw a line for each loss."""
    from matplotlib.ticker import MaxNLocator

    for loss, style in loss_styles(list(lines)).items():
        bands.draw(ax, lines[loss], style, label=shorten(loss_title(loss), 20))
    ax.set_xlim(1, max(float(band.x[-1]) for band in lines.values()))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))


@FIGURES.register("curves")
class CurvesFigure(Figure):
    """ECE, SCE, ACE and QWK on validation rows over the epochs; a row of panels for each data set."""

    title = "Validation curves of ECE, SCE, ACE and QWK"
    paper = "S7"
    needs = "training curves of runs"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE) -> Any:
        """Draw every loss with runs; the band is one standard deviation over folds."""
        datasets = [name for name in sources.datasets() if _with_curves(sources.runs(name))]
        if not datasets:
            raise self.missing_input(sources)
        columns = 2 if width == COLUMN else 4
        lines = len(METRICS) // columns
        figure, axes = grid(width, lines * len(datasets), columns, height=1.5, around=0.75)
        for row, name in enumerate(datasets):
            runs = {loss: _with_curves(sources.runs(name, loss)) for loss in sources.losses(name)}
            by_loss = {loss: data(with_curves) for loss, with_curves in runs.items() if with_curves}
            panels = [ax for line in axes[row * lines : (row + 1) * lines] for ax in line]
            for position, (ax, (metric, text)) in enumerate(zip(panels, METRICS.items(), strict=True)):
                draw(ax, {loss: by_metric[metric] for loss, by_metric in by_loss.items()})
                ax.set_title(panel_title(row * len(METRICS) + position, text))
                if position % columns == 0:
                    ax.set_ylabel(data_title(name) if name else "validation rows")
                if row + 1 == len(datasets) and position + columns >= len(METRICS):
                    ax.set_xlabel("epoch")
        shared_legend(figure, ncols=3 if width == COLUMN else 6)
        add_note(figure, "validation rows; mean over folds; band: one standard deviation")
        return figure


def _with_curves(runs: Sequence[RunFiles]) -> list[RunFiles]:
    return [run for run in runs if run.has("curves.parquet")]
