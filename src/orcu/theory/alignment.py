"""Confidence refinement after ordering: gradients of a regularizer on predictions that are already feasible.

The quantities of Section III-D: the target-feasible set F, the activity of a regularizer's gradient, and the
calibration alignment A_TF (Eqs. 9 and 10).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_labels, as_logits, as_positive
from orcu.kernels import penalties


def _penalty_gradient(regularizer: str, scale: float, gaps: FloatArray) -> FloatArray:
    """I'(r) of a regularizer at directed gaps: "lbe", or "hinge" with the margin 1/s^2."""
    s = as_positive(scale, name="scale")
    if regularizer == "lbe":
        return penalties.log_barrier_gradient(gaps, scale=s)
    if regularizer == "hinge":
        return penalties.hinge_gradient(gaps, margin=1 / s**2)
    raise UnknownNameError("regularizer", regularizer, ("lbe", "hinge"))


def regularizer_gradient(logits: Any, y: Any, *, regularizer: str, scale: float) -> FloatArray:
    """Gradient of sum_k I(r_k) in the logits of each row, shape (n, C).

    Args:
        logits: logits, shape (n, C).
        y: labels, shape (n,).
        regularizer: "lbe", or "hinge" with the margin 1/s^2.
        scale: scale s of the regularizer.

    Raises:
        UnknownNameError: if the regularizer has another name.

    Example:
        >>> regularizer_gradient([[0.0, 2.0, 0.0]], [1], regularizer="hinge", scale=3.0).tolist()
        [[0.0, 0.0, 0.0]]
    """
    z = as_logits(logits)
    labels = as_labels(y, z.shape[1], rows=len(z))
    gaps = geometry.directed_gaps(z, labels)
    signed = geometry.gap_signs(z.shape[1])[labels] * _penalty_gradient(regularizer, scale, gaps)
    gradient = np.zeros(z.shape)
    gradient[:, 1:] += signed
    gradient[:, :-1] -= signed
    return gradient


def alignment(logits: Any, y: Any, gradient: FloatArray) -> FloatArray:
    """Calibration alignment a_n (Eq. 9): decrease of half the squared confidence gap along the negative gradient.

    With c the top probability, b = 1 if its class is correct and 0 otherwise, and g = -gradient:
    a = (b - c) <grad c, g> = (b - c) c (g_top - sum_j p_j g_j).

    Args:
        logits: logits, shape (n, C).
        y: labels, shape (n,).
        gradient: gradient of the regularizer in the logits, shape (n, C).

    Example:
        >>> z, y = np.array([[0.0, 1.0, 0.0]]), np.array([1])
        >>> gradient = regularizer_gradient(z, y, regularizer="lbe", scale=3.0)
        >>> alignment(z, y, gradient).round(4).tolist()  # correct but underconfident
        [0.1035]
    """
    z = as_logits(logits)
    labels = as_labels(y, z.shape[1], rows=len(z))
    probs = geometry.probs(z)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    confidence = probs[rows, top]
    step = -np.asarray(gradient)
    change = confidence * (step[rows, top] - (probs * step).sum(axis=1))
    correct: FloatArray = (top == labels).astype(np.float64)
    return (correct - confidence) * change


@dataclass(frozen=True)
class Activity:
    """Gradient statistics of a regularizer on a set of rows.

    Attributes:
        interior_slope: mean |I'(r)| over the gaps with r <= -1/s^2; NaN if there are none.
        zero_gradients: share of logits whose gradient is exactly 0.
        alignment: mean of a_n; it is A_TF if the rows are those of F.
    """

    interior_slope: float
    zero_gradients: float
    alignment: float


def activity(logits: Any, y: Any, *, regularizer: str, scale: float) -> Activity:
    """Gradient statistics of a regularizer on rows; see `regularizer_gradient` for the arguments.

    Example:
        >>> hinge = activity([[0.0, 2.0, 0.0]], [1], regularizer="hinge", scale=3.0)
        >>> hinge.zero_gradients, hinge.alignment
        (1.0, 0.0)
    """
    z = as_logits(logits)
    labels: IntArray = as_labels(y, z.shape[1], rows=len(z))
    gaps = geometry.directed_gaps(z, labels)
    interior = np.abs(_penalty_gradient(regularizer, scale, gaps))[gaps <= -1 / scale**2]
    gradient = regularizer_gradient(z, labels, regularizer=regularizer, scale=scale)
    return Activity(
        float(interior.mean()) if interior.size else float("nan"),
        float((gradient == 0).mean()),
        float(alignment(z, labels, gradient).mean()),
    )
