"""The expected distance of the prediction from the label."""

from typing import Any

import numpy as np
from torch import Tensor

from orcu.losses.base import LossCard, OrdinalLoss, register_loss


@register_loss(
    LossCard(
        name="expected_distance",
        title="Expected distance",
        family="ordinal",
        paper="none, an example",
        formula="sum_k p_k |k - y|^power",
    )
)
class ExpectedDistance(OrdinalLoss):
    """How far from the label the class is on average: sum_k p_k |k - y|^power.

    Args:
        num_classes: how many classes, C.
        power: 1 counts classes, 2 punishes what is far off more.
        common: reduction, weight and ignore_index, as for every loss.

    Example:
        >>> import torch
        >>> loss = ExpectedDistance(num_classes=3)
        >>> round(loss(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([1])).item(), 4)
        0.5
    """

    def __init__(self, num_classes: int, *, power: float = 1.0, **common: Any) -> None:
        super().__init__(num_classes, **common)
        self.power = power
        classes = np.arange(self.num_classes, dtype=np.float64)
        self.add_table("distances", np.abs(classes[:, None] - classes) ** power)

    def per_sample(self, logits: Tensor, y: Tensor) -> Tensor:
        """(n, C) logits and labels of shape (n,) or (n, C) to (n,) losses."""
        table = self.table("distances", logits)
        distances = y @ table if y.dim() == 2 else table[y]
        return (logits.softmax(1) * distances).sum(1)
