"""Cross-entropy, which ignores the order of the classes."""

from typing import Any, Unpack

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from orcu.kernels.terms import ClassFirst, Term, cross_entropy
from orcu.losses.base import LossCard, LossOptions, reduce, register_loss
from orcu.losses.closed_form import SoftTargetLoss


@register_loss(LossCard(name="ce", title="Cross-entropy", family="nominal", paper="textbook", formula="-log p_y"))
class CrossEntropyLoss(SoftTargetLoss):
    """One-hot cross-entropy: -log p_y (Eq. 18).

    Example:
        >>> import torch
        >>> loss = CrossEntropyLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.5514
    """

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.add_table("targets", np.eye(self.num_classes))

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Cross-entropy, without one-hot targets if the labels are integers."""
        return {self.term: cross_entropy(batch, y)} if y.ndim == 1 else super().terms(batch, y)

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the reduced cross-entropy with torch's kernel; `terms` serves sums such as `Composed`."""
        if weight is None:
            value = F.cross_entropy(logits, y, reduction=reduction)
        else:
            value = reduce(F.cross_entropy(logits, y, reduction="none"), weight, reduction)
        self.record({self.term: value})
        return value
