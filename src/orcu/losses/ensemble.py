"""Several losses on one body: each teaches a head of its own, and all of them the body."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orcu.errors import InputError
from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss

MEMBERS = ("ce", "sord", "orcu")


class EnsembleOutput(NamedTuple):
    """What `orcu.models.heads.EnsembleHead` hands to the loss.

    Attributes:
        logits: the mean of the heads' log-probabilities, shape (n, C); what a prediction is made from.
        by_loss: the logits of every head, shape (M, n, C).
    """

    logits: Tensor
    by_loss: Tensor


@register_loss(
    LossCard(
        name="ensemble",
        title="Ensemble of heads",
        family="ordinal calibration",
        paper="ours",
        formula="(1/M) sum_m L_m(z_m, y), a head of logits z_m for each loss L_m",
        notes="Takes the output of its own head, whose logits are the mean of the heads' log-probabilities.",
    )
)
class EnsembleLoss(OrdinalLoss):
    """The mean of several losses, each on the logits of its own head: (1/M) sum_m L_m(z_m, y).

    Args:
        num_classes: how many classes, C.
        losses: names or tables, as for `orcu.losses.create`; in the order of the head's slices.
        reduction: ``"mean"`` or ``"sum"``.
        weight: one weight per class, or ``None``.

    Raises:
        InputError: if an argument cannot be used, or a loss needs a head of its own.

    Example:
        >>> from orcu.models.heads import EnsembleHead
        >>> head = EnsembleHead(in_features=8, num_classes=5)
        >>> value = EnsembleLoss(num_classes=5)(head(torch.randn(4, 8)), torch.tensor([0, 1, 3, 4]))
        >>> value.backward()
        >>> sorted(head(torch.randn(4, 8))._fields)
        ['by_loss', 'logits']
    """

    head = "ensemble"
    batch_statistic = True  # a member may be one

    def __init__(
        self,
        num_classes: int,
        *,
        losses: Sequence[Any] = MEMBERS,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight)
        if isinstance(losses, str) or not losses:
            raise InputError(f"losses: expected names such as ('ce', 'orcu'), got {losses!r}.")
        options = {"num_classes": self.num_classes, "reduction": reduction, "weight": weight}
        self.members = torch.nn.ModuleList(LOSSES.create(spec, **options) for spec in losses)
        for member in self.members:
            if member.needs_head:
                raise InputError(f"losses: {member.term} needs a head of its own and cannot be one of several.")
        self.soft_labels = all(bool(member.soft_labels) for member in self.members)

    def forward(  # type: ignore[override]  # its own head's output in place of logits
        self, output: EnsembleOutput, y: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch of head outputs; see `OrdinalLoss.forward` for the other arguments."""
        if not isinstance(output, EnsembleOutput) or len(output.by_loss) != len(self.members):
            slices = f"{len(output.by_loss)} heads" if isinstance(output, EnsembleOutput) else type(output).__name__
            raise InputError(
                f"output: an ensemble of {len(self.members)} losses needs the output of its own head, got {slices}. "
                "Put orcu.models.heads.EnsembleHead(in_features, num_classes, losses=...) on the model's features."
            )
        if output.by_loss.dim() != 3:
            raise InputError(
                f"output: an ensemble judges one row per sample, by_loss of shape (heads, n, {self.num_classes}), got "
                f"{tuple(output.by_loss.shape)}; for dense outputs choose one loss."
            )
        values = {
            f"{place}_{member.term}" if place else str(member.term): member(logits, y, sample_weight=sample_weight)
            for place, (member, logits) in enumerate(zip(self.members, output.by_loss, strict=True))
        }
        self.record(values)
        return torch.stack(list(values.values())).mean()

    def extra_repr(self) -> str:  # noqa: D102
        return f"{super().extra_repr()}, losses={[str(member.term) for member in self.members]}"
