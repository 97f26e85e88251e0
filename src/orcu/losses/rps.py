"""RPS: the ranked probability score, which the package reports, as a training loss."""

from typing import Any, Unpack

import numpy as np

from orcu.kernels.terms import ClassFirst, Term, ranked_probability_score
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="rps",
        title="RPS (ranked probability score)",
        family="ordinal",
        paper="Epstein, 1969; as a loss: Hou, Yu and Samaras, 2016",
        formula="sum_k (F_k - 1[y <= k])^2,  F_k = p_1 + ... + p_k",
        notes="A proper score: the expected value is lowest for the true probabilities. It is the squared earth "
        "mover's distance (EMD^2) of one-hot labels. Bounded by C - 1, so the gradient vanishes where a wrong class is "
        "close to certain.",
    )
)
class RPSLoss(ClosedFormLoss):
    """Ranked probability score: sum_k (F_k - 1[y <= k])^2 over the C - 1 thresholds, `orcu.metrics.rps`.

    With label distributions, whose cumulative sums are G_k, it is the average over labels, sum_k (F_k - G_k)^2 + G_k
    (1 - G_k). The first part is the squared earth mover's distance, and the second part has no gradient.

    Example:
        >>> import torch
        >>> loss = RPSLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([1])).item(), 4)
        0.13
    """

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.add_table("observed", np.triu(np.ones((num_classes, num_classes)))[:, :-1])

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Score and its gradient."""
        observed = self.columns("observed", batch, y)
        term = ranked_probability_score(batch, observed)
        if y.ndim == 2:
            term = term._replace(value=term.value + (observed * (1 - observed)).sum(0))
        return {self.term: term}
