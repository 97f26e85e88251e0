"""Two-stage diagnostic: gradients and calibration of each regularizer after the classes are ordered."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from orcu.figures import bands
from orcu.figures.bands import Band
from orcu.figures.base import FIGURES, Figure, add_note, grid, panel_title
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, PAGE, loss_styles
from orcu.figures.titles import data_title, loss_title

# column -> title, factor
PANELS = {
    "interior_slope": ("Interior |ℓ′|", 1.0),
    "zero_gradients": ("Zero gradients (%)", 100.0),
    "validation_sce": ("Validation SCE (%)", 100.0),
    "feasible_sce": ("SCE on F (%)", 100.0),
}


_BRANCHES = {"sord": "SoftCE", "hinge": "SoftCE + hinge"}  # what the branches minimise


def data(records: Sequence[dict[str, Any]], column: str) -> dict[str, Band]:
    """A column of the records over the epochs of stage two by branch; branches without values are left out.

    Example:
        >>> record = {"branch": "orcu", "fold": 0, "epoch": 0.0, "zero_gradients": 0.25}
        >>> data([record], "zero_gradients")["orcu"].mean.tolist()
        [25.0]
    """
    factor, lines = PANELS[column][1], {}
    for branch in dict.fromkeys(record["branch"] for record in records):
        folds = []
        for fold in dict.fromkeys(record["fold"] for record in records):
            rows = [r for r in records if r["branch"] == branch and r["fold"] == fold]
            values = np.array([row[column] for row in rows], dtype=np.float64)
            if np.isfinite(values).any():
                folds.append((np.array([row["epoch"] + 1 for row in rows]), factor * values))
        if folds:
            lines[branch] = bands.data(folds)
    return lines


def draw(ax: Any, lines: dict[str, Band]) -> None:
    """Draw a line for each branch."""
    from matplotlib.ticker import MaxNLocator

    for branch, style in loss_styles(list(lines)).items():
        bands.draw(ax, lines[branch], style, label=_BRANCHES.get(branch) or loss_title(branch))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))


@FIGURES.register("two_stage")
class TwoStageFigure(Figure):
    """Interior derivative and zero gradients on training rows, SCE on validation rows and on the set F."""

    title = "Two-stage diagnostic: regularizers after the classes are ordered"
    paper = "Fig. 3"
    needs = "two-stage runs"
    filters = ("data",)
    command = "orcu two-stage --data DATA -o DIR"

    def make(self, sources: Sources, *, width: str = PAGE) -> Any:
        """Draw a row of four panels for each data set."""
        by_data = sources.two_stage()
        if not by_data:
            raise self.missing_input(sources)
        columns = 2 if width == COLUMN else 4
        lines = len(PANELS) // columns
        figure, axes = grid(width, lines * len(by_data), columns, height=1.5, around=0.6)
        for row, (name, records) in enumerate(by_data.items()):
            panels = [ax for line in axes[row * lines : (row + 1) * lines] for ax in line]
            for position, (ax, (column, (text, _))) in enumerate(zip(panels, PANELS.items(), strict=True)):
                draw(ax, data(records, column))
                ax.set_title(panel_title(row * len(PANELS) + position, text))
                if column == "zero_gradients":
                    ax.set_ylim(-3, 103)
                if position % columns == 0:
                    ax.set_ylabel(data_title(name))
                if position + columns >= len(PANELS):
                    ax.set_xlabel("epoch of stage two")
        handles, labels = axes[-1][-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        add_note(
            figure,
            "(a, b): training rows, without SoftCE, which has no regularizer; F: validation rows that are ordered "
            "after stage one; ℓ′: derivative of the penalty; mean over folds; band: one standard deviation",
        )
        return figure
