"""Predicted distributions of two losses on the same rows, correct and wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, add_note, check_at_least, grid, panel_title
from orcu.figures.sources import Sources, match_rows
from orcu.figures.style import (
    COLUMN,
    PAGE,
    ROLES,
    LineStyle,
    class_axis,
    class_title,
    loss_styles,
    shorten,
    tick_names,
    wrap_name,
)
from orcu.figures.titles import data_title, loss_title
from orcu.figures.typical import RULE, typical_rows
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.predictions import Predictions

SHOWN = ("sord", "orcu")  # the paper's choice


@dataclass(frozen=True)
class Pair:
    """Predictions of two models for one row: probabilities (2, C), and the label."""

    id: str
    label: int
    probs: FloatArray


def data(first: Predictions, second: Predictions, *, correct: bool, n_examples: int = 4) -> list[Pair]:
    """Predictions of two models for example rows that both predict correctly, or both wrongly.

    One row is selected for each of at most ``n_examples`` labels, evenly spaced: the row of that label at the median
    confidence of the second model.

    Args:
        first: predictions of the first model.
        second: predictions of the second model on the same rows, matched by id if there are ids.
        correct: select rows that both predict correctly, else rows that both predict wrongly.
        n_examples: largest number of rows.

    Raises:
        InputError: if the models have different classes or rows.

    Example:
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
        >>> model = Predictions(probs=probs, y=[0, 1, 1], ids=["a", "b", "c"])
        >>> [pair.id for pair in data(model, model, correct=True)]
        ['a', 'c']
    """
    first, second = (model.with_median_labels() for model in match_rows([first, second]))
    labels = second.labels
    hits = np.stack([Rows.from_predictions(model).pred == labels for model in (first, second)])
    among = np.flatnonzero((hits == correct).all(axis=0))
    rows = typical_rows(labels, Rows.from_predictions(second).confidence, among=among, count=n_examples)
    ids = range(len(second)) if second.ids is None else second.ids
    return [Pair(str(ids[row]), int(labels[row]), np.stack([first.probs[row], second.probs[row]])) for row in rows]


def draw(ax: Any, pair: Pair, names: Sequence[str], styles: Sequence[LineStyle], classes: Sequence[str]) -> None:
    """Draw a line with markers for each model, and a dashed line at the label."""
    positions = np.arange(pair.probs.shape[1])
    ax.axvline(pair.label, color=ROLES["muted"], linewidth=0.9, linestyle=(0, (3, 2)), zorder=0)
    for probs, name, style in zip(pair.probs, names, styles, strict=True):
        ax.plot(
            positions,
            probs,
            color=style.color,
            marker=style.marker,
            markersize=3.2,
            linewidth=1.2,
            label=name,
            clip_on=False,
        )
    ax.set_ylim(-0.03, 1.03)
    class_axis(ax, tick_names(classes))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


@FIGURES.register("distributions")
class DistributionsFigure(Figure):
    """A row of panels for rows that both losses predict correctly, and one for rows that both predict wrongly."""

    title = "Predicted distributions of two losses on the same rows"
    paper = "Fig. 6, S4, S5"
    needs = "test predictions of two losses on the same rows"
    command = "orcu bench run SPEC"
    filters = ("data", "losses", "calibrator")

    def make(self, sources: Sources, *, width: str = PAGE, n_examples: int = 4) -> Any:
        """Draw two losses on at most ``n_examples`` rows of each kind, by default SORD and ORCU as in the paper."""
        check_at_least(1, n_examples=n_examples)
        datasets = sources.datasets()
        losses = sources.losses(datasets[0]) if datasets else []
        if len(losses) < 2:
            raise self.missing_input(sources, f"there is only {losses[0]}" if losses else "")
        if len(losses) > 2 and sources.has_loss_filter:
            raise InputError(f"--losses: expected two losses to compare, got {len(losses)} ({', '.join(losses)}).")
        names = losses
        if len(losses) > 2:
            names = list(SHOWN) if set(SHOWN) <= set(losses) else [losses[0], losses[-1]]
        sources.note_selection("distributions", names, losses, "losses")
        sources.note_selection("distributions", datasets[:1], datasets, "data")
        first, second = (sources.predictions(datasets[0], name) for name in names)
        kinds = {
            kind: data(first, second, correct=kind == "correct", n_examples=n_examples) for kind in ("correct", "wrong")
        }
        columns = max(len(pairs) for pairs in kinds.values())
        if columns == 0:
            raise InputError(f"no row is predicted correctly, or wrongly, by both {' and '.join(names)}.")
        figure, axes = grid(width, 2, columns, height=1.25, around=0.75)
        styles = list(loss_styles(names).values())
        titles = [shorten(loss_title(name), 22) for name in names]
        for row, (kind, pairs) in enumerate(kinds.items()):
            for column, ax in enumerate(axes[row]):
                if column >= len(pairs):
                    ax.set_axis_off()
                    continue
                draw(ax, pairs[column], titles, styles, first.classes)
                ax.tick_params(labelleft=column == 0)
                name = class_title(first.classes, pairs[column].label)
                ax.set_title(
                    wrap_name(name, 40 // columns)
                    if width == COLUMN
                    else wrap_name(f"label {name}", 84 // max(columns, 3))
                )
                if column == 0:
                    ax.set_ylabel(f"{panel_title(row, f'both {kind}')}\nprobability")
                if row == 1:
                    ax.set_xlabel("class")
        first_row = axes[0] if kinds["correct"] else axes[1]
        handles, labels = first_row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
        where = f"{data_title(datasets[0])}; " if datasets[0] else ""
        add_note(
            figure,
            f"{where}{sources.rows_caption(datasets[0])} that both predict correctly (wrongly); {RULE} "
            f"of {titles[1]}; dashed: label",
        )
        return figure
