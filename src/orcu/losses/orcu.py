"""ORCU: soft ordinal targets plus a log-barrier on directed adjacent logit gaps (Eqs. 1-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from orcu import geometry
from orcu.losses.base import LossCard, register_loss
from orcu.losses.closed_form import SMALL, class_first
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import LogBarrier, as_scale
from orcu.losses.sord import SORDLoss
from orcu.targets import log_targets
from orcu.terms import columns

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
        # for the fused form: targets beside outward signs, one row per label
        targets = np.exp(log_targets(num_classes, distance))
        outward = -geometry.gap_signs(num_classes)
        self.add_table("targets_and_signs", np.concatenate([targets, outward], axis=1))

    @property
    def scale(self) -> float:
        """The scale s of the barrier; it may be set, to anneal it."""
        return cast(LogBarrier, self.regularizer).scale

    @scale.setter
    def scale(self, value: float) -> None:
        cast(LogBarrier, self.regularizer).scale = as_scale(value)

    def value_and_gradient(
        self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str
    ) -> tuple[Tensor, Tensor]:
        """As of any sum, but where plain training on a CPU asks for it: in place, about 1.5 times as quick."""
        fusible = weight is None and reduction != "none" and y.dim() == 1 and self.strength == 1
        if not fusible or logits.device.type != "cpu":
            return super().value_and_gradient(logits, y, weight, reduction)
        factor = 1 / len(y) if reduction == "mean" else 1.0
        table = self.table("targets_and_signs", logits)
        if logits.numel() <= SMALL:
            z = logits.detach().numpy().T.copy()
            with np.errstate(all="ignore"):  # infinite logits give NaN, as in torch: without a word
                softce, lbe, by_class = _value_and_gradient(np, z, columns(table.numpy(), y.numpy()), self.scale)
            by_class *= factor
            gradient = torch.from_numpy(by_class.T)
        else:
            softce, lbe, by_class = _value_and_gradient(torch, class_first(logits), columns(table, y), self.scale)
            by_class *= factor
            gradient = by_class.t()
        self.set_parts({"softce": factor * softce, "lbe": factor * lbe}, logits.dtype)
        return logits.new_full((), factor * (softce + lbe)), gradient


def _value_and_gradient(xp: Any, z: Any, columns: Any, scale: float) -> tuple[float, float, Any]:
    """SoftCE and LBE summed over the samples, and the gradient of both (Eqs. 7 and 80-83), shape (C, n).

    The tests hold it against the terms of `Composed`.

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
