"""ACLS: squared hinges that push the largest logit down and pull the others up, each beyond a margin."""

import dataclasses
from typing import Any, Unpack

from orcu.errors import UnknownNameError
from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, adaptive_margin
from orcu.losses.base import LossCard, LossOptions, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed

CARD = LossCard(
    name="acls",
    title="Adaptive margins on the logits (ACLS)",
    family="calibration",
    paper="Park et al., 2023",
    formula="pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2  (sg: no gradient)",
    notes="The released code penalises the raw top logit, so the value depends on a common shift of the "
    "logits; form='paper' takes z_top - min_k z_k there. Defaults as in the authors' configuration; the "
    "ORCU paper gives none.",
)
FORMS = ("released", "paper")


@register_regularizer(CARD)
class AdaptiveLogitMargin(ClosedFormLoss):
    """Squared hinges on the logits: on the top one from above, on the others from below.

    pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2, where sg stops
    the gradient, so the second part changes the low logits only. Every logit equal to the maximum
    counts as top. The labels are not used.

    Args:
        margin: m.
        pos: factor of the first part.
        neg: factor of the second part.
        form: ``"released"`` as in the authors' code; ``"paper"`` has z_top - sg(min_k z_k) - m in the
            first part, which does not depend on a common shift.

    Example:
        >>> import torch
        >>> penalty = AdaptiveLogitMargin(num_classes=2, margin=1.0)
        >>> round(penalty(torch.tensor([[0.0, 3.0]]), torch.tensor([0])).item(), 4)
        4.4
    """

    default_strength = 0.1
    stops_gradient = True
    shift_invariant = False

    def __init__(
        self,
        num_classes: int,
        *,
        margin: float = 10.0,
        pos: float = 1.0,
        neg: float = 0.1,
        form: str = "released",
        **common: Unpack[LossOptions],
    ) -> None:
        super().__init__(num_classes, **common)
        self.margin = as_positive(margin, name="margin")
        self.pos = as_positive(pos, name="pos")
        self.neg = as_positive(neg, name="neg")
        if form not in FORMS:
            raise UnknownNameError("form of acls", form, FORMS)
        self.form = form

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The two squared hinges and their gradient."""
        from_lowest = self.form == "paper"
        return {self.term: adaptive_margin(batch, self.margin, pos=self.pos, neg=self.neg, from_lowest=from_lowest)}


@register_loss(
    dataclasses.replace(
        CARD, title="ACLS (adaptive conditional label smoothing)", formula=f"-log p_y + strength [{CARD.formula}]"
    )
)
class ACLSLoss(Composed):
    """Cross-entropy plus adaptive margins on the logits, see `AdaptiveLogitMargin`.

    Args:
        strength: factor of the regularizer.
        margin: m, the largest top logit and the largest distance of the others to it without cost.
        pos: factor of the part that pushes the top logit down.
        neg: factor of the part that pulls the others up.
        form: ``"released"`` or ``"paper"``.

    Example:
        >>> import torch
        >>> loss = ACLSLoss(num_classes=2, margin=1.0)
        >>> round(loss(torch.tensor([[0.0, 3.0]]), torch.tensor([1])).item(), 4)
        0.4886
    """

    stops_gradient = True
    shift_invariant = False

    def __init__(
        self,
        num_classes: int,
        *,
        strength: float = AdaptiveLogitMargin.default_strength,
        margin: float = 10.0,
        pos: float = 1.0,
        neg: float = 0.1,
        form: str = "released",
        **common: Unpack[LossOptions],
    ) -> None:
        regularizer = AdaptiveLogitMargin(num_classes, margin=margin, pos=pos, neg=neg, form=form)
        super().__init__(CrossEntropyLoss(num_classes), regularizer, strength=strength, **common)
