"""Label smoothing: a little mass on every class, whatever its distance."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from orcu.errors import UnknownNameError
from orcu.inputs import as_fraction
from orcu.losses.base import IGNORED, LossCard, register_loss
from orcu.losses.soft_targets import SoftTargetLoss

SPREADS = ("K", "K-1")


@register_loss(
    LossCard(
        name="ls",
        title="Label smoothing",
        family="calibration",
        paper="Szegedy et al., 2016",
        formula="-sum_k t_k log p_k,  t = (1 - alpha) onehot(y) + alpha / K",
        notes="alpha = 0.05 as in the configurations of MbLS (Liu et al., 2022) and ACLS (Park et al., "
        "2023); the ORCU paper gives none. over='K-1' spares the label's class, as MDCA's code does.",
    )
)
class LabelSmoothingLoss(SoftTargetLoss):
    """Cross-entropy with smoothed targets: t = (1 - alpha) onehot(y) + alpha / K.

    Args:
        num_classes: C (K in that paper).
        alpha: the mass taken from the label, in [0, 1).
        over: ``"K"`` spreads alpha over all classes, ``"K-1"`` over the others only.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> loss = LabelSmoothingLoss(num_classes=3, alpha=0.3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.7514
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 0.05,
        over: str = "K",
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        alpha = as_fraction(alpha, name="alpha")
        if over not in SPREADS:
            raise UnknownNameError("spread of label smoothing", over, SPREADS)
        onehot = np.eye(num_classes)
        others = 1 / num_classes if over == "K" else (1 - onehot) / (num_classes - 1)
        self.add_table("targets", (1 - alpha) * onehot + alpha * others)
