"""Confidence refinement after ordering: what a regularizer still does once predictions are feasible.

The quantities of Section III-D: the fixed target-feasible set F, the activity of a regularizer's
gradient, and the calibration alignment A_TF (Eqs. 9 and 10).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_labels, as_logits, as_positive

Slope = Callable[[FloatArray], FloatArray]


def slope_of(regularizer: str, scale: float) -> Slope:
    """I'(r) of a regularizer on directed gaps: "lbe", or "hinge" with the margin 1/s^2.

    Raises:
        UnknownNameError: if it is another.
    """
    s = as_positive(scale, name="scale")
    slopes: dict[str, Slope] = {
        "lbe": lambda r: geometry.log_barrier_slope(r, scale=s),
        "hinge": lambda r: geometry.hinge_slope(r, margin=1 / s**2),
    }
    if regularizer not in slopes:
        raise UnknownNameError("regularizer", regularizer, slopes)
    return slopes[regularizer]


def regularizer_gradient(logits: Any, y: Any, *, regularizer: str, scale: float) -> FloatArray:
    """The gradient of sum_k I(r_k) in the logits of each row, shape (n, C).

    Example:
        >>> regularizer_gradient([[0.0, 2.0, 0.0]], [1], regularizer="hinge", scale=3.0).tolist()
        [[0.0, 0.0, 0.0]]
    """
    z = as_logits(logits)
    labels = as_labels(y, z.shape[1], rows=len(z))
    signed = geometry.gap_signs(z.shape[1])[labels] * slope_of(regularizer, scale)(geometry.directed_gaps(z, labels))
    gradient = np.zeros(z.shape)
    gradient[:, 1:] += signed
    gradient[:, :-1] -= signed
    return gradient


def alignment(logits: Any, y: Any, gradient: FloatArray) -> FloatArray:
    """a_n of Eq. 9: how much a small step against the gradient reduces half the squared confidence gap.

    With c the top probability, b whether it is right, and g = -gradient:
    a = (b - c) <grad c, g> = (b - c) c (g_top - sum_j p_j g_j).

    Args:
        logits: shape (n, C).
        y: labels, shape (n,).
        gradient: of the regularizer in the logits, shape (n, C).

    Example:
        >>> z, y = np.array([[0.0, 1.0, 0.0]]), np.array([1])
        >>> pull = regularizer_gradient(z, y, regularizer="lbe", scale=3.0)
        >>> alignment(z, y, pull).round(4).tolist()  # right but timid: it helps
        [0.1035]
    """
    z = as_logits(logits)
    labels = as_labels(y, z.shape[1], rows=len(z))
    probs = geometry.probs(z)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    confidence = probs[rows, top]
    step = -np.asarray(gradient)
    rise = confidence * (step[rows, top] - (probs * step).sum(axis=1))
    right: FloatArray = (top == labels).astype(np.float64)
    return (right - confidence) * rise


@dataclass(frozen=True)
class Activity:
    """What a regularizer does on some rows.

    Attributes:
        interior_slope: mean |I'(r)| over the gaps with r <= -1/s^2; NaN if there are none.
        zero_gradients: the share of logits whose gradient is exactly 0.
        alignment: the mean of a_n, A_TF if the rows are those of F.
    """

    interior_slope: float
    zero_gradients: float
    alignment: float


def activity(logits: Any, y: Any, *, regularizer: str, scale: float) -> Activity:
    """Slopes, gradients and alignment of a regularizer on rows.

    Example:
        >>> hinge = activity([[0.0, 2.0, 0.0]], [1], regularizer="hinge", scale=3.0)
        >>> hinge.zero_gradients, hinge.alignment
        (1.0, 0.0)
    """
    z = as_logits(logits)
    labels: IntArray = as_labels(y, z.shape[1], rows=len(z))
    gaps = geometry.directed_gaps(z, labels)
    interior = np.abs(slope_of(regularizer, scale)(gaps))[gaps <= -1 / scale**2]
    gradient = regularizer_gradient(z, labels, regularizer=regularizer, scale=scale)
    return Activity(
        float(interior.mean()) if interior.size else float("nan"),
        float((gradient == 0).mean()),
        float(alignment(z, labels, gradient).mean()),
    )
