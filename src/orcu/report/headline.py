"""What the numbers say, in words, and which of them stand out."""

import math

from orcu.evaluation.evaluation import Evaluation, shown_value
from orcu.evaluation.printed import shown, shown_interval
from orcu.metrics.base import METRICS, all_metrics
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

FEW_ROWS = 30
MOST_GROUPS = 4  # that are named in a sentence


def headline(evaluation: Evaluation) -> list[str]:
    """Sentences for the top of a report, most important first; those of groups and other models where there are any."""
    sentences = [_confidence(evaluation), _classes(evaluation), _shape(evaluation), _decisions(evaluation)]
    if not evaluation.resamples:  # without them nothing is known of chance
        return sentences
    if evaluation.groups:
        sentences.insert(1, _groups(evaluation))
    return [*sentences, *(_compared(evaluation, other) for other in evaluation.differences)]


def next_step(evaluation: Evaluation) -> str:
    """What to do about it, in a sentence."""
    if evaluation.rows < FEW_ROWS:
        return f"Judge it on more labelled rows: {evaluation.rows} are too few to act on."
    off = [one for one in (evaluation, *evaluation.groups.values()) if _is_off(one)]
    if off or any(verdict(evaluation, name) == "beyond chance" for name in ("ece", "sce", "threshold_ce")):
        mend = "Calibrate it on labelled rows it was not trained on (orcu calibrate fit), and judge it again on others."
        if _differ(evaluation):
            mend += " Groups are off by different amounts: give each a turn of its own (orcu calibrate fit --group)."
        return mend
    if evaluation.metrics["unimodality"].value < 1:
        return "Its probabilities are calibrated; orcu calibrate fit --method projection makes every row unimodal."
    return "As far as these rows can tell, its probabilities can be used as they are."


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


def _is_off(evaluation: Evaluation) -> bool:
    """Whether its confidence misses its accuracy beyond chance."""
    gap = evaluation.metrics["overconfidence"]
    return evaluation.rows >= FEW_ROWS and not math.isnan(gap.low) and (gap.low > 0 or gap.high < 0)


def _side(evaluation: Evaluation) -> str:
    return "over-confident" if evaluation.metrics["overconfidence"].value > 0 else "under-confident"


def _points(evaluation: Evaluation) -> str:
    gap = abs(evaluation.metrics["overconfidence"].value)
    return f"{gap * 100:.{0 if gap >= 0.1 else 1}f} points"


def _differ(evaluation: Evaluation) -> bool:
    """Whether the over-confidence of two groups differs: their intervals do not meet."""
    gaps = [group.metrics["overconfidence"] for group in evaluation.groups.values() if group.rows >= FEW_ROWS]
    gaps = [gap for gap in gaps if not math.isnan(gap.low)]
    return len(gaps) > 1 and max(gap.low for gap in gaps) > min(gap.high for gap in gaps)


def _groups(evaluation: Evaluation) -> str:
    """Which groups are off, the furthest first: what is true of all rows together need not be true of each."""
    off = {name: group for name, group in evaluation.groups.items() if _is_off(group)}
    if not off:
        few = sum(group.rows < FEW_ROWS for group in evaluation.groups.values())
        aside = f"; {few} of {len(evaluation.groups)} have too few rows to tell" if few else ""
        return f"In no group does confidence miss accuracy beyond chance{aside}."
    furthest = sorted(off, key=lambda name: -abs(off[name].metrics["overconfidence"].value))
    parts = [f"{name} is {_side(off[name])} by {_points(off[name])}" for name in furthest[:MOST_GROUPS]]
    others = len(evaluation.groups) - len(off)
    more = f", and {len(off) - MOST_GROUPS} more groups are off" if len(off) > MOST_GROUPS else ""
    rest = f"; {others} of {len(evaluation.groups)} groups within noise" if others else ""
    return f"By group, {', '.join(parts)}{more}{rest}."


def _compared(evaluation: Evaluation, other: str) -> str:
    """In how many metrics another model is better, and worse, beyond chance."""
    differences = evaluation.differences[other]
    better, worse = 0, 0
    for metric in all_metrics():
        one = differences[metric.name]
        if metric.better in ("higher", "lower") and not math.isnan(one.low) and (one.low > 0 or one.high < 0):
            costs_more = one.low > 0 if metric.better == "lower" else one.high < 0
            better, worse = better + costs_more, worse + (not costs_more)
    count = sum(metric.better in ("higher", "lower") for metric in all_metrics())
    return f"Beside it, {other} is better beyond chance in {better} of {count} metrics and worse in {worse}."


def _confidence(evaluation: Evaluation) -> str:
    gap = evaluation.metrics["overconfidence"]
    points, kind = _points(evaluation), _side(evaluation).capitalize()
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
