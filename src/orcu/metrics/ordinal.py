"""Accuracy and size of the errors of decisions, and the shape of the predicted distributions.

Decisions are the first argmax of ``probs``, or passed as ``pred=``.
"""

from functools import partial
from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray, as_probs, as_sample_weight
from orcu.metrics.base import metric, metric_function
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Sums, decision_sums, row_score

_decision = partial(metric, family="decision")


@metric_function(decision_sums)
@_decision(
    "accuracy",
    "Accuracy",
    better="higher",
    percent=True,
    convention="of the first argmax, or of another decision rule",
    bounds=(0, 1),
)
def accuracy(sums: Sums) -> Any:
    """Share of rows whose decision is the label.

    Example:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    return np.trace(sums.confusion, axis1=-2, axis2=-1) / sums.total


@metric_function(decision_sums)
@_decision(
    "balanced_accuracy",
    "Balanced accuracy",
    better="higher",
    percent=True,
    convention="mean over classes with rows",
    bounds=(0, 1),
)
def balanced_accuracy(sums: Sums) -> Any:
    """Mean recall of the classes that have rows.

    Example:
        >>> balanced_accuracy(y=[0, 0, 0, 1], pred=[0, 0, 0, 0])
        0.5
    """
    return _mean_of_present(class_recall(sums.confusion))


@metric_function(decision_sums)
@_decision("off_by_one_accuracy", "Off-by-one accuracy", better="higher", percent=True, bounds=(0, 1))
def off_by_one_accuracy(sums: Sums) -> Any:
    """Share of rows whose decision is at most one class off.

    Example:
        >>> off_by_one_accuracy(y=[0, 1, 2, 0], pred=[0, 0, 1, 2])
        0.75
    """
    return _cost(sums.confusion, _offsets(sums.confusion) <= 1) / sums.total


@metric_function(decision_sums)
@_decision("mae", "Mean absolute error", better="lower", convention="in classes", bounds=(0, np.inf))
def mae(sums: Sums) -> Any:
    """Mean absolute error between decision and label, in classes.

    Example:
        >>> mae([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], [0, 0])
        1.0
    """
    return _cost(sums.confusion, _offsets(sums.confusion)) / sums.total


@metric_function(decision_sums)
@_decision(
    "macro_mae",
    "Macro-averaged MAE",
    better="lower",
    convention="in classes, mean over classes with rows",
    bounds=(0, np.inf),
)
def macro_mae(sums: Sums) -> Any:
    """Mean absolute error of each class that has rows, averaged over these classes.

    Example:
        >>> macro_mae(y=[0, 0, 0, 2], pred=[0, 0, 0, 0])
        1.0
    """
    return _mean_of_present(class_mae(sums.confusion))


@metric_function(decision_sums)
@_decision("qwk", "Quadratic weighted kappa", better="higher", convention="quadratic weights", bounds=(-1, 1))
def qwk(sums: Sums) -> Any:
    """Quadratic weighted kappa: 1 - sum (i-j)^2 O_ij / sum (i-j)^2 E_ij.

    O counts (label, decision). E is expected of independent labels and decisions with the same frequencies. NaN if it
    is not defined, as when all labels and decisions are the same class.

    Example:
        >>> round(qwk(y=[0, 1, 2, 2], pred=[0, 1, 2, 1]), 4)
        0.8
    """
    confusion, cost = sums.confusion, _offsets(sums.confusion) ** 2
    expected_cost = ((confusion.sum(-1) @ cost) * confusion.sum(-2)).sum(-1) / sums.total
    return 1 - _cost(confusion, cost) / expected_cost


def _shape_sums(probs: Any, *, tolerance: float = 0.0, sample_weight: Any = None) -> Sums:
    probs = as_probs(probs)
    weights = np.ones(len(probs)) if sample_weight is None else as_sample_weight(sample_weight, rows=len(probs))
    unimodal = geometry.is_unimodal(probs, tolerance=tolerance)
    return Sums({"unimodal": np.asarray((unimodal * weights).sum())}.__getitem__, float(weights.sum()))


@metric_function(_shape_sums)
@metric(
    "unimodality",
    "Unimodal rows",
    family="distribution",
    better="higher",
    percent=True,
    convention="non-decreasing up to the first argmax, then non-increasing; tolerance 0",
    bounds=(0, 1),
)
def unimodality(sums: Sums) -> Any:
    """Share of rows that do not decrease before their first argmax nor increase after it (Eqs. 15-17).

    Example:
        >>> unimodality([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
        0.5
    """
    return sums.mean("unimodal")


@row_score("unimodal")
def _unimodal(rows: Rows) -> FloatArray:
    # Logits show the shape even where their probabilities underflow to ties.
    shape = rows.probs if rows.logits is None else rows.logits
    return geometry.is_unimodal(shape).astype(np.float64)


def class_recall(confusion: FloatArray) -> FloatArray:
    """Recall of each class, shape (..., C); NaN for a class without rows."""
    return _ratio(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(-1))


def class_mae(confusion: FloatArray) -> FloatArray:
    """Mean absolute error of each class, shape (..., C); NaN for a class without rows."""
    return _ratio(np.einsum("...ij,ij->...i", confusion, _offsets(confusion)), confusion.sum(-1))


def _cost(confusion: FloatArray, cost: Any) -> FloatArray:
    """Sum over labels and decisions of counts times costs (C, C), shape (...)."""
    total: FloatArray = np.einsum("...ij,ij->...", confusion, cost.astype(np.float64))
    return total


def _offsets(confusion: FloatArray) -> FloatArray:
    """|i - j| for labels i and decisions j, shape (C, C)."""
    k = np.arange(confusion.shape[-1], dtype=np.float64)
    return np.abs(k[:, None] - k)


def _ratio(part: FloatArray, total: FloatArray) -> FloatArray:
    return np.divide(part, total, out=np.full(total.shape, np.nan), where=total > 0)


def _mean_of_present(values: FloatArray) -> Any:
    present = ~np.isnan(values)
    return np.where(present, values, 0.0).sum(-1) / present.sum(-1)
