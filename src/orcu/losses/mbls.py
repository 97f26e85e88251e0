"""MbLS: a hinge on the distance of each logit to the largest one, beyond a margin."""

import dataclasses
from typing import Any, Unpack

from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, logit_margin
from orcu.losses.base import LossCard, LossOptions, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed

CARD = LossCard(
    name="mbls",
    title="Margin on the logits (MbLS)",
    family="calibration",
    paper="Liu et al., 2022",
    formula="(1/C) sum_k max(0, max_j z_j - z_k - m)",
    notes="Margin 10 and strength 0.1 as in the authors' configuration; the ORCU paper gives neither.",
)


@register_regularizer(CARD)
class LogitMargin(ClosedFormLoss):
    """Hinge on the distance to the largest logit: (1/C) sum_k max(0, max_j z_j - z_k - m).

    The gradient includes the largest logit and is shared between ties (the authors' code takes one of them). The
    labels are not used.

    Args:
        margin: m.

    Example:
        >>> import torch
        >>> LogitMargin(num_classes=2, margin=1.0)(torch.tensor([[0.0, 4.0]]), torch.tensor([0])).item()
        1.5
    """

    default_strength = 0.1

    def __init__(self, num_classes: int, *, margin: float = 10.0, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.margin = as_positive(margin, name="margin")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Mean hinge over the classes and its gradient."""
        return {self.term: logit_margin(batch, self.margin)}


@register_loss(
    dataclasses.replace(
        CARD, title="MbLS (margin-based label smoothing)", formula=f"-log p_y + strength {CARD.formula}"
    )
)
class MbLSLoss(Composed):
    """Cross-entropy plus a margin on the logits: -log p_y + strength (1/C) sum_k max(0, max z - z_k - m).

    Args:
        margin: m, the largest distance to the largest logit without cost.
        strength: factor of the margin term.

    Example:
        >>> import torch
        >>> loss = MbLSLoss(num_classes=2, margin=1.0)
        >>> round(loss(torch.tensor([[0.0, 4.0]]), torch.tensor([1])).item(), 4)
        0.1681
    """

    def __init__(
        self,
        num_classes: int,
        *,
        margin: float = 10.0,
        strength: float = LogitMargin.default_strength,
        **common: Unpack[LossOptions],
    ) -> None:
        regularizer = LogitMargin(num_classes, margin=margin)
        super().__init__(CrossEntropyLoss(num_classes), regularizer, strength=strength, **common)
