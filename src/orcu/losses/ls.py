"""Label smoothing: uniform mass on all classes, independent of their distance to the label."""

from typing import Unpack

import numpy as np

from orcu.errors import UnknownNameError
from orcu.inputs import as_fraction
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import SoftTargetLoss

SPREADS = ("K", "K-1")


@register_loss(
    LossCard(
        name="ls",
        title="Label smoothing",
        family="calibration",
        paper="Szegedy et al., 2016",
        formula="-sum_k t_k log p_k,  t = (1 - alpha) onehot(y) + alpha / K",
        notes="alpha = 0.05 as in the configurations of MbLS (Liu et al., 2022) and ACLS (Park et al., "
        "2023); the ORCU paper gives none. over='K-1' leaves out the label's class, as MDCA's code does.",
    )
)
class LabelSmoothingLoss(SoftTargetLoss):
    """Cross-entropy with smoothed targets: t = (1 - alpha) onehot(y) + alpha / K.

    Args:
        alpha: mass taken from the label, in [0, 1).
        over: classes that share alpha: all (``"K"``) or all but the label (``"K-1"``).

    Example:
        >>> import torch
        >>> loss = LabelSmoothingLoss(num_classes=3, alpha=0.3)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.7514
    """

    def __init__(
        self, num_classes: int, *, alpha: float = 0.05, over: str = "K", **common: Unpack[LossOptions]
    ) -> None:
        super().__init__(num_classes, **common)
        alpha = as_fraction(alpha, name="alpha")
        if over not in SPREADS:
            raise UnknownNameError("spread of label smoothing", over, SPREADS)
        onehot = np.eye(num_classes)
        others = 1 / num_classes if over == "K" else (1 - onehot) / (num_classes - 1)
        self.add_table("targets", (1 - alpha) * onehot + alpha * others)
