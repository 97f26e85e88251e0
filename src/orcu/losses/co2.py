"""CO2: cross-entropy plus a hinge on adjacent probabilities that rise away from the label."""

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from orcu.inputs import as_positive
from orcu.kernels import penalties
from orcu.kernels.terms import ClassFirst, Term
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import GapPenalty


class AdjacentProbabilityHinge(GapPenalty):
    """sum_k max(0, omega + farther - nearer) over adjacent probabilities, directed away from y, with a margin omega."""

    term = "co2"

    def __init__(self, num_classes: int, *, omega: float = 0.05) -> None:
        super().__init__(num_classes)
        self.omega = as_positive(omega, name="omega")

    def penalty(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """max(0, r + omega), and 1 where r > -omega, else 0."""
        return partial(penalties.hinge, margin=self.omega), partial(penalties.hinge_gradient, margin=self.omega)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Sum over adjacent pairs of probabilities."""
        steps = self.over_gaps(batch.probs, batch, y)
        return {self.term: Term(steps.value, lambda: batch.through_softmax(steps.gradient()))}


@register_loss(
    LossCard(
        name="co2",
        title="CO2",
        family="ordinal",
        paper="Albuquerque, Cruz and Cardoso, 2021",
        formula="-log p_y + lambda sum_k max(0, omega + p_far - p_near)  (adjacent pairs, directed away from y)",
        notes="lambda = 0.01 on the term and omega = 0.05, the defaults of the authors' later package "
        "(unimodal-ordinal-regression); original=True gives lambda CE + term of their experiments. For "
        "C >= 7 no distribution satisfies the margin at the lowest and the highest label.",
    )
)
class CO2Loss(Composed):
    """Cross-entropy plus a unimodality term: -log p_y + lambda sum_k max(0, omega + p_far - p_near).

    Args:
        strength: lambda, the factor of the term (of the cross-entropy if ``original``).
        omega: margin between adjacent probabilities.
        original: whether to compute lambda CE + term, as in the authors' experiments, instead of CE + lambda term.

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
        **common: Unpack[LossOptions],
    ) -> None:
        ce, term = CrossEntropyLoss(num_classes), AdjacentProbabilityHinge(num_classes, omega=omega)
        anchor, regularizer = (term, ce) if original else (ce, term)
        super().__init__(anchor, regularizer, strength=strength, **common)
