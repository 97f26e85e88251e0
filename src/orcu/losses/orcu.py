"""ORCU: soft ordinal targets plus a log barrier on directed adjacent logit gaps (Eqs. 1-6)."""

from collections.abc import Mapping
from typing import Any, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from orcu import geometry
from orcu.kernels.soft_targets import log_targets
from orcu.kernels.terms import columns
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import BLOCK_SIZE, MAX_NUMPY_SIZE, Blocks, class_first_array, from_class_first, scalar
from orcu.losses.compose import Composed
from orcu.losses.gap_regularizers import LogBarrier, as_scale
from orcu.losses.sord import SORDLoss

DIRECT_LOG_SIZE = 1 << 12  # largest array whose logarithms are taken directly instead of those of products


@register_loss(
    LossCard(
        name="orcu",
        title="ORCU",
        family="ordinal calibration",
        paper="Kim, Chung and Jang",
        formula="-sum_k t_k log p_k + sum_k I(r_k),  t = softmax_k(-phi(|y - k|)),  "
        "I(r) = -(1/s) log(-r) if r <= -1/s^2 else s r + (2/s) log s + 1/s",
        notes="May be negative: schedulers that monitor it need an absolute threshold.",
    )
)
class ORCULoss(Composed):
    """Ordinal loss for calibration and unimodality (Eq. 6): SoftCE + LBE.

    Per sample, with soft targets t, directed gaps r and the barrier I of scale s,

        -sum_k t_k log p_k + sum_k I(r_k),

    summed over gaps and averaged over samples. The loss can be negative. After a forward pass, ``parts`` holds the
    two terms as ``{"softce": ..., "lbe": ...}``.

    Args:
        scale: scale s > 0 of the barrier: its slope where a gap violates the margin 1/s^2. The paper uses 3 for
            images and 0.05 for text.
        distance: distance or distribution of the soft targets, see `SORDLoss`.

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
        **common: Unpack[LossOptions],
    ) -> None:
        anchor, barrier = SORDLoss(num_classes, distance=distance), LogBarrier(num_classes, scale=scale)
        super().__init__(anchor, barrier, strength=1.0, **common)
        self.distance = distance
        # for the fused form: targets next to outward signs, one row per label
        targets = np.exp(log_targets(num_classes, distance))
        outward = -geometry.gap_signs(num_classes)
        self.add_table("targets_and_signs", np.concatenate([targets, outward], axis=1))

    @property
    def scale(self) -> float:
        """Scale s of the barrier; assign a new value to anneal it."""
        return cast(LogBarrier, self.regularizer).scale

    @scale.setter
    def scale(self, value: float) -> None:
        cast(LogBarrier, self.regularizer).scale = as_scale(value)

    def value_and_gradient(
        self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str
    ) -> tuple[Tensor, Tensor]:
        """Compute value and gradient; unweighted batches on the CPU use a fused form, 1.5 times as fast."""
        soft = y.dim() == logits.dim()
        fusible = weight is None and reduction != "none" and not soft and self.strength == 1
        if not fusible or not logits.is_cpu:
            return super().value_and_gradient(logits, y, weight, reduction)
        factor, scale = 1 / y.numel() if reduction == "mean" else 1.0, self.scale
        table = self.array("targets_and_signs", np.dtype(np.float32 if logits.dtype == torch.float32 else np.float64))
        if logits.numel() <= MAX_NUMPY_SIZE:
            z = class_first_array(logits)
            labels = y.numpy() if y.dim() == 1 else y.numpy().reshape(-1)
            softce, lbe = _value_and_gradient(z, table.take(labels, axis=0).T.copy(), scale, factor, z)
            gradient = from_class_first(z, logits)
        else:
            softce, lbe = 0.0, 0.0
            blocks = Blocks(logits, y, None, BLOCK_SIZE)
            for block, codes, _, out in blocks:
                sums = _value_and_gradient(block.numpy(), columns(table, codes.numpy()), scale, factor, out.numpy())
                softce, lbe = softce + sums[0], lbe + sums[1]
            gradient = blocks.gradient(logits)
        self.set_parts({"softce": factor * softce, "lbe": factor * lbe}, logits.dtype)
        return scalar(factor * (softce + lbe), table), gradient


@np.errstate(all="ignore")  # infinite logits give NaN without a warning, as in torch
def _value_and_gradient(z: Any, columns: Any, scale: float, factor: float, gradient: Any) -> tuple[float, float]:
    """SoftCE and LBE, summed over the samples; their gradient (Eqs. 7 and 80-83) is written to ``gradient``.

    Numpy is used for all sizes because its calls cost a third of torch's. ``columns`` has the targets above the outward
    signs, shape (2C - 1, n), and is overwritten; ``gradient`` may be ``z`` itself.
    """
    targets, signs = columns[: len(z)], columns[len(z) :]
    # LBE in outward gaps u = -r: with c = max(u, 1/s^2), I(r) = s (c - u) - (1/s) log c
    # (ufuncs instead of array methods, whose overhead is as large as the arithmetic of a small batch)
    u = np.subtract(z[1:], z[:-1])
    u *= signs
    c = np.maximum(u, 1 / scale**2)
    lbe = scale * float(np.add.reduce(np.subtract(c, u, out=u), axis=None)) - _sum_of_logs(c) / scale
    slopes = np.divide(signs, c, out=signs)  # s I'(r), with the direction of the gap
    slopes *= 1 / scale

    np.subtract(z, np.maximum.reduce(z, axis=0), out=gradient)
    softce = -float(np.vdot(targets, gradient))
    np.exp(gradient, out=gradient)
    totals = np.add.reduce(gradient, axis=0)
    gradient /= totals
    gradient -= targets
    softce += float(np.add.reduce(np.log(totals, out=totals)))

    above, below = gradient[1:], gradient[:-1]  # named views: `gradient[1:] -= x` would copy the slice back
    above -= slopes
    below += slopes
    gradient *= factor
    return softce, lbe


def _sum_of_logs(values: Any) -> float:
    """Sum of the logarithms of a (K, n) array; a large one takes logarithms of products over K if they are in range."""
    if values.size <= DIRECT_LOG_SIZE:
        return float(np.add.reduce(np.log(values), axis=None))
    products = values.prod(0)
    in_range = float(products.min()) > 1e-30 and float(products.max()) < 1e30
    return float(np.log(products if in_range else values).sum())
