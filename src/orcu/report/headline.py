"""What the numbers say, in words, and which of them stand out."""

import math

from orcu.evaluation.evaluation import Evaluation, shown_value
from orcu.evaluation.printed import shown, shown_interval
from orcu.metrics.base import METRICS
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

FEW_ROWS = 30


def headline(evaluation: Evaluation) -> list[str]:
    """Sentences for the top of a report, most important first."""
    return [_confidence(evaluation), _classes(evaluation), _shape(evaluation), _decisions(evaluation)]


def verdict(evaluation: Evaluation, metric: str) -> str:
    """Whether a binned error exceeds what chance explains: "beyond chance", "within chance" or ""."""
    estimate = evaluation.metrics[metric]
    if estimate.limit is None or math.isnan(estimate.value):
        return ""
    beyond = estimate.value > estimate.limit and estimate.low != 0
    return "beyond chance" if beyond else "within chance"


def key_figures(evaluation: Evaluation) -> list[dict[str, str]]:
    """The six numbers that stand out: label, value, interval and verdict of each."""
    figures = []
    for name, label in (
        ("accuracy", "accuracy"),
        ("qwk", "quadratic kappa"),
        ("ece", "calibration error (ECE)"),
        ("sce", "class-wise error (SCE)"),
        ("unimodality", "unimodal"),
        ("rps", "ranked probability score"),
    ):
        metric = METRICS.get(name)
        estimate = evaluation.metrics[name]
        figures.append(
            {
                "label": label,
                "value": shown_value(evaluation, metric),
                "interval": shown_interval(estimate.low, estimate.high, percent=metric.percent),
                "verdict": verdict(evaluation, name),
            }
        )
    return figures


def _confidence(evaluation: Evaluation) -> str:
    gap = evaluation.metrics["overconfidence"]
    points = f"{abs(gap.value) * 100:.{0 if abs(gap.value) >= 0.1 else 1}f} points"
    kind = "Over-confident" if gap.value > 0 else "Under-confident"
    certain = not math.isnan(gap.low) and (gap.low > 0 or gap.high < 0)
    top = evaluation.tables.top.sum(-1)
    confidence, accuracy = float(top[VALUE] / top[WEIGHT]), float(top[OUTCOME] / top[WEIGHT])
    # Confidence is about the most likely class, whatever rule decides.
    usual = isinstance(evaluation.decide, str) and evaluation.decide == "argmax"
    who = "is right" if usual else "its most likely class is right"
    claim = f"it says {shown(confidence, percent=True)} on average and {who} {shown(accuracy, percent=True)}"
    if evaluation.rows < FEW_ROWS:
        return f"{evaluation.rows} rows are too few to judge confidence: {claim} of the time."
    if certain:
        return f"{kind} by {points}: {claim} of the time."
    if math.isnan(gap.low):
        return f"{kind} by {points} on these rows: {claim} of the time."
    return f"Confidence matches accuracy within noise: {claim} of the time."


def _classes(evaluation: Evaluation) -> str:
    fine = sum(record["ce"] <= record["ce_limit"] for record in evaluation.per_class)
    sce = evaluation.metrics["sce"]
    if sce.expected is None:
        return ""
    return (
        f"{fine} of {len(evaluation.classes)} classes are calibrated as far as {evaluation.rows:,} rows can tell: the "
        f"class-wise error (SCE) is {shown(sce.value, percent=True)}, where a perfectly calibrated model "
        f"with the same probabilities would show about {shown(sce.expected, percent=True)}."
    )


def _shape(evaluation: Evaluation) -> str:
    share = evaluation.metrics["unimodality"].value
    if share == 1:
        return "All predictions are unimodal: mass falls off on both sides of the most likely class."
    odd = round((1 - share) * evaluation.rows)
    rows = "one row has" if odd == 1 else f"{odd:,} rows have"
    unit = "by weight" if evaluation.weighted else f"{rows} several humps"
    amount = "Nearly 100 %" if share >= 0.9995 else shown(share, percent=True)
    return f"{amount} of the predictions are unimodal ({unit})."


def _decisions(evaluation: Evaluation) -> str:
    near, mae = evaluation.metrics["within_one"].value, evaluation.metrics["mae"].value
    if len(evaluation.classes) == 2:
        return f"Decisions are right in {shown(evaluation.metrics['accuracy'].value, percent=True)}."
    return f"Decisions are right or one class off in {shown(near, percent=True)}, and {mae:.2f} classes off on average."
