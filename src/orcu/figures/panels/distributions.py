"""Output distributions of two losses on the same rows, right and wrong ones, the label marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, at_least, grid, letter, note
from orcu.figures.sources import Sources, matched
from orcu.figures.style import (
    COLUMN,
    PAGE,
    ROLES,
    Look,
    class_axis,
    class_names,
    class_title,
    fitted,
    looks,
    loss_title,
    shortened,
)
from orcu.figures.typical import RULE, typical_rows
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.predictions.predictions import Predictions


@dataclass(frozen=True)
class Pair:
    """What two models say of one row: probabilities (2, C) and the label."""

    id: str
    label: int
    probs: FloatArray


def data(first: Predictions, second: Predictions, *, right: bool, count: int = 4) -> list[Pair]:
    """Rows that both models get right, or both get wrong, and what the two say of them.

    One row for each of at most ``count`` labels, spread evenly over the classes: of the rows of that
    label, the one at the median confidence of the second model.

    Args:
        first: a model.
        second: another on the same rows; matched by id where there are ids.
        right: rows that both get right, else rows that both get wrong.
        count: the most rows.

    Raises:
        InputError: if the models have other classes or rows.

    Example:
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
        >>> model = Predictions(probs=probs, y=[0, 1, 1], ids=["a", "b", "c"])
        >>> [pair.id for pair in data(model, model, right=True)]
        ['a', 'c']
    """
    one, two = matched([first, second])
    labels = two.labels
    hits = np.stack([Rows.of(part).pred == labels for part in (one, two)])
    among = np.flatnonzero((hits == right).all(axis=0))
    chosen = typical_rows(labels, Rows.of(two).confidence, among=among, count=count)
    names = range(len(two)) if two.ids is None else two.ids
    return [Pair(str(names[row]), int(labels[row]), np.stack([one.probs[row], two.probs[row]])) for row in chosen]


def draw(ax: Any, pair: Pair, names: Sequence[str], styles: Sequence[Look], classes: Sequence[str]) -> None:
    """A line with markers for each model; the lines only guide the eye. The label is dashed."""
    places = np.arange(pair.probs.shape[1])
    ax.axvline(pair.label, color=ROLES["muted"], linewidth=0.9, linestyle=(0, (3, 2)), zorder=0)
    for probs, name, look in zip(pair.probs, names, styles, strict=True):
        ax.plot(
            places,
            probs,
            color=look.color,
            marker=look.marker,
            markersize=3.2,
            linewidth=1.2,
            label=name,
            clip_on=False,
        )
    ax.set_ylim(-0.03, 1.03)
    class_axis(ax, class_names(classes))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


@FIGURES.register("distributions")
class DistributionsFigure(Figure):
    """A row of panels for rows that both losses get right, and one for rows that both get wrong."""

    title = "Output distributions of two losses on the same rows"
    paper = "Fig. 6, S4, S5"
    needs = "test predictions of two losses on the same rows"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE, count: int = 4) -> Any:
        """The two losses of --losses, else SORD and ORCU; at most ``count`` rows of each kind."""
        at_least(1, count=count)
        datasets = sources.datasets()
        losses = sources.losses(("sord", "orcu"), data=datasets[0]) if datasets else []
        if len(losses) == 1:  # the other of the two is not there
            losses = sources.losses(data=datasets[0])
        if len(losses) < 2:
            raise self.lacks(sources.missing() if not losses else f"there is only {losses[0]}")
        if len(losses) > 2 and sources.chose_losses:
            raise InputError(f"--losses: it compares two losses, and {', '.join(losses)} are {len(losses)}; name two.")
        names = losses[:2] if len(losses) == 2 else [losses[0], losses[-1]]
        first, second = (sources.predictions(datasets[0], name) for name in names)
        kinds = {kind: data(first, second, right=kind == "right", count=count) for kind in ("right", "wrong")}
        columns = max(len(pairs) for pairs in kinds.values())
        if columns == 0:
            raise InputError(f"{' and '.join(names)} are never both right or both wrong.")
        figure, axes = grid(width, 2, columns, height=1.25, around=0.75)
        styles = list(looks(names).values())
        titles = [shortened(loss_title(name), 22) for name in names]
        for row, (kind, pairs) in enumerate(kinds.items()):
            for column, ax in enumerate(axes[row]):
                if column >= len(pairs):
                    ax.set_axis_off()
                    continue
                draw(ax, pairs[column], titles, styles, first.classes)
                ax.tick_params(labelleft=column == 0)
                name = class_title(first.classes, pairs[column].label)
                ax.set_title(
                    fitted(name, 40 // columns) if width == COLUMN else fitted(f"label {name}", 84 // max(columns, 3))
                )
                if column == 0:
                    ax.set_ylabel(f"{letter(row, f'both {kind}')}\nprobability")
                if row == 1:
                    ax.set_xlabel("class")
        shown = axes[0] if kinds["right"] else axes[1]
        handles, labels = shown[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
        where = f"{sources.data_caption(datasets[0])}; " if datasets[0] else ""
        note(
            figure,
            f"{where}{sources.rows_caption(datasets[0])} that both get right (wrong); {RULE}, by {titles[1]}; "
            f"dashed: label",
        )
        return figure
