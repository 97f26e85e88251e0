"""What the numbers say, in words."""

import math

from orcu.evaluation.evaluate import Evaluation
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.report.plain import shown

FEW_ROWS = 30


def headline(found: Evaluation) -> list[str]:
    """Sentences for the top of a report, most important first."""
    return [_confidence(found), _classes(found), _shape(found), _decisions(found)]


def verdict(found: Evaluation, metric: str) -> str:
    """Whether a binned error exceeds what chance explains: "beyond chance", "within chance" or ""."""
    estimate = found.metrics[metric]
    if estimate.limit is None or math.isnan(estimate.value):
        return ""
    beyond = estimate.value > estimate.limit and estimate.low != 0
    return "beyond chance" if beyond else "within chance"


def _confidence(found: Evaluation) -> str:
    gap = found.metrics["overconfidence"]
    points = f"{abs(gap.value) * 100:.{0 if abs(gap.value) >= 0.1 else 1}f} points"
    kind = "Over-confident" if gap.value > 0 else "Under-confident"
    certain = not math.isnan(gap.low) and (gap.low > 0 or gap.high < 0)
    top = found.tables.top.sum(-1)
    confidence, accuracy = float(top[VALUE] / top[WEIGHT]), float(top[OUTCOME] / top[WEIGHT])
    # Confidence is about the most likely class, whatever rule decides.
    usual = isinstance(found.decide, str) and found.decide == "argmax"
    who = "is right" if usual else "its most likely class is right"
    told = f"it says {shown(confidence, percent=True)} on average and {who} {shown(accuracy, percent=True)}"
    if found.rows < FEW_ROWS:
        return f"{found.rows} rows are too few to judge confidence: {told} of the time."
    if certain:
        return f"{kind} by {points}: {told} of the time."
    if math.isnan(gap.low):
        return f"{kind} by {points} on these rows: {told} of the time."
    return f"Confidence matches accuracy within noise: {told} of the time."


def _classes(found: Evaluation) -> str:
    fine = sum(record["ce"] <= record["ce_limit"] for record in found.per_class)
    sce = found.metrics["sce"]
    if sce.expected is None:
        return ""
    return (
        f"{fine} of {len(found.classes)} classes are calibrated as far as {found.rows:,} rows can tell: the "
        f"class-wise error (SCE) is {shown(sce.value, percent=True)}, where a perfectly calibrated model "
        f"with the same probabilities would show about {shown(sce.expected, percent=True)}."
    )


def _shape(found: Evaluation) -> str:
    share = found.metrics["unimodality"].value
    if share == 1:
        return "All predictions are unimodal: mass falls off on both sides of the most likely class."
    odd = round((1 - share) * found.rows)
    rows = "one row has" if odd == 1 else f"{odd:,} rows have"
    unit = "by weight" if found.weighted else f"{rows} several humps"
    told = "Nearly 100 %" if share >= 0.9995 else shown(share, percent=True)
    return f"{told} of the predictions are unimodal ({unit})."


def _decisions(found: Evaluation) -> str:
    near, mae = found.metrics["within_one"].value, found.metrics["mae"].value
    if len(found.classes) == 2:
        return f"Decisions are right in {shown(found.metrics['accuracy'].value, percent=True)}."
    return f"Decisions are right or one class off in {shown(near, percent=True)}, and {mae:.2f} classes off on average."
