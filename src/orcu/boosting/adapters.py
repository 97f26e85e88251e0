"""Objectives in the shape that each library wants, and metrics to stop by."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.boosting.objective import Objective, objective
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_labels
from orcu.metrics.calibration import sce
from orcu.metrics.scoring import nll, rps

METRICS: dict[str, Callable[..., float]] = {"rps": rps, "sce": sce, "nll": nll}
ROUNDING = 1e-4  # of sums of probabilities in single precision
Spec = str | Mapping[str, Any] | Objective


def for_lightgbm(spec: Spec = "orcu", *, num_classes: int, **options: Any) -> Callable[..., Any]:
    """A custom objective of LightGBM.

    ``lgb.train({"objective": for_lightgbm("orcu", num_classes=5), "num_class": 5}, data)``. Its raw scores are logits:
    ``softmax(booster.predict(X, raw_score=True))``. Give the start as ``init_score`` of the Dataset (`Objective.start`,
    repeated for every row) and add it to later raw scores, which do not hold it.

    Args:
        spec: as for `objective`, or an objective.
        num_classes: how many classes, C; LightGBM's ``num_class``.
        options: of the objective.

    Raises:
        InputError: if a name or option is not known; when called, if labels or ``num_class`` do not fit.
    """
    loss = _objective(spec, num_classes, options)

    def gradient_and_curvature(scores: Any, data: Any) -> tuple[FloatArray, FloatArray]:
        weight = data.get_weight()
        weight = None if weight is None else np.asarray(weight, dtype=np.float32)
        return loss.unchecked(_singles(scores, num_classes), _labels(data.get_label(), num_classes), weight)

    return gradient_and_curvature


def for_xgboost(spec: Spec = "orcu", *, num_classes: int, **options: Any) -> Callable[..., Any]:
    """A custom objective of XGBoost.

    ``xgb.train({"num_class": 5, "base_score": 0.0}, data, obj=for_xgboost("orcu", num_classes=5))``. As `for_lightgbm`;
    the start is given as ``base_margin`` of every DMatrix, and logits come by ``predict(..., output_margin=True)``.
    """
    loss = _objective(spec, num_classes, options)

    def gradient_and_curvature(scores: Any, data: Any) -> tuple[FloatArray, FloatArray]:
        weight = data.get_weight()
        weight = None if not len(weight) else np.asarray(weight, dtype=np.float32)
        slope, bend = loss.unchecked(_singles(scores, num_classes), _labels(data.get_label(), num_classes), weight)
        return np.ascontiguousarray(slope), np.ascontiguousarray(bend)

    return gradient_and_curvature


def lightgbm_metric(name: str = "rps", *, num_classes: int) -> Callable[..., tuple[str, float, bool]]:
    """A metric for early stopping in LightGBM (``feval=``): "rps", "nll" or "sce".

    LightGBM hands over raw scores under a custom objective, and probabilities under its own ``multiclass``; both are
    understood.

    Raises:
        UnknownNameError: if there is no such metric.
    """
    metric = _metric(name)

    def evaluated(scores: Any, data: Any) -> tuple[str, float, bool]:
        probs = _probs(scores, num_classes)
        return name, metric(probs, _labels(data.get_label(), num_classes), weight=data.get_weight()), False

    return evaluated


def xgboost_metric(name: str = "rps", *, num_classes: int) -> Callable[..., tuple[str, float]]:
    """A metric for early stopping in XGBoost (``custom_metric=``): "rps", "nll" or "sce".

    XGBoost hands over raw margins under a custom objective, and probabilities under its own ``multi:softprob``; both
    are understood.

    Raises:
        UnknownNameError: if there is no such metric.
    """
    metric = _metric(name)

    def evaluated(scores: Any, data: Any) -> tuple[str, float]:
        weight = data.get_weight()
        probs = _probs(scores, num_classes)
        return name, metric(probs, _labels(data.get_label(), num_classes), weight=weight if len(weight) else None)

    return evaluated


def _metric(name: str) -> Callable[..., float]:
    if name not in METRICS:
        raise UnknownNameError("metric to stop by", name, METRICS)
    return METRICS[name]


def _objective(spec: Spec, num_classes: int, options: dict[str, Any]) -> Objective:
    if not isinstance(spec, Objective):
        return objective(spec, num_classes=num_classes, **options)
    if options or spec.num_classes != num_classes:
        raise InputError(f"objective: {spec} is made already; it takes no options and no other number of classes.")
    return spec


def _probs(scores: Any, num_classes: int) -> FloatArray:
    """Probabilities of what a library hands to its metric.

    Under its own objectives these are probabilities already. Raw scores are not taken for them: under a custom
    objective their sum over classes stays what it was at the start, and is 1 in every row, with nothing below 0, by no
    start that is a logarithm of frequencies.
    """
    values = _scores(scores, num_classes)
    if values.min() >= 0 and np.abs(values.sum(axis=1) - 1).max() < ROUNDING:
        return values / values.sum(axis=1, keepdims=True)
    return geometry.probs(values)


def _scores(scores: Any, num_classes: int) -> FloatArray:
    """What a library hands over as (n, C); older versions give it class by class in one row."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 1 and len(values) % num_classes == 0:
        values = values.reshape(num_classes, -1).T
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise InputError(
            f"num_class: the library gives scores of shape {values.shape}, the objective is for {num_classes} classes; "
            f"set num_class={num_classes}."
        )
    return values


def _singles(scores: Any, num_classes: int) -> Any:
    """Raw scores in single precision, in which the libraries keep gradients: half the time."""
    return _scores(scores, num_classes).astype(np.float32)


def _labels(values: Any, num_classes: int) -> IntArray:
    """Labels as integers; looked at every round, since a Dataset may get others."""
    labels = np.asarray(values)
    whole = labels.astype(np.int64)
    if (whole != labels).any():
        row = int(np.argmax(whole != labels))
        raise InputError(f"label: row {row} has {labels[row]!r}; expected whole numbers 0..{num_classes - 1}.")
    return as_labels(whole, num_classes, rows=len(whole))
