"""The section "raters" of a report: agreement, ceilings, and cases on which model and raters differ."""

from functools import partial
from typing import Any

import numpy as np

from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.formatting import ARROWS, format_interval, format_value
from orcu.evaluation.raters import Ceiling, RaterEvaluation, SplitCase
from orcu.figures.panels import forest, single_prediction
from orcu.figures.svg import render
from orcu.metrics.base import METRICS
from orcu.raters.votes import label_shares
from orcu.resampling import Estimate

COLUMNS = ("this model", "one rater", "all other raters", "perfect model")
AGREEMENT = {
    "alpha_ordinal": "Krippendorff's alpha, ordinal",
    "qwk_pooled": "Quadratic weighted kappa of all pairs of grades",
    "ac2_quadratic": "Gwet's AC2, quadratic weights",
}
SHOWN = ("accuracy", "mae", "rps")  # metrics with a figure
MAX_SHOWN = 3


def summary(raters: RaterEvaluation) -> list[str]:
    """Sentences on the agreement of the raters, and on how close the model is to a perfect one."""
    sentences = []
    ceilings = {ceiling.metric: ceiling for ceiling in raters.ceilings}
    if "accuracy" in ceilings:
        pair = ceilings["accuracy"].single_rater
        sentences.append(
            f"Two raters of a case give the same grade in {_percent(pair)} of cases, and differ by "
            f"{ceilings['mae'].single_rater.value:.2f} classes on average."
        )
    if "rps" in ceilings:
        perfect, model = ceilings["rps"].perfect_optimistic, ceilings["rps"].model
        excess = raters.distances["rps_excess"]
        sentence = (
            f"Because raters disagree, no model can have an RPS below about {perfect.value:.3f}; this model has "
            f"{model.value:.3f}"
        )
        if excess.low > 0:
            sentence += f". The excess is {excess.value:.3f} (95 % interval {_interval(excess)})"
        elif excess.low == excess.low:  # not NaN
            sentence += f". The excess of {excess.value:.3f} is not distinguished from zero ({_interval(excess)})"
        sentences.append(sentence + ".")
    if raters.votes is None:
        sentences.append("Only the shares of the votes are known, so the agreement of single raters is not.")
    elif not raters.ceilings:
        sentences.append("No case has two votes, so the agreement of the raters is not known.")
    return sentences


def ceiling_rows(raters: RaterEvaluation) -> list[tuple[str, list[str], list[str]]]:
    """Rows of the table of ceilings: metric, values and intervals of the model, raters and a perfect model."""
    return [_ceiling_row(ceiling) for ceiling in raters.ceilings]


def _ceiling_row(ceiling: Ceiling) -> tuple[str, list[str], list[str]]:
    metric = METRICS.get(ceiling.metric)
    estimates = [ceiling.model, ceiling.single_rater, ceiling.other_raters]
    values = [format_value(estimate.value, percent=metric.percent) for estimate in estimates]
    ends = [format_interval(estimate.low, estimate.high, percent=metric.percent) for estimate in estimates]
    low, high = ceiling.perfect_optimistic, ceiling.perfect_pessimistic
    if low == high:
        values.append(format_value(low.value, percent=metric.percent))
        ends.append(format_interval(low.low, low.high, percent=metric.percent))
    else:
        smaller, larger = sorted((low, high), key=lambda estimate: estimate.value)
        values.append(f"{format_interval(smaller.value, larger.value, percent=metric.percent)}")
        ends.append(format_interval(smaller.low, larger.high, percent=metric.percent))
    return f"{metric.title} {ARROWS[metric.better]}", values, ends


def context(evaluation: Evaluation, show_ids: bool) -> dict[str, Any] | None:
    """Values of the section for the template; ``None`` if the cases have no votes."""
    raters = evaluation.raters
    if raters is None:
        return None
    return {
        "summary": summary(raters),
        "columns": COLUMNS,
        "rows": ceiling_rows(raters),
        "figures": [_ceiling_figure(ceiling) for ceiling in raters.ceilings if ceiling.metric in SHOWN],
        "agreement": [] if raters.agreement is None else agreement_rows(raters),
        "unimodal": raters.unimodal_votes,
        "distances": raters.distances,
        "people_split": _case_figures(evaluation, raters.people_split, "people", show_ids),
        "model_split": _case_figures(evaluation, raters.model_split, "model", show_ids),
    }


def agreement_rows(raters: RaterEvaluation) -> list[tuple[str, str]]:
    """Names and values of the coefficients of agreement."""
    agreement, rows = raters.agreement, list[tuple[str, str]]()
    if agreement is None:
        return rows
    for measure, name in AGREEMENT.items():
        estimate = agreement[measure]
        reason = agreement.undefined.get(measure)
        interval = "" if np.isnan(estimate.low) else f" ({_interval(estimate)})"
        rows.append(
            (name, f"{format_value(estimate.value, percent=False)}{interval}" + (f"; {reason}" if reason else ""))
        )
    return rows


def _ceiling_figure(ceiling: Ceiling) -> dict[str, str]:
    metric = METRICS.get(ceiling.metric)
    perfect = ceiling.perfect_optimistic
    estimates = {"this model": ceiling.model, "one rater": ceiling.single_rater, "other raters": ceiling.other_raters}
    if perfect == ceiling.perfect_pessimistic:
        estimates["perfect model"] = perfect
    else:  # known up to a range, which is drawn without a point
        ends = sorted((perfect.value, ceiling.perfect_pessimistic.value))
        estimates["perfect model"] = Estimate(float("nan"), *ends)
    draw = partial(forest.draw, estimates=estimates, metric=metric)
    svg = render(draw, prefix=f"raters-{metric.name}", title=f"{metric.title}: model and raters", height=1.8)
    return {"name": metric.title, "svg": svg}


def _case_figures(evaluation: Evaluation, cases: list[SplitCase], prefix: str, show_ids: bool) -> list[dict[str, str]]:
    votes = evaluation.sample.votes
    if votes is None:
        return []
    figures = []
    for i, case in enumerate(cases[:MAX_SHOWN]):
        counts = ", ".join(
            f"{count:g} x {name}" for count, name in zip(votes[case.row], evaluation.classes, strict=True) if count
        )
        caption = f"votes: {counts}"
        if show_ids and evaluation.sample.ids is not None:
            caption = f"{evaluation.sample.ids[case.row]} · {caption}"
        draw = partial(
            single_prediction.draw,
            probs=evaluation.sample.probs[case.row],
            shares=label_shares(votes[case.row][None])[0],
            classes=evaluation.classes,
        )
        svg = render(draw, prefix=f"{prefix}{i}", title="Prediction and votes of a case", width=2.5, height=1.7)
        figures.append({"caption": caption, "svg": svg})
    return figures


def _percent(estimate: Estimate) -> str:
    return format_value(estimate.value, percent=True)


def _interval(estimate: Estimate) -> str:
    return format_interval(estimate.low, estimate.high, percent=False)
