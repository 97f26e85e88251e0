"""CORN: the log-likelihood of conditional binary questions, averaged over all questions of the batch."""

from typing import Unpack

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from orcu.kernels.terms import total_weight
from orcu.losses.base import LossCard, LossOptions, OrdinalLoss, register_loss


@register_loss(
    LossCard(
        name="corn",
        title="CORN (conditional ordinal regression)",
        family="ordinal",
        paper="Shi, Cao and Raschka, 2021",
        formula="sum_n -log p_y / sum_n min(y + 1, C - 1)",
        notes="Its head is corn: P(y > k | y >= k) = sigma(u_k). Sample n is in the training sets of min(y + 1, C - 1) "
        "conditional questions, whose log-likelihoods add up to log p_y. So the loss is cross-entropy with another "
        "divisor, and differs in the step size of each batch only. A statistic of the batch.",
    )
)
class CornLoss(OrdinalLoss):
    """Mean binary cross-entropy over the conditional questions "is y above k, given y >= k?" of the batch.

    Sample n answers the questions k = 0, ..., min(y, C - 2). By the chain rule their log-likelihoods add up to
    log p_y, so the numerator is the negative log-likelihood that cross-entropy averages too. The divisor is the number
    of questions of the batch in place of the number of samples: batches of high labels take smaller steps. With the
    log-probabilities of `orcu.models.heads.CornHead` as logits, this is the loss of the authors.

    Example:
        >>> import torch
        >>> loss = CornLoss(num_classes=3)
        >>> round(loss(torch.zeros(2, 3), torch.tensor([0, 2])).item(), 4)  # 2 log 3 / (1 + 2)
        0.7324
    """

    head = "corn"
    batch_statistic = True
    reversible = False

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        labels = np.arange(self.num_classes)
        self.add_table("questions", np.minimum(labels + 1, self.num_classes - 1).astype(np.float64))

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the loss of the batch; ``"sum"`` multiplies it by the sum of the weights."""
        table = self.table("questions", logits)
        questions = table[y] if y.dim() == 1 else y @ table
        weight = logits.new_ones(len(logits)) if weight is None else weight
        nll = F.cross_entropy(logits, y, reduction="none")
        value = (weight * nll).sum() / total_weight(weight * questions)
        value = value * weight.sum() if reduction == "sum" else value
        self.record({self.term: value})
        return value
