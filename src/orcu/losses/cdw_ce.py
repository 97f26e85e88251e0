"""CDW-CE: every wrong class pays for its probability, the more the farther it lies."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from orcu.inputs import as_fraction, as_positive
from orcu.losses.base import LossCard, register_loss
from orcu.losses.closed_form import ClassFirst, ClosedFormLoss, Term


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
class CDWCELoss(ClosedFormLoss):
    """Class distance weighted cross-entropy: -sum_k |k - y|^alpha log(1 - p_k).

    log(1 - p_k) is taken as the log-sum-exp of the other classes less that of all, so that a wrong
    class close to certainty keeps its gradient.

    Args:
        num_classes: how many classes, C.
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
        1.811
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
        self.margin = as_fraction(margin, name="margin")
        distance = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
        self.add_table("costs", distance.astype(np.float64) ** self.alpha)

    def terms(self, batch: ClassFirst, y: Tensor) -> dict[str, Term]:
        """The weighted sum over wrong classes and its gradient."""
        costs = self.columns("costs", batch, y)
        return {self.term: _beyond_margin(batch, costs, self.margin) if self.margin else _plain(batch, costs)}


def _plain(batch: ClassFirst, costs: Tensor) -> Term:
    # Only the largest p_k can exceed 1/2, so only its 1 - p_k needs the log-sum-exp of the rest.
    top_logit, index = batch.z.max(0)
    top = index[None]
    top_cost = costs.gather(0, top)[0]
    others = batch.z.scatter(0, top, -torch.inf)
    second = others.detach().amax(0)
    exps = (others - second).exp()
    sums = exps.sum(0)
    rest = sums.log() + second
    total = torch.logaddexp(rest, top_logit)
    among = exps / sums  # softmax among the others; 0 at the top
    probs = among * (rest - total).exp()
    value = -(costs * torch.log1p(-probs)).sum(0) - top_cost * (rest - total)

    def gradient() -> Tensor:
        # w_j o_j - p_j sum_k w_k o_k with odds o = p / (1 - p); the top's odds, which may be
        # infinite, enter as p_j o_top = among_j p_top and o_top (1 - p_top) = p_top
        odds = costs * probs / (1 - probs)
        sum_of_odds = odds.sum(0)
        top_prob = (top_logit - total).exp()
        slopes = odds - probs * sum_of_odds - among * (top_cost * top_prob)
        return slopes.scatter_(0, top, (top_prob * (top_cost - sum_of_odds))[None])

    return Term(value, gradient)


def _beyond_margin(batch: ClassFirst, costs: Tensor, margin: float) -> Term:
    beyond = (batch.probs - margin).clamp(min=0)
    value = -(costs * torch.log1p(-beyond)).sum(0)
    return Term(value, lambda: batch.through_softmax(costs * (beyond > 0) / (1 - beyond)))
