"""HTML report of an evaluation: one self-contained page."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np

import orcu
from orcu.decisions.rules import RULES
from orcu.evaluation.evaluation import Evaluation, conventions, format_difference, format_metric, metric_rows
from orcu.evaluation.findings import findings
from orcu.evaluation.formatting import ARROWS, format_interval, format_value
from orcu.explain.model_explanation import ModelExplanation
from orcu.figures.panels import (
    calibration_curve,
    confidence,
    confusion,
    decision_curve,
    forest,
    referral,
    reliability,
    single_prediction,
)
from orcu.figures.style import shorten
from orcu.figures.svg import render
from orcu.metrics.base import METRICS
from orcu.metrics.net_benefit import POINTS
from orcu.raters.votes import label_shares
from orcu.report import raters
from orcu.report.examples import KINDS, examples
from orcu.report.explanation import explanation_section
from orcu.report.headline import failures, headline, key_figures, next_step, significance
from orcu.report.methods import methods_paragraph
from orcu.report.pdf import write_page

MAX_DIAGRAMS, FEW_DIAGRAMS = 24, 3  # of more classes or thresholds than the first, only a few are drawn
COMPARED_BY_SUBGROUP = ("accuracy", "mae", "ece", "sce", "rps")
FOREST_METRICS = ("accuracy", "mae", "ece", "sce", "threshold_ce", "unimodality", "overconfidence")
CURVE_POINTS = (0.1, 0.25, 0.5)  # threshold probabilities of the table of differences in net benefit
Figure = dict[str, str]  # "name" and "svg"


@dataclass(frozen=True)
class Provenance:
    """Source of the numbers: files as (name, SHA-256), date and command."""

    files: list[tuple[str, str]] = field(default_factory=list)
    date: str = ""
    command: str = ""


def render_page(template: str, **values: Any) -> str:
    """Render a template of this folder, with the common style, macros and number formats."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("orcu.report")
    environment = Environment(
        loader=FunctionLoader(lambda file: folder.joinpath(file).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = folder.joinpath("style.css").read_text("utf-8")
    environment.globals.update(format_value=format_value, format_interval=format_interval, style=style)
    html = environment.get_template(template).render(version=orcu.__version__, **values)
    return html.replace(" %", "\u00a0%")  # no line breaks between a number and its unit


def figure(name: str, draw: Callable[[Any], object], **options: Any) -> Figure:
    """Figure with a name, for the macro ``figures``; options as in `orcu.figures.svg.render`."""
    return {"name": name, "svg": render(draw, **options)}


def write(evaluation: Evaluation, path: str | os.PathLike[str], **options: Any) -> None:
    """Write the report as HTML, or as PDF if the suffix is .pdf. Options as in `build`."""
    write_page(build(evaluation, **options), path)


def build(
    evaluation: Evaluation,
    *,
    title: str = "Can these probabilities be trusted?",
    about: str = "",
    provenance: Provenance | None = None,
    show_ids: bool = False,
    explanation: ModelExplanation | None = None,
) -> str:
    """Report as HTML text; the same evaluation gives the same bytes.

    Args:
        evaluation: result of `orcu.evaluate`.
        title: title of the page.
        about: sentence below the title that describes the evaluated model.
        provenance: files, date and command to state.
        show_ids: whether to show row ids, which may identify people.
        explanation: what the predictions depend on, from `orcu.explain.explain_model`; adds a section.
    """
    weights = float(evaluation.rows) if evaluation.weighted else None
    diagram = partial(_reliability, rows=weights)
    sums, classes, thresholds = evaluation.sums, evaluation.classes, evaluation.per_threshold
    models = forest.evaluations_by(evaluation, "model") if evaluation.others else {}
    subgroups = forest.evaluations_by(evaluation, "subgroup") if evaluation.subgroups else {}
    return render_page(
        "template.html.j2",
        title=title,
        about=about,
        evaluation=evaluation,
        provenance=provenance or Provenance(),
        headline=[sentence for sentence in headline(evaluation) if sentence],
        failures=failures(evaluation),
        next_step=next_step(evaluation),
        tiles=key_figures(evaluation),
        metric_rows=[(m, cells, significance(evaluation, m.name)) for m, cells in metric_rows(evaluation)],
        top=diagram(sums.top, "top", "Top label", "confidence"),
        per_class=[
            diagram(sums.classes[k], f"class{k}", classes[k], "predicted probability")
            for k in _chosen(evaluation.per_class)
        ],
        per_threshold=[
            figure(
                thresholds[k]["event"],
                partial(calibration_curve.draw_threshold, evaluation=evaluation, threshold=k),
                prefix=f"reliability-threshold{k}",
                title=f"Calibration curve: {thresholds[k]['event']}",
            )
            for k in _chosen(thresholds)
        ],
        smooth_curves=[
            figure(
                thresholds[k]["event"],
                partial(calibration_curve.draw_threshold, evaluation=evaluation, threshold=k, kind="smooth"),
                prefix=f"smooth-curve{k}",
                title=f"Smooth calibration curve: {thresholds[k]['event']}",
            )
            for k in _chosen(thresholds)
        ],
        decision_curves=[
            figure(
                evaluation.decision_curves[k].event,
                partial(decision_curve.draw, curve=evaluation.decision_curves[k]),
                prefix=f"net-benefit{k}",
                title=f"Decision curve: {evaluation.decision_curves[k].event}",
                height=2.7,
            )
            for k in (_chosen(thresholds) if evaluation.decision_curves else ())
        ],
        curve_differences=_curve_differences(evaluation),
        confidence_figure=render(
            lambda ax: confidence.plot(evaluation, ax=ax),
            prefix="confidence",
            title="Histogram of the confidence, right and wrong rows",
        ),
        confusion_figure=render(
            lambda ax: confusion.plot(evaluation, ax=ax),
            prefix="confusion",
            title="Confusion matrix: true class against decided class",
            width=3.8,
            height=3.5,
        ),
        referral_figure=render(
            lambda ax: referral.plot(evaluation, ax=ax),
            prefix="referral",
            title="Error and mean absolute error against the share referred to a human",
            height=2.7,
        ),
        explanation=None if explanation is None else explanation_section(explanation),
        example_kinds=KINDS,
        examples=_examples(evaluation, show_ids),
        subgroups=[(name, part.rows) for name, part in subgroups.items()],
        subgroup_figures=_forest_figures(subgroups, "group"),
        subgroup_parts=list(subgroups.values()),
        subgroup_rows=_table_rows(subgroups.values()),
        models=list(models),
        model_figures=_forest_figures(models, "model"),
        model_rows=_table_rows(models.values()),
        model_reliability=[
            diagram(part.sums.top, f"model{i}", name, "confidence") for i, (name, part) in enumerate(models.items())
        ],
        others=list(evaluation.differences),
        difference_rows=[
            (
                metric.title,
                [format_difference(values[metric.name], metric) for values in evaluation.differences.values()],
            )
            for metric in evaluation.metric_list
        ],
        subgroup_differences=_subgroup_differences(evaluation),
        subgroup_metrics=[METRICS.get(name).title for name in COMPARED_BY_SUBGROUP],
        raters=raters.context(evaluation, show_ids),
        findings=findings(evaluation),
        methods=methods_paragraph(evaluation),
        conventions=conventions(evaluation),
        rules=RULES,
        curve_points=CURVE_POINTS,
        titles={metric.name: metric.title for metric in evaluation.metric_list},
    )


def _chosen(records: list[dict[str, Any]]) -> list[int]:
    """Indices of the classes or thresholds with a diagram: all, or of very many those with the largest errors."""
    if len(records) <= MAX_DIAGRAMS:
        return list(range(len(records)))
    largest = np.argsort([-record["ce"] for record in records], kind="stable")
    return sorted(largest[:FEW_DIAGRAMS].tolist())


def _reliability(table: Any, prefix: str, name: str, xlabel: str, *, rows: float | None) -> Figure:
    draw = partial(reliability.draw, diagram=reliability.data(table, rows=rows), xlabel=shorten(xlabel, 34))
    return figure(name, draw, prefix=f"reliability-{prefix}", title=f"Reliability diagram: {name}")


def _examples(evaluation: Evaluation, show_ids: bool) -> list[dict[str, str]]:
    figures = []
    for i, (row, kind, rps) in enumerate(examples(evaluation)):
        sample, truth = evaluation.sample, dict[str, Any]()
        caption = f"RPS {rps:.2f}"
        if sample.votes is None:
            truth["label"] = int(sample.labels[row])
            caption += f", true: {evaluation.classes[truth['label']]}"
        else:
            truth["shares"] = label_shares(sample.votes[row][None])[0]
        if show_ids and evaluation.sample.ids is not None:
            caption = f"{evaluation.sample.ids[row]} · {caption}"
        svg = render(
            partial(single_prediction.draw, probs=sample.probs[row], classes=evaluation.classes, **truth),
            prefix=f"example{i}",
            title=f"Predicted distribution of a row ({kind})",
            width=2.5,
            height=1.7,
        )
        figures.append({"kind": kind, "caption": caption, "svg": svg})
    return figures


def _curve_differences(evaluation: Evaluation) -> list[tuple[str, str, list[str]]]:
    """Rows of the table of differences in net benefit: other model, event, and a cell for each of `CURVE_POINTS`."""
    return [
        (
            other,
            curve.event,
            [
                f"{format_value(estimate.value, percent=False, signed=True)} "
                f"({format_interval(estimate.low, estimate.high, percent=False, signed=True)})"
                for estimate in (estimates[int(np.argmin(np.abs(POINTS - point)))] for point in CURVE_POINTS)
            ],
        )
        for curve in evaluation.decision_curves
        for other, estimates in curve.differences.items()
    ]


def _forest_figures(evaluations: dict[str, Evaluation], prefix: str) -> list[Figure]:
    figures = []
    for metric in next(iter(evaluations.values())).metric_list if evaluations else ():
        if metric.name in FOREST_METRICS:
            estimates = {name: part.metrics[metric.name] for name, part in evaluations.items()}
            draw = partial(forest.draw, estimates=estimates, metric=metric)
            title, height = f"{metric.title} by {prefix}", 0.7 + 0.26 * len(estimates)
            figures.append(figure(metric.title, draw, prefix=f"{prefix}-{metric.name}", title=title, height=height))
    return figures


def _subgroup_differences(evaluation: Evaluation) -> dict[str, list[tuple[str, list[tuple[str, str, str]]]]]:
    """For each other model a table of the subgroups: name, and the differences of some metrics."""
    metrics = [METRICS.get(name) for name in COMPARED_BY_SUBGROUP]
    tables = {}
    for other in evaluation.differences:
        parts = {name: part.differences[other] for name, part in evaluation.subgroups.items() if part.differences}
        rows = [
            (name, [format_difference(differences[metric.name], metric) for metric in metrics])
            for name, differences in parts.items()
        ]
        if rows:
            tables[other] = rows
    return tables


def _table_rows(evaluations: Collection[Evaluation]) -> list[tuple[str, list[str]]]:
    """Rows of a table with a column for each evaluation: the metric and its values."""
    parts = list(evaluations)
    return [
        (f"{metric.title} {ARROWS[metric.better]}", [format_metric(part, metric) for part in parts])
        for metric in (parts[0].metric_list if parts else ())
    ]
