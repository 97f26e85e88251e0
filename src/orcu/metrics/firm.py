"""FIRM score of decisions: misses and false alarms at each threshold, with fixed costs."""

from collections.abc import Sequence
from typing import Any

from orcu.decisions.firm import firm_costs
from orcu.errors import InputError
from orcu.metrics.base import documented
from orcu.metrics.sums import decision_sums


@documented
def firm(
    y: Any,
    pred: Any,
    *,
    num_classes: int,
    risk: float,
    threshold_weights: Sequence[float] | None = None,
    sample_weight: Any = None,
) -> float:
    """Fixed risk multicategorical (FIRM) score of decisions: Taggart, Loveday and Griffiths (2022). Lower is better.

    Each threshold k = 1..C-1 adds ``risk`` times its weight for a miss (Y >= k, decided below k) and 1 - ``risk`` times
    its weight for a false alarm. The score is the mean over the rows of the costs of `orcu.decisions.firm.firm_costs`;
    `orcu.evaluate` with these costs as ``rule`` decides by them and reports the score as the mean cost.

    Example:
        >>> firm(y=[0, 2, 1, 2], pred=[1, 0, 1, 2], num_classes=3, risk=0.75)
        0.4375
    """
    costs = firm_costs(num_classes, risk=risk, threshold_weights=threshold_weights)
    confusion = decision_sums(y=y, pred=pred, sample_weight=sample_weight).confusion
    size = len(confusion)
    if size > num_classes:
        raise InputError(f"num_classes: a label or decision is {size - 1}, expected at most {num_classes - 1}.")
    return float((confusion * costs[:size, :size]).sum() / confusion.sum())
