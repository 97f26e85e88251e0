"""Comparison of a fitted model with plain cross-entropy and temperature scaling on held-out rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import calibrators, geometry
from orcu.calibrators.recommend import cross_val_predict_proba
from orcu.evaluation.comparison import Difference, paired_differences
from orcu.evaluation.statistics import collect
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import METRICS
from orcu.predictions import Predictions

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


def compare_with_baseline(
    ours: FloatArray, baseline: FloatArray, y: IntArray, calibrator: Any, *, name: str
) -> Diagnosis:
    """Compare the held-out logits of a model and of the baseline, each after its cross-fitted calibrator.

    ``calibrator`` is that of the model, or "none"; ``name`` is the name of the model in the conclusion.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 3))
        >>> y = (z + rng.normal(size=z.shape)).argmax(1)
        >>> diagnosis = compare_with_baseline(z, rng.normal(size=(300, 3)), y, "temperature", name="ours")
        >>> diagnosis.rows, "better in accuracy" in diagnosis.verdict
        (300, True)
    """
    our_probs = geometry.probs(ours) if calibrator == "none" else _cross_fitted_probs(calibrator, ours, y)
    all_probs = (our_probs, _cross_fitted_probs("temperature", baseline, y))
    statistics = [collect(Predictions(probs=probs, y=y), n_bins=15)[0] for probs in all_probs]
    values = [{metric: float(METRICS.get(metric)(part.totals)) for metric in COMPARED_METRICS} for part in statistics]
    all_differences = paired_differences(statistics[0], statistics[1], N_RESAMPLES, 0)
    differences = {metric: all_differences[metric] for metric in COMPARED_METRICS}
    costs = {
        metric: METRICS.get(metric).cost(np.array([difference.low, difference.high]))
        for metric, difference in differences.items()
    }
    better = [metric for metric, (low, high) in costs.items() if max(low, high) < 0]
    worse = [metric for metric, (low, high) in costs.items() if min(low, high) > 0]
    return Diagnosis(values[0], values[1], differences, len(y), _verdict(name, better, worse, len(y)))


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


def _cross_fitted_probs(calibrator: Any, logits: FloatArray, y: IntArray) -> FloatArray:
    unfitted = calibrators.create(calibrator) if isinstance(calibrator, (str, dict)) else calibrator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)  # each fold has few rows
        return cross_val_predict_proba(unfitted, logits, y)
