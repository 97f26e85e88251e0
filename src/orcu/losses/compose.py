"""Any anchor with any regularizer: the grid of the paper's ablation."""

from collections.abc import Sequence

from torch import Tensor

from orcu.errors import InputError
from orcu.inputs import as_positive
from orcu.losses.base import OrdinalLoss


class Composed(OrdinalLoss):
    """anchor + strength * regularizer.

    Args:
        anchor: a loss that says where the mass belongs, such as `SORDLoss`.
        regularizer: a loss or penalty on the same logits, such as `LogBarrier`.
        strength: the factor of the regularizer, above 0.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``; those of the two terms are not used.
        weight: one weight per class, or ``None``; those of the two terms are not used.

    Raises:
        InputError: if the terms disagree on the number of classes, or an argument cannot be used.

    Example:
        >>> import torch
        >>> from orcu.losses.gap_regularizers import GapHinge
        >>> from orcu.losses.sord import SORDLoss
        >>> loss = Composed(SORDLoss(3), GapHinge(3, scale=2.0))
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.9753
        >>> {term: round(value.item(), 4) for term, value in loss.parts.items()}
        {'softce': 0.9753, 'hinge': 0.0}
    """

    def __init__(
        self,
        anchor: OrdinalLoss,
        regularizer: OrdinalLoss,
        *,
        strength: float = 1.0,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        for name, term in (("anchor", anchor), ("regularizer", regularizer)):
            if not isinstance(term, OrdinalLoss):
                raise InputError(f"{name}: expected a loss of orcu, got {type(term).__name__}.")
        if anchor.num_classes != regularizer.num_classes:
            raise InputError(
                f"regularizer: made for {regularizer.num_classes} classes, the anchor for "
                f"{anchor.num_classes}; both must agree."
            )
        super().__init__(anchor.num_classes, reduction=reduction, weight=weight)
        self.anchor = anchor
        self.regularizer = regularizer
        self.strength = as_positive(strength, name="strength")

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The sum of the two reduced terms."""
        anchor = self.anchor.evaluate(logits, y, weight, reduction)
        regularizer = self.strength * self.regularizer.evaluate(logits, y, weight, reduction)
        self.parts = {
            self.anchor.term: anchor.detach(),
            self.regularizer.term: regularizer.detach(),
        }
        return anchor + regularizer
