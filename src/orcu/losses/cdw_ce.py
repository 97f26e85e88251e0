"""CDW-CE: every wrong class pays for its probability, the more the farther it lies."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from orcu.errors import InputError
from orcu.inputs import as_positive
from orcu.losses.base import LossCard, OrdinalLoss, register_loss


@register_loss(
    LossCard(
        name="cdw_ce",
        title="CDW-CE (class distance weighted cross-entropy)",
        family="ordinal",
        paper="Polat et al., 2022",
        formula="-sum_k |k - y|^alpha log(1 - p_k)",
        notes="alpha = 5, the low end of the 5-7 its authors recommend on LIMUC; the ORCU paper gives "
        "none. With a margin m the argument is min(1, 1 - p_k + m). The value is large (7^5 = 16807): "
        "mind thresholds and gradient clipping.",
    )
)
class CDWCELoss(OrdinalLoss):
    """Class distance weighted cross-entropy: -sum_k |k - y|^alpha log(1 - p_k).

    log(1 - p_k) is taken as the log-sum-exp of the other classes less that of all, so that a wrong
    class close to certainty keeps its gradient.

    Args:
        num_classes: C.
        alpha: the power of the distance.
        margin: m >= 0; a wrong class with p_k <= m costs nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> loss = CDWCELoss(num_classes=3, alpha=2.0)
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.8182
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 5.0,
        margin: float = 0.0,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight)
        self.alpha = as_positive(alpha, name="alpha")
        if not 0 <= margin < 1:
            raise InputError(f"margin: expected a number in [0, 1), got {margin!r}.")
        self.margin = float(margin)
        distance = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
        self.add_table("costs", distance.astype(np.float64) ** self.alpha)

    def per_sample(self, logits: Tensor, y: Tensor) -> Tensor:
        """The weighted sum over wrong classes, shape (n,)."""
        costs = self.lookup("costs", logits, y)
        if self.margin:
            above = (logits.softmax(-1) - self.margin).clamp(min=0)
            return -(costs * torch.log1p(-above)).sum(-1)
        # Only the largest p_k can exceed 1/2, so only its 1 - p_k needs the log-sum-exp of the rest.
        top = logits.argmax(-1, keepdim=True)
        others = logits.scatter(-1, top, -torch.inf)
        rest = others.logsumexp(-1, keepdim=True)
        total = torch.logaddexp(rest, logits.gather(-1, top))
        log_not_top = (rest - total)[:, 0] * costs.gather(-1, top)[:, 0]
        return -(costs * torch.log1p(-(others - total).exp())).sum(-1) - log_not_top
