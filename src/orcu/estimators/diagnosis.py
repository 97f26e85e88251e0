"""Whether an ordinal model was worth it: beside plain cross-entropy with temperature scaling, in words."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import calibrators, geometry
from orcu.calibrators.recommend import cross_fitted
from orcu.evaluation.comparison import Difference, paired_differences
from orcu.evaluation.evidence import gather
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import METRICS
from orcu.predictions.predictions import Predictions

SHOWN = ("accuracy", "mae", "qwk", "nll", "rps", "ece", "sce", "unimodality")
BASELINE = "cross-entropy + temperature"


@dataclass(frozen=True)
class Diagnosis:
    """Two models on the same held-out rows: metrics of each, paired differences, and a reading."""

    ours: dict[str, float]
    baseline: dict[str, float]
    differences: dict[str, Difference]
    rows: int
    verdict: str

    def __str__(self) -> str:
        width = max(map(len, SHOWN))
        lines = [f"{'':{width}}  {'ours':>8}  {'baseline':>8}"]
        lines += [f"{name:{width}}  {self.ours[name]:8.4f}  {self.baseline[name]:8.4f}" for name in SHOWN]
        return "\n".join([*lines, "", self.verdict])


def beside_baseline(ours: FloatArray, theirs: FloatArray, y: IntArray, chain: Any, *, what: str) -> Diagnosis:
    """Compare two models' logits of held-out rows, each after its calibrator, cross-fitted.

    Args:
        ours: logits, shape (n, C).
        theirs: the baseline's.
        y: labels.
        chain: our calibrator, or "none".
        what: what our model is called.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 3))
        >>> y = (z + rng.normal(size=z.shape)).argmax(1)
        >>> diagnosis = beside_baseline(z, rng.normal(size=(300, 3)), y, "temperature", what="ours")
        >>> diagnosis.rows, "better in accuracy" in diagnosis.verdict
        (300, True)
    """
    mine = geometry.probs(ours) if chain == "none" else _cross_fitted(chain, ours, y)
    both = (mine, _cross_fitted("temperature", theirs, y))
    evidence = [gather(Predictions(probs=probs, y=y), bins=15)[0] for probs in both]
    values = [{name: float(METRICS.get(name)(one.totals)) for name in SHOWN} for one in evidence]
    every = paired_differences(evidence[0], evidence[1], 1000, 0)
    differences = {name: every[name] for name in SHOWN}
    costs = {name: METRICS.get(name).cost(np.array([one.low, one.high])) for name, one in differences.items()}
    better = [name for name, (low, high) in costs.items() if max(low, high) < 0]
    worse = [name for name, (low, high) in costs.items() if min(low, high) > 0]
    return Diagnosis(values[0], values[1], differences, len(y), _reading(what, better, worse, len(y)))


def _reading(what: str, better: list[str], worse: list[str], rows: int) -> str:
    text = f"On {rows:,} held-out rows, beyond chance (95 %), {what} beside {BASELINE} is "
    if not better and not worse:
        return text + "neither better nor worse in anything: the simpler baseline does as well here."
    parts = [f"{how} in {', '.join(names)}" for how, names in (("better", better), ("worse", worse)) if names]
    text += " and ".join(parts) + "."
    if {"rps", "nll"} & set(worse) and not {"rps", "nll"} & set(better):
        text += " Its probabilities are the poorer ones: prefer the baseline unless you need unimodal rows."
    elif not worse:
        text += " Nothing speaks for the baseline."
    return text


def _cross_fitted(chain: Any, logits: FloatArray, y: IntArray) -> FloatArray:
    calibrator = calibrators.create(chain) if isinstance(chain, (str, dict)) else chain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)  # of a fifth of the rows
        return cross_fitted(calibrator, logits, y)
