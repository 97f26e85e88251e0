"""Distance-based soft targets (Eq. 1) and the registry of their distance functions.

A distance function maps class differences d = |y - k| (float64) to phi(d). To add one, decorate a function with
``@distances.register("name")``, in this module or in a module of an entry point of the group ``orcu.targets``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, as_count, as_positive
from orcu.registry import Registry

distances: Registry[Callable[..., FloatArray]] = Registry("distance", plugins="orcu.targets")


@distances.register("squared")
def squared(d: FloatArray) -> FloatArray:
    """Phi(d) = d^2, the paper's choice."""
    return d**2


@distances.register("absolute")
def absolute(d: FloatArray) -> FloatArray:
    """Phi(d) = d."""
    return d


@distances.register("huber")
def huber(d: FloatArray, *, delta: float = 1.0) -> FloatArray:
    """Phi(d) = d^2 / 2 up to delta, then delta (d - delta / 2).

    The paper does not give its delta; the default 1 is our choice.
    """
    delta = as_positive(delta, name="delta")
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


@distances.register("exponential")
def exponential(d: FloatArray) -> FloatArray:
    """Phi(d) = e^d, capped at the largest float (reached at d = 710).

    The paper does not give its formula; e^d - 1 would give the same targets.
    """
    with np.errstate(over="ignore"):
        return np.minimum(np.exp(d), np.finfo(np.float64).max)


def log_targets(num_classes: int, distance: str | Mapping[str, Any] = "squared") -> FloatArray:
    """Logarithms of the soft targets of all labels (Eq. 1): row y is log softmax_k(-phi(|y - k|)).

    Args:
        num_classes: number of classes, C.
        distance: name from ``distances.names()``, or a table of the name and its options such as
            ``{"name": "huber", "delta": 2.0}``.

    Returns:
        Array of shape (C, C). All entries are finite, also where the target itself underflows to 0.

    Raises:
        InputError: if num_classes is below 2, or the distance or an option is unknown.

    Example:
        >>> np.exp(log_targets(5))[2].round(4)
        array([0.0103, 0.2076, 0.5642, 0.2076, 0.0103])
    """
    num_classes = as_count(num_classes, name="num_classes", minimum=2)
    if isinstance(distance, Mapping) and "d" in distance:
        raise UnknownNameError("option of a distance", "d", ("delta",))
    classes = np.arange(num_classes, dtype=np.float64)
    phi: FloatArray = distances.create(distance, d=np.abs(classes[:, None] - classes))
    log_mass = phi.min(axis=1, keepdims=True) - phi
    return log_mass - np.log(np.exp(log_mass).sum(axis=1, keepdims=True))
