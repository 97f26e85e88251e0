"""Mean of several losses, each on its own linear head of a shared backbone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orcu.defaults import NETWORK_LOSSES
from orcu.errors import InputError
from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss


class EnsembleOutput(NamedTuple):
    """Output of `orcu.models.heads.EnsembleHead` and input of `EnsembleLoss`.

    Attributes:
        logits: mean of the heads' log-probabilities, shape (n, C), used for predictions.
        by_loss: logits of each head, shape (M, n, C).
    """

    logits: Tensor
    by_loss: Tensor


@register_loss(
    LossCard(
        name="ensemble",
        title="Ensemble of heads",
        family="ordinal calibration",
        paper="orcu",
        formula="(1/M) sum_m L_m(z_m, y),  z_m: logits of the head of loss L_m",
        notes="Takes the output of EnsembleHead; predictions use the mean of the heads' log-probabilities.",
    )
)
class EnsembleLoss(OrdinalLoss):
    """Mean of several losses, each on the logits of its own head: (1/M) sum_m L_m(z_m, y).

    Args:
        losses: names or tables of the losses, as for `orcu.losses.create`, in the order of the heads.

    Raises:
        InputError: if an argument has an invalid value, or a loss does not take logits.

    Example:
        >>> from orcu.models.heads import EnsembleHead
        >>> head = EnsembleHead(in_features=8, num_classes=5)
        >>> value = EnsembleLoss(num_classes=5)(head(torch.randn(4, 8)), torch.tensor([0, 1, 3, 4]))
        >>> value.backward()
        >>> sorted(head(torch.randn(4, 8))._fields)
        ['by_loss', 'logits']
    """

    head = "ensemble"
    batch_statistic = True  # a member may be a batch statistic

    def __init__(
        self,
        num_classes: int,
        *,
        losses: Sequence[Any] = NETWORK_LOSSES,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight)
        if isinstance(losses, str) or not losses:
            raise InputError(f"losses: expected a sequence of names such as ('ce', 'orcu'), got {losses!r}.")
        options = {"num_classes": self.num_classes, "reduction": reduction, "weight": weight}
        self.members = torch.nn.ModuleList(LOSSES.create(spec, **options) for spec in losses)
        for member in self.members:
            if member.needs_head:
                raise InputError(
                    f"losses: {member.term} takes the output of the head {member.head!r}, expected losses of logits."
                )
        self.soft_labels = all(bool(member.soft_labels) for member in self.members)

    def forward(  # type: ignore[override]  # takes the output of its head instead of logits
        self, output: EnsembleOutput, y: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of a batch of head outputs; see `OrdinalLoss.forward` for the other arguments."""
        if not isinstance(output, EnsembleOutput) or len(output.by_loss) != len(self.members):
            heads = f"{len(output.by_loss)} heads" if isinstance(output, EnsembleOutput) else type(output).__name__
            raise InputError(
                f"output: expected an EnsembleOutput of {len(self.members)} heads, one per loss, got {heads}. "
                "Put orcu.models.heads.EnsembleHead(in_features, num_classes, losses=...) on the model's features."
            )
        if output.by_loss.dim() != 3:
            raise InputError(
                f"output: expected by_loss of shape (heads, n, {self.num_classes}), got {tuple(output.by_loss.shape)}; "
                "the ensemble loss does not take dense outputs."
            )
        values = {
            f"{index}_{member.term}" if index else str(member.term): member(logits, y, sample_weight=sample_weight)
            for index, (member, logits) in enumerate(zip(self.members, output.by_loss, strict=True))
        }
        self.record(values)
        return torch.stack(list(values.values())).mean()

    def extra_repr(self) -> str:  # noqa: D102
        return f"{super().extra_repr()}, losses={[str(member.term) for member in self.members]}"
