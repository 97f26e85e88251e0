"""Costs of the FIRM score: misses and false alarms at each threshold cost the same at all thresholds."""

from collections.abc import Sequence

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray


def firm_costs(num_classes: int, *, risk: float, threshold_weights: Sequence[float] | None = None) -> FloatArray:
    """Cost matrix of the FIRM score (fixed risk multicategorical score) of Taggart, Loveday and Griffiths (2022).

    A decision below a threshold that the truth reaches is a miss and costs ``risk`` times the weight of the threshold.
    A false alarm costs 1 - ``risk`` times the weight. The decision with the lowest expected cost is the highest class k
    with P(Y >= k) above 1 - ``risk``. With a risk of 1/2 and equal weights, the costs are half the absolute error.

    Args:
        num_classes: number of classes, C.
        risk: cost of a miss relative to that of a miss and a false alarm, between 0 and 1; above 1/2 if misses are
            worse.
        threshold_weights: importance of the thresholds k = 1..C-1, each above 0; all 1 by default.

    Returns:
        Costs, shape (C, C), entry [true, decided], for `orcu.decide` and the argument ``rule`` of `orcu.evaluate`.

    Raises:
        InputError: if an argument is invalid.

    Example:
        >>> firm_costs(3, risk=0.75).tolist()
        [[0.0, 0.25, 0.5], [0.75, 0.0, 0.25], [1.5, 0.75, 0.0]]
    """
    if isinstance(num_classes, bool) or num_classes != int(num_classes) or num_classes < 2:
        raise InputError(f"num_classes: expected a whole number of at least 2, got {num_classes}.")
    if not 0 < risk < 1:
        raise InputError(f"risk: expected a number above 0 and below 1, got {risk}.")
    weights = np.ones(num_classes - 1) if threshold_weights is None else np.asarray(threshold_weights, np.float64)
    if weights.shape != (num_classes - 1,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(
            f"threshold_weights: expected {num_classes - 1} numbers above 0, one per threshold, got "
            f"{threshold_weights}."
        )
    level = np.concatenate([[0.0], np.cumsum(weights)])  # weight of the thresholds up to each class
    excess = level - level[:, None]  # [true, decided]
    return np.where(excess > 0, (1 - risk) * excess, risk * -excess.clip(max=0)) + 0.0
