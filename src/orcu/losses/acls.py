"""ACLS: large logits are pushed down and small ones pulled up, each beyond a margin."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu.errors import UnknownNameError
from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, adaptive_margin
from orcu.losses.base import IGNORED, LossCard, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed

FORMULA = "pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2  (sg: no gradient)"
PAPER = "Park et al., 2023"
NOTES = (
    "The released code penalises the raw top logit, so the value depends on a common shift of the "
    "logits; form='paper' takes z_top - min_k z_k there. Defaults as in the authors' configuration; the "
    "ORCU paper gives none."
)
FORMS = ("released", "paper")


@register_regularizer(
    LossCard(
        name="acls",
        title="Adaptive margins on the logits (ACLS)",
        family="calibration",
        paper=PAPER,
        formula=FORMULA,
        notes=NOTES,
    )
)
class AdaptiveLogitMargin(ClosedFormLoss):
    """Squared hinges: on the top logit from above, on the others from below.

    pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2, where sg stops
    the gradient: the second part pulls the low logits up and leaves the top alone. Every logit
    equal to the maximum counts as top. y is not used.

    Args:
        num_classes: how many classes, C.
        margin: m.
        pos: the factor of the first part.
        neg: the factor of the second part.
        form: ``"released"`` as in the authors' code; ``"paper"`` has z_top - sg(min_k z_k) - m in the
            first part, which does not depend on a common shift.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.margin = as_positive(margin, name="margin")
        self.pos = as_positive(pos, name="pos")
        self.neg = as_positive(neg, name="neg")
        if form not in FORMS:
            raise UnknownNameError("form of acls", form, FORMS)
        self.form = form

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The two squared hinges and their gradient, less what is stopped."""
        from_lowest = self.form == "paper"
        return {self.term: adaptive_margin(batch, self.margin, pos=self.pos, neg=self.neg, from_lowest=from_lowest)}


@register_loss(
    LossCard(
        name="acls",
        title="ACLS (adaptive conditional label smoothing)",
        family="calibration",
        paper=PAPER,
        formula=f"-log p_y + strength [{FORMULA}]",
        notes=NOTES,
    )
)
class ACLSLoss(Composed):
    """Cross-entropy plus adaptive margins on the logits, see `AdaptiveLogitMargin`.

    Args:
        num_classes: how many classes, C.
        strength: the factor of the regularizer.
        margin: m, how far the top logit may rise and the others may fall behind.
        pos: the factor of the part that pushes the top logit down.
        neg: the factor of the part that pulls the others up.
        form: ``"released"`` or ``"paper"``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        regularizer = AdaptiveLogitMargin(num_classes, margin=margin, pos=pos, neg=neg, form=form)
        anchor = CrossEntropyLoss(num_classes)
        super().__init__(
            anchor, regularizer, strength=strength, reduction=reduction, weight=weight, ignore_index=ignore_index
        )
