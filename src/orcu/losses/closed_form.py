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
from orcu.terms import ClassFirst, Term, columns

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

    closed: bool = True  # whether `terms` can be had; a sum has them if both of its parts do

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

    def value_and_gradient(
        self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str
    ) -> tuple[Tensor, Tensor]:
        """The reduced loss and its gradient in the logits; of the values of each sample with ``"none"``."""
        on_cpu = logits.device.type == "cpu"
        work = _in_numpy if on_cpu and logits.numel() <= SMALL else _in_torch
        return work(logits, y, weight, self, reduction)

    def columns(self, name: str, batch: ClassFirst, y: Any) -> Any:
        """The table's row of each label as columns, (K, n), averaged over a label distribution."""
        if namespace(batch.z) is np:
            return columns(self.array(name, batch.z.dtype), y)
        return columns(self.table(name, batch.z), y)


class _Node(torch.autograd.Function):
    """Value and gradient of a `ClosedFormLoss` in one node of the graph; backward only scales."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
    ) -> Tensor:
        value, gradient = loss.value_and_gradient(logits, y, weight, reduction)
        ctx.save_for_backward(logits, gradient)
        ctx.y, ctx.weight, ctx.loss, ctx.reduction = y, weight, loss, reduction
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: autograd differentiates the open form
            value = ctx.loss.evaluate_open(logits, ctx.y, ctx.weight, ctx.reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
            return gradient, None, None, None, None
        return gradient * (upstream[:, None] if upstream.dim() else upstream), None, None, None, None


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
        gradients.append(_gradient(terms).t())
    gradient = gradients[0] if len(gradients) == 1 else torch.cat(gradients)
    if weight is not None:
        gradient *= weight[:, None]
    if reduction == "mean":
        gradient /= len(y) if weight is None else weight.sum()
    reduced = {name: reduce(_join(parts), weight, reduction) for name, parts in values.items()}
    parts = {name: terms[name].factor * value for name, value in reduced.items()}
    loss.record(parts)
    return torch.stack(list(parts.values())).sum(0), gradient


def _in_numpy(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """As `_in_torch`, of a batch whose arithmetic is little."""
    weights = None if weight is None else weight.numpy()
    with np.errstate(all="ignore"):  # infinite logits give NaN, as in torch: without a word
        terms = loss.terms(ClassFirst(logits.detach().numpy().T.copy(), weights), y.numpy())
        gradient = _gradient(terms)
        if weights is not None:
            gradient *= weights
        if reduction == "none":
            each = {n: t.factor * (t.value if weights is None else t.value * weights) for n, t in terms.items()}
            loss.record({name: torch.from_numpy(value) for name, value in each.items()})
            value = torch.from_numpy(np.sum(list(each.values()), axis=0))
        else:
            count = 1.0 if reduction == "sum" else float(len(y) if weights is None else weights.sum())
            parts = {
                n: t.factor * float(t.value.sum() if weights is None else t.value @ weights) / count
                for n, t in terms.items()
            }
            gradient *= 1 / count
            loss.set_parts(parts, logits.dtype)
            value = torch.from_numpy(np.asarray(sum(parts.values()), dtype=gradient.dtype))
    return value, torch.from_numpy(gradient.T)


def _gradient(terms: dict[str, Term]) -> Any:
    """The gradient of their sum."""
    total = None
    for term in terms.values():
        gradient = term.gradient()
        if term.factor != 1:
            gradient *= term.factor
        if total is None:
            total = gradient
        else:
            total += gradient
    return total


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
