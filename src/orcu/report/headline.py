"""Headline of a report: the main results and the recommended next step in words, and the key figures."""

import math
from collections.abc import Mapping
from functools import partial

from orcu.evaluation.evaluation import Evaluation, format_metric, format_metric_interval
from orcu.evaluation.findings import GAP, LEVEL, MIN_ROWS, NO_SKILL, SIGNIFICANT, Findings, Share, findings
from orcu.evaluation.formatting import format_interval, format_value
from orcu.metrics.base import METRICS
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.resampling import Estimate

MAX_SUBGROUPS = 4  # subgroups named in a sentence
MAX_CLASSES = 4  # classes named in a sentence
PRIMARY_TITLES = {
    "overconfidence": "the difference of confidence and accuracy",
    "ece": "ECE",
    "sce": "SCE",
    "threshold_ce": "the error of the thresholds",
}
KEY_FIGURES = {
    "accuracy": "accuracy",
    "qwk": "quadratic kappa",
    "ece": "calibration error (ECE)",
    "sce": "class-wise error (SCE)",
    "unimodality": "unimodal predictions",
    "rps": "ranked probability score",
}


def headline(evaluation: Evaluation) -> list[str]:
    """Sentences for the top of a report, most important first: failures, calibration, decisions."""
    results = findings(evaluation)
    sentences = [_confidence(evaluation, results), _classes(evaluation, results)]
    if evaluation.subgroups and evaluation.n_resamples and not _subgroups_fail(results):
        sentences.insert(1, _subgroups(evaluation, results))
    sentences = [*failures(evaluation), *sentences, _shape(evaluation), _decisions(evaluation)]
    if evaluation.n_resamples and evaluation.differences:
        sentences.append(_comparison(evaluation))
    return sentences


def failures(evaluation: Evaluation) -> list[str]:
    """Sentences about failures that a user must know first; empty if there are none."""
    results = findings(evaluation)
    sentences = [_useless(evaluation, results), _missing_classes(evaluation, results)]
    if evaluation.subgroups and evaluation.n_resamples and _subgroups_fail(results):
        sentences.append(_subgroups(evaluation, results))
    few = results.failures.few_rows
    if few and results.enough_rows:
        sentences.append(f"Too few rows to assess: {_listed(_class_rows(evaluation, few))}.")
    return [sentence for sentence in sentences if sentence]


def _subgroups_fail(results: Findings) -> bool:
    return results.subgroups_differ or results.subgroup_errors_differ or results.subgroup_grades_differ


def _useless(evaluation: Evaluation, results: Findings) -> str:
    if not results.failures.is_useless:
        return ""
    skill = results.failures.skill
    verb = "worse than" if skill.high < 0 else "not better than"
    if skill.value > NO_SKILL:
        verb = "not significantly better than"
    rps, reference = evaluation.metrics["rps"].value, evaluation.corp["uncertainty"].value
    ends = "" if math.isnan(skill.low) else f" (skill {_signed(skill.value)}, 95 % interval {_signed_ends(skill)})"
    return (
        f"The model is {verb} always predicting the class frequencies: its ranked probability score is {rps:.3f}, "
        f"theirs {reference:.3f}{ends}."
    )


def _signed(value: float) -> str:
    return format_value(value, percent=True, signed=True)


def _signed_ends(estimate: Estimate) -> str:
    return format_interval(estimate.low, estimate.high, percent=True, signed=True)


def _missing_classes(evaluation: Evaluation, results: Findings) -> str:
    """One sentence on classes that are never or rarely decided, and on thresholds that miss most of their rows."""
    failures = results.failures
    parts = []
    if failures.never_decided:
        parts.append(f"never predicted: {_listed(_class_rows(evaluation, failures.never_decided))}")
    if failures.rarely_decided:
        amount = partial(_amount, evaluation)
        counts = [
            f'"{name}" (predicted for {amount(share.part)}, but {amount(share.total)} have it)'
            for name, share in failures.rarely_decided.items()
        ]
        parts.append(f"rarely predicted: {_listed(counts)}")
    if results.enough_rows:
        parts += [
            f'the {rate} for "{event}" is {_of(evaluation, share)}' for event, (rate, share) in failures.missed.items()
        ]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _class_rows(evaluation: Evaluation, counts: Mapping[str, float]) -> list[str]:
    return [f'"{name}" ({_amount(evaluation, count)})' for name, count in counts.items()]


def _amount(evaluation: Evaluation, count: float) -> str:
    """Number of rows in words, or the share of the weight."""
    if evaluation.weighted:
        return f"{format_value(count / float(evaluation.sums.confusion.sum()), percent=True)} of the rows"
    return "1 row" if count == 1 else f"{count:,.0f} rows"


def _of(evaluation: Evaluation, share: Share) -> str:
    value = format_value(share.part / share.total, percent=True)
    counts = value if evaluation.weighted else f"{round(share.part):,} of {round(share.total):,}"
    ends = "" if math.isnan(share.low) else f" (95 % interval {format_interval(share.low, share.high, percent=True)})"
    return f"{counts}{ends}"


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - MAX_CLASSES} more" if len(items) > MAX_CLASSES else ""
    return ", ".join(items[:MAX_CLASSES]) + more


def next_step(evaluation: Evaluation) -> str:
    """Recommended next step, which follows from `orcu.evaluation.findings`: failures first, then calibration."""
    results = findings(evaluation)
    if not results.enough_rows:
        return f"Evaluate on more labelled rows: {evaluation.rows} rows are too few for conclusions."
    if results.failures.is_useless and not _recalibration_helps(evaluation, results):
        return f"Do not use these predictions. {_useless_advice(evaluation)}"
    return " ".join(filter(None, [_failure_advice(evaluation, results), _calibration_advice(evaluation, results)]))


def _useless_advice(evaluation: Evaluation) -> str:
    """What to check, which depends on whether the model orders the rows."""
    order = evaluation.c_index
    if order.high < 0.5:
        return (
            f"The expected class orders the rows in reverse (C-index {order.value:.2f}): check whether the classes are "
            "in their order from lowest to highest, and the labels."
        )
    if evaluation.corp["discrimination"].low > 0:
        return (
            "They separate the classes, but too few rows show whether that is enough: evaluate on more labelled rows."
        )
    return (
        "Check the labels, the order of the classes and the inputs, or train another model; calibration does not help "
        "a model without discrimination."
    )


def _recalibration_helps(evaluation: Evaluation, results: Findings) -> bool:
    """Whether a model without skill would have some if it were calibrated."""
    discrimination = evaluation.corp["discrimination"]
    return results.is_miscalibrated and discrimination.low > 0


def _failure_advice(evaluation: Evaluation, results: Findings) -> str:
    failures = results.failures
    sentences = []
    if failures.is_useless:
        sentences.append("Do not use these probabilities as they are.")
    if failures.never_decided or failures.rarely_decided or failures.missed:
        remedy = "decide by a cost matrix in which their errors are costly (--rule)"
        if not isinstance(evaluation.rule, str):
            remedy = "check that the cost matrix accepts these errors, because it decides between them"
        sentences.append(
            f"Check the decisions before use: train with more rows of the classes that are missed, or {remedy}."
        )
    if results.subgroup_errors_differ:
        sentences.append(
            "Report the errors of each subgroup, and train with more rows of the subgroups with large ones."
        )
    if results.subgroup_grades_differ:
        sentences.append(
            "Check the labels and training rows of the subgroups whose grades are predicted too high or low."
        )
    if failures.few_rows:
        sentences.append("Collect more labelled rows of the classes with too few.")
    return " ".join(sentences)


def _calibration_advice(evaluation: Evaluation, results: Findings) -> str:
    by_subgroup = "fit a correction for each subgroup (orcu calibrate fit --subgroup COLUMN)"
    if results.is_miscalibrated and results.calibrators:
        advice = (
            f"The probabilities were calibrated ({', '.join(results.calibrators)}) and still have a significant "
            "calibration error: fit the calibrator again, to the uncalibrated predictions of more labelled rows from "
            "the same source as these."
        )
        return f"{advice} The subgroups differ: {by_subgroup}." if results.subgroups_differ else advice
    if results.is_miscalibrated:
        advice = (
            "Calibrate the model on labelled rows that were not used for training (orcu calibrate fit), and evaluate "
            "it again on other rows. If these probabilities are calibrated already, fit the calibrator to more rows."
        )
        return f"{advice} The subgroups differ: {by_subgroup}." if results.subgroups_differ else advice
    if results.subgroups_differ or results.off_subgroups:
        reason = "the subgroups differ" if results.subgroups_differ else "there are significant ones in subgroups"
        return f"Over all rows no calibration error is significant, but {reason}: {by_subgroup}."
    sce = evaluation.metrics["sce"].high
    bound = "" if math.isnan(sce) else f" (corrected for noise, the SCE is at most {format_value(sce, percent=True)})"
    if not results.is_unimodal:
        return (
            f"No calibration error is significant on these rows{bound}. To make all predictions unimodal, use orcu "
            "calibrate fit --calibrator projection."
        )
    return (
        f"No calibration error is significant on these rows{bound}: there is no evidence that further calibration is "
        "needed."
    )


def significance(evaluation: Evaluation, metric: str) -> str:
    """Whether a binned error exceeds that of a calibrated model: "significant", "not significant", or "" if unknown."""
    return "" if evaluation.metrics[metric].p_value is None else findings(evaluation).significance(metric)


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


def _gap_in_words(evaluation: Evaluation) -> str:
    gap = evaluation.metrics[GAP].value
    side = "over-confident" if gap > 0 else "under-confident"
    return f"{side} by {abs(gap) * 100:.{0 if abs(gap) >= 0.1 else 1}f} points"


def _subgroups(evaluation: Evaluation, results: Findings) -> str:
    """Errors of the subgroups if they differ, and significant calibration errors, largest over-confidence first."""
    parts, total = evaluation.subgroups, len(evaluation.subgroups)
    few = sum(part.rows < MIN_ROWS for part in parts.values())
    aside = f" ({few} of {total} have fewer than {MIN_ROWS} rows)" if few else ""
    errors = ""
    if results.subgroup_errors_differ:
        values = {name: part.metrics["mae"].value for name, part in parts.items() if part.rows >= MIN_ROWS}
        best, worst = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        errors = (
            f"The mean absolute error differs significantly between the subgroups: {values[worst]:.2f} classes in "
            f"{worst}, {values[best]:.2f} in {best}. "
        )
    return errors + _subgroup_grades(parts, results) + _subgroup_calibration(evaluation, results, aside)


def _subgroup_grades(parts: Mapping[str, Evaluation], results: Findings) -> str:
    """The subgroups whose grades are predicted too high and too low, if they differ."""
    if not results.subgroup_grades_differ:
        return ""
    values = {name: part.mean_difference.value for name, part in parts.items() if part.rows >= MIN_ROWS}
    ends = (max(values, key=values.__getitem__), min(values, key=values.__getitem__))
    high, low = (f"{values[name]:+.2f} standard deviations in {name}" for name in ends)
    return (
        f"The mean predicted minus the mean observed grade differs significantly between the subgroups: {high}, {low}. "
    )


def _subgroup_calibration(evaluation: Evaluation, results: Findings, aside: str) -> str:
    parts, total, off = evaluation.subgroups, len(evaluation.subgroups), results.off_subgroups
    if not off and results.subgroups_differ:
        gaps = [part.metrics[GAP].value for part in parts.values() if part.rows >= MIN_ROWS]
        span = " to ".join(format_value(end, percent=True, signed=True) for end in (min(gaps), max(gaps)))
        return f"The over-confidence differs significantly between the subgroups, from {span}{aside}."
    if not off:
        return f"No subgroup has a significant calibration error{aside}."

    def words(name: str) -> str:
        p_values = results.subgroups[name].p_values
        if p_values[GAP] < LEVEL:
            return f"{name} is {_gap_in_words(parts[name])}"
        errors = [title.removeprefix("the ") for metric, title in PRIMARY_TITLES.items() if p_values[metric] < LEVEL]
        return f"{name} has a significant {' and '.join(errors)}"

    listed = ", ".join(map(words, off[:MAX_SUBGROUPS]))
    more = f", and {len(off) - MAX_SUBGROUPS} more have a significant error" if len(off) > MAX_SUBGROUPS else ""
    rest = f"; no significant error in {total - len(off)} of {total} subgroups" if total > len(off) else ""
    return f"By subgroup: {listed}{more}{rest}."


def _comparison(evaluation: Evaluation) -> str:
    """Number of metrics in which the model is significantly better, and worse, than the only other one."""
    if len(evaluation.differences) > 1:
        return f"It is compared with {len(evaluation.differences)} other models below, metric by metric."
    (other,) = evaluation.differences
    outcomes = [evaluation.differences[other][metric.name].outcome(metric) for metric in evaluation.metric_list]
    better, worse, level = (outcomes.count(outcome) for outcome in ("better", "worse", "level"))
    rest = f", no significant difference in {level}" if level else ""
    counts = f"better in {better} of {better + worse + level} metrics, worse in {worse}{rest}"
    return f'Compared with "{other}" (paired, 95 %): {counts}.'


def _confidence(evaluation: Evaluation, results: Findings) -> str:
    gap = evaluation.metrics[GAP]
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
    if results.p_values[GAP] < LEVEL:
        return f"{_gap_in_words(evaluation).capitalize()} (statistically significant): {values}"
    return f"Confidence and accuracy do not differ significantly: {values}"


def _classes(evaluation: Evaluation, results: Findings) -> str:
    sce = evaluation.metrics["sce"]
    if sce.expected is None:
        return ""
    detail = (
        f"The class-wise error (SCE) is {format_value(sce.value, percent=True)}; a perfectly calibrated model with the "
        f"same probabilities would have about {format_value(sce.expected, percent=True)}."
    )
    if not results.enough_rows:
        return detail
    if not results.is_miscalibrated:
        return f"No calibration error is significant on {evaluation.rows:,} rows. {detail}"
    names = [title for name, title in PRIMARY_TITLES.items() if results.significance(name) == SIGNIFICANT]
    if results.classes:
        names.append(f"the errors of {len(results.classes)} of {len(evaluation.classes)} classes")
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"Significant on {evaluation.rows:,} rows, adjusted for the number of tests: {listed}. {detail}"


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
