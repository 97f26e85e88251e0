"""From probabilities to one class: the decision that costs least."""

from typing import Any

import numpy as np

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_matrix, as_probs

RULES = {
    "argmax": "the most likely class: fewest wrong decisions",
    "median": "the smallest class with P(Y <= k) >= 1/2: least mean absolute error",
    "mean": "the expected class, rounded: least mean squared error, as QWK punishes it",
}
_TIE = 1e-12  # cumulative sums differ by their rounding


def decide(probs: Any, rule: Any = "argmax") -> IntArray:
    """The class to decide for, row by row, shape (n,).

    Args:
        probs: class probabilities, shape (n, C).
        rule: "argmax", "median", "mean", or a cost matrix (C, C) whose entry [true, decided] is what that
            decision costs; the class of least expected cost is taken.

    Ties go to the lower class, under every rule.

    Raises:
        InputError: if the probabilities or the cost matrix cannot be used.
        UnknownNameError: if there is no such rule.

    Example:
        >>> probs = [[0.4, 0.25, 0.35]]
        >>> [int(decide(probs, rule)[0]) for rule in ("argmax", "median", "mean")]
        [0, 1, 1]
        >>> decide(probs, [[0, 1, 2], [1, 0, 1], [9, 5, 0]]).tolist()
        [2]
    """
    return decide_checked(as_probs(probs), rule)


def decide_checked(probs: FloatArray, rule: Any) -> IntArray:
    """The decisions for checked probabilities."""
    num_classes = probs.shape[1]
    if not isinstance(rule, str):
        cost = as_matrix(rule, name="rule")
        if cost.shape != (num_classes, num_classes):
            raise InputError(
                f"rule: a cost matrix for {num_classes} classes has shape ({num_classes}, {num_classes}), "
                f"got {cost.shape}; rows are true classes, columns decisions."
            )
        expected = probs @ cost
        return (expected <= expected.min(axis=1, keepdims=True) + _TIE * np.abs(cost).max()).argmax(axis=1)
    if rule == "argmax":
        return probs.argmax(axis=1)
    if rule == "median":
        return (np.cumsum(probs, axis=1) >= 0.5 - _TIE).argmax(axis=1)
    if rule == "mean":
        return np.ceil(probs @ np.arange(num_classes) - 0.5 - _TIE).astype(np.int64).clip(0, num_classes - 1)
    raise UnknownNameError("decision rule", rule, list(RULES))
