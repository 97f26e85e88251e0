"""The ordinal geometry: directed adjacent gaps, unimodality, and the penalties that act on gaps.

Classes are 0-based here; the paper counts from 1. Every function takes numpy arrays or torch
tensors with the classes on the last axis and answers in kind; gradients flow through the torch form.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np

from orcu.inputs import FloatArray


def namespace(array: Any) -> ModuleType:
    """Numpy for arrays, torch for tensors.

    Example:
        >>> namespace(np.zeros(2)).__name__
        'numpy'
    """
    torch = sys.modules.get("torch")  # a tensor can only exist once torch has been imported
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def _points_away(y: Any, num_classes: int) -> Any:
    """Whether the step from class k to k + 1 leads away from y (k >= y), for k = 0..C-2."""
    if namespace(y) is np:
        return np.arange(num_classes - 1) >= np.asarray(y)[..., None]
    return namespace(y).arange(num_classes - 1, device=y.device) >= y[..., None]


def log_probs(logits: Any) -> Any:
    """Log-softmax over the last axis.

    Example:
        >>> log_probs(np.array([0.0, 0.0])).round(4)
        array([-0.6931, -0.6931])
    """
    if namespace(logits) is not np:
        return logits.log_softmax(-1)
    logits = np.ascontiguousarray(logits)  # a row's sum must not depend on the memory layout
    centered = logits - logits.max(axis=-1, keepdims=True)
    return centered - np.log(np.exp(centered).sum(axis=-1, keepdims=True))


def probs(logits: Any) -> Any:
    """Softmax over the last axis.

    Example:
        >>> probs(np.array([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    logs = log_probs(logits)
    return np.exp(logs) if namespace(logits) is np else logs.exp()


def gap_signs(num_classes: int) -> FloatArray:
    """The signs that direct adjacent differences: +1 where k >= y, else -1, shape (C, C - 1).

    Example:
        >>> gap_signs(3)
        array([[ 1.,  1.],
               [-1.,  1.],
               [-1., -1.]])
    """
    return np.where(_points_away(np.arange(num_classes), num_classes), 1.0, -1.0)


def directed_gaps(z: Any, y: Any) -> Any:
    """Directed adjacent gaps (Eq. 3): farther minus nearer class, seen from y.

    r_k = z_k - z_{k+1} for k < y and z_{k+1} - z_k for k >= y. The row is ordered around y where
    all r_k <= 0; r_k > 0 is an adjacent violation. On probabilities the same differences are the
    signed violations.

    Args:
        z: logits or probabilities, shape (..., C).
        y: labels, shape (...).

    Returns:
        Gaps of shape (..., C - 1).

    Example:
        >>> directed_gaps(np.array([2.0, 1.0, 0.5]), np.array(1))
        array([ 1. , -0.5])
    """
    steps = z[..., 1:] - z[..., :-1]
    return namespace(z).where(_points_away(y, z.shape[-1]), steps, -steps)


def is_feasible(z: Any, y: Any, *, scale: float) -> Any:
    """Whether every directed gap clears the margin: all r_k <= -1/s^2 (the set F of Section III-D).

    Example:
        >>> is_feasible(np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.95]]), np.array([1, 1]), scale=3.0)
        array([ True, False])
    """
    return (directed_gaps(z, y) <= -1 / scale**2).all(-1)


def is_unimodal(probs: Any, *, tolerance: float = 0.0) -> Any:
    """Whether each row rises to its first argmax and falls after it (Eq. 15), ties allowed.

    Args:
        probs: probabilities or logits, shape (..., C).
        tolerance: how far a step may go the wrong way; 0 is the paper's definition.

    Returns:
        Booleans of shape (...).

    Example:
        >>> is_unimodal(np.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4], [0.4, 0.4, 0.2]]))
        array([ True, False,  True])
    """
    if tolerance == 0 and namespace(probs) is np:
        return _never_rises_after_a_fall(probs)
    return (directed_gaps(probs, probs.argmax(-1)) <= tolerance).all(-1)


def _never_rises_after_a_fall(rows: FloatArray) -> Any:
    """Unimodality without the argmax, class by class: many times quicker on many rows."""
    fell = np.zeros(rows.shape[:-1], dtype=bool)
    bent = np.zeros(rows.shape[:-1], dtype=bool)
    for k in range(rows.shape[-1] - 1):
        bent |= fell & (rows[..., k + 1] > rows[..., k])
        fell |= rows[..., k + 1] < rows[..., k]
    return ~bent


def valley_depth(probs: FloatArray) -> FloatArray:
    """How deep the deepest valley between two humps of each row is; 0 where the row is unimodal.

    max_k min(max_{j <= k} p_j, max_{j >= k} p_j) - p_k.

    Args:
        probs: class probabilities, shape (n, C), an array of numpy's.

    Example:
        >>> valley_depth(np.array([[0.4, 0.1, 0.5], [0.2, 0.5, 0.3]])).round(4)
        array([0.3, 0. ])
    """
    before = np.maximum.accumulate(probs, axis=1)
    after = np.maximum.accumulate(probs[:, ::-1], axis=1)[:, ::-1]
    depth: FloatArray = (np.minimum(before, after) - probs).max(axis=1)
    return depth


def adjacent_violations(probs: Any, y: Any) -> Any:
    """Adjacent violations v_k = [farther - nearer]_+ on probabilities (Eq. 45).

    Example:
        >>> adjacent_violations(np.array([0.5, 0.2, 0.3]), np.array(1)).round(3)
        array([0.3, 0.1])
    """
    return namespace(probs).clip(directed_gaps(probs, y), min=0.0)


def farther_fraction(z: Any, y: Any) -> Any:
    """The farther class's share of each adjacent pair's mass: sigmoid(r_k) (Appendix IV-E).

    Example:
        >>> farther_fraction(np.array([0.0, 0.0, -1.0]), np.array(1)).round(4)
        array([0.5   , 0.2689])
    """
    return sigmoid(directed_gaps(z, y))


def mass_imbalance(z: Any, y: Any) -> Any:
    """(farther - nearer) / (farther + nearer) of each adjacent pair: tanh(r_k / 2) (Eq. 47).

    Example:
        >>> mass_imbalance(np.array([1.0, 0.0, -1.0]), np.array(1)).round(4)
        array([ 0.4621, -0.4621])
    """
    return namespace(z).tanh(directed_gaps(z, y) / 2)


def cumulative(probs: Any) -> Any:
    """Cumulative masses F(k) = P(Y <= k) for k = 0..C-2, shape (..., C - 1).

    Example:
        >>> cumulative(np.array([0.2, 0.5, 0.3]))
        array([0.2, 0.7])
    """
    return probs.cumsum(-1)[..., :-1]


def log_barrier(r: Any, *, scale: float) -> Any:
    """Log-barrier extension I(r) (Eq. 5).

    -(1/s) log(-r) for r <= -1/s^2, else s r - (1/s) log(1/s^2) + 1/s. With c = min(r, -1/s^2)
    both branches are s (r - c) - (1/s) log(-c), which has no undefined logarithm to mask, so the
    gradient is finite for every finite r.

    Example:
        >>> log_barrier(np.array([-5.0, 0.0]), scale=3.0).round(4)
        array([-0.5365,  1.0657])
    """
    xp = namespace(r)
    inside = xp.clip(r, max=-1 / scale**2)
    return scale * (r - inside) - xp.log(-inside) / scale


def log_barrier_slope(r: Any, *, scale: float) -> Any:
    """I'(r) = -1/(s min(r, -1/s^2)): algebraic inside, s outside (Eq. 24); always in (0, s].

    Example:
        >>> log_barrier_slope(np.array([-5.0, 0.0]), scale=3.0).round(4)
        array([0.0667, 3.    ])
    """
    return -1 / (scale * namespace(r).clip(r, max=-1 / scale**2))


def log_barrier_bend(r: Any, *, scale: float) -> Any:
    """I'(r) / max(|r|, 1/s^2): the second derivative inside, 1/(s r^2), and a bound for steps from outside.

    On the linear branch I'' is 0, and a step that trusts it would be endless: from there it takes a move of about |r|
    to where the barrier bends.

    Example:
        >>> log_barrier_bend(np.array([-5.0, 0.0, 1.0]), scale=3.0).round(4)
        array([1.33e-02, 2.70e+01, 3.00e+00])
    """
    return log_barrier_slope(r, scale=scale) / namespace(r).clip(abs(r), min=1 / scale**2)


def indicator(condition: Any, like: Any) -> Any:
    """1 where a condition holds, else 0, in the type of ``like``; many times quicker than numpy's ``where``.

    Example:
        >>> indicator(np.array([True, False]), np.zeros(1))
        array([1., 0.])
    """
    return condition.astype(like.dtype) if namespace(like) is np else condition.to(like.dtype)


def positive_part(values: Any) -> Any:
    """max(0, x).

    Example:
        >>> positive_part(np.array([-5.0, 2.0]))
        array([0., 2.])
    """
    # numpy's maximum with one number takes three times as long as a clip from both sides
    return np.clip(values, 0, np.inf) if namespace(values) is np else values.relu()


def hinge(r: Any, *, margin: float) -> Any:
    """max(0, r + margin): zero, and without gradient, once the margin is kept (Section III-C).

    Example:
        >>> hinge(np.array([-5.0, 0.0]), margin=0.25)
        array([0.  , 0.25])
    """
    return positive_part(r + margin)


def hinge_slope(r: Any, *, margin: float) -> Any:
    """1 where r > -margin, else 0.

    Example:
        >>> hinge_slope(np.array([-5.0, 0.0]), margin=0.25)
        array([0., 1.])
    """
    return indicator(r > -margin, r)


def softplus(r: Any) -> Any:
    """log(1 + e^r): the smooth penalty whose gradient dies exponentially inside.

    Example:
        >>> softplus(np.array([-5.0, 0.0])).round(4)
        array([0.0067, 0.6931])
    """
    xp = namespace(r)
    return xp.logaddexp(r, xp.zeros_like(r))


def sigmoid(r: Any) -> Any:
    """1 / (1 + e^-r), the slope of `softplus`; as (1 + tanh(r/2)) / 2 it does not overflow.

    Example:
        >>> sigmoid(np.array([-5.0, 0.0])).round(4)
        array([0.0067, 0.5   ])
    """
    return (1 + namespace(r).tanh(r / 2)) / 2
