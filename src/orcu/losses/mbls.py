"""MbLS: logits may fall behind the largest by a margin, and pay for more."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, logit_margin
from orcu.losses.base import IGNORED, LossCard, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed

FORMULA = "(1/C) sum_k max(0, max_j z_j - z_k - m)"
PAPER = "Liu et al., 2022"
MARGIN = "Margin 10 and strength 0.1 as in the authors' configuration; the ORCU paper gives neither."


@register_regularizer(
    LossCard(
        name="mbls",
        title="Margin on the logits (MbLS)",
        family="calibration",
        paper=PAPER,
        formula=FORMULA,
        notes=MARGIN,
    )
)
class LogitMargin(ClosedFormLoss):
    """Hinge on the distance to the largest logit: (1/C) sum_k max(0, max_j z_j - z_k - m).

    The gradient reaches the largest logit too, shared where several tie (the authors' code takes one of them). y is not
    used.

    Args:
        num_classes: how many classes, C.
        margin: m.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> LogitMargin(num_classes=2, margin=1.0)(torch.tensor([[0.0, 4.0]]), torch.tensor([0])).item()
        1.5
    """

    default_strength = 0.1

    def __init__(
        self,
        num_classes: int,
        *,
        margin: float = 10.0,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.margin = as_positive(margin, name="margin")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The mean over classes and its gradient."""
        return {self.term: logit_margin(batch, self.margin)}


@register_loss(
    LossCard(
        name="mbls",
        title="MbLS (margin-based label smoothing)",
        family="calibration",
        paper=PAPER,
        formula=f"-log p_y + strength {FORMULA}",
        notes=MARGIN,
    )
)
class MbLSLoss(Composed):
    """Cross-entropy plus a margin on the logits: -log p_y + strength (1/C) sum_k max(0, max z - z_k - m).

    Args:
        num_classes: how many classes, C.
        margin: m, how far a logit may fall behind the largest.
        strength: the factor of the margin term.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(
            CrossEntropyLoss(num_classes),
            LogitMargin(num_classes, margin=margin),
            strength=strength,
            reduction=reduction,
            weight=weight,
            ignore_index=ignore_index,
        )
