"""ORCU: soft ordinal targets plus a log-barrier on directed adjacent logit gaps (Eqs. 1-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from orcu import geometry
from orcu.losses.base import LossCard, is_traced, register_loss
from orcu.losses.closed_form import SMALL, class_first
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import LogBarrier, as_scale
from orcu.losses.sord import SORDLoss
from orcu.targets import log_targets

FEW = 1 << 12  # numbers whose logarithms take no longer than anything that would spare them


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

    Value and gradient (Eqs. 7 and 80-83) are made in the forward; backward only scales. Small batches are done by
    numpy, whose calls cost a third of torch's. The tests hold both against the terms of `Composed`.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, loss: ORCULoss, reduction: str) -> Tensor:
        scale, factor = loss.scale, 1 / len(y) if reduction == "mean" else 1.0
        table = loss.table("class_first", logits)
        if logits.numel() <= SMALL:
            columns = table.numpy().take(y.numpy(), axis=1)
            z = logits.detach().numpy().T.copy()
            with np.errstate(all="ignore"):  # infinite logits give NaN, as in torch: without a word
                softce, lbe, by_class = _value_and_gradient(np, z, columns, scale)
            by_class *= factor
            gradient = torch.from_numpy(by_class.T)
        else:
            softce, lbe, by_class = _value_and_gradient(torch, class_first(logits), table.index_select(1, y), scale)
            by_class *= factor
            gradient = by_class.t()
        ctx.save_for_backward(logits)
        ctx.gradient, ctx.y, ctx.loss, ctx.reduction = gradient, y, loss, reduction
        loss.set_parts({"softce": factor * softce, "lbe": factor * lbe}, logits.dtype)
        return logits.new_full((), factor * (softce + lbe))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: autograd differentiates the open form
            (logits,) = ctx.saved_tensors
            value = ctx.loss.evaluate_open(logits, ctx.y, None, ctx.reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
            return gradient, None, None, None
        return ctx.gradient * upstream, None, None, None


def _value_and_gradient(xp: Any, z: Any, columns: Any, scale: float) -> tuple[float, float, Any]:
    """SoftCE and LBE summed over the samples, and the gradient of both, shape (C, n).

    Args:
        xp: numpy or torch, which have the same names for all that is needed.
        z: logits, shape (C, n), overwritten.
        columns: targets above outward signs, shape (2C - 1, n), overwritten.
        scale: s.
    """
    targets, signs = columns[: len(z)], columns[len(z) :]
    # LBE in outward gaps u = -r: with c = max(u, 1/s^2), I(r) = s (c - u) - (1/s) log c
    u = xp.subtract(z[1:], z[:-1])
    u *= signs
    c = xp.maximum(u, 1 / scale**2) if xp is np else u.clamp(min=1 / scale**2)
    lbe = scale * float(xp.subtract(c, u, out=u).sum()) - _sum_of_logs(xp, c) / scale
    slopes = xp.divide(signs, c, out=signs)  # s I'(r), with the direction of the gap
    slopes *= 1 / scale

    z -= z.max(0) if xp is np else z.amax(0)
    softce = -float(targets.reshape(-1) @ z.reshape(-1))
    exps = xp.exp(z, out=z)
    totals = exps.sum(0)
    exps /= totals
    exps -= targets
    softce += float(xp.log(totals, out=totals).sum())

    exps[1:] -= slopes
    exps[:-1] += slopes
    return softce, lbe, exps


def _sum_of_logs(xp: Any, values: Any) -> float:
    """The sum of the logarithms of a (K, n) array: of the products over K, where they are many and these are tame."""
    if len(values) * len(values[0]) <= FEW:
        return float(xp.log(values).sum())
    products = values.prod(0)
    tame = float(products.min()) > 1e-30 and float(products.max()) < 1e30
    return float(xp.log(products if tame else values).sum())
