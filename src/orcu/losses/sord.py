"""SORD: cross-entropy with distance-based soft targets, the anchor of ORCU."""

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from orcu.kernels.soft_targets import log_targets
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import SoftTargetLoss


@register_loss(
    LossCard(
        name="sord",
        title="SORD (soft ordinal targets)",
        family="ordinal",
        paper="Diaz and Marathe, 2019",
        formula="-sum_k t_k log p_k,  t = softmax_k(-phi(|y - k|)),  phi(d) = d^2",
        notes="Squared distance and no scale factor, as in the ORCU paper. distance= also takes a distribution around "
        "the label: binomial, poisson, beta or triangular.",
    )
)
class SORDLoss(SoftTargetLoss):
    """Cross-entropy with soft targets, SoftCE (Eqs. 1-2): -sum_k t_k log p_k.

    Args:
        distance: distance phi of the soft targets: ``"squared"``, ``"absolute"``, ``"huber"``, ``"exponential"`` or
            ``"power"``; a distribution instead of softmax(-phi): ``"binomial"``, ``"poisson"``, ``"beta"`` or
            ``"triangular"``; or a table such as ``{"name": "huber", "delta": 2.0}``.

    Example:
        >>> import torch
        >>> loss = SORDLoss(num_classes=3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.9753
    """

    term: ClassVar[str] = "softce"

    def __init__(
        self, num_classes: int, *, distance: str | Mapping[str, Any] = "squared", **common: Unpack[LossOptions]
    ) -> None:
        super().__init__(num_classes, **common)
        self.distance = distance
        self.add_table("targets", np.exp(log_targets(num_classes, distance)))

    def extra_repr(self) -> str:  # noqa: D102
        return f"{super().extra_repr()}, distance={self.distance!r}"
