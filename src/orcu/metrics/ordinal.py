"""How often the prediction is right, how far it is off, and whether its shape is ordinal."""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import as_labels, as_probs


def accuracy(probs: Any, y: Any) -> float:
    """Share of rows whose first argmax is the label.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    probs = as_probs(probs)
    y = as_labels(y, probs.shape[1], rows=len(probs))
    return float(np.mean(probs.argmax(axis=1) == y))


def mae(probs: Any, y: Any) -> float:
    """Mean absolute error in classes between the first argmax and the label.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> mae([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], [0, 0])
        1.0
    """
    probs = as_probs(probs)
    y = as_labels(y, probs.shape[1], rows=len(probs))
    return float(np.mean(np.abs(probs.argmax(axis=1) - y)))


def unimodality(probs: Any, *, tolerance: float = 0.0) -> float:
    """Share of rows that rise to their first argmax and fall after it, ties allowed (Eqs. 15-17).

    Args:
        probs: class probabilities, shape (n, C).
        tolerance: how far a step may go the wrong way; 0 is the paper's definition.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> unimodality([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
        0.5
    """
    return float(np.mean(geometry.is_unimodal(as_probs(probs), tolerance=tolerance)))
