"""What an evaluation shows about calibration: one decision from which headline, advice and marks follow.

The model as a whole is tested by `PRIMARY`: over-confidence, ECE, SCE and the error of the thresholds. Their p-values
are adjusted by the method of Holm (1979), so a calibrated model is called miscalibrated in at most 5 % of evaluations.
Only if one of them is significant, classes and thresholds are tested, each family adjusted likewise. Subgroups are
another family: the smallest adjusted p-value of each subgroup is adjusted over the subgroups.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc, gammaincc, ndtr, ndtri

from orcu.evaluation.intervals import CONFIDENCE_LEVEL
from orcu.inputs import FloatArray

if TYPE_CHECKING:
    from orcu.evaluation.evaluation import Estimate, Evaluation

LEVEL = 1 - CONFIDENCE_LEVEL
MIN_ROWS = 30  # rows needed for a statement about calibration
GAP = "overconfidence"
PRIMARY = (GAP, "ece", "sce", "threshold_ce")
SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not significant"


def reference_p_value(value: Any, errors: FloatArray) -> Any:
    """Probability that the binned error of a calibrated model is at least ``value``.

    The errors of the calibrated reference, shape (draws, ...), are sums of absolute values of nearly normal gaps. Their
    distribution is taken as a gamma distribution with their mean and variance, whose tail is smooth.

    Example:
        >>> errors = np.abs(np.random.default_rng(0).normal(size=(500, 20))).mean(axis=1)
        >>> bool(reference_p_value(np.quantile(errors, 0.95), errors) < 0.07)
        True
    """
    mean, variance = errors.mean(axis=0), errors.var(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = gammaincc(mean**2 / variance, np.asarray(value) * mean / variance)
    # Without noise, an error above the reference is certain.
    return np.where(variance > 0, p_value, np.where(np.asarray(value) > mean, 0.0, 1.0))


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
    calibrators: Sequence[str]  # calibrators that were applied before
    is_unimodal: bool
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
            "subgroups_differ": _differ([part.metrics[GAP] for part in _large(evaluation.subgroups)]),
        }
    )


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
        calibrators=[step["method"] for step in evaluation.sample.history if step.get("step") == "calibrate"],
        is_unimodal=evaluation.metrics["unimodality"].value == 1,
    )


def _differ(gaps: Sequence["Estimate"]) -> bool:
    """Whether values differ, by Cochran's test of homogeneity with the standard errors of their intervals."""
    widths = np.array([gap.high - gap.low for gap in gaps])
    values, errors = np.array([gap.value for gap in gaps]), widths / (2 * _quantile())
    usable = np.isfinite(errors) & (errors > 0)
    if usable.sum() < 2:
        return False
    weights = errors[usable] ** -2
    center = np.average(values[usable], weights=weights)
    statistic = float((weights * (values[usable] - center) ** 2).sum())
    return bool(chdtrc(usable.sum() - 1, statistic) < LEVEL)
