"""Plain cross-entropy, the reference that ignores the order of the classes."""

import torch.nn.functional as F
from torch import Tensor

from orcu.losses.base import LossCard, OrdinalLoss, reduce, register_loss


@register_loss(
    LossCard(
        name="ce",
        title="Cross-entropy",
        family="nominal",
        paper="textbook",
        formula="-log p_y",
    )
)
class CrossEntropyLoss(OrdinalLoss):
    """One-hot cross-entropy: -log p_y (Eq. 18).

    Example:
        >>> import torch
        >>> loss = CrossEntropyLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.5514
    """

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced cross-entropy; without weights torch reduces it in the same kernel."""
        if weight is None:
            return F.cross_entropy(logits, y, reduction=reduction)
        return reduce(F.cross_entropy(logits, y, reduction="none"), weight, reduction)
