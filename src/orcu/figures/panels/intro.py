"""Four models: neither unimodal nor calibrated, one of the two, both; from real predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import metrics
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, at_least, grid, letter, note
from orcu.figures.panels import reliability
from orcu.figures.sources import Sources, matched
from orcu.figures.style import (
    COLUMN,
    GREEN,
    LOOKS,
    PAGE,
    class_axis,
    class_names,
    class_title,
    fitted,
    loss_title,
    shortened,
)
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.rows import Rows
from orcu.predictions.predictions import Predictions

# (unimodal, calibrated) -> what the paper calls it
KINDS = {
    (False, False): "neither",
    (True, False): "unimodal only",
    (False, True): "calibrated only",
    (True, True): "both",
}


@dataclass(frozen=True)
class Placed:
    """A model with its share of unimodal rows and its ECE."""

    name: str
    unimodality: float
    ece: float


def data(models: dict[str, Predictions], *, unimodal: float = 0.9, calibrated: float = 0.1) -> dict[str, Placed | None]:
    """The model of each kind, by its measured unimodality and ECE; a kind may have none.

    Of several models of a kind the clearest is shown: the one whose two distances from the limits,
    each relative to its limit, add up to most.

    Args:
        models: predictions by name.
        unimodal: the share of unimodal rows from which a model counts as unimodal.
        calibrated: the ECE up to which it counts as calibrated.

    Raises:
        InputError: if a limit is not above 0 and up to 1.

    Example:
        >>> y = [0, 1, 2] * 4
        >>> sharp = Predictions(probs=[[0.98, 0.01, 0.01]] * 12, y=y)
        >>> level = Predictions(probs=[[0.34, 0.32, 0.34]] * 12, y=y)
        >>> {kind: one and one.name for kind, one in data({"sharp": sharp, "level": level}).items()}
        {'neither': None, 'unimodal only': 'sharp', 'calibrated only': 'level', 'both': None}
    """
    for option, limit in (("unimodal", unimodal), ("calibrated", calibrated)):
        if not 0 < limit <= 1:
            raise InputError(f"{option}: expected a share above 0 and up to 1, such as 0.9 for 90 %, got {limit:g}.")
    kinds: dict[str, Placed | None] = dict.fromkeys(KINDS.values())
    clearest = dict.fromkeys(KINDS.values(), -1.0)
    for name, one in models.items():
        placed = Placed(name, metrics.unimodality(one.probs), metrics.ece(one.probs, one.labels))
        kind = KINDS[placed.unimodality >= unimodal, placed.ece <= calibrated]
        clear = abs(placed.unimodality / unimodal - 1) + abs(placed.ece / calibrated - 1)
        if clear > clearest[kind]:
            kinds[kind], clearest[kind] = placed, clear
    return kinds


def rows_shown(models: list[Predictions], *, count: int = 3) -> IntArray:
    """Rows of the lowest and of the highest label, at even quantiles of the mean confidence, (2, count).

    Example:
        >>> one = Predictions(probs=[[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], y=[0, 0, 1])
        >>> rows_shown([one], count=1).tolist()
        [[1], [2]]
    """
    labels = models[0].labels
    confidence = np.mean([Rows.of(one).confidence for one in models], axis=0)
    rows = []
    for label in (labels.min(), labels.max()):
        mine = np.flatnonzero(labels == label)
        order = mine[np.argsort(confidence[mine], kind="stable")]
        places = (np.arange(count) + 0.5) / count * len(mine) - 0.5
        rows.append(order[np.clip(np.floor(places).astype(np.intp), 0, len(mine) - 1)])
    return np.stack(rows)


def draw(ax: Any, probs: FloatArray, labels: IntArray, names: tuple[str, str], classes: Sequence[str]) -> None:
    """Distributions (2, count, C) of rows of the lowest and the highest label; lines guide the eye."""
    places = np.arange(probs.shape[2])
    looks = ((GREEN, "o"), (LOOKS["sord"].color, "^"))
    for rows, label, name, (color, marker) in zip(probs, labels, names, looks, strict=True):
        ax.axvline(label, color=color, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
        for number, row in enumerate(rows):
            ax.plot(
                places,
                row,
                color=color,
                marker=marker,
                markersize=2.8,
                linewidth=1.0,
                alpha=0.85,
                label=name if number == 0 else None,
                clip_on=False,
            )
    ax.set(ylim=(-0.03, 1.03), xlabel="class")
    class_axis(ax, class_names(classes))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


@FIGURES.register("intro")
class IntroFigure(Figure):
    """Four columns, one for each kind of model: output distributions above, reliability below."""

    title = "Neither, unimodal only, calibrated only, both: four real models"
    paper = "Fig. 1"
    needs = "test predictions of several models on the same rows"
    command = "orcu bench run SPEC"

    def make(
        self, sources: Sources, *, width: str = PAGE, count: int = 3, unimodal: float = 0.9, calibrated: float = 0.1
    ) -> Any:
        """The first data set, or that of --data; ``count`` rows of the lowest and highest label."""
        at_least(1, count=count)
        datasets = sources.datasets()
        losses = sources.losses(data=datasets[0]) if datasets else []
        if len(losses) < 2:
            raise self.lacks(sources.missing() if not losses else f"there is only {losses[0]}")
        parts = matched([sources.predictions(datasets[0], name) for name in losses])
        models = dict(zip(losses, parts, strict=True))
        kinds = data(models, unimodal=unimodal, calibrated=calibrated)
        shown = [models[one.name] for one in kinds.values() if one is not None]
        rows = rows_shown(shown, count=count)
        labels, classes = shown[0].labels[rows[:, 0]], shown[0].classes
        names = tuple(f"label {shortened(class_title(classes, k), 26)}" for k in labels)
        if width == COLUMN:  # a row for each kind
            figure, axes = grid(width, len(KINDS), 2, height=1.5, around=0.7)
            columns = axes
        else:
            figure, axes = grid(width, 2, len(KINDS), height=1.55, around=0.75)
            columns = [list(line) for line in zip(*axes, strict=True)]
        for place, ((kind, one), (top, bottom)) in enumerate(zip(kinds.items(), columns, strict=True)):
            if one is None:
                top.set_title(letter(place, kind))
                top.text(
                    0.5, 0.5, "no such model\namong those given", transform=top.transAxes, ha="center", va="center"
                )
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            mine = models[one.name]
            draw(top, mine.probs[rows], labels, (names[0], names[1]), classes)
            top.set_title(letter(place, kind))
            drawn, ece = reliability.of_predictions(mine)
            reliability.draw_bars(bottom, drawn, ece=ece)
            bottom.set(aspect="auto", xlabel="confidence")
            measured = f"{100 * one.unimodality:.0f} % unimodal"
            name = fitted(loss_title(one.name), 22)
            line = f"{name}: {measured}"
            reliability.title(bottom, line if len(line) <= 23 else f"{name}\n{measured}")
            if place == 0 or width == COLUMN:
                top.set_ylabel("probability")
                bottom.set_ylabel("accuracy")
        known: dict[str, Any] = {}
        for ax in figure.axes:
            handles, texts = ax.get_legend_handles_labels()
            known |= dict(zip(texts, handles, strict=True))
        known |= reliability.keys()
        figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=2 if width == COLUMN else 5)
        where = f"{sources.data_caption(datasets[0])}; " if datasets[0] else ""
        note(
            figure,
            f"{where}unimodal: at least {100 * unimodal:g} % of the rows; calibrated: ECE up to "
            f"{100 * calibrated:g} %; the clearest of {len(losses)} models; above, the same {count} rows of each "
            f"label; below, {sources.rows_caption(datasets[0])}, pale: fewer than {reliability.SPARSE} rows",
        )
        return figure
