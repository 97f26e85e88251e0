"""Cross-entropy against a table of soft targets: what CE, label smoothing and SORD have in common."""

import torch.nn.functional as F
from torch import Tensor

from orcu.losses.base import OrdinalLoss, reduce


class SoftTargetLoss(OrdinalLoss):
    """-sum_k t_k log p_k, with row y of the table ``targets`` as t; a subclass adds the table."""

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced cross-entropy; without weights torch reduces it in the same kernel."""
        targets = self.lookup("targets", logits, y)
        if weight is None:
            return F.cross_entropy(logits, targets, reduction=reduction)
        return reduce(F.cross_entropy(logits, targets, reduction="none"), weight, reduction)
