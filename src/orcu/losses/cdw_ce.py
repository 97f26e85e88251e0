"""CDW-CE: every wrong class pays for its probability, the more the farther it lies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from orcu.inputs import as_fraction, as_positive
from orcu.kernels.terms import ClassFirst, Term, distance_weighted, distance_weighted_beyond
from orcu.losses.base import IGNORED, LossCard, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="cdw_ce",
        title="CDW-CE (class distance weighted cross-entropy)",
        family="ordinal",
        paper="Polat et al., 2022",
        formula="-sum_k |k - y|^alpha log(1 - p_k)",
        notes="alpha = 5, the low end of the 5-7 its authors recommend on LIMUC; the ORCU paper gives "
        "none. With a margin m the argument is min(1, 1 - p_k + m). The value is large (7^5 = 16807): "
        "mind thresholds and gradient clipping.",
    )
)
class CDWCELoss(ClosedFormLoss):
    """Class distance weighted cross-entropy: -sum_k |k - y|^alpha log(1 - p_k).

    log(1 - p_k) is taken as the log-sum-exp of the other classes less that of all, so that a wrong
    class close to certainty keeps its gradient.

    Args:
        num_classes: how many classes, C.
        alpha: the power of the distance.
        margin: m >= 0; a wrong class with p_k <= m costs nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> loss = CDWCELoss(num_classes=3, alpha=2.0)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.811
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 5.0,
        margin: float = 0.0,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.alpha = as_positive(alpha, name="alpha")
        self.margin = as_fraction(margin, name="margin")
        distance = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
        self.add_table("costs", distance.astype(np.float64) ** self.alpha)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The weighted sum over wrong classes and its gradient."""
        costs = self.columns("costs", batch, y)
        if self.margin:
            return {self.term: distance_weighted_beyond(batch, costs, self.margin)}
        return {self.term: distance_weighted(batch, costs)}
