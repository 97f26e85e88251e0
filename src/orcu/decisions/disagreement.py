"""What members of an ensemble disagree about: the part of the uncertainty that more data would remove."""

from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_probs


def mutual_information(members: Any) -> FloatArray:
    """Epistemic uncertainty of each row: H(mean_m p_m) - mean_m H(p_m), in nats.

    0 where all members say the same; at most log C, where each is certain of another class.

    Args:
        members: the distributions of every member, shape (M, n, C).

    Raises:
        InputError: if the shape is another, or a row is no distribution.

    Example:
        >>> same, apart = [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]
        >>> mutual_information(np.array([same, apart]).transpose(1, 0, 2)).round(4)
        array([0.    , 0.6931])
    """
    if np.ndim(members) != 3 or not len(members):
        raise InputError(f"members: expected shape (members, rows, classes), got {np.shape(members)}.")
    each = np.stack([as_probs(one) for one in members])
    return np.maximum(_entropy(each.mean(axis=0)) - _entropy(each).mean(axis=0), 0.0)


def _entropy(probs: FloatArray) -> FloatArray:
    logs = np.log(probs, out=np.zeros_like(probs), where=probs > 0)
    entropy: FloatArray = -(probs * logs).sum(axis=-1)
    return entropy
