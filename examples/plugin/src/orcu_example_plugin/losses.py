"""Expected distance between prediction and label."""

from typing import Unpack

import numpy as np
from torch import Tensor

from orcu.losses.base import LossCard, LossOptions, OrdinalLoss, register_loss


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
    """Expected power of the distance between prediction and label: sum_k p_k |k - y|^power.

    The common arguments of all losses are added to the signature and to this docstring.

    Args:
        power: exponent of the distance; larger values penalise large errors more.

    Example:
        >>> import torch
        >>> loss = ExpectedDistance(num_classes=3)
        >>> round(loss(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([1])).item(), 4)
        0.5
    """

    def __init__(self, num_classes: int, *, power: float = 1.0, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.power = power
        classes = np.arange(self.num_classes, dtype=np.float64)
        self.add_table("distances", np.abs(classes[:, None] - classes) ** power)

    def per_sample(self, logits: Tensor, y: Tensor) -> Tensor:
        """Compute the losses (n,) from logits (n, C) and labels (n,) or (n, C)."""
        table = self.table("distances", logits)
        distances = y @ table if y.dim() == 2 else table[y]
        return (logits.softmax(1) * distances).sum(1)
