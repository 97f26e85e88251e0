"""Ordinal geometry: softmax, directed adjacent gaps, unimodality, cumulative probabilities.

Classes are counted from 0; the paper counts from 1. Each function takes numpy arrays or torch tensors with the classes
on the last axis and returns the same kind. The torch forms are differentiable.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np

from orcu.inputs import FloatArray


def array_namespace(array: Any) -> ModuleType:
    """The module of an array's functions: numpy for arrays, torch for tensors.

    Example:
        >>> array_namespace(np.zeros(2)).__name__
        'numpy'
    """
    torch = sys.modules.get("torch")  # a tensor can only exist once torch has been imported
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def _points_away(y: Any, num_classes: int) -> Any:
    """Whether the step from class k to k + 1 leads away from y (k >= y), for k = 0..C-2."""
    if array_namespace(y) is np:
        return np.arange(num_classes - 1) >= np.asarray(y)[..., None]
    return array_namespace(y).arange(num_classes - 1, device=y.device) >= y[..., None]


def log_probs(logits: Any) -> Any:
    """Log-softmax over the last axis.

    Example:
        >>> log_probs(np.array([0.0, 0.0])).round(4)
        array([-0.6931, -0.6931])
    """
    if array_namespace(logits) is not np:
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
    return np.exp(logs) if array_namespace(logits) is np else logs.exp()


def gap_signs(num_classes: int) -> FloatArray:
    """Signs that turn adjacent differences into directed gaps: +1 where k >= y, else -1, shape (C, C - 1).

    Example:
        >>> gap_signs(3)
        array([[ 1.,  1.],
               [-1.,  1.],
               [-1., -1.]])
    """
    return np.where(_points_away(np.arange(num_classes), num_classes), 1.0, -1.0)


def directed_gaps(z: Any, y: Any) -> Any:
    """Directed adjacent gaps (Eq. 3): value of the class farther from y minus that of the nearer one.

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
    return array_namespace(z).where(_points_away(y, z.shape[-1]), steps, -steps)


def is_feasible(z: Any, y: Any, *, scale: float) -> Any:
    """Whether all directed gaps satisfy the margin, r_k <= -1/s^2 (the set F of Section III-D).

    Example:
        >>> is_feasible(np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.95]]), np.array([1, 1]), scale=3.0)
        array([ True, False])
    """
    return (directed_gaps(z, y) <= -1 / scale**2).all(-1)


def is_unimodal(probs: Any, *, tolerance: float = 0.0) -> Any:
    """Whether each row rises to its first argmax and falls after it (Eq. 15), ties allowed.

    Args:
        probs: probabilities or logits, shape (..., C).
        tolerance: largest accepted step in the wrong direction; 0 is the paper's definition.

    Returns:
        Booleans of shape (...).

    Example:
        >>> is_unimodal(np.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4], [0.4, 0.4, 0.2]]))
        array([ True, False,  True])
    """
    if tolerance != 0 or array_namespace(probs) is not np:
        return (directed_gaps(probs, probs.argmax(-1)) <= tolerance).all(-1)
    # class by class and without the argmax, which is much faster for many rows
    has_fallen = np.zeros(probs.shape[:-1], dtype=bool)
    rises_again = np.zeros(probs.shape[:-1], dtype=bool)
    for k in range(probs.shape[-1] - 1):
        rises_again |= has_fallen & (probs[..., k + 1] > probs[..., k])
        has_fallen |= probs[..., k + 1] < probs[..., k]
    return ~rises_again


def valley_depth(probs: FloatArray) -> FloatArray:
    """Depth of the deepest valley between two modes of each row; 0 where the row is unimodal.

    max_k min(max_{j <= k} p_j, max_{j >= k} p_j) - p_k.

    Args:
        probs: class probabilities as a numpy array, shape (n, C).

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
    return array_namespace(probs).clip(directed_gaps(probs, y), min=0.0)


def farther_fraction(z: Any, y: Any) -> Any:
    """Share of the farther class in the mass of each adjacent pair: sigmoid(r_k) (Appendix IV-E).

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
    return array_namespace(z).tanh(directed_gaps(z, y) / 2)


def cumulative(probs: Any) -> Any:
    """Cumulative probabilities F(k) = P(Y <= k) for k = 0..C-2, shape (..., C - 1).

    Example:
        >>> cumulative(np.array([0.2, 0.5, 0.3]))
        array([0.2, 0.7])
    """
    return probs.cumsum(-1)[..., :-1]


def sigmoid(r: Any) -> Any:
    """1 / (1 + e^-r), computed as (1 + tanh(r/2)) / 2, which does not overflow.

    Example:
        >>> sigmoid(np.array([-5.0, 0.0])).round(4)
        array([0.0067, 0.5   ])
    """
    return (1 + array_namespace(r).tanh(r / 2)) / 2
