"""Losses that state their gradient beside their value (see `orcu.terms`), and the one autograd node that uses it.

Where the closed form is not wanted (second derivatives, `torch.compile`, weights that are learned) autograd
differentiates the value as usual.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orcu.geometry import namespace
from orcu.losses.base import OrdinalLoss, is_traced, reduce
from orcu.terms import ClassFirst, Term

# Rows worked on at a time on a CPU: fewer pay for the calls, more for memory fresh from the system.
CHUNK = 16384
SMALL = 1 << 15  # logits of a batch, up to which numpy is quicker than torch: its calls cost a third


def class_first(logits: Tensor) -> Tensor:
    """(n, C) logits as a fresh (C, n) tensor; many rows go column by column, which is twice as quick."""
    if len(logits) > 32 * logits.shape[1] and not is_traced():
        return torch.stack(logits.unbind(1))
    return logits.t().clone(memory_format=torch.contiguous_format)


class ClosedFormLoss(OrdinalLoss, ABC):
    """A loss that defines `terms`."""

    @property
    def closed(self) -> bool:
        """Whether `terms` can be had; a sum has them if both of its parts do."""
        return True

    @abstractmethod
    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The named parts whose sum is the loss; of tensors, or of numpy's arrays."""

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced loss, with its gradient in closed form where that serves."""
        closed = (
            logits.requires_grad
            and torch.is_grad_enabled()
            and not is_traced()  # a compiler fuses the open form itself
            and (weight is None or not weight.requires_grad)
            and not y.requires_grad
        )
        if closed:
            value: Tensor = _Node.apply(logits, y, weight, self, reduction)
            return value
        return self.evaluate_open(logits, y, weight, reduction)

    def evaluate_open(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced loss as autograd sees it."""
        terms = self.terms(ClassFirst(class_first(logits), weight), y)
        values = {name: t.factor * reduce(t.value, weight, reduction) for name, t in terms.items()}
        self.record(values)
        return torch.stack(list(values.values())).sum(0)

    def columns(self, name: str, batch: ClassFirst, y: Any) -> Any:
        """The table's row of each label as columns, (K, n), averaged over a label distribution."""
        if namespace(batch.z) is np:
            kind = torch.float32 if batch.z.dtype == np.float32 else torch.float64
            rows = self.table(name, torch.empty(0, dtype=kind), transpose=True).numpy()
            return rows.take(y, axis=1) if y.ndim == 1 else rows @ y.T
        table = self.table(name, batch.z, transpose=True)
        return table.index_select(1, y) if y.dim() == 1 else table @ y.t()


class _Node(torch.autograd.Function):
    """Value and gradient of a `ClosedFormLoss` in one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
    ) -> Tensor:
        on_cpu = logits.device.type == "cpu"
        work = _in_numpy if on_cpu and logits.numel() <= SMALL else _in_torch
        value, gradient = work(logits, y, weight, loss, reduction)
        ctx.save_for_backward(logits, y, weight, gradient)
        ctx.loss, ctx.reduction = loss, reduction
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, y, weight, gradient = ctx.saved_tensors
        loss, reduction = ctx.loss, ctx.reduction
        if torch.is_grad_enabled():  # create_graph=True
            value = loss.evaluate_open(logits, y, weight, reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
            return gradient, None, None, None, None
        factor = upstream if weight is None else upstream * weight
        if reduction == "mean":
            factor = factor / (len(y) if weight is None else weight.sum())
        return gradient * (factor[:, None] if factor.dim() else factor), None, None, None, None


def _in_torch(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """The reduced value, and the gradient of each sample's."""
    whole = loss.batch_statistic or logits.device.type != "cpu"
    rows = len(logits) if whole else CHUNK
    values: dict[str, list[Tensor]] = {}
    gradients: list[Tensor] = []
    terms: dict[str, Term] = {}
    for start in range(0, len(logits), rows):
        part = slice(start, start + rows)
        terms = loss.terms(ClassFirst(class_first(logits[part]), weight if weight is None else weight[part]), y[part])
        for name, term in terms.items():
            values.setdefault(name, []).append(term.value)
        gradients.append(_sum([(t.gradient(), t.factor) for t in terms.values()]).t())
    gradient = gradients[0] if len(gradients) == 1 else torch.cat(gradients)
    reduced = {name: reduce(_join(parts), weight, reduction) for name, parts in values.items()}
    loss.record({name: terms[name].factor * value for name, value in reduced.items()})
    return _sum([(value, terms[name].factor) for name, value in reduced.items()]), gradient


def _in_numpy(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """As `_in_torch`, of a batch whose arithmetic is little."""
    weights = None if weight is None else weight.detach().numpy()
    with np.errstate(all="ignore"):  # infinite logits give NaN, as in torch: without a word
        terms = loss.terms(ClassFirst(logits.detach().numpy().T.copy(), weights), y.detach().numpy())
        gradient = _sum([(t.gradient(), t.factor) for t in terms.values()])
        if reduction == "none":
            each = {n: t.factor * (t.value if weights is None else t.value * weights) for n, t in terms.items()}
            loss.record({name: torch.from_numpy(value) for name, value in each.items()})
            value = torch.from_numpy(_sum([(value, 1.0) for value in each.values()]))
        else:
            sums = {
                n: t.factor * float(t.value.sum() if weights is None else t.value @ weights) for n, t in terms.items()
            }
            count = 1.0 if reduction == "sum" else float(len(y) if weights is None else weights.sum())
            parts = {name: total / count for name, total in sums.items()}
            loss.set_parts(parts, logits.dtype)
            value = logits.new_full((), sum(parts.values()))
    return value, torch.from_numpy(gradient.T)


def _sum(parts: list[tuple[Any, float]]) -> Any:
    first, factor = parts[0]
    total = first if factor == 1 else factor * first
    for array, factor in parts[1:]:
        total = total + array if factor == 1 else total + factor * array
    return total


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
