"""Disagreement of the members of an ensemble: the epistemic uncertainty."""

from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_probs


def mutual_information(members: Any) -> FloatArray:
    """Epistemic uncertainty of each row: H(mean_m p_m) - mean_m H(p_m), in nats, shape (n,).

    0 if all members agree; at most log C, if each is certain of a different class.

    Args:
        members: class probabilities of each member, shape (M, n, C).

    Raises:
        InputError: if the shape is wrong, or a row is not a distribution.

    Example:
        >>> same, different = [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]
        >>> mutual_information(np.array([same, different]).transpose(1, 0, 2)).round(4)
        array([0.    , 0.6931])
    """
    if np.ndim(members) != 3 or not len(members):
        raise InputError(f"members: expected shape (members, rows, classes), got {np.shape(members)}.")
    probs = np.stack([as_probs(member) for member in members])
    return np.maximum(_entropy(probs.mean(axis=0)) - _entropy(probs).mean(axis=0), 0.0)


def _entropy(probs: FloatArray) -> FloatArray:
    logs = np.log(probs, out=np.zeros_like(probs), where=probs > 0)
    entropy: FloatArray = -(probs * logs).sum(axis=-1)
    return entropy
