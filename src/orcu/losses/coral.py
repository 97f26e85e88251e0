"""CORAL: the binary cross-entropies of all questions "is y above k?"."""

from typing import Any, Unpack

from orcu.kernels.cumulative import cumulative_log_loss
from orcu.kernels.terms import ClassFirst, Term
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="coral",
        title="CORAL (consistent rank logits)",
        family="ordinal",
        paper="Cao, Mirjalili and Raschka, 2020",
        formula="-sum_k ([y > k] log P(y > k) + [y <= k] log P(y <= k)),  k = 0..C-2",
        notes="Its head is coral: P(y > k) = sigma(w x + b_k) with decreasing biases. Other heads work too, since the "
        "loss takes the cumulative probabilities of any distribution. The weights of the thresholds in the paper are "
        "one.",
    )
)
class CoralLoss(ClosedFormLoss):
    """Sum of the binary cross-entropies of the C - 1 events y > k.

    -sum_k ([y > k] log P(y > k) + [y <= k] log P(y <= k)), from the cumulative probabilities of softmax(z). With the
    log-probabilities of `orcu.models.heads.CoralHead` as logits, this is the loss of the authors. It is a proper score
    of every distribution (the ranked ignorance score of Toedter and Ahrens, 2012): RPS with the logarithmic in place
    of the quadratic score.

    Example:
        >>> import torch
        >>> loss = CoralLoss(num_classes=3)
        >>> round(loss(torch.zeros(1, 3), torch.tensor([0])).item(), 4)  # -log(1/3) - log(2/3)
        1.5041
    """

    head = "coral"

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The sum over the thresholds and its gradient."""
        return {self.term: cumulative_log_loss(batch, y)}
