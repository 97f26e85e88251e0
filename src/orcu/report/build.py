"""Build the report: one HTML page that needs nothing from outside."""

import os
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import orcu
from orcu.decisions.rules import RULES
from orcu.evaluation.evaluation import PAGES, Evaluation, conventions, metric_rows, shown_difference, shown_value
from orcu.evaluation.printed import ARROWS, shown, shown_interval
from orcu.figures.panels import confidence, confusion, forest, referral, reliability, single_prediction
from orcu.figures.style import shortened
from orcu.figures.svg import render
from orcu.io.files import atomic_write
from orcu.metrics.base import all_metrics
from orcu.report.examples import examples
from orcu.report.headline import headline, key_figures, next_step, verdict

MOST_DIAGRAMS, FEW_DIAGRAMS = 24, 3  # of classes, and of thresholds: all of them, or where they are more, a few
SIDE_BY_SIDE = ("accuracy", "mae", "ece", "sce", "threshold_ce", "unimodality", "overconfidence")

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from: files as (name, SHA-256), the date, the command."""

    files: list[tuple[str, str]] = field(default_factory=list)
    date: str = ""
    command: str = ""


def page_template(name: str) -> "Template":
    """A page of this folder, with what every page shares: the style, and how numbers are written."""
    from jinja2 import Environment, StrictUndefined

    folder = files("orcu.report")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.globals.update(
        shown=shown, shown_interval=shown_interval, style=folder.joinpath("style.css").read_text("utf-8")
    )
    return page.from_string(folder.joinpath(name).read_text("utf-8"))


def write(evaluation: Evaluation, path: str | os.PathLike[str], **options: Any) -> None:
    """Write the report; the file appears whole or not at all. Options as for `build`."""
    with atomic_write(path) as temporary:
        Path(temporary).write_text(build(evaluation, **options), encoding="utf-8")


@PAGES.register("html")
def build(
    evaluation: Evaluation,
    *,
    title: str = "Can these probabilities be trusted?",
    about: str = "",
    provenance: Provenance | None = None,
    show_ids: bool = False,
) -> str:
    """The page as text; the same evaluation gives the same bytes.

    Args:
        evaluation: what `orcu.evaluate` gave.
        title: of the page.
        about: what was judged, in a sentence below it.
        provenance: files, date and command to state.
        show_ids: whether row ids may appear; they may identify people.
    """
    template = page_template("template.html.j2")
    weights = float(evaluation.rows) if evaluation.weighted else None
    html = template.render(
        title=title,
        about=about,
        evaluation=evaluation,
        version=orcu.__version__,
        provenance=provenance or Provenance(),
        headline=[sentence for sentence in headline(evaluation) if sentence],
        next_step=next_step(evaluation),
        tiles=key_figures(evaluation),
        metric_rows=[(m, cells, verdict(evaluation, m.name)) for m, cells in metric_rows(evaluation)],
        top=_reliability(evaluation.tables.top, "top", "Top label", "confidence", weights),
        per_class=[
            _reliability(evaluation.tables.classes[k], f"class{k}", evaluation.classes[k], "probability said", weights)
            for k in _drawn(evaluation.per_class)
        ],
        per_threshold=[
            _reliability(_event(evaluation.tables.thresholds[k]), f"threshold{k}", event, f"P({event})", weights)
            for k, event in ((k, evaluation.per_threshold[k]["event"]) for k in _drawn(evaluation.per_threshold))
        ],
        confidence_figure=_confidence(evaluation),
        confusion_figure=_confusion(evaluation),
        referral_figure=render(
            lambda ax: referral.plot(evaluation, ax=ax),
            prefix="referral",
            title="Error and mean absolute error against the share referred to a human",
            height=2.7,
        ),
        examples=_examples(evaluation, show_ids),
        group_figures=_forest(forest.beside(evaluation, "group"), "group") if evaluation.groups else [],
        group_table=_side_by_side(forest.beside(evaluation, "group")) if evaluation.groups else None,
        model_figures=_forest(forest.beside(evaluation, "model"), "model") if evaluation.others else [],
        model_table=_side_by_side(forest.beside(evaluation, "model")) if evaluation.others else None,
        model_reliability=[
            _reliability(one.tables.top, f"model{i}", name, "confidence", weights)
            for i, (name, one) in enumerate(forest.beside(evaluation, "model").items() if evaluation.others else ())
        ],
        differences=_differences(evaluation),
        conventions=conventions(evaluation.bins),
        rules=RULES,
        titles={metric.name: metric.title for metric in all_metrics()},
    )
    return html.replace(" %", "\u00a0%")  # no line breaks between a number and its sign


def _drawn(records: list[dict[str, Any]]) -> list[int]:
    """Which classes or thresholds get a diagram: all, or of very many those that are furthest off."""
    if len(records) <= MOST_DIAGRAMS:
        return list(range(len(records)))
    furthest = np.argsort([-record["ce"] for record in records], kind="stable")
    return sorted(furthest[:FEW_DIAGRAMS].tolist())


def _event(table: Any) -> Any:
    """The table of P(Y > k) from that of P(Y <= k): values and outcomes mirrored, bins reversed."""
    mirrored = table.copy()
    mirrored[1:] = table[0] - table[1:]
    return mirrored[:, ::-1]


def _reliability(table: Any, prefix: str, name: str, xlabel: str, rows: float | None) -> dict[str, str]:
    bins = reliability.data(table, rows=rows)
    svg = render(
        lambda ax: reliability.draw(ax, bins, xlabel=shortened(xlabel, 34)),
        prefix=f"reliability-{prefix}",
        title=f"Reliability diagram: {name}",
    )
    return {"name": name, "svg": svg}


def _confidence(evaluation: Evaluation) -> str:
    return render(
        lambda ax: confidence.plot(evaluation, ax=ax),
        prefix="confidence",
        title="Histogram of the confidence, right and wrong rows",
    )


def _confusion(evaluation: Evaluation) -> str:
    return render(
        lambda ax: confusion.plot(evaluation, ax=ax),
        prefix="confusion",
        title="Confusion matrix: true class against decided class",
        width=3.8,
        height=3.5,
    )


def _examples(evaluation: Evaluation, show_ids: bool) -> list[dict[str, str]]:
    figures = []
    for i, example in enumerate(examples(evaluation)):
        probs, label = evaluation.sample.probs[example.row], int(evaluation.sample.labels[example.row])
        caption = f"{example.caption}, true: {evaluation.classes[label]}"
        if show_ids and evaluation.sample.ids is not None:
            caption = f"{evaluation.sample.ids[example.row]} · {caption}"
        figure = render(
            partial(single_prediction.draw, probs=probs, label=label, classes=evaluation.classes),
            prefix=f"example{i}",
            title=f"Predicted distribution of a row ({example.kind})",
            width=2.5,
            height=1.7,
        )
        figures.append({"kind": example.kind, "caption": caption, "figure": figure})
    return figures


def _forest(several: dict[str, Evaluation], prefix: str) -> list[dict[str, str]]:
    figures = []
    for metric in all_metrics():
        if metric.name in SIDE_BY_SIDE:
            estimates = {name: one.metrics[metric.name] for name, one in several.items()}
            svg = render(
                partial(forest.draw, estimates=estimates, percent=metric.percent),
                prefix=f"{prefix}-{metric.name}",
                title=f"{metric.title} by {prefix}",
                height=0.7 + 0.26 * len(estimates),
            )
            figures.append({"name": metric.title, "svg": svg})
    return figures


def _side_by_side(several: dict[str, Evaluation]) -> dict[str, Any]:
    metrics = all_metrics()
    return {
        "names": [(name, one.rows) for name, one in several.items()],
        "rows": [
            (f"{metric.title} {ARROWS[metric.better]}", [shown_value(one, metric) for one in several.values()])
            for metric in metrics
        ],
    }


def _differences(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "other": other,
            "rows": [(metric.title, *shown_difference(per_metric[metric.name], metric)) for metric in all_metrics()],
        }
        for other, per_metric in evaluation.differences.items()
    ]
