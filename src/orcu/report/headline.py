"""Headline of a report: the main results and the recommended next step in words, and the key figures."""

import math

from orcu.evaluation.evaluation import Evaluation, format_metric, format_metric_interval
from orcu.evaluation.formatting import format_value
from orcu.metrics.base import METRICS
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

MIN_ROWS = 30  # rows needed for a statement about the confidence
MAX_SUBGROUPS = 4  # subgroups named in a sentence
SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not significant"
KEY_FIGURES = {
    "accuracy": "accuracy",
    "qwk": "quadratic kappa",
    "ece": "calibration error (ECE)",
    "sce": "class-wise error (SCE)",
    "unimodality": "unimodal predictions",
    "rps": "ranked probability score",
}


def headline(evaluation: Evaluation) -> list[str]:
    """Sentences for the top of a report, most important first."""
    sentences = [_confidence(evaluation), _classes(evaluation), _shape(evaluation), _decisions(evaluation)]
    if not evaluation.n_resamples:  # no statements about significance
        return sentences
    if evaluation.subgroups:
        sentences.insert(1, _subgroups(evaluation))
    return [*sentences, *(_comparison(evaluation, other) for other in evaluation.differences)]


def next_step(evaluation: Evaluation) -> str:
    """Recommended next step, in one or two sentences."""
    if evaluation.rows < MIN_ROWS:
        return f"Evaluate on more labelled rows: {evaluation.rows} rows are too few for conclusions."
    miscalibrated = any(_is_miscalibrated(part) for part in (evaluation, *evaluation.subgroups.values()))
    if miscalibrated or any(significance(evaluation, name) == SIGNIFICANT for name in ("ece", "sce", "threshold_ce")):
        advice = (
            "Calibrate the model on labelled rows that were not used for training (orcu calibrate fit), and evaluate "
            "it again on other rows."
        )
        if _subgroups_differ(evaluation):
            advice += " The subgroups differ: fit a correction for each (orcu calibrate fit --subgroup COLUMN)."
        return advice
    if evaluation.metrics["unimodality"].value < 1:
        return (
            "Overall, the miscalibration is not significant. To make all predictions unimodal, use orcu calibrate fit "
            "--calibrator projection."
        )
    return "Overall, the miscalibration is not significant on these rows: the probabilities can be used as they are."


def significance(evaluation: Evaluation, metric: str) -> str:
    """Whether a binned error exceeds that of a calibrated model: "significant", "not significant", or "" if unknown."""
    estimate = evaluation.metrics[metric]
    if estimate.limit is None or math.isnan(estimate.value):
        return ""
    return SIGNIFICANT if estimate.value > estimate.limit and estimate.low != 0 else NOT_SIGNIFICANT


def key_figures(evaluation: Evaluation) -> list[dict[str, str]]:
    """The six key figures: label, value, interval and significance of each."""
    return [
        {
            "label": label,
            "value": format_metric(evaluation, METRICS.get(name)),
            "interval": format_metric_interval(evaluation, METRICS.get(name)),
            "significance": significance(evaluation, name),
        }
        for name, label in KEY_FIGURES.items()
    ]


def _is_miscalibrated(evaluation: Evaluation) -> bool:
    """Whether confidence and accuracy differ significantly."""
    gap = evaluation.metrics["overconfidence"]
    return evaluation.rows >= MIN_ROWS and not math.isnan(gap.low) and (gap.low > 0 or gap.high < 0)


def _gap_in_words(evaluation: Evaluation) -> str:
    gap = evaluation.metrics["overconfidence"].value
    side = "over-confident" if gap > 0 else "under-confident"
    return f"{side} by {abs(gap) * 100:.{0 if abs(gap) >= 0.1 else 1}f} points"


def _subgroups_differ(evaluation: Evaluation) -> bool:
    """Whether the over-confidence of two subgroups differs: their intervals do not overlap."""
    gaps = [part.metrics["overconfidence"] for part in evaluation.subgroups.values() if part.rows >= MIN_ROWS]
    gaps = [gap for gap in gaps if not math.isnan(gap.low)]
    return len(gaps) > 1 and max(gap.low for gap in gaps) > min(gap.high for gap in gaps)


def _subgroups(evaluation: Evaluation) -> str:
    """Subgroups in which confidence and accuracy differ, largest difference first."""
    parts, total = evaluation.subgroups, len(evaluation.subgroups)
    off = sorted(
        (name for name in parts if _is_miscalibrated(parts[name])),
        key=lambda name: -abs(parts[name].metrics["overconfidence"].value),
    )
    if not off:
        few = sum(part.rows < MIN_ROWS for part in parts.values())
        aside = f" ({few} of {total} have fewer than {MIN_ROWS} rows)" if few else ""
        return f"In no subgroup do confidence and accuracy differ significantly{aside}."
    listed = ", ".join(f"{name} is {_gap_in_words(parts[name])}" for name in off[:MAX_SUBGROUPS])
    more = f", and {len(off) - MAX_SUBGROUPS} more differ significantly" if len(off) > MAX_SUBGROUPS else ""
    rest = f"; no significant difference in {total - len(off)} of {total} subgroups" if total > len(off) else ""
    return f"By subgroup: {listed}{more}{rest}."


def _comparison(evaluation: Evaluation, other: str) -> str:
    """Number of metrics in which the model is significantly better, and worse, than another."""
    better = worse = count = 0
    for metric in evaluation.metric_list:
        difference = evaluation.differences[other][metric.name]
        if metric.better in ("higher", "lower"):
            costs = metric.cost(difference.low), metric.cost(difference.high)
            better += max(costs) < 0
            worse += min(costs) > 0
            count += 1
    rest = f", no significant difference in {count - better - worse}" if count > better + worse else ""
    return f'Compared with "{other}" (paired, 95 %): better in {better} of {count} metrics, worse in {worse}{rest}.'


def _confidence(evaluation: Evaluation) -> str:
    gap = evaluation.metrics["overconfidence"]
    top = evaluation.sums.top.sum(-1)
    confidence, accuracy = (format_value(float(top[part] / top[WEIGHT]), percent=True) for part in (VALUE, OUTCOME))
    # The confidence is that of the most probable class, also if another rule decides.
    argmax = isinstance(evaluation.rule, str) and evaluation.rule == "argmax"
    of_class = "" if argmax else " of the most probable class"
    values = f"the mean confidence is {confidence}, the accuracy{of_class} {accuracy}."
    if evaluation.rows < MIN_ROWS:
        return f"{evaluation.rows} rows are too few to assess the confidence: {values}"
    if math.isnan(gap.low):
        return f"{_gap_in_words(evaluation).capitalize()} on these rows: {values}"
    if _is_miscalibrated(evaluation):
        return f"{_gap_in_words(evaluation).capitalize()} (statistically significant): {values}"
    return f"Confidence and accuracy do not differ significantly: {values}"


def _classes(evaluation: Evaluation) -> str:
    significant = sum(record["ce"] > record["ce_limit"] for record in evaluation.per_class)
    sce = evaluation.metrics["sce"]
    if sce.expected is None:
        return ""
    return (
        f"{significant} of {len(evaluation.classes)} classes {'has' if significant == 1 else 'have'} a significant "
        "calibration error on "
        f"{evaluation.rows:,} rows. The class-wise error (SCE) is {format_value(sce.value, percent=True)}; a perfectly "
        f"calibrated model with the same probabilities would have about {format_value(sce.expected, percent=True)}."
    )


def _shape(evaluation: Evaluation) -> str:
    share = evaluation.metrics["unimodality"].value
    if share == 1:
        return "All predictions are unimodal: probabilities decrease on both sides of the most probable class."
    count = round((1 - share) * evaluation.rows)
    rows = "1 row has" if count == 1 else f"{count:,} rows have"
    detail = "weighted" if evaluation.weighted else f"{rows} more than one mode"
    amount = "More than 99.9 %" if share >= 0.9995 else format_value(share, percent=True)
    return f"{amount} of the predictions are unimodal ({detail})."


def _decisions(evaluation: Evaluation) -> str:
    accuracy, near = (
        format_value(evaluation.metrics[name].value, percent=True) for name in ("accuracy", "off_by_one_accuracy")
    )
    if len(evaluation.classes) == 2:
        return f"{accuracy} of the decisions are right."
    mae = evaluation.metrics["mae"].value
    return f"{near} of the decisions are right or one class off; the mean absolute error is {mae:.2f} classes."
