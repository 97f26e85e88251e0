"""ORCU: soft ordinal targets plus a log-barrier on directed adjacent logit gaps (Eqs. 1-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from orcu import geometry
from orcu.losses.base import LossCard, is_traced, register_loss
from orcu.losses.closed_form import class_first
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import LogBarrier, as_scale
from orcu.losses.sord import SORDLoss
from orcu.targets import log_targets


@register_loss(
    LossCard(
        name="orcu",
        title="ORCU",
        family="ordinal calibration",
        paper="Kim, Chung and Jang",
        formula="-sum_k t_k log p_k + sum_k I(r_k),  t = softmax_k(-phi(|y - k|)),  "
        "I(r) = -(1/s) log(-r) if r <= -1/s^2 else s r + (2/s) log s + 1/s",
        notes="May be negative: schedulers that watch it need an absolute threshold.",
    )
)
class ORCULoss(Composed):
    """Ordinal loss for calibration and unimodality (Eq. 6): SoftCE + LBE.

    Per sample, with soft targets t, directed gaps r and the barrier I of scale s,

        -sum_k t_k log p_k + sum_k I(r_k),

    summed over gaps and averaged over samples. The loss can be negative.

    Args:
        num_classes: how many classes, C.
        scale: s > 0, the slope after a violation; the margin is 1/s^2. The paper uses 3 for images
            and 0.05 for text.
        distance: of the soft targets, see `SORDLoss`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.

    After a forward, ``parts`` holds the two terms as ``{"softce": ..., "lbe": ...}``.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> loss = ORCULoss(num_classes=3, scale=3.0)
        >>> value = loss(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1]))
        >>> round(value.item(), 4), round(loss.parts["lbe"].item(), 4)
        (9.0236, 7.0657)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        scale: float = 3.0,
        distance: str | Mapping[str, Any] = "squared",
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        anchor = SORDLoss(num_classes, distance=distance)
        barrier = LogBarrier(num_classes, scale=scale)
        super().__init__(anchor, barrier, reduction=reduction, weight=weight)
        self.distance = distance
        # for the fused form: targets above outward signs, one column per label
        targets = np.exp(log_targets(num_classes, distance))
        outward = -geometry.gap_signs(num_classes)
        self.add_table("class_first", np.concatenate([targets, outward], axis=1).T)

    @property
    def scale(self) -> float:
        """The scale s of the barrier; it may be set, to anneal it."""
        return cast(LogBarrier, self.regularizer).scale

    @scale.setter
    def scale(self, value: float) -> None:
        cast(LogBarrier, self.regularizer).scale = as_scale(value)

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced loss: fused where plain training on a CPU asks for it, else as any sum."""
        fusible = (
            logits.device.type == "cpu"
            and logits.requires_grad
            and torch.is_grad_enabled()
            and y.dim() == 1
            and weight is None
            and reduction != "none"
            and self.strength == 1
            and not is_traced()  # a compiler fuses the open form itself
        )
        if not fusible:
            return super().evaluate(logits, y, weight, reduction)
        value: Tensor = _FusedORCU.apply(logits, y, self, reduction)
        return value


class _FusedORCU(torch.autograd.Function):
    """The closed form of the sum once more, in place: about 1.5 times as quick as term by term.

    Value and gradient (Eqs. 7 and 80-83) are made in the forward; backward only scales. The tests
    hold it against the terms of `Composed`.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, loss: ORCULoss, reduction: str) -> Tensor:
        scale, factor = loss.scale, 1 / len(y) if reduction == "mean" else 1.0
        z = class_first(logits)  # a copy, worked on in place
        rows = loss.table("class_first", z).index_select(1, y)
        targets, signs = rows[: loss.num_classes], rows[loss.num_classes :]

        # LBE in outward gaps u = -r: with c = max(u, 1/s^2), I(r) = s (c - u) - (1/s) log c
        u = torch.sub(z[1:], z[:-1]).mul_(signs)
        c = u.clamp(min=1 / scale**2)
        lbe = scale * torch.sub(c, u, out=u).sum().item() - _sum_of_logs(c) / scale
        slopes = signs.div_(c)  # s I'(r), with the direction of the gap

        z.sub_(z.amax(0))
        softce = -torch.dot(targets.view(-1), z.view(-1)).item()
        exps = z.exp_()
        totals = exps.sum(0)
        gradient = exps.div_(totals).sub_(targets)
        softce += totals.log_().sum().item()

        gradient[1:].sub_(slopes, alpha=1 / scale)
        gradient[:-1].add_(slopes, alpha=1 / scale)
        ctx.save_for_backward(logits, y, gradient)
        ctx.loss, ctx.reduction, ctx.factor = loss, reduction, factor
        loss.parts = {"softce": logits.new_full((), factor * softce), "lbe": logits.new_full((), factor * lbe)}
        return logits.new_full((), factor * (softce + lbe))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, y, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: autograd differentiates the open form
            value = ctx.loss.evaluate_open(logits, y, None, ctx.reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
            return gradient, None, None, None
        return (gradient * (upstream * ctx.factor)).t(), None, None, None


def _sum_of_logs(values: Tensor) -> float:
    """The sum of the logarithms of a (K, n) tensor: of the products over K, where these are tame."""
    products = values.prod(0)
    low, high = torch.aminmax(products)
    tame = low.item() > 1e-30 and high.item() < 1e30
    return (products if tame else values).log().sum().item()
