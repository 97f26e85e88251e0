"""Calibration errors on validation rows as a function of the barrier scale s."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.figures import bands
from orcu.figures.bands import Band
from orcu.figures.base import FIGURES, Figure, add_note, grid, panel_title
from orcu.figures.sources import RunFiles, Sources
from orcu.figures.style import COLUMN, LOSS_STYLES, PAGE, ROLES
from orcu.figures.titles import data_title, metric_title
from orcu.metrics.base import METRICS

_METRICS = {"sce": ("SCE", "orcu"), "ace": ("ACE", "sord"), "ece": ("ECE", "flsd")}


@dataclass(frozen=True)
class ScaleCurves:
    """Validation errors in percent over s by metric, the s that is selected, and the metric that selects it."""

    metrics: dict[str, Band]
    best_scale: float
    select: str


DEFAULT_SCALE = 3.0  # of ORCULoss, as in the paper


def scale_of(run: RunFiles) -> float | None:
    """The scale s of a run in a sweep over s, or ``None``; a default ORCU loss counts if its label starts with "s =".

    Example:
        >>> from pathlib import Path
        >>> scale_of(RunFiles(Path(), "lev", "s = 5", loss_spec={"name": "orcu", "scale": 5.0}))
        5.0
        >>> scale_of(RunFiles(Path(), "lev", "s = 3", loss_spec="orcu"))
        3.0
    """
    spec = run.loss_spec
    if spec == "orcu" and run.loss.startswith("s ="):
        return DEFAULT_SCALE
    return float(spec["scale"]) if isinstance(spec, Mapping) and "scale" in spec else None


def data(runs: list[RunFiles]) -> ScaleCurves:
    """Validation errors of runs with different s, mean over folds.

    The selected s has the best mean of the metric that the spec names for the data set (``select``), by default SCE.

    Example:
        >>> from pathlib import Path
        >>> runs = [
        ...     RunFiles(Path(), "lev", "", loss_spec={"scale": s}, validation={"sce": e, "ace": e, "ece": e})
        ...     for s, e in ((1.0, 0.2), (3.0, 0.1))
        ... ]
        >>> curves = data(runs)
        >>> curves.best_scale, curves.metrics["sce"].mean.tolist()
        (3.0, [20.0, 10.0])
    """
    lines = {}
    for metric in _METRICS:
        points = [(scale_of(run), 100 * run.validation[metric]) for run in runs]
        lines[metric] = bands.data([(np.array([s]), np.array([error])) for s, error in points if s is not None])
    select = runs[0].select or "sce"
    means = {
        s: np.mean([run.validation[select] for run in runs if scale_of(run) == s]) for s in lines["sce"].x.tolist()
    }
    cost = METRICS.get(select).cost
    return ScaleCurves(lines, min(means, key=lambda s: float(cost(means[s]))), select)


def draw(ax: Any, curves: ScaleCurves) -> None:
    """Draw a line for each error over s, and mark the selected s."""
    for metric, (name, style) in _METRICS.items():
        bands.draw(ax, curves.metrics[metric], LOSS_STYLES[style], label=name, markers=True)
    ax.axvline(curves.best_scale, color=ROLES["muted"], linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    scales = curves.metrics["sce"].x
    ax.set_xscale("log")
    ax.set_xticks(scales, [f"{s:g}" for s in scales])
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.set_xlabel("scale s")


@FIGURES.register("scale")
class ScaleFigure(Figure):
    """SCE, ACE and ECE over s, a panel for each data set; the s that its criterion selects on validation rows."""

    title = "Effect of the barrier scale s"
    paper = "S1"
    needs = "runs with different scales"
    command = "orcu bench run scale"

    def make(self, sources: Sources, *, width: str = PAGE) -> Any:
        """Draw the runs that have a scale."""
        panels = {}
        for name in sources.datasets():
            runs = [run for run in sources.runs(name) if scale_of(run) is not None and run.validation]
            if len({scale_of(run) for run in runs}) > 1:
                panels[name] = data(runs)
        if not panels:
            raise self.missing_input(sources)
        columns = min(len(panels), 2 if width == COLUMN else 4)
        rows = -(-len(panels) // columns)
        figure, axes = grid(width, rows, columns, height=1.7, around=0.55)
        flat = [ax for row in axes for ax in row]
        for position, (name, curves) in enumerate(panels.items()):
            ax = flat[position]
            draw(ax, curves)
            ax.set_title(panel_title(position, data_title(name)))
            if position % columns == 0:
                ax.set_ylabel("validation error (%)")
        for ax in flat[len(panels) :]:
            figure.delaxes(ax)
        handles, labels = flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        add_note(figure, f"mean over folds; band: one standard deviation; dashed: {_criteria(panels)}")
        return figure


def _criteria(panels: Mapping[str, ScaleCurves]) -> str:
    """Which s is marked, by data set if they have different criteria."""
    by_metric: dict[str, list[str]] = {}
    for name, curves in panels.items():
        by_metric.setdefault(curves.select, []).append(data_title(name))
    texts = [
        f"{'highest' if METRICS.get(metric).better == 'higher' else 'lowest'} {metric_title(metric)}"
        + (f" ({', '.join(names)})" if len(by_metric) > 1 else "")
        for metric, names in by_metric.items()
    ]
    return f"selected s, {' or '.join(texts)}"
