"""Comparison of a fitted model with plain cross-entropy and temperature scaling on held-out rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import calibrators, geometry
from orcu.calibrators.base import clone
from orcu.calibrators.cross_validation import N_FOLDS
from orcu.errors import InputError
from orcu.evaluation.comparison import Difference, paired_differences
from orcu.evaluation.statistics import collect
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import METRICS
from orcu.model_selection import cross_fit_folds
from orcu.predictions import Predictions
from orcu.raters.votes import Targets, grades, weighted_rows

COMPARED_METRICS = ("accuracy", "mae", "qwk", "nll", "rps", "ece", "sce", "unimodality")
BASELINE = "cross-entropy + temperature scaling"
N_RESAMPLES = 1000


@dataclass(frozen=True)
class Diagnosis:
    """Metrics of a model and of the baseline on the same held-out rows, their paired differences, and a conclusion."""

    ours: dict[str, float]
    baseline: dict[str, float]
    differences: dict[str, Difference]
    rows: int
    verdict: str

    def __str__(self) -> str:
        width = max(map(len, COMPARED_METRICS))
        lines = [f"{'':{width}}  {'model':>8}  {'baseline':>8}"]
        lines += [f"{name:{width}}  {self.ours[name]:8.4f}  {self.baseline[name]:8.4f}" for name in COMPARED_METRICS]
        return "\n".join([*lines, "", self.verdict])


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that neither model was trained on.

    Attributes:
        y: labels 0..C-1, (n,); or shares of votes, (n, C), of which the metrics are expectations over a random vote.
        sample_weight: weight of each row in the metrics, or ``None``.
        calibration_y: labels or votes for the calibrators, class weights included; ``None`` for ``y``.
        calibration_weight: weight of each row for the calibrators, class weights included, or ``None``.
        groups: group of each row, or ``None``; the intervals resample groups, and calibrators are cross-fitted by them.
    """

    y: Targets
    sample_weight: FloatArray | None = None
    calibration_y: Targets | None = None
    calibration_weight: FloatArray | None = None
    groups: IntArray | None = None


def compare_with_baseline(
    ours: FloatArray, baseline: FloatArray, rows: HeldOutRows, calibrator: Any, *, name: str
) -> Diagnosis:
    """Compare the held-out logits of a model and of the baseline, each after its cross-fitted calibrator.

    ``calibrator`` is that of the model, or "none"; ``name`` is the name of the model in the conclusion.

    Raises:
        InputError: if the rows have one group only.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 3))
        >>> y = (z + rng.normal(size=z.shape)).argmax(1)
        >>> diagnosis = compare_with_baseline(
        ...     z, rng.normal(size=(300, 3)), HeldOutRows(y), "temperature", name="ours"
        ... )
        >>> diagnosis.rows, "better in accuracy" in diagnosis.verdict
        (300, True)
    """
    plain = isinstance(calibrator, str) and calibrator == "none"
    our_probs = geometry.probs(ours) if plain else _cross_fitted_probs(calibrator, ours, rows)
    all_probs = (our_probs, _cross_fitted_probs("temperature", baseline, rows))
    case, label, weight = weighted_rows(rows.y, rows.sample_weight)
    groups = np.arange(len(rows.y)) if rows.groups is None and rows.y.ndim == 2 else rows.groups
    cluster = None if groups is None else groups[case]  # the votes of a row depend on each other
    statistics = [
        collect(Predictions(probs=probs[case], y=label, sample_weight=weight, cluster=cluster), n_bins=15)[0]
        for probs in all_probs
    ]
    values = [{metric: float(METRICS.get(metric)(part.totals)) for metric in COMPARED_METRICS} for part in statistics]
    all_differences = paired_differences(statistics[0], statistics[1], N_RESAMPLES, 0)
    differences = {metric: all_differences[metric] for metric in COMPARED_METRICS}
    costs = {
        metric: METRICS.get(metric).cost(np.array([difference.low, difference.high]))
        for metric, difference in differences.items()
    }
    better = [metric for metric, (low, high) in costs.items() if max(low, high) < 0]
    worse = [metric for metric, (low, high) in costs.items() if min(low, high) > 0]
    n = len(rows.y)
    return Diagnosis(values[0], values[1], differences, n, _verdict(name, better, worse, n))


def _verdict(name: str, better: list[str], worse: list[str], rows: int) -> str:
    text = f"On {rows:,} held-out rows (paired 95 % intervals), {name} compared with {BASELINE} is "
    if not better and not worse:
        return text + "not significantly better or worse in any metric: the simpler baseline may be enough here."
    parts = [f"{word} in {', '.join(names)}" for word, names in (("better", better), ("worse", worse)) if names]
    text += " and ".join(parts) + "."
    if {"rps", "nll"} & set(worse) and not {"rps", "nll"} & set(better):
        text += " Its probabilities are less accurate: prefer the baseline unless you need unimodal predictions."
    elif not worse:
        text += " It is significantly worse in no metric."
    return text


def _cross_fitted_probs(calibrator: Any, logits: FloatArray, rows: HeldOutRows) -> FloatArray:
    """Out-of-fold calibrated probabilities, (n, C)."""
    unfitted = calibrators.create(calibrator) if isinstance(calibrator, (str, dict)) else calibrator
    n_groups = N_FOLDS if rows.groups is None else len(np.unique(rows.groups))
    if n_groups < 2:
        raise InputError("diagnose: all held-out rows are of one group; at least two groups are needed.")
    probs = np.empty(logits.shape)
    y = rows.y if rows.calibration_y is None else rows.calibration_y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)  # each fold has few rows
        for fold in cross_fit_folds(grades(rows.y), min(N_FOLDS, n_groups), early_stopping=0.0, groups=rows.groups):
            weight = None if rows.calibration_weight is None else rows.calibration_weight[fold.train]
            fitted = clone(unfitted).fit(logits[fold.train], y[fold.train], sample_weight=weight)
            probs[fold.test] = fitted.predict_proba(logits[fold.test])
    return probs
