"""MDCA: over a batch, the mean probability of each class should match its share of the labels."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu.errors import UnknownNameError
from orcu.kernels.terms import ClassFirst, Term, confidence_frequency_gap
from orcu.losses.base import IGNORED, LossCard, register_loss, register_regularizer
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.compose import Composed
from orcu.losses.flsd import FocalLoss

FORMULA = "(1/C) sum_k |mean_n p_nk - mean_n 1[y_n = k]|"
PAPER = "Hebbalaguppe et al., 2022"
BATCH = "A statistic of the batch: it depends on the batch size and has no per-sample value."
BASES = ("ce", "focal")


@register_regularizer(
    LossCard(
        name="mdca",
        title="Confidence against frequency (MDCA)",
        family="calibration",
        paper=PAPER,
        formula=FORMULA,
        notes=BATCH,
    )
)
class ConfidenceFrequencyGap(ClosedFormLoss):
    """Mean probability against label frequency over the batch: (1/C) sum_k |mean p_k - freq_k|.

    With weights both means are weighted. ``"sum"`` is the mean times the number of samples (or the
    sum of their weights), so that it adds up with a summed loss.

    Args:
        num_classes: how many classes, C.
        reduction: ``"mean"`` or ``"sum"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used, ``reduction="none"`` included.

    Example:
        >>> import torch
        >>> penalty = ConfidenceFrequencyGap(num_classes=2)
        >>> penalty(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])).item()
        0.25
    """

    batch_statistic = True

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The statistic of the batch."""
        return {self.term: confidence_frequency_gap(batch, y)}


@register_loss(
    LossCard(
        name="mdca",
        title="MDCA",
        family="calibration",
        paper=PAPER,
        formula=f"base + beta {FORMULA},  base = -log p_y or focal",
        notes=f"{BATCH} Base and beta = 1 after the authors' scripts; the ORCU paper gives neither.",
    )
)
class MDCALoss(Composed):
    """Cross-entropy or focal loss plus the MDCA statistic: base + beta (1/C) sum_k |mean p_k - freq_k|.

    Args:
        num_classes: how many classes, C.
        base: ``"ce"`` or ``"focal"``.
        beta: the factor of the statistic.
        gamma: the exponent of the focal base.
        reduction: ``"mean"`` or ``"sum"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used, ``reduction="none"`` included.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        if base not in BASES:
            raise UnknownNameError("base of mdca", base, BASES)
        anchor = CrossEntropyLoss(num_classes) if base == "ce" else FocalLoss(num_classes, gamma=gamma)
        regularizer = ConfidenceFrequencyGap(num_classes)
        super().__init__(
            anchor, regularizer, strength=beta, reduction=reduction, weight=weight, ignore_index=ignore_index
        )
