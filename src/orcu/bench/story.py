"""What a benchmark's report opens with: three sentences and two pictures about three of its pipelines."""

from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from orcu import geometry
from orcu.bench.significance import BETTER, WORSE, compared, predictions_of
from orcu.bench.spec import DataSpec, Story
from orcu.bench.tables import Table
from orcu.evaluation.printed import shown
from orcu.figures.panels import pipelines, single_prediction
from orcu.figures.panels.pipelines import Point
from orcu.figures.style import data_title
from orcu.figures.svg import render
from orcu.inputs import FloatArray
from orcu.metrics.base import METRICS
from orcu.predictions.predictions import Predictions

JUDGED = ("rps", "sce", "unimodality", "accuracy", "mae")


@dataclass(frozen=True)
class Opening:
    """The opening of a report.

    Attributes:
        sentences: what was compared; what won, by how much and whether beyond chance; what to do.
        rows: the three pipelines on each data set, cells as text.
        case: one row before and after, as figures.
        case_note: how the row was chosen.
        planes: calibration error against unimodality of all pipelines, a figure for each data set.
    """

    sentences: list[str]
    rows: list[dict[str, Any]]
    case: list[dict[str, str]]
    case_note: str
    planes: list[dict[str, str]]


@dataclass(frozen=True)
class _OnData:
    """The three pipelines on one data set: means over folds, and what differs from today's beyond chance."""

    data: DataSpec
    means: dict[str, dict[str, float]]  # by pipeline and metric
    marks: dict[str, dict[str, str]]  # the same, against today's
    folds: dict[str, list[Predictions]]  # by pipeline, the same rows in the same order

    @property
    def title(self) -> str:
        return data_title(self.data.title)


def opening(whole: Table) -> Opening | None:
    """The opening of a benchmark's report, or ``None`` if its spec tells no story or a part of it is not finished."""
    story = whole.plan.spec.story
    if story is None:
        return None
    parts = [part for data in whole.plan.spec.data if (part := _on(data, story, whole)) is not None]
    if len(parts) < len(whole.plan.spec.data):
        return None
    case, note = _case(parts, story)
    return Opening(
        [_compared(whole, parts, story), _won(parts, story), _to_do(parts, story)],
        [row for part in parts for row in _rows(part, story)],
        case,
        note,
        [_plane(part, story, whole) for part in parts],
    )


def _on(data: DataSpec, story: Story, whole: Table) -> _OnData | None:
    plan, columns = whole.plan, [METRICS.get(name) for name in JUDGED]
    by_name = dict(zip(plan.spec.calibrator_names, plan.spec.calibrators, strict=True))
    folds = {
        pipeline.name: predictions_of(plan, data.title, pipeline.loss, by_name[pipeline.calibrator])
        for pipeline in story.pipelines
    }
    shared = [key for key in folds[story.ours.name] if all(key in one for one in folds.values())]
    if not shared:
        return None
    records = plan.records()
    means, marks = {}, {}
    for pipeline in story.pipelines:
        mine = [
            record
            for record in records
            if (record["data"], record["loss"], record["calibrator"])
            == (data.title, pipeline.loss, pipeline.calibrator)
        ]
        means[pipeline.name] = {name: mean(record[name] for record in mine) for name in JUDGED}
        pairs = [(folds[pipeline.name][key], folds[story.today.name][key]) for key in shared]
        verdicts = [""] * len(JUDGED) if pipeline is story.today else compared(pairs, columns)
        marks[pipeline.name] = dict(zip(JUDGED, verdicts, strict=True))
    return _OnData(data, means, marks, {name: [one[key] for key in shared] for name, one in folds.items()})


def _compared(whole: Table, parts: list[_OnData], story: Story) -> str:
    count = len({(line.loss, line.calibrator) for line in whole.lines})
    sizes = [sum(len(fold) for fold in part.folds[story.ours.name]) for part in parts]
    sets = _listed([f"{part.title} ({size:,} rows)" for part, size in zip(parts, sizes, strict=True)])
    names = _listed([pipeline.name for pipeline in story.pipelines])
    more = f", and {count - 3} more pairs of a loss and a calibrator" if count > 3 else ""
    return f"Compared: {names}{more}, on rows of {sets} that none of them was fitted on."


def _won(parts: list[_OnData], story: Story) -> str:
    """By how much the ranked probability score is lower than today's, whether beyond chance, and the shape of rows."""
    scores = []
    for part in parts:
        change = 100 * (part.means[story.ours.name]["rps"] / part.means[story.today.name]["rps"] - 1)
        beyond = "beyond chance" if part.marks[story.ours.name]["rps"] else "within chance"
        scores.append(f"{abs(change):.1f} % {'lower' if change < 0 else 'higher'} on {part.title} ({beyond})")
    ours, today = (
        [part.means[pipeline.name]["unimodality"] for part in parts] for pipeline in (story.ours, story.today)
    )
    shape = (
        "all its rows" if min(ours) == 1 else f"{_listed([shown(share, percent=True) for share in ours])} of its rows"
    )
    before = _listed([shown(share, percent=True) for share in today])
    verdict = {1: "wins", 0: "is level", -1: "loses"}[_verdict(parts, story)]
    return (
        f"Result: {story.ours.name} {verdict} against {story.today.name}. Its ranked probability score is "
        f"{_listed(scores)}, and {shape} are unimodal, where {before} were."
    )


def _to_do(parts: list[_OnData], story: Story) -> str:
    chosen = story.ours if _verdict(parts, story) >= 0 else story.today
    how = f": {chosen.how}" if chosen.how else ""
    return f"To do: take {chosen.name}{how}."


def _verdict(parts: list[_OnData], story: Story) -> int:
    """1 if ours has the better ranked probability score beyond chance somewhere and nowhere a worse; -1 vice versa."""
    marks = {part.marks[story.ours.name]["rps"] for part in parts}
    return (BETTER in marks and WORSE not in marks) - (WORSE in marks and BETTER not in marks)


def _rows(part: _OnData, story: Story) -> list[dict[str, Any]]:
    rows = []
    for pipeline in story.pipelines:
        cells = []
        for name in JUDGED:
            value = shown(part.means[pipeline.name][name], percent=METRICS.get(name).percent)
            cells.append(f"{value} {part.marks[pipeline.name][name]}".strip())
        rows.append({"data": part.title if pipeline is story.today else "", "name": pipeline.name, "cells": cells})
    return rows


def _case(parts: list[_OnData], story: Story) -> tuple[list[dict[str, str]], str]:
    """Of the rows that both decide alike, the one in which today's has the deepest valley, before and after."""
    places = [(part, fold) for part in parts for fold in range(len(part.folds[story.ours.name]))]
    depths = [_depths(part.folds[story.today.name][k], part.folds[story.ours.name][k]) for part, k in places]
    deepest = max(range(len(places)), key=lambda i: depths[i].max())
    (part, fold), row = places[deepest], int(depths[deepest].argmax())
    figures: list[dict[str, str]] = []
    for pipeline in story.pipelines:
        rows = part.folds[pipeline.name][fold]
        svg = render(
            partial(
                single_prediction.draw, probs=rows.probs[row], label=int(rows.labels[row]), classes=tuple(rows.classes)
            ),
            prefix=f"case-{len(figures)}",
            title=f"{pipeline.name}: the distribution of one row",
            width=3.2,
            height=2.2,
        )
        figures.append({"name": pipeline.name, "svg": svg})
    rule = f"of those that both decide alike, the one with the deepest valley between two humps of {story.today.name}"
    return figures, f"A row of {part.title}: {rule}."


def _depths(today: Predictions, ours: Predictions) -> FloatArray:
    """How deep today's valleys are, where both have the same mode; -1 elsewhere."""
    alike = today.probs.argmax(1) == ours.probs.argmax(1)
    return np.where(alike, geometry.valley_depth(today.probs), -1.0)


def _plane(part: _OnData, story: Story, whole: Table) -> dict[str, str]:
    names = {(pipeline.loss, pipeline.calibrator): pipeline.name for pipeline in story.pipelines}
    records = [record for record in whole.plan.records() if record["data"] == part.data.title]
    collapsed = {
        (line.loss, line.calibrator) for line in whole.lines if line.data == part.data.title and line.collapsed
    }
    points = []
    for key in dict.fromkeys((line.loss, line.calibrator) for line in whole.lines if line.data == part.data.title):
        mine = [record for record in records if (record["loss"], record["calibrator"]) == key]
        if key not in collapsed:
            unimodality, error = (mean(record[name] for record in mine) for name in ("unimodality", "sce"))
            points.append(Point(*key, unimodality, error, names.get(key, "")))
    svg = render(
        partial(pipelines.draw, points=points),
        prefix=f"plane-{part.data.title}",
        title=f"{part.title}: calibration error against unimodality of all pipelines",
        width=5.2,
        height=3.2,
    )
    return {"name": part.title, "svg": svg}


def _listed(names: list[str]) -> str:
    """Names with commas and an "and" between them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
