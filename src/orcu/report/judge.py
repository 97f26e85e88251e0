"""The page about judges: does this judge know when it is wrong, and what is it worth beside people?"""

from functools import partial

import numpy as np

import orcu
from orcu.evaluation.evaluation import Evaluation, shown_value
from orcu.evaluation.printed import ARROWS, shown, shown_interval
from orcu.figures.panels import confusion, human_grades, reliability, single_prediction
from orcu.figures.svg import render
from orcu.judges.examination import Examination
from orcu.judges.panel import human_rows
from orcu.metrics.base import all_metrics
from orcu.report.build import Provenance, page_template

SHOWN = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")


def build(
    examination: Examination, *, title: str = "Can these grades be trusted?", provenance: Provenance | None = None
) -> str:
    """The page as text; the same examination gives the same bytes.

    Args:
        examination: what `orcu.judges.examination.examine` gave.
        title: of the page.
        provenance: files, date and command to state.
    """
    evaluation, grades = examination.evaluation, examination.grades
    models = {**{one.name: one for one in evaluation.others}, evaluation.name: evaluation}
    example, example_note = _example(examination)
    html = page_template("judge.html.j2").render(
        title=title,
        version=orcu.__version__,
        provenance=provenance or Provenance(),
        judges=examination.panel.judges,
        items=len(grades),
        scale=str(grades.scale),
        sentences=examination.sentences(),
        evaluation=evaluation,
        example=example,
        example_note=example_note,
        names=list(models),
        rows=_rows(models),
        described=examination.panel.described().splitlines(),
        before=[figure for i, one in enumerate(evaluation.others) for figure in _reliabilities(one, f"before{i}")],
        after=_reliabilities(evaluation, "after"),
        leniency=examination.leniency,
        confusions=[_confusion(name, one, i) for i, (name, one) in enumerate(models.items())],
        agreements=_agreements(examination, models),
        agreement_note=_agreement_note(examination),
        curve=_curve(examination),
        curve_note=examination.sentences()[-1] if examination.curve else "",
        notes=grades.notes,
    )
    return html.replace(" %", "\u00a0%")


def _rows(models: dict[str, Evaluation]) -> list[tuple[str, list[tuple[str, str]]]]:
    rows = []
    for metric in all_metrics():
        if metric.name in SHOWN:
            cells = []
            for one in models.values():
                estimate = one.metrics[metric.name]
                interval = shown_interval(estimate.low, estimate.high, percent=metric.percent)
                cells.append((shown_value(one, metric), interval))
            rows.append((f"{metric.title} {ARROWS[metric.better]}", cells))
    return rows


def _reliabilities(evaluation: Evaluation, prefix: str) -> list[dict[str, str]]:
    weights = float(evaluation.rows) if evaluation.weighted else None
    tables = [(f"{evaluation.name}: its grade", evaluation.tables.top, "confidence")]
    tables += [
        (f"{evaluation.name}: grade {name}", table, "probability said")
        for name, table in zip(evaluation.classes, evaluation.tables.classes, strict=True)
    ]
    return [
        {
            "name": name,
            "svg": render(
                partial(reliability.draw, diagram=reliability.data(table, rows=weights), xlabel=xlabel),
                prefix=f"{prefix}-{k}",
                title=f"Reliability diagram: {name}",
            ),
        }
        for k, (name, table, xlabel) in enumerate(tables)
    ]


def _confusion(name: str, evaluation: Evaluation, number: int) -> dict[str, str]:
    counts = evaluation.tables.confusion * (evaluation.rows / evaluation.tables.total)
    svg = render(
        lambda ax: confusion.draw(ax, confusion.data(counts), evaluation.classes),
        prefix=f"confusion-{number}",
        title=f"Grades of people against those of {name}",
        width=3.6,
        height=3.3,
    )
    return {"name": name, "svg": svg}


def _agreements(examination: Examination, models: dict[str, Evaluation]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, one in models.items():
        kappa = one.metrics["qwk"]
        rows.append(
            (
                f"{name} with people",
                shown(kappa.value, percent=False),
                shown_interval(kappa.low, kappa.high, percent=False),
                shown(one.metrics["accuracy"].value, percent=True),
            )
        )
    if examination.humans is not None:
        people = examination.humans
        rows.append(("people with people", shown(people.qwk, percent=False), "", shown(people.exact, percent=True)))
    return rows


def _agreement_note(examination: Examination) -> str:
    people = examination.humans
    if people is None:
        return "No item has two human grades, so nothing is known of how far people agree: the ceiling for every judge."
    return (
        f"{people.items:,} items have two human grades or more; Krippendorff's alpha (ordinal) of people is "
        f"{people.alpha:.2f}. No judge can agree with people more than they do with each other."
    )


def _example(examination: Examination) -> tuple[list[dict[str, str]], str]:
    """The item on which calibration gains most among those that are typical: of median gain above zero."""
    paired, held = examination.grades, examination.panel.held_probs_
    judges = examination.panel.judges
    everyone = np.flatnonzero(np.all([paired.spoke(judge) for judge in judges], axis=0))
    known = paired[everyone]
    place, grade, _ = human_rows(known)
    first = known.said[judges[0]] / known.said[judges[0]].sum(axis=1, keepdims=True)
    truth = np.arange(len(known.scale)) >= grade[:, None]
    gain = ((first.cumsum(axis=1)[place] - truth) ** 2).sum(axis=1)
    gain -= ((held[everyone].cumsum(axis=1)[place] - truth) ** 2).sum(axis=1)
    order = np.argsort(gain, kind="stable")
    row = int(order[int(0.75 * (len(order) - 1))])
    item, label = int(place[row]), int(grade[row])
    figures = []
    for k, (name, probs) in enumerate(
        [(f"{judge}, as it comes", known.said[judge][item] / known.said[judge][item].sum()) for judge in judges]
        + [("calibrated", held[everyone][item])]
    ):
        svg = render(
            partial(single_prediction.draw, probs=probs, label=label, classes=known.scale.names),
            prefix=f"item-{k}",
            title=f"Distribution of one item: {name}",
            width=2.7,
            height=1.9,
        )
        figures.append({"name": name, "svg": svg})
    return figures, "An item on which calibration gains more than on three quarters of the others."


def _curve(examination: Examination) -> list[dict[str, str]]:
    curve = examination.curve
    if len(curve) < 2:
        return []
    items = [point.items for point in curve]
    figures = []
    for metric, percent in (("rps", False), ("sce", True)):
        values = [getattr(point, metric) for point in curve]
        spreads = [getattr(point, f"{metric}_spread") for point in curve]
        svg = render(
            partial(
                human_grades.draw, items=items, values=values, spreads=spreads, percent=percent, name=metric.upper()
            ),
            prefix=f"curve-{metric}",
            title=f"{metric.upper()} against the number of graded items",
            width=3.6,
            height=2.6,
        )
        figures.append({"name": f"{metric.upper()} on other items", "svg": svg})
    return figures
