"""HTML page of a judge audit: calibration, leniency and agreement of judges, and the number of human grades needed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from orcu.decisions.coverage import Coverage
from orcu.evaluation.evaluation import Evaluation, format_metric
from orcu.evaluation.formatting import ARROWS
from orcu.figures.panels import confusion, human_grades, reliability, single_prediction
from orcu.judges.audit import JudgeAudit
from orcu.judges.pool import HumanRows
from orcu.report.page import Figure, Provenance, figure, render_page

METRICS = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")


def build(
    audit: JudgeAudit, *, title: str = "Can these grades be trusted?", provenance: Provenance | None = None
) -> str:
    """Build the page; equal audits give equal bytes."""
    evaluation = audit.evaluation
    models = [*evaluation.others, evaluation]
    return render_page(
        "judge.html.j2",
        title=title,
        provenance=provenance or Provenance(),
        audit=audit,
        findings=audit.findings(),
        example=_example(audit),
        models=models,
        metrics=[metric for metric in evaluation.metric_list if metric.name in METRICS],
        format_metric=format_metric,
        coverage_rows=_coverage_rows(audit),
        arrows=ARROWS,
        before=[
            diagram
            for i, other in enumerate(evaluation.others)
            for diagram in _reliability_diagrams(other, f"before{i}")
        ],
        after=_reliability_diagrams(evaluation, "after"),
        confusions=[
            _figure(model.name, lambda ax, model=model: confusion.plot(model, ax=ax), f"confusion-{i}", 3.6, 3.3)
            for i, model in enumerate(models)
        ],
        curve=_learning_curves(audit),
    )


def _coverage_rows(audit: JudgeAudit) -> list[tuple[str, Coverage, Coverage]]:
    """Name and coverage of each human grade and of all, without and with a guarantee for each grade."""
    names = [*audit.grades.levels.names, "all"]
    reports = ((*report.by_class, report.overall) for report in (audit.coverage, audit.class_coverage))
    return list(zip(names, *reports, strict=True))


def _figure(name: str, draw: Callable[..., Any], prefix: str, width: float = 3.5, height: float = 3.0) -> Figure:
    title = f"{prefix.partition('-')[0].capitalize()}: {name}"
    return figure(name, draw, prefix=prefix, title=title, width=width, height=height)


def _reliability_diagrams(evaluation: Evaluation, prefix: str) -> list[Figure]:
    rows = float(evaluation.rows) if evaluation.weighted else None
    tables = [(f"{evaluation.name}, top label", evaluation.sums.top, "confidence")]
    tables += [
        (f"{evaluation.name}, grade {name}", table, "predicted probability")
        for name, table in zip(evaluation.classes, evaluation.sums.classes, strict=True)
    ]
    figures = []
    for k, (name, table, xlabel) in enumerate(tables):
        draw = partial(reliability.draw, diagram=reliability.data(table, rows=rows), xlabel=xlabel)
        figures.append(_figure(name, draw, f"reliability-{prefix}-{k}"))
    return figures


def _example(audit: JudgeAudit) -> list[Figure]:
    """Distributions of the item at the 75th percentile of the improvement in squared cumulative error."""
    judges = audit.panel.required_judges
    is_complete = audit.grades.all_rated(judges)
    grades, calibrated = audit.grades[is_complete], audit.panel.oof_probs_[is_complete]
    rows = HumanRows.of(grades)
    truth = np.arange(len(grades.levels)) >= rows.grade[:, None]
    before, after = (
        ((probs.cumsum(axis=1)[rows.item] - truth) ** 2).sum(axis=1) for probs in (grades.shares(judges[0]), calibrated)
    )
    order = np.argsort(before - after, kind="stable")
    row = int(order[int(0.75 * (len(order) - 1))])
    item, label = int(rows.item[row]), int(rows.grade[row])
    distributions = {f"{judge}, uncalibrated": grades.shares(judge)[item] for judge in judges}
    distributions["calibrated"] = calibrated[item]
    draw = partial(single_prediction.draw, label=label, classes=grades.levels.names)
    return [
        _figure(name, partial(draw, probs=probs), f"distribution-{k}", 2.7, 1.9)
        for k, (name, probs) in enumerate(distributions.items())
    ]


def _learning_curves(audit: JudgeAudit) -> list[Figure]:
    curve, figures = audit.learning_curve, []
    for metric, percent in (("rps", False), ("sce", True)) if len(curve) > 1 else ():
        values, stds = ([getattr(point, name) for point in curve] for name in (metric, f"{metric}_std"))
        items, name = [point.n_items for point in curve], metric.upper()
        draw = partial(human_grades.draw, items=items, values=values, stds=stds, percent=percent, name=name)
        figures.append(_figure(f"{name} on test items", draw, f"curve-{metric}", 3.6, 2.6))
    return figures
