"""CO2: cross-entropy plus a hinge on adjacent probabilities that step the wrong way."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu import geometry
from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term
from orcu.losses.base import IGNORED, LossCard, register_loss
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import GapPenalty


class AdjacentProbabilityHinge(GapPenalty):
    """sum_k max(0, omega + farther - nearer) over adjacent probabilities, seen from y."""

    term = "co2"

    def __init__(self, num_classes: int, *, omega: float = 0.05) -> None:
        super().__init__(num_classes)
        self.omega = as_positive(omega, name="omega")

    def penalty(self, r: Any) -> Any:
        """max(0, r + omega)."""
        return geometry.hinge(r, margin=self.omega)

    def slope(self, r: Any) -> Any:
        """1 where the margin is missed, else 0."""
        return geometry.hinge_slope(r, margin=self.omega)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The sum over adjacent pairs of probabilities."""
        steps = self.over_gaps(batch.probs, batch, y)
        return {self.term: Term(steps.value, lambda: batch.through_softmax(steps.gradient()))}


@register_loss(
    LossCard(
        name="co2",
        title="CO2",
        family="ordinal",
        paper="Albuquerque, Cruz and Cardoso, 2021",
        formula="-log p_y + lambda sum_k max(0, omega + p_far - p_near)  (adjacent pairs, seen from y)",
        notes="lambda = 0.01 on the term and omega = 0.05, the defaults of the authors' later package "
        "(unimodal-ordinal-regression); original=True gives lambda CE + term of their experiments. For "
        "C >= 7 no distribution keeps the margin at an edge label.",
    )
)
class CO2Loss(Composed):
    """Cross-entropy plus a unimodality term: -log p_y + lambda sum_k max(0, omega + p_far - p_near).

    Args:
        num_classes: how many classes, C.
        strength: lambda, the factor of the term (of the cross-entropy if ``original``).
        omega: the margin between adjacent probabilities.
        original: lambda CE + term, as in the authors' experiments, in place of CE + lambda term.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> loss = CO2Loss(num_classes=3, strength=1.0)
        >>> round(loss(torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([1])).item(), 4)
        0.912
    """

    def __init__(
        self,
        num_classes: int,
        *,
        strength: float = 0.01,
        omega: float = 0.05,
        original: bool = False,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        ce, term = CrossEntropyLoss(num_classes), AdjacentProbabilityHinge(num_classes, omega=omega)
        anchor, regularizer = (term, ce) if original else (ce, term)
        super().__init__(
            anchor, regularizer, strength=strength, reduction=reduction, weight=weight, ignore_index=ignore_index
        )
