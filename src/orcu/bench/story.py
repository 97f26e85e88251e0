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
class Case:
    """One row of a data set, as each of the three pipelines sees it.

    Attributes:
        data: which set it is of.
        rule: how it was chosen.
        probs: its distribution by pipeline, each of shape (C,).
        label: its class.
        classes: their names.
    """

    data: str
    rule: str
    probs: dict[str, FloatArray]
    label: int
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """The opening of a report.

    Attributes:
        sentences: what was compared; what won, by how much and whether beyond chance; what to do.
        rows: the three pipelines on each data set, cells as text.
        case: one row before and after.
        planes: by data set, calibration error against unimodality of all pipelines.
    """

    sentences: list[str]
    rows: list[dict[str, Any]]
    case: Case
    planes: dict[str, list[Point]]

    def case_figures(self) -> list[dict[str, str]]:
        """The case by each pipeline, as figures of a page."""
        case = self.case
        return [
            {
                "name": name,
                "svg": render(
                    partial(single_prediction.draw, probs=probs, label=case.label, classes=case.classes),
                    prefix=f"case-{number}",
                    title=f"{name}: the distribution of one row",
                    width=3.2,
                    height=2.2,
                ),
            }
            for number, (name, probs) in enumerate(case.probs.items())
        ]

    def plane_figures(self) -> list[dict[str, str]]:
        """A figure for each data set."""
        return [
            {
                "name": data,
                "svg": render(
                    partial(pipelines.draw, points=points),
                    prefix=f"plane-{number}",
                    title=f"{data}: calibration error against unimodality of all pipelines",
                    width=5.2,
                    height=3.2,
                ),
            }
            for number, (data, points) in enumerate(self.planes.items())
        ]


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
    return Opening(
        [_compared(whole, parts, story), _won(parts, story), _to_do(parts, story)],
        [row for part in parts for row in _rows(part, story)],
        _case(parts, story),
        {part.title: _plane(part, story, whole) for part in parts},
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


def _case(parts: list[_OnData], story: Story) -> Case:
    places = [(part, fold) for part in parts for fold in range(len(part.folds[story.ours.name]))]
    depths = [_depths(part.folds[story.today.name][k], part.folds[story.ours.name][k]) for part, k in places]
    deepest = max(range(len(places)), key=lambda i: depths[i].max())
    (part, fold), row = places[deepest], int(depths[deepest].argmax())
    ours = part.folds[story.ours.name][fold]
    return Case(
        part.title,
        f"of those that both decide alike, the one with the deepest valley between two humps of {story.today.name}",
        {pipeline.name: part.folds[pipeline.name][fold].probs[row] for pipeline in story.pipelines},
        int(ours.labels[row]),
        tuple(ours.classes),
    )


def _depths(today: Predictions, ours: Predictions) -> FloatArray:
    """How deep today's valleys are, where both have the same mode; -1 elsewhere."""
    alike = today.probs.argmax(1) == ours.probs.argmax(1)
    return np.where(alike, geometry.valley_depth(today.probs), -1.0)


def _plane(part: _OnData, story: Story, whole: Table) -> list[Point]:
    names = {(pipeline.loss, pipeline.calibrator): pipeline.name for pipeline in story.pipelines}
    records = [record for record in whole.plan.records() if record["data"] == part.data.title]
    points = []
    for line in whole.lines:
        if line.data == part.data.title and not line.collapsed:
            key = (line.loss, line.calibrator)
            mine = [record for record in records if (record["loss"], record["calibrator"]) == key]
            unimodality, error = (mean(record[name] for record in mine) for name in ("unimodality", "sce"))
            points.append(Point(*key, unimodality, error, names.get(key, "")))
    return points


def _listed(names: list[str]) -> str:
    """Names with commas and an "and" between them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
