"""Penalties on directed adjacent gaps: the log-barrier extension, the hinge and the softplus."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import as_positive
from orcu.kernels.terms import ClassFirst, Term, expected_gap_penalty, gap_penalty
from orcu.losses.base import IGNORED, LossCard, register_regularizer
from orcu.losses.closed_form import ClosedFormLoss


class GapPenalty(ClosedFormLoss):
    """Sum over the directed adjacent differences of a penalty; a subclass writes it and its slope."""

    def __init__(
        self,
        num_classes: int,
        *,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.add_table("signs", geometry.gap_signs(self.num_classes))

    @abstractmethod
    def penalty(self, r: Any) -> Any:
        """The penalty of each gap, element by element."""

    @abstractmethod
    def slope(self, r: Any) -> Any:
        """The derivative of the penalty."""

    def over_gaps(self, scores: Any, batch: ClassFirst, y: Any) -> Term:
        """The penalties of the gaps of class-first scores, summed, and the gradient in the scores."""
        if y.ndim == 1:
            return gap_penalty(scores, self.columns("signs", batch, y), self.penalty, self.slope)
        return expected_gap_penalty(scores, y, self.penalty, self.slope)


class GapRegularizer(GapPenalty):
    """A penalty on the directed adjacent gaps of the logits (Eq. 4)."""

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The sum over the C - 1 gaps; its gradient is that of Eqs. 80-83."""
        return {self.term: self.over_gaps(batch.z, batch, y)}


def as_scale(value: Any) -> float:
    """A scale that float32 can carry: between 1e-9 and 1e9, so that 1/s^2 and its slopes are finite.

    Raises:
        InputError: if it is anything else.
    """
    scale = as_positive(value, name="scale")
    if not 1e-9 <= scale <= 1e9:
        raise InputError(f"scale: expected a number between 1e-9 and 1e9, got {value!r}.")
    return scale


class ScaledGapRegularizer(GapRegularizer):
    """A gap penalty with the margin 1/s^2."""

    def __init__(
        self,
        num_classes: int,
        *,
        scale: float = 3.0,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.scale = as_scale(scale)

    def extra_repr(self) -> str:  # noqa: D102
        return f"{super().extra_repr()}, scale={self.scale:g}"


@register_regularizer(
    LossCard(
        name="lbe",
        title="Log-barrier extension",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU); barrier of Kervadec et al., 2022",
        formula="sum_k I(r_k),  I(r) = -(1/s) log(-r) if r <= -1/s^2 else s r + (2/s) log s + 1/s",
        notes="Unbounded below by itself: it needs a full-support anchor (Appendix IV-B).",
    )
)
class LogBarrier(ScaledGapRegularizer):
    """Log-barrier extension on the directed gaps, LBE (Eqs. 4-5): sum_k I(r_k).

    Args:
        num_classes: how many classes, C.
        scale: s; the barrier switches to its linear branch of slope s at r = -1/s^2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> barrier = LogBarrier(num_classes=3, scale=3.0)
        >>> round(barrier(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1])).item(), 4)
        7.0657
    """

    def penalty(self, r: Any) -> Any:
        """I(r)."""
        return geometry.log_barrier(r, scale=self.scale)

    def slope(self, r: Any) -> Any:
        """I'(r)."""
        return geometry.log_barrier_slope(r, scale=self.scale)


@register_regularizer(
    LossCard(
        name="hinge",
        title="Hinge on the gaps",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU), Section III-C",
        formula="sum_k max(0, r_k + 1/s^2)",
    )
)
class GapHinge(ScaledGapRegularizer):
    """Hinge on the directed gaps: sum_k max(0, r_k + 1/s^2).

    Args:
        num_classes: how many classes, C.
        scale: s; the margin is 1/s^2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> GapHinge(num_classes=3, scale=2.0)(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1])).item()
        2.25
    """

    def penalty(self, r: Any) -> Any:
        """max(0, r + 1/s^2)."""
        return geometry.hinge(r, margin=1 / self.scale**2)

    def slope(self, r: Any) -> Any:
        """1 where the margin is missed, else 0."""
        return geometry.hinge_slope(r, margin=1 / self.scale**2)


@register_regularizer(
    LossCard(
        name="softplus",
        title="SoftPlus on the gaps",
        family="ordinal",
        paper="Kim, Chung and Jang (ORCU), Table VII; SoftPlus of Dugas et al., 2000",
        formula="sum_k log(1 + exp(r_k))",
        notes="The paper names the penalty but not its formula; this form is ours.",
    )
)
class GapSoftPlus(GapRegularizer):
    """SoftPlus on the directed gaps: sum_k log(1 + e^{r_k}).

    Args:
        num_classes: how many classes, C.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one weight per class, or ``None``.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> import torch
        >>> penalty = GapSoftPlus(num_classes=3)
        >>> round(penalty(torch.zeros(1, 3), torch.tensor([1])).item(), 4)
        1.3863
    """

    def penalty(self, r: Any) -> Any:
        """log(1 + e^r)."""
        return geometry.softplus(r)

    def slope(self, r: Any) -> Any:
        """sigmoid(r)."""
        return geometry.sigmoid(r)
