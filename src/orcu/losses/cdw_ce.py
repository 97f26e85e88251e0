"""CDW-CE: penalises the probability of each wrong class by a power of its distance to the label."""

from typing import Any, Unpack

import numpy as np

from orcu.inputs import as_fraction, as_positive
from orcu.kernels.terms import ClassFirst, Term, distance_weighted, distance_weighted_with_margin
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="cdw_ce",
        title="CDW-CE (class distance weighted cross-entropy)",
        family="ordinal",
        paper="Polat et al., 2022",
        formula="-sum_k |k - y|^alpha log(1 - p_k)",
        notes="alpha = 5, the low end of the 5-7 that its authors recommend on LIMUC; the ORCU paper gives "
        "none. With a margin m the argument is min(1, 1 - p_k + m). The value is large (7^5 = 16807): "
        "adapt thresholds and gradient clipping.",
    )
)
class CDWCELoss(ClosedFormLoss):
    """Class distance weighted cross-entropy: -sum_k |k - y|^alpha log(1 - p_k).

    log(1 - p_k) is computed as the log-sum-exp of the other classes minus that of all classes, so that the gradient
    does not vanish when a wrong class is close to certain.

    Args:
        alpha: power of the distance.
        margin: m >= 0; a wrong class with p_k <= m has no cost.

    Example:
        >>> import torch
        >>> loss = CDWCELoss(num_classes=3, alpha=2.0)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.811
    """

    def __init__(
        self, num_classes: int, *, alpha: float = 5.0, margin: float = 0.0, **common: Unpack[LossOptions]
    ) -> None:
        super().__init__(num_classes, **common)
        self.alpha = as_positive(alpha, name="alpha")
        self.margin = as_fraction(margin, name="margin")
        distance = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
        self.add_table("costs", distance.astype(np.float64) ** self.alpha)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Weighted sum over the wrong classes and its gradient."""
        costs = self.columns("costs", batch, y)
        if self.margin:
            return {self.term: distance_weighted_with_margin(batch, costs, self.margin)}
        return {self.term: distance_weighted(batch, costs)}
