"""Penalties on directed adjacent gaps: log-barrier extension, hinge and SoftPlus."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import as_positive
from orcu.kernels import penalties
from orcu.kernels.terms import ClassFirst, Term, expected_gap_penalty, gap_penalty
from orcu.losses.base import LossCard, LossOptions, register_regularizer
from orcu.losses.closed_form import ClosedFormLoss


class GapPenalty(ClosedFormLoss):
    """Sum of a penalty over the directed adjacent gaps of the logits (Eq. 4)."""

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.add_table("signs", geometry.gap_signs(self.num_classes))

    @abstractmethod
    def penalty(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Element-wise functions of the gaps: the penalty and its derivative."""

    def over_gaps(self, scores: Any, batch: ClassFirst, y: Any) -> Term:
        """Sum of the penalties over the gaps of class-first scores, with the gradient in the scores."""
        if y.ndim == 1:
            return gap_penalty(scores, self.columns("signs", batch, y), *self.penalty())
        return expected_gap_penalty(scores, y, *self.penalty())

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Sum over the C - 1 gaps of the logits, with the gradient of Eqs. 79-82."""
        return {self.term: self.over_gaps(batch.z, batch, y)}


class ScaledGapPenalty(GapPenalty):
    """Gap penalty with the margin 1/s^2."""

    def __init__(self, num_classes: int, *, scale: float = 3.0, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        self.scale = as_scale(scale)

    def extra_repr(self) -> str:  # noqa: D102
        return f"{super().extra_repr()}, scale={self.scale:g}"


def as_scale(value: Any) -> float:
    """Check a scale: between 1e-9 and 1e9, where 1/s^2 and the gradients are finite in float32."""
    scale = as_positive(value, name="scale")
    if not 1e-9 <= scale <= 1e9:
        raise InputError(f"scale: expected a number between 1e-9 and 1e9, got {value!r}.")
    return scale


@register_regularizer(
    LossCard(
        name="lbe",
        title="Log-barrier extension",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU); barrier of Kervadec et al., 2022",
        formula="sum_k I(r_k),  I(r) = -(1/s) log(-r) if r <= -1/s^2 else s r + (2/s) log s + 1/s",
        notes="Unbounded below without a full-support anchor (Appendix IV-B).",
    )
)
class LogBarrier(ScaledGapPenalty):
    """Log-barrier extension on the directed gaps, LBE (Eqs. 4-5): sum_k I(r_k).

    Args:
        scale: s; the barrier switches to its linear branch of slope s at r = -1/s^2.

    Example:
        >>> import torch
        >>> barrier = LogBarrier(num_classes=3, scale=3.0)
        >>> round(barrier(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1])).item(), 4)
        7.0657
    """

    def penalty(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """I(r) and I'(r)."""
        scale = self.scale
        return partial(penalties.log_barrier, scale=scale), partial(penalties.log_barrier_gradient, scale=scale)


@register_regularizer(
    LossCard(
        name="hinge",
        title="Hinge on the gaps",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU), Section III-C",
        formula="sum_k max(0, r_k + 1/s^2)",
    )
)
class GapHinge(ScaledGapPenalty):
    """Hinge on the directed gaps: sum_k max(0, r_k + 1/s^2).

    Args:
        scale: s; the margin is 1/s^2.

    Example:
        >>> import torch
        >>> GapHinge(num_classes=3, scale=2.0)(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1])).item()
        2.25
    """

    def penalty(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """max(0, r + 1/s^2), and 1 where r > -1/s^2, else 0."""
        margin = 1 / self.scale**2
        return partial(penalties.hinge, margin=margin), partial(penalties.hinge_gradient, margin=margin)


@register_regularizer(
    LossCard(
        name="softplus",
        title="SoftPlus on the gaps",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU), Table VII; SoftPlus of Dugas et al., 2000",
        formula="sum_k log(1 + exp(r_k))",
        notes="The paper names the penalty but not its formula; this form is our choice.",
    )
)
class GapSoftPlus(GapPenalty):
    """SoftPlus on the directed gaps: sum_k log(1 + e^{r_k}).

    Example:
        >>> import torch
        >>> penalty = GapSoftPlus(num_classes=3)
        >>> round(penalty(torch.zeros(1, 3), torch.tensor([1])).item(), 4)
        1.3863
    """

    def penalty(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """log(1 + e^r) and sigmoid(r)."""
        return penalties.softplus, geometry.sigmoid
