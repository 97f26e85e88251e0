"""What an evaluation shows: one decision from which headline, advice and marks follow.

Failures come first: a model that is not better than the class frequencies, classes that are never or rarely decided,
thresholds that miss most of their rows, subgroups that differ, and classes with too few rows. Then calibration. The
model as a whole is tested by `PRIMARY`: over-confidence, ECE, SCE and the error of the thresholds. Their p-values
are adjusted by the method of Holm (1979), so a calibrated model is called miscalibrated in at most 5 % of evaluations.
Only if one of them is significant, classes and thresholds are tested, each family adjusted likewise. Subgroups are
another family: the smallest adjusted p-value of each subgroup is adjusted over the subgroups. Whether over-confidence,
mean absolute error and mean grade differ between them is a family of three tests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from orcu.metrics.thresholds import rate_totals
from orcu.resampling import CONFIDENCE_LEVEL

if TYPE_CHECKING:
    from orcu.evaluation.evaluation import Evaluation
    from orcu.resampling import Estimate

LEVEL = 1 - CONFIDENCE_LEVEL
MIN_ROWS = 30  # rows needed for a statement about calibration
MIN_CLASS_ROWS = 10  # rows of a class needed for a statement about it
LOW_RATE = 0.5  # a threshold with a smaller sensitivity or specificity misses most of its rows
NO_SKILL = 1e-9  # skill up to this size is rounding
RARE = 0.5  # a class is rarely decided if it is decided less often than this share of its rows
RELEVANT_DIFFERENCE = 0.1  # standardized mean difference of a subgroup (Williamson, Xi and Breyer, 2012)
GAP = "overconfidence"
PRIMARY = (GAP, "ece", "sce", "threshold_ce")
SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not significant"


def interval_p_value(estimate: "Estimate", null: float = 0.0) -> float:
    """Two-sided p-value of a value with an interval, below 5 % exactly if the 95 % interval excludes ``null``."""
    value = estimate.value - null
    width = value - (estimate.low - null) if value > 0 else (estimate.high - null) - value
    if math.isnan(width):
        return math.nan
    if width <= 0:
        return float(value == 0)
    return float(2 * ndtr(-_quantile() * abs(value) / width))


def _quantile() -> float:
    return float(ndtri(1 - LEVEL / 2))


def adjust(p_values: Mapping[Any, float]) -> dict[Any, float]:
    """Adjusted p-values of a family by the method of Holm; NaN stays NaN and does not count.

    Example:
        >>> adjust({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    ordered = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    adjusted, largest = dict.fromkeys(p_values, math.nan), 0.0
    for rank, (p, name) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        adjusted[name] = largest
    return adjusted


@dataclass(frozen=True)
class Share:
    """Rows with a decision, of all rows of a class or threshold, with a 95 % interval of the share (NaN if none)."""

    part: float
    total: float
    low: float
    high: float


@dataclass(frozen=True)
class Failures:
    """What a user must know before anything else; empty if there is nothing of a kind."""

    skill: "Estimate"  # of the ranked probability score against the class frequencies
    is_useless: bool  # whether the model is not better than the class frequencies
    never_decided: Mapping[str, float]  # classes with rows, and their rows
    rarely_decided: Mapping[str, Share]  # classes; decisions, and rows with the label; with intervals only
    missed: Mapping[str, tuple[str, Share]]  # by event: the lowest sensitivity and specificity below `LOW_RATE`
    few_rows: Mapping[str, float]  # classes with too few rows for a statement, and their rows

    def __bool__(self) -> bool:
        return bool(self.is_useless or self.never_decided or self.rarely_decided or self.missed or self.few_rows)


@dataclass(frozen=True)
class Findings:
    """Significant results of an evaluation."""

    rows: int
    p_values: Mapping[str, float]  # adjusted, of `PRIMARY`
    other_p_values: Mapping[str, float]  # of the other binned errors
    classes: Sequence[str]  # with a significant calibration error
    thresholds: Sequence[str]  # likewise
    subgroups: Mapping[str, "Findings"]  # findings of each subgroup
    off_subgroups: Sequence[str]  # subgroups with a significant error, largest over-confidence first
    subgroups_differ: bool  # whether the over-confidence of the subgroups differs
    subgroup_errors_differ: bool  # whether the mean absolute error of the decisions differs between the subgroups
    subgroup_grades_differ: bool  # whether the standardized mean difference differs, and exceeds 0.1 in one of them
    calibrators: Sequence[str]  # calibrators that were applied before
    is_unimodal: bool
    failures: Failures
    is_tested: bool = True  # False for a subgroup that is not significant among the subgroups

    @property
    def enough_rows(self) -> bool:
        """Whether there are enough rows for a statement."""
        return self.rows >= MIN_ROWS

    @property
    def smallest_p_value(self) -> float:
        """Smallest adjusted p-value of the model as a whole; NaN if nothing could be tested."""
        tested = [p for p in self.p_values.values() if not math.isnan(p)]
        return min(tested) if tested and self.enough_rows else math.nan

    @property
    def is_miscalibrated(self) -> bool:
        """Whether the model as a whole has a significant calibration error."""
        return self.is_tested and self.smallest_p_value < LEVEL

    def significance(self, metric: str) -> str:
        """Whether an error is "significant", "not significant", or "" if it is not tested."""
        p = self.p_values.get(metric, self.other_p_values.get(metric, math.nan))
        if math.isnan(p) or not self.enough_rows:
            return ""
        return SIGNIFICANT if self.is_miscalibrated and p < LEVEL else NOT_SIGNIFICANT


def findings(evaluation: "Evaluation") -> Findings:
    """The significant results of an evaluation, by the rule of this module."""
    result = _whole(evaluation)
    parts = {name: _whole(part) for name, part in evaluation.subgroups.items()}
    adjusted = adjust({name: part.smallest_p_value for name, part in parts.items()})
    off = [name for name in parts if adjusted[name] < LEVEL]
    off.sort(key=lambda name: -abs(evaluation.subgroups[name].metrics[GAP].value))
    return Findings(
        **{
            **vars(result),
            "subgroups": {name: Findings(**{**vars(part), "is_tested": name in off}) for name, part in parts.items()},
            "off_subgroups": off,
            **_differences(_large(evaluation.subgroups)),
        }
    )


def _differences(subgroups: Sequence["Evaluation"]) -> dict[str, bool]:
    """Which values differ between the subgroups, by the names of their fields; a family of tests."""
    adjusted = adjust(
        {
            "subgroups_differ": _homogeneity_p_value([part.metrics[GAP] for part in subgroups]),
            "subgroup_errors_differ": _homogeneity_p_value([part.metrics["mae"] for part in subgroups]),
            "subgroup_grades_differ": _homogeneity_p_value([part.mean_difference for part in subgroups]),
        }
    )
    differ = {name: p < LEVEL for name, p in adjusted.items()}
    relevant = any(abs(part.mean_difference.value) > RELEVANT_DIFFERENCE for part in subgroups)
    return differ | {"subgroup_grades_differ": differ["subgroup_grades_differ"] and relevant}


def _large(subgroups: Mapping[str, "Evaluation"]) -> list["Evaluation"]:
    return [part for part in subgroups.values() if part.rows >= MIN_ROWS]


def _whole(evaluation: "Evaluation") -> Findings:
    metrics = evaluation.metrics
    raw = {name: estimate.p_value for name, estimate in metrics.items() if estimate.p_value is not None}
    gap = interval_p_value(metrics[GAP])
    adjusted = adjust({GAP: gap} | {name: raw[name] for name in PRIMARY if name in raw})
    is_open = evaluation.rows >= MIN_ROWS and any(p < LEVEL for p in adjusted.values())

    def significant(records: list[dict[str, Any]], name: str) -> list[str]:
        family = adjust({number: record["ce_p_value"] for number, record in enumerate(records)})
        return [records[number][name] for number, p in family.items() if is_open and p < LEVEL]

    return Findings(
        rows=evaluation.rows,
        p_values=adjusted,
        other_p_values={name: p for name, p in raw.items() if name not in PRIMARY},
        classes=significant(evaluation.per_class, "class"),
        thresholds=significant(evaluation.per_threshold, "event"),
        subgroups={},
        off_subgroups=[],
        subgroups_differ=False,
        subgroup_errors_differ=False,
        subgroup_grades_differ=False,
        calibrators=[step["method"] for step in evaluation.sample.history if step.get("step") == "calibrate"],
        is_unimodal=evaluation.metrics["unimodality"].value == 1,
        failures=_failures(evaluation),
    )


def _failures(evaluation: "Evaluation") -> Failures:
    confusion = evaluation.sums.confusion
    labels, decisions, total = confusion.sum(1), confusion.sum(0), float(confusion.sum())
    rows_per_weight = evaluation.rows / total
    decided = [record["decided"] for record in evaluation.per_class]
    skill = evaluation.corp["skill"]
    lowest_skill = skill.value if math.isnan(skill.low) else skill.low
    never, rarely = {}, {}
    for k, name in enumerate(evaluation.classes):
        if labels[k] > 0 and decisions[k] == 0:
            never[name] = float(labels[k])
        # The share of the decisions is compared with the share of the labels, each of all rows.
        elif labels[k] > 0 and decided[k].high < RARE * labels[k] / total:
            rarely[name] = Share(float(decisions[k]), float(labels[k]), math.nan, math.nan)
    return Failures(
        skill=skill,
        is_useless=evaluation.rows >= MIN_ROWS and lowest_skill <= NO_SKILL,
        never_decided=never,
        rarely_decided=rarely,
        missed=_missed(evaluation),
        few_rows={
            name: float(count)
            for name, count in zip(evaluation.classes, labels, strict=True)
            if count * rows_per_weight < MIN_CLASS_ROWS
        },
    )


def _missed(evaluation: "Evaluation") -> dict[str, tuple[str, Share]]:
    """The threshold with the lowest sensitivity, and that with the lowest specificity, if below `LOW_RATE`."""
    totals, missed = rate_totals(evaluation.sums.confusion), {}
    for name in ("specificity", "sensitivity"):
        rates = [record[name] for record in evaluation.per_threshold]
        values = np.array([rate.value for rate in rates])
        if np.isfinite(values).any() and np.nanmin(values) < LOW_RATE:
            k = int(np.nanargmin(values))
            total = float(totals[name][k])
            share = Share(float(values[k]) * total, total, rates[k].low, rates[k].high)
            missed[evaluation.per_threshold[k]["event"]] = name, share
    return dict(reversed(missed.items()))


def _homogeneity_p_value(gaps: Sequence["Estimate"]) -> float:
    """P-value of Cochran's test of homogeneity with the standard errors of the intervals; NaN for fewer than two."""
    widths = np.array([gap.high - gap.low for gap in gaps])
    values, errors = np.array([gap.value for gap in gaps]), widths / (2 * _quantile())
    usable = np.isfinite(errors) & (errors > 0)
    if usable.sum() < 2:
        return math.nan
    weights = errors[usable] ** -2
    center = np.average(values[usable], weights=weights)
    statistic = float((weights * (values[usable] - center) ** 2).sum())
    return float(chdtrc(usable.sum() - 1, statistic))
