"""MDCA: difference between mean probability and label frequency of each class in a batch."""

import dataclasses
from typing import Any, Unpack

from orcu.errors import UnknownNameError
from orcu.kernels.terms import ClassFirst, Term, confidence_frequency_gap
from orcu.losses.base import LossCard, LossOptions, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed
from orcu.losses.flsd import FocalLoss

CARD = LossCard(
    name="mdca",
    title="Confidence against frequency (MDCA)",
    family="calibration",
    paper="Hebbalaguppe et al., 2022",
    formula="(1/C) sum_k |mean_n p_nk - mean_n 1[y_n = k]|",
    notes="A statistic of the batch: it depends on the batch size and has no per-sample value.",
)
BASES = ("ce", "focal")


@register_regularizer(CARD)
class ConfidenceFrequencyGap(ClosedFormLoss):
    """Mean probability minus label frequency over the batch: (1/C) sum_k |mean p_k - freq_k|.

    Weights apply to both means. ``"sum"`` is the mean times the number of samples (or the sum of their weights), which
    makes it comparable to a summed loss.

    Example:
        >>> import torch
        >>> penalty = ConfidenceFrequencyGap(num_classes=2)
        >>> penalty(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])).item()
        0.25
    """

    batch_statistic = True

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Statistic of the batch and its gradient."""
        return {self.term: confidence_frequency_gap(batch, y)}


@register_loss(
    dataclasses.replace(
        CARD,
        title="MDCA",
        formula=f"base + beta {CARD.formula},  base = -log p_y or focal",
        notes=f"{CARD.notes} Base and beta = 1 after the authors' scripts; the ORCU paper gives neither.",
    )
)
class MDCALoss(Composed):
    """Cross-entropy or focal loss plus the MDCA statistic: base + beta (1/C) sum_k |mean p_k - freq_k|.

    Args:
        base: ``"ce"`` or ``"focal"``.
        beta: factor of the statistic.
        gamma: exponent of the focal base.

    Example:
        >>> import torch
        >>> loss = MDCALoss(num_classes=2)
        >>> round(loss(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])).item(), 4)
        0.9431
    """

    batch_statistic = True

    def __init__(
        self,
        num_classes: int,
        *,
        base: str = "ce",
        beta: float = 1.0,
        gamma: float = 1.0,
        **common: Unpack[LossOptions],
    ) -> None:
        if base not in BASES:
            raise UnknownNameError("base of mdca", base, BASES)
        anchor = CrossEntropyLoss(num_classes) if base == "ce" else FocalLoss(num_classes, gamma=gamma)
        super().__init__(anchor, ConfidenceFrequencyGap(num_classes), strength=beta, **common)
