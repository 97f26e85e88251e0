"""How often the decision is right, how far it is off, and whether the shape is ordinal.

Decisions are the first argmax of ``probs``, or given as ``pred=``.
"""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray
from orcu.metrics.base import metric
from orcu.metrics.rows import Rows, checked_distributions
from orcu.metrics.sums import Sums, decision_sums, row_score, row_sums


def accuracy(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """Share of rows whose decision is the label.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    return float(_accuracy(decision_sums(probs, y, pred, weight)))


def balanced_accuracy(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """The accuracy of each class that has rows, averaged over these classes.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> balanced_accuracy(y=[0, 0, 0, 1], pred=[0, 0, 0, 0])
        0.5
    """
    return float(_balanced_accuracy(decision_sums(probs, y, pred, weight)))


def within_one(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """Share of rows whose decision is at most one class off.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> within_one(y=[0, 1, 2, 0], pred=[0, 0, 1, 2])
        0.75
    """
    return float(_within_one(decision_sums(probs, y, pred, weight)))


def mae(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """Mean absolute error in classes between the decision and the label.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> mae([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], [0, 0])
        1.0
    """
    return float(_mae(decision_sums(probs, y, pred, weight)))


def macro_mae(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """The mean absolute error of each class that has rows, averaged over these classes.

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> macro_mae(y=[0, 0, 0, 2], pred=[0, 0, 0, 0])
        1.0
    """
    return float(_macro_mae(decision_sums(probs, y, pred, weight)))


def qwk(probs: Any = None, y: Any = None, *, pred: Any = None, weight: Any = None) -> float:
    """Quadratic weighted kappa: 1 - sum (i-j)^2 O_ij / sum (i-j)^2 E_ij.

    O counts (label, decision), E is what independent labels and decisions of the same frequencies
    would give. NaN where it is not defined (all labels and decisions are one class).

    Args:
        probs: class probabilities, shape (n, C), or ``None`` if ``pred`` is given.
        y: labels 0..C-1, shape (n,).
        pred: decided classes, shape (n,), in place of probs.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> round(qwk(y=[0, 1, 2, 2], pred=[0, 1, 2, 1]), 4)
        0.8
    """
    return float(_qwk(decision_sums(probs, y, pred, weight)))


def unimodality(probs: Any, *, tolerance: float = 0.0, weight: Any = None) -> float:
    """Share of rows that rise to their first argmax and fall after it, ties allowed (Eqs. 15-17).

    Args:
        probs: class probabilities, shape (n, C).
        tolerance: how far a step may go the wrong way; 0 is the paper's definition.
        weight: one non-negative weight per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> unimodality([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
        0.5
    """
    rows = checked_distributions(probs, weight)
    if tolerance == 0:
        return float(_unimodality(row_sums(rows)))
    return float(np.average(geometry.is_unimodal(rows.probs, tolerance=tolerance), weights=rows.weight))


@row_score("unimodal")
def _unimodal(rows: Rows) -> FloatArray:
    # Logits show the shape even where their probabilities underflow to ties.
    shape = rows.probs if rows.logits is None else rows.logits
    return geometry.is_unimodal(shape).astype(np.float64)


@metric(
    "accuracy",
    "Accuracy",
    family="decision",
    better="higher",
    percent=True,
    convention="first argmax, unless another decision is asked for",
)
def _accuracy(sums: Sums) -> Any:
    return np.trace(sums.confusion, axis1=-2, axis2=-1) / sums.total


@metric(
    "balanced_accuracy",
    "Balanced accuracy",
    family="decision",
    better="higher",
    percent=True,
    convention="mean over classes that have rows",
)
def _balanced_accuracy(sums: Sums) -> Any:
    return _mean_of_present(recall_of(sums.confusion))


@metric("within_one", "Within one class", family="decision", better="higher", percent=True)
def _within_one(sums: Sums) -> Any:
    return _cost(sums.confusion, _offsets(sums.confusion) <= 1) / sums.total


@metric("mae", "Mean absolute error", family="decision", better="lower", convention="in classes")
def _mae(sums: Sums) -> Any:
    return _cost(sums.confusion, _offsets(sums.confusion)) / sums.total


@metric(
    "macro_mae",
    "Macro-averaged MAE",
    family="decision",
    better="lower",
    convention="in classes, mean over classes that have rows",
)
def _macro_mae(sums: Sums) -> Any:
    return _mean_of_present(class_mae_of(sums.confusion))


@metric("qwk", "Quadratic weighted kappa", family="decision", better="higher", convention="quadratic weights")
def _qwk(sums: Sums) -> Any:
    confusion, cost = sums.confusion, _offsets(sums.confusion) ** 2
    expected_cost = ((confusion.sum(-1) @ cost) * confusion.sum(-2)).sum(-1) / sums.total
    return 1 - _cost(confusion, cost) / expected_cost


@metric(
    "unimodality",
    "Unimodal rows",
    family="distribution",
    better="higher",
    percent=True,
    convention="rises to the first argmax, then falls; ties allowed, tolerance 0",
)
def _unimodality(sums: Sums) -> Any:
    return sums.mean("unimodal")


def recall_of(confusion: FloatArray) -> FloatArray:
    """The accuracy of each class, shape (..., C); NaN for a class without rows."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return _ratio(right, confusion.sum(-1))


def class_mae_of(confusion: FloatArray) -> FloatArray:
    """The mean absolute error of each class, shape (..., C); NaN for a class without rows."""
    return _ratio(np.einsum("...ij,ij->...i", confusion, _offsets(confusion)), confusion.sum(-1))


def _cost(confusion: FloatArray, cost: Any) -> FloatArray:
    """The sum over labels and decisions of counts times costs (C, C), shape (...)."""
    total: FloatArray = np.einsum("...ij,ij->...", confusion, cost.astype(np.float64))
    return total


def _offsets(confusion: FloatArray) -> FloatArray:
    """|i - j| for labels i and decisions j, shape (C, C)."""
    k = np.arange(confusion.shape[-1], dtype=np.float64)
    return np.abs(k[:, None] - k)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def _mean_of_present(values: FloatArray) -> Any:
    present = ~np.isnan(values)
    return np.where(present, values, 0.0).sum(-1) / present.sum(-1)
