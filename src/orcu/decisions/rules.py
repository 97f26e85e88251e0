"""Decision rules: from class probabilities to one class."""

from typing import Any

import numpy as np

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_matrix, as_probs

RULES = {
    "argmax": "the most probable class: highest accuracy",
    "median": "the smallest class with P(Y <= k) >= 1/2: lowest mean absolute error",
    "mean": "the expected class, rounded: lowest mean squared error, as in QWK",
}
_TIE = 1e-12  # rounding error of cumulative sums


def decide(probs: Any, rule: Any = "argmax") -> IntArray:
    """Decided class of each row, shape (n,).

    Ties are resolved in favour of the lower class, under all rules.

    Args:
        probs: class probabilities, shape (n, C).
        rule: "argmax", "median", "mean", or a cost matrix (C, C) whose entry [true, decided] is the cost of that
            decision; the class with the lowest expected cost is decided.

    Raises:
        InputError: if the probabilities or the cost matrix are invalid.
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
    """`decide` for checked probabilities."""
    num_classes = probs.shape[1]
    if not isinstance(rule, str):
        cost = as_matrix(rule, name="rule")
        if cost.shape != (num_classes, num_classes):
            raise InputError(
                f"rule: expected a cost matrix of shape ({num_classes}, {num_classes}) for {num_classes} classes, "
                f"got {cost.shape}; rows are true classes, columns are decisions."
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
