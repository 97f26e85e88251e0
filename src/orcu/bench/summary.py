"""Summary at the top of a benchmark's report: three pipelines compared in sentences, a table and figures."""

from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from orcu import geometry
from orcu.bench.significance import BETTER, WORSE, compare_models, predictions_of
from orcu.bench.spec import DataSpec, SummarySpec
from orcu.bench.tables import Table
from orcu.evaluation.formatting import format_value
from orcu.figures.panels import pipelines, single_prediction
from orcu.figures.panels.pipelines import Point
from orcu.figures.svg import render
from orcu.figures.titles import data_title
from orcu.inputs import FloatArray
from orcu.metrics.base import METRICS
from orcu.predictions import Predictions

SUMMARY_METRICS = ("rps", "sce", "unimodality", "accuracy", "mae")


@dataclass(frozen=True)
class Example:
    """One row of a data set with the prediction of each pipeline.

    Attributes:
        data: name of the data set.
        selection: rule that selected the row.
        probs: predicted distribution by pipeline, each of shape (C,).
        label: true class.
        classes: class names.
    """

    data: str
    selection: str
    probs: dict[str, FloatArray]
    label: int
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """Summary of a report.

    Attributes:
        sentences: what was compared, the result with its significance, and a recommendation.
        rows: the three pipelines on each data set, cells as text.
        example: one row with all three predictions.
        points: calibration error and unimodality of all pipelines, by data set.
    """

    sentences: list[str]
    rows: list[dict[str, Any]]
    example: Example
    points: dict[str, list[Point]]

    def example_figures(self) -> list[dict[str, str]]:
        """The example row, a figure for each pipeline."""
        draw = partial(single_prediction.draw, label=self.example.label, classes=self.example.classes)
        title = "predicted distribution of one row"
        return [
            _figure(partial(draw, probs=probs), name, title, prefix=f"case-{number}", width=3.2, height=2.2)
            for number, (name, probs) in enumerate(self.example.probs.items())
        ]

    def scatter_figures(self) -> list[dict[str, str]]:
        """Calibration error against unimodality, a figure for each data set."""
        draw, title = pipelines.draw, "calibration error against unimodality of all pipelines"
        return [
            _figure(partial(draw, points=points), data, title, prefix=f"plane-{number}", width=5.2, height=3.2)
            for number, (data, points) in enumerate(self.points.items())
        ]


def _figure(draw: Any, name: str, title: str, **options: Any) -> dict[str, str]:
    return {"name": name, "svg": render(draw, title=f"{name}: {title}", **options)}


@dataclass(frozen=True)
class _DataResults:
    """Results of the three pipelines on one data set."""

    data: DataSpec
    means: dict[str, dict[str, float]]  # by pipeline and metric, over folds
    marks: dict[str, dict[str, str]]  # by pipeline and metric, against the baseline
    folds: dict[str, list[Predictions]]  # by pipeline, the same rows in the same order

    @property
    def title(self) -> str:
        return data_title(self.data.title)


def summarise(table: Table) -> Summary | None:
    """The summary of a benchmark, or ``None`` if its spec has none or some of its runs are not finished."""
    spec = table.plan.spec.summary
    if spec is None:
        return None
    parts = [part for data in table.plan.spec.data if (part := _data_results(data, spec, table)) is not None]
    if len(parts) < len(table.plan.spec.data):
        return None
    return Summary(
        [_comparison_sentence(table, parts, spec), _result_sentence(parts, spec), _recommendation(parts, spec)],
        [row for part in parts for row in _table_rows(part, spec)],
        _example(parts, spec),
        {part.title: _points(part, spec, table) for part in parts},
    )


def _data_results(data: DataSpec, spec: SummarySpec, table: Table) -> _DataResults | None:
    plan, columns = table.plan, [METRICS.get(name) for name in SUMMARY_METRICS]
    calibrators = dict(zip(plan.spec.calibrator_names, plan.spec.calibrators, strict=True))
    folds = {
        pipeline.name: predictions_of(plan, data.title, pipeline.loss, calibrators[pipeline.calibrator])
        for pipeline in spec.pipelines
    }
    shared = [key for key in folds[spec.proposed.name] if all(key in by_fold for by_fold in folds.values())]
    if not shared:
        return None
    records = plan.records()
    means, marks = {}, {}
    for pipeline in spec.pipelines:
        key = (data.title, pipeline.loss, pipeline.calibrator)
        runs = [record for record in records if (record["data"], record["loss"], record["calibrator"]) == key]
        means[pipeline.name] = {name: mean(run[name] for run in runs) for name in SUMMARY_METRICS}
        pairs = [(folds[pipeline.name][key], folds[spec.baseline.name][key]) for key in shared]
        results = [""] * len(SUMMARY_METRICS) if pipeline is spec.baseline else compare_models(pairs, columns)
        marks[pipeline.name] = dict(zip(SUMMARY_METRICS, results, strict=True))
    by_name = {name: [by_fold[key] for key in shared] for name, by_fold in folds.items()}
    return _DataResults(data, means, marks, by_name)


def _comparison_sentence(table: Table, parts: list[_DataResults], spec: SummarySpec) -> str:
    count = len({(line.loss, line.calibrator) for line in table.lines})
    sizes = [sum(len(fold) for fold in part.folds[spec.proposed.name]) for part in parts]
    sets = _join([f"{part.title} ({size:,} rows)" for part, size in zip(parts, sizes, strict=True)])
    names = _join([pipeline.name for pipeline in spec.pipelines])
    others = f", and {count - 3} other combinations of a loss and a calibrator" if count > 3 else ""
    return f"Compared: {names}{others}, on test rows of {sets}."


def _result_sentence(parts: list[_DataResults], spec: SummarySpec) -> str:
    """Change of the ranked probability score against the baseline, its significance, and the unimodality."""
    scores = []
    for part in parts:
        change = 100 * (part.means[spec.proposed.name]["rps"] / part.means[spec.baseline.name]["rps"] - 1)
        significance = "significant" if part.marks[spec.proposed.name]["rps"] else "not significant"
        scores.append(f"{abs(change):.1f} % {'lower' if change < 0 else 'higher'} on {part.title} ({significance})")
    proposed, baseline = (
        [part.means[pipeline.name]["unimodality"] for part in parts] for pipeline in (spec.proposed, spec.baseline)
    )
    shares = "All" if min(proposed) == 1 else _join([format_value(share, percent=True) for share in proposed])
    baseline_shares = _join([format_value(share, percent=True) for share in baseline])
    verdict = {
        (True, False): "is significantly better than {}",
        (False, True): "is significantly worse than {}",
        (True, True): "is significantly better than {} on some data sets and worse on others",
        (False, False): "does not differ significantly from {}",
    }[_is_better_and_worse(parts, spec)].format(spec.baseline.name)
    return (
        f"Result: {spec.proposed.name} {verdict}. Its ranked probability score (RPS) is {_join(scores)}. "
        f"{shares} of its predictions are unimodal; for the baseline it is {baseline_shares}."
    )


def _recommendation(parts: list[_DataResults], spec: SummarySpec) -> str:
    chosen = spec.baseline if _is_better_and_worse(parts, spec) == (False, True) else spec.proposed
    how = f": {chosen.how}" if chosen.how else ""
    return f"Recommendation: use {chosen.name}{how}."


def _is_better_and_worse(parts: list[_DataResults], spec: SummarySpec) -> tuple[bool, bool]:
    """Whether the proposed pipeline has a significantly better RPS on some data set, and a worse one on some."""
    marks = {part.marks[spec.proposed.name]["rps"] for part in parts}
    return BETTER in marks, WORSE in marks


def _table_rows(part: _DataResults, spec: SummarySpec) -> list[dict[str, Any]]:
    rows = []
    for pipeline in spec.pipelines:
        cells = []
        for name in SUMMARY_METRICS:
            value = format_value(part.means[pipeline.name][name], percent=METRICS.get(name).percent)
            cells.append(f"{value} {part.marks[pipeline.name][name]}".strip())
        rows.append({"data": part.title if pipeline is spec.baseline else "", "name": pipeline.name, "cells": cells})
    return rows


def _example(parts: list[_DataResults], spec: SummarySpec) -> Example:
    folds = [(part, fold) for part in parts for fold in range(len(part.folds[spec.proposed.name]))]
    depths = [_valley_depths(part.folds[spec.baseline.name][k], part.folds[spec.proposed.name][k]) for part, k in folds]
    deepest = max(range(len(folds)), key=lambda i: depths[i].max())
    (part, fold), row = folds[deepest], int(depths[deepest].argmax())
    proposed = part.folds[spec.proposed.name][fold]
    return Example(
        part.title,
        f"the row with the deepest valley between two modes of {spec.baseline.name}, among the rows where "
        f"{spec.proposed.name} predicts the same class",
        {pipeline.name: part.folds[pipeline.name][fold].probs[row] for pipeline in spec.pipelines},
        int(proposed.with_median_labels().labels[row]),
        tuple(proposed.classes),
    )


def _valley_depths(baseline: Predictions, proposed: Predictions) -> FloatArray:
    """Depth of the valleys of the baseline's rows; -1 where the two predict different classes."""
    equal = baseline.probs.argmax(1) == proposed.probs.argmax(1)
    return np.where(equal, geometry.valley_depth(baseline.probs), -1.0)


def _points(part: _DataResults, spec: SummarySpec, table: Table) -> list[Point]:
    names = {(pipeline.loss, pipeline.calibrator): pipeline.name for pipeline in spec.pipelines}
    records = [record for record in table.plan.records() if record["data"] == part.data.title]
    points = []
    for line in table.lines:
        if line.data == part.data.title and not line.collapsed:
            key = (line.loss, line.calibrator)
            runs = [record for record in records if (record["loss"], record["calibrator"]) == key]
            unimodality, error = (mean(run[name] for run in runs) for name in ("unimodality", "sce"))
            points.append(Point(*key, unimodality, error, names.get(key, "")))
    return points


def _join(names: list[str]) -> str:
    """Names joined with commas and "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
