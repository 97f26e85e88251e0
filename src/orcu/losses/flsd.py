"""Focal loss whose exponent depends on the sample: FLSD-53."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu.errors import InputError
from orcu.geometry import indicator
from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, focal
from orcu.losses.base import IGNORED, LossCard, register_loss
from orcu.losses.closed_form import ClosedFormLoss

THRESHOLD_SLACK = 1e-6


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

    A p_y within a millionth of the threshold counts as on it, so that float32 and float64 agree
    (five equal logits give p_y = 0.2, which float32 rounds below).

    Args:
        num_classes: how many classes, C.
        gamma_hard: the exponent where p_y is below the threshold.
        gamma: the exponent elsewhere.
        threshold: the confidence that divides them.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.gamma_hard = _as_exponent(gamma_hard, "gamma_hard")
        self.gamma = _as_exponent(gamma, "gamma")
        self.threshold = as_positive(threshold, name="threshold")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The focal loss with each sample's exponent."""
        least = -math.log(self.threshold * (1 - THRESHOLD_SLACK))

        def gamma(nll: Any) -> Any:
            return self.gamma + (self.gamma_hard - self.gamma) * indicator(nll > least, nll)

        return {self.term: focal(batch, y, gamma)}


class FocalLoss(ClosedFormLoss):
    """Focal loss (Lin et al., 2017): -(1 - p_y)^gamma log p_y; a base of MDCA."""

    soft_labels = False
    term = "focal"

    def __init__(self, num_classes: int, *, gamma: float = 1.0) -> None:
        super().__init__(num_classes)
        self.gamma = _as_exponent(gamma, "gamma")

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The focal loss."""
        return {self.term: focal(batch, y, lambda _: self.gamma)}


def _as_exponent(value: float, name: str) -> float:
    exponent = as_positive(value, name=name)
    if exponent < 1:  # the slope of (1 - p)^gamma would be infinite at p = 1
        raise InputError(f"{name}: expected a number of at least 1, got {value!r}.")
    return exponent
