"""EMD: the earth mover's distance between prediction and label."""

from typing import Any, Unpack

import numpy as np

from orcu.kernels.terms import ClassFirst, Term, expected_cost
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="emd",
        title="EMD (earth mover's distance)",
        family="ordinal",
        paper="Hou, Yu and Samaras, 2016",
        formula="sum_k |F_k - 1[y <= k]| = sum_k |k - y| p_k,  F_k = p_1 + ... + p_k",
        notes="Exponent 1; rps is the squared distance. It is the expected absolute error, not a proper score: the "
        "expected value is lowest if all mass is on the median class, so the probabilities become too certain.",
    )
)
class EMDLoss(ClosedFormLoss):
    """Earth mover's distance with exponent 1: sum_k |F_k - 1[y <= k]| = sum_k |k - y| p_k.

    F_k is between 0 and 1, so each absolute value is F_k for k < y and 1 - F_k for k >= y. The loss is therefore linear
    in the probabilities and has a derivative everywhere, also where F_k equals 0 or 1.

    With label distributions it is the average over labels, the mean of |K - Y| for independent K and Y, as for all
    losses. This is not the earth mover's distance between the two distributions; for that, use ``rps``.

    Example:
        >>> import torch
        >>> loss = EMDLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([0])).item(), 4)
        1.1
    """

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        classes = np.arange(num_classes, dtype=np.float64)
        self.add_table("costs", np.abs(np.subtract.outer(classes, classes)))

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Expected absolute error and its gradient."""
        return {self.term: expected_cost(batch, self.columns("costs", batch, y))}
