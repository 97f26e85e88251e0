"""Custom objectives and early-stopping metrics in the form that LightGBM and XGBoost take."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.boosting.objective import Objective, objective
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_labels
from orcu.metrics.calibration import sce
from orcu.metrics.scoring import nll, rps_unchecked
from orcu.raters.votes import Targets, as_votes, label_shares, weighted_rows

METRICS: dict[str, Callable[..., float]] = {"rps": rps_unchecked, "sce": sce, "nll": nll}
ROUNDING = 1e-4  # of sums of probabilities in single precision
Spec = str | Mapping[str, Any] | Objective


def lightgbm_objective(
    spec: Spec = "orcu", *, num_classes: int, votes: Any = None, **options: Any
) -> Callable[..., Any]:
    """A custom objective of LightGBM.

    ``lgb.train({"objective": lightgbm_objective("orcu", num_classes=5), "num_class": 5}, data)``. Raw scores are
    logits: ``softmax(booster.predict(X, raw_score=True))``. Give `Objective.init_score`, repeated for every row, as
    ``init_score`` of the Dataset, and add it to later raw scores, which do not contain it.

    Args:
        spec: as for `objective`, or an objective.
        num_classes: number of classes, C; LightGBM's ``num_class``.
        votes: votes of several raters for the training rows, counts or shares of shape (n, C), in place of the labels
            of the Dataset.
        options: options of the objective.

    Raises:
        InputError: if a name or option is unknown; when called, if labels or ``num_class`` do not match.
    """
    return _gradient_function(spec, num_classes, votes, options)


def xgboost_objective(
    spec: Spec = "orcu", *, num_classes: int, votes: Any = None, **options: Any
) -> Callable[..., Any]:
    """A custom objective of XGBoost.

    ``xgb.train({"num_class": 5, "base_score": 0.0}, data, obj=xgboost_objective("orcu", num_classes=5))``. As for
    `lightgbm_objective`, except that the initial score is the ``base_margin`` of every DMatrix; logits are
    ``predict(..., output_margin=True)``.
    """
    compute = _gradient_function(spec, num_classes, votes, options)

    def gradient_and_hessian(scores: Any, data: Any) -> tuple[FloatArray, FloatArray]:
        gradient, hessian = compute(scores, data)
        return np.ascontiguousarray(gradient), np.ascontiguousarray(hessian)

    return gradient_and_hessian


def lightgbm_metric(
    name: str = "rps", *, num_classes: int, votes: Any = None
) -> Callable[..., tuple[str, float, bool]]:
    """A metric for early stopping in LightGBM (``feval=``): "rps", "nll" or "sce".

    LightGBM passes raw scores under a custom objective, and probabilities under its own ``multiclass``; both are
    recognised. ``votes`` are those of the early-stopping rows, as for `lightgbm_objective`; the metric is then an
    expectation over a random vote of each row.

    Raises:
        UnknownNameError: if there is no such metric.
    """
    compute = _metric_function(name, num_classes, votes)
    return lambda scores, data: (*compute(scores, data), False)


def xgboost_metric(name: str = "rps", *, num_classes: int, votes: Any = None) -> Callable[..., tuple[str, float]]:
    """A metric for early stopping in XGBoost (``custom_metric=``): "rps", "nll" or "sce".

    XGBoost passes raw margins under a custom objective, and probabilities under its own ``multi:softprob``; both
    are recognised. ``votes`` as for `lightgbm_metric`.

    Raises:
        UnknownNameError: if there is no such metric.
    """
    return _metric_function(name, num_classes, votes)


def _gradient_function(spec: Spec, num_classes: int, votes: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """Gradient and Hessian of raw scores and a library's data, in single precision, which halves the time."""
    if not isinstance(spec, Objective):
        spec = objective(spec, num_classes=num_classes, **options)
    elif options or spec.num_classes != num_classes:
        raise InputError(
            f"objective: {spec} is an objective already; it takes no options and no other number of classes."
        )
    loss: Objective = spec
    shares = None if votes is None else label_shares(as_votes(votes, num_classes, name="votes")).astype(np.float32)

    def gradient_and_hessian(scores: Any, data: Any) -> tuple[FloatArray, FloatArray]:
        z: Any = _scores(scores, num_classes).astype(np.float32)
        weight = _weight(data)
        weight = None if weight is None else np.asarray(weight, dtype=np.float32)
        return loss.gradient_and_hessian_unchecked(z, _targets(shares, data, num_classes), weight)

    return gradient_and_hessian


def _metric_function(name: str, num_classes: int, votes: Any) -> Callable[..., tuple[str, float]]:
    """Name and value of a metric of a library's scores and data."""
    if name not in METRICS:
        raise UnknownNameError("early-stopping metric", name, METRICS)
    shares = None if votes is None else label_shares(as_votes(votes, num_classes, name="votes"))

    def evaluate(scores: Any, data: Any) -> tuple[str, float]:
        targets, weight = _targets(shares, data, num_classes), _weight(data)
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        case, labels, weight = weighted_rows(targets, weight)
        return name, METRICS[name](_probs(scores, num_classes)[case], labels, sample_weight=weight)

    return evaluate


def _targets(shares: Targets | None, data: Any, num_classes: int) -> Targets:
    """Shares of votes, or the labels of a library's data."""
    labels = data.get_label()
    if shares is None:
        return _labels(labels, num_classes)
    if len(shares) != len(labels):
        raise InputError(f"votes: votes of {len(shares)} cases for {len(labels)} rows of the data set.")
    return shares


def _weight(data: Any) -> Any:
    """Sample weights, or ``None``; without weights LightGBM returns ``None`` and XGBoost an empty array."""
    weight = data.get_weight()
    return None if weight is None or not len(weight) else weight


def _probs(scores: Any, num_classes: int) -> FloatArray:
    """Probabilities from the values that a library passes to its metric: raw scores, or probabilities already.

    Raw scores are not mistaken for probabilities: under a custom objective their sum over classes stays that of the
    initial score, which is centred at 0.
    """
    values = _scores(scores, num_classes)
    if values.min() >= 0 and np.abs(values.sum(axis=1) - 1).max() < ROUNDING:
        return values / values.sum(axis=1, keepdims=True)
    return geometry.probs(values)


def _scores(scores: Any, num_classes: int) -> FloatArray:
    """Scores as (n, C); older versions of the libraries pass one row, class by class."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 1 and len(values) % num_classes == 0:
        values = values.reshape(num_classes, -1).T
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise InputError(
            f"num_class: the library passes scores of shape {values.shape}, but the objective has {num_classes} "
            f"classes; set num_class={num_classes}."
        )
    return values


def _labels(values: Any, num_classes: int) -> IntArray:
    """Labels as integers; checked every round, because the labels of a Dataset can be replaced."""
    labels = np.asarray(values)
    integers = labels.astype(np.int64)
    if (integers != labels).any():
        row = int(np.argmax(integers != labels))
        raise InputError(f"label: row {row} has {labels[row]!r}; expected integers 0..{num_classes - 1}.")
    return as_labels(integers, num_classes, rows=len(integers))
