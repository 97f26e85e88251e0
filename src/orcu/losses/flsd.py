"""FLSD-53: focal loss with a sample-dependent exponent."""

import math
from typing import Any, Unpack

from orcu.errors import InputError
from orcu.inputs import as_positive
from orcu.kernels.penalties import indicator
from orcu.kernels.terms import ClassFirst, Term, focal
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss

THRESHOLD_SLACK = 1e-6  # relative distance below the threshold that counts as equal to it


@register_loss(
    LossCard(
        name="flsd",
        title="FLSD-53 (sample-dependent focal loss)",
        family="calibration",
        paper="Mukhoti et al., 2020",
        formula="-(1 - p_y)^g log p_y,  g = 5 if p_y < 0.2 else 3",
        notes="g is a constant for the gradient. Mean over samples; the authors' code sums.",
    )
)
class FLSDLoss(ClosedFormLoss):
    """Sample-dependent focal loss: -(1 - p_y)^g log p_y with g = 5 where p_y < 0.2, else 3.

    A p_y less than a relative 1e-6 below the threshold counts as equal to it, so that float32 and float64 agree
    (five equal logits give p_y = 0.2, which float32 rounds below).

    Args:
        gamma_hard: exponent where p_y is below the threshold.
        gamma: exponent elsewhere.
        threshold: probability p_y that separates the two exponents.

    Example:
        >>> import torch
        >>> loss = FLSDLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.042
    """

    soft_labels = False

    def __init__(
        self,
        num_classes: int,
        *,
        gamma_hard: float = 5.0,
        gamma: float = 3.0,
        threshold: float = 0.2,
        **common: Unpack[LossOptions],
    ) -> None:
        super().__init__(num_classes, **common)
        self.gamma_hard = _as_exponent(gamma_hard, "gamma_hard")
        self.gamma = _as_exponent(gamma, "gamma")
        self.threshold = as_positive(threshold, name="threshold")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Focal loss with the exponent of each sample."""
        largest_nll = -math.log(self.threshold * (1 - THRESHOLD_SLACK))

        def gamma(nll: Any) -> Any:
            return self.gamma + (self.gamma_hard - self.gamma) * indicator(nll > largest_nll, nll)

        return {self.term: focal(batch, y, gamma)}


class FocalLoss(ClosedFormLoss):
    """Focal loss (Lin et al., 2017): -(1 - p_y)^gamma log p_y with gamma of at least 1; a base of MDCA."""

    soft_labels = False
    term = "focal"

    def __init__(self, num_classes: int, *, gamma: float = 1.0) -> None:
        super().__init__(num_classes)
        self.gamma = _as_exponent(gamma, "gamma")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Focal loss and its gradient."""
        return {self.term: focal(batch, y, lambda _: self.gamma)}


def _as_exponent(value: float, name: str) -> float:
    exponent = as_positive(value, name=name)
    if exponent < 1:  # the derivative of (1 - p)^gamma would be infinite at p = 1
        raise InputError(f"{name}: expected a number of at least 1, got {value!r}.")
    return exponent
