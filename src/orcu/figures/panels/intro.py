"""Four kinds of models: neither unimodal nor calibrated, one of the two, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import metrics
from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, add_note, check_at_least, grid, panel_title, shared_legend
from orcu.figures.panels import reliability
from orcu.figures.sources import Sources, match_rows
from orcu.figures.style import COLUMN, GREEN, LOSS_STYLES, PAGE, class_axis, class_title, shorten, tick_names, wrap_name
from orcu.figures.titles import data_title, loss_title
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.rows import Rows
from orcu.predictions import Predictions

# (unimodal, calibrated) -> name in the paper
KINDS = {
    (False, False): "neither",
    (True, False): "unimodal only",
    (False, True): "calibrated only",
    (True, True): "both",
}


@dataclass(frozen=True)
class ModelQuality:
    """Name, share of unimodal rows, and ECE of a model."""

    name: str
    unimodality: float
    ece: float


def data(
    models: dict[str, Predictions], *, min_unimodality: float = 0.9, max_ece: float = 0.1
) -> dict[str, ModelQuality | None]:
    """The clearest model of each kind, by unimodality and ECE; ``None`` for a kind without a model.

    The clearest model of a kind has the largest sum of relative distances from the two thresholds.

    Args:
        models: predictions by name.
        min_unimodality: smallest share of unimodal rows of a unimodal model.
        max_ece: largest ECE of a calibrated model.

    Raises:
        InputError: if a threshold is not in (0, 1].

    Example:
        >>> y = [0, 1, 2] * 4
        >>> sharp = Predictions(probs=[[0.98, 0.01, 0.01]] * 12, y=y)
        >>> level = Predictions(probs=[[0.34, 0.32, 0.34]] * 12, y=y)
        >>> {kind: model and model.name for kind, model in data({"sharp": sharp, "level": level}).items()}
        {'neither': None, 'unimodal only': 'sharp', 'calibrated only': 'level', 'both': None}
    """
    for option, limit in (("min_unimodality", min_unimodality), ("max_ece", max_ece)):
        if not 0 < limit <= 1:
            raise InputError(f"{option}: expected a fraction above 0 and up to 1, such as 0.9 for 90 %, got {limit:g}.")
    kinds: dict[str, ModelQuality | None] = dict.fromkeys(KINDS.values())
    largest = dict.fromkeys(KINDS.values(), -1.0)
    for name, model in models.items():
        quality = ModelQuality(name, metrics.unimodality(model.probs), metrics.ece(model.probs, model.labels_or_votes))
        kind = KINDS[quality.unimodality >= min_unimodality, quality.ece <= max_ece]
        distance = abs(quality.unimodality / min_unimodality - 1) + abs(quality.ece / max_ece - 1)
        if distance > largest[kind]:
            kinds[kind], largest[kind] = quality, distance
    return kinds


def select_rows(models: list[Predictions], *, n_examples: int = 3) -> IntArray:
    """Rows of the lowest and the highest label at evenly spaced quantiles of the mean confidence, (2, n_examples).

    Example:
        >>> model = Predictions(probs=[[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], y=[0, 0, 1])
        >>> select_rows([model], n_examples=1).tolist()
        [[1], [2]]
    """
    models = [model.with_median_labels() for model in models]
    labels = models[0].labels
    confidence = np.mean([Rows.from_predictions(model).confidence for model in models], axis=0)
    rows = []
    for label in (labels.min(), labels.max()):
        candidates = np.flatnonzero(labels == label)
        order = candidates[np.argsort(confidence[candidates], kind="stable")]
        positions = (np.arange(n_examples) + 0.5) / n_examples * len(candidates) - 0.5
        rows.append(order[np.clip(np.floor(positions).astype(np.intp), 0, len(candidates) - 1)])
    return np.stack(rows)


def draw(ax: Any, probs: FloatArray, labels: IntArray, names: tuple[str, str], classes: Sequence[str]) -> None:
    """Draw distributions (2, n, C) of rows of the lowest and the highest label."""
    positions = np.arange(probs.shape[2])
    styles = ((GREEN, "o"), (LOSS_STYLES["sord"].color, "^"))
    for rows, label, name, (color, marker) in zip(probs, labels, names, styles, strict=True):
        ax.axvline(label, color=color, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
        for number, row in enumerate(rows):
            ax.plot(
                positions,
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
    class_axis(ax, tick_names(classes))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


@FIGURES.register("intro")
class IntroFigure(Figure):
    """Four columns, one for each kind of model: predicted distributions above, reliability diagrams below."""

    title = "Four models: neither, unimodal only, calibrated only, both"
    paper = "Fig. 1"
    needs = "test predictions of several models on the same rows"
    command = "orcu bench run SPEC"
    filters = ("data", "losses", "calibrator")

    def make(
        self,
        sources: Sources,
        *,
        width: str = PAGE,
        n_examples: int = 3,
        min_unimodality: float = 0.9,
        max_ece: float = 0.1,
    ) -> Any:
        """Draw the first data set, or that of --data, with ``n_examples`` rows of the lowest and highest label."""
        check_at_least(1, n_examples=n_examples)
        datasets = sources.datasets()
        losses = sources.losses(datasets[0]) if datasets else []
        if len(losses) < 2:
            raise self.missing_input(sources, f"there is only {losses[0]}" if losses else "")
        sources.note_selection("intro", datasets[:1], datasets, "data")
        parts = match_rows([sources.predictions(datasets[0], name) for name in losses])
        models = dict(zip(losses, parts, strict=True))
        kinds = data(models, min_unimodality=min_unimodality, max_ece=max_ece)
        selected = [models[quality.name] for quality in kinds.values() if quality is not None]
        rows = select_rows(selected, n_examples=n_examples)
        labels, classes = selected[0].with_median_labels().labels[rows[:, 0]], selected[0].classes
        names = tuple(f"label {shorten(class_title(classes, k), 26)}" for k in labels)
        if width == COLUMN:  # a row for each kind
            figure, axes = grid(width, len(KINDS), 2, height=1.5, around=0.7)
            columns = axes
        else:
            figure, axes = grid(width, 2, len(KINDS), height=1.55, around=0.75)
            columns = [list(line) for line in zip(*axes, strict=True)]
        for position, ((kind, quality), (top, bottom)) in enumerate(zip(kinds.items(), columns, strict=True)):
            top.set_title(panel_title(position, kind))
            if quality is None:
                top.text(0.5, 0.5, "no such model\nin the input", transform=top.transAxes, ha="center", va="center")
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            model = models[quality.name]
            draw(top, model.probs[rows], labels, (names[0], names[1]), classes)
            diagram, ece = reliability.of_predictions(model)
            reliability.draw_bars(bottom, diagram, ece=ece)
            bottom.set(aspect="auto", xlabel="confidence")
            measured = f"{100 * quality.unimodality:.0f} % unimodal"
            name = wrap_name(loss_title(quality.name), 22)
            line = f"{name}: {measured}"
            reliability.set_title(bottom, line if len(line) <= 23 else f"{name}\n{measured}")
            if position == 0 or width == COLUMN:
                top.set_ylabel("probability")
                bottom.set_ylabel("accuracy")
        shared_legend(figure, reliability.legend_handles(), ncols=2 if width == COLUMN else 5)
        caption = f"{data_title(datasets[0])}; " if datasets[0] else ""
        add_note(
            figure,
            f"{caption}unimodal: at least {100 * min_unimodality:g} % of the rows; calibrated: ECE up to "
            f"{100 * max_ece:g} %; the clearest of {len(losses)} models; above: the same {n_examples} rows of each "
            f"label; below: {sources.rows_caption(datasets[0])}, pale bars: fewer than {reliability.SPARSE} rows",
        )
        return figure
