"""Losses that state their gradient beside their value, and the one autograd node that uses it.

A chain of small operations costs autograd more in bookkeeping than in arithmetic, and kernels that
reduce over a short last axis go value by value. So these losses work class-first, (C, n), where
reductions over classes add long rows, and give value and gradient together. Where the closed form
is not wanted (second derivatives, `torch.compile`, weights that are learned) autograd
differentiates the value as usual.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orcu.losses.base import OrdinalLoss, is_traced, reduce

# Rows worked on at a time on a CPU: fewer pay for the calls, more for memory fresh from the system.
CHUNK = 16384


class Term(NamedTuple):
    """A part of a loss: factor times the value of each sample.

    Attributes:
        value: shape (n,).
        gradient: gives the gradient of the values in the logits, shape (C, n), when called.
        factor: what both are multiplied by.
    """

    value: Tensor
    gradient: Callable[[], Tensor]
    factor: float = 1.0


def class_first(logits: Tensor) -> Tensor:
    """(n, C) logits as a fresh (C, n) tensor; many rows go column by column, which is twice as quick."""
    if len(logits) > 32 * logits.shape[1] and not is_traced():
        return torch.stack(logits.unbind(1))
    return logits.t().clone(memory_format=torch.contiguous_format)


class ClassFirst:
    """Logits with the classes on the first axis, and what the terms of a loss share of them."""

    def __init__(self, logits: Tensor) -> None:
        self.z = class_first(logits)
        self._log_probs: Tensor | None = None
        self._probs: Tensor | None = None

    @property
    def log_probs(self) -> Tensor:
        """Log softmax, (C, n)."""
        if self._log_probs is None:
            self._log_probs = self.z.log_softmax(0)
        return self._log_probs

    @property
    def probs(self) -> Tensor:
        """Softmax, (C, n)."""
        if self._probs is None:
            self._probs = self.log_probs.exp()
        return self._probs

    def through_softmax(self, slopes: Tensor) -> Tensor:
        """The gradient in the logits of a term with the given gradient in the probabilities."""
        return self.probs * (slopes - (slopes * self.probs).sum(0))


class ClosedFormLoss(OrdinalLoss, ABC):
    """A loss that defines `terms`."""

    @property
    def closed(self) -> bool:
        """Whether `terms` can be had; a sum has them if both of its parts do."""
        return True

    @abstractmethod
    def terms(self, batch: ClassFirst, y: Tensor) -> dict[str, Term]:
        """The named parts whose sum is the loss."""

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
        terms = self.terms(ClassFirst(logits), y)
        values = {name: t.factor * reduce(t.value, weight, reduction) for name, t in terms.items()}
        self.record(values)
        return torch.stack(list(values.values())).sum(0)

    def columns(self, name: str, batch: ClassFirst, y: Tensor) -> Tensor:
        """The table's row of each label as columns, (K, n), averaged over a label distribution."""
        table = self.table(name, batch.z, transpose=True)
        return table.index_select(1, y) if y.dim() == 1 else table @ y.t()


class _Node(torch.autograd.Function):
    """Value and gradient of a `ClosedFormLoss` in one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
    ) -> Tensor:
        rows = CHUNK if logits.device.type == "cpu" else len(logits)
        values: dict[str, list[Tensor]] = {}
        gradients: list[Tensor] = []
        terms: dict[str, Term] = {}
        for start in range(0, len(logits), rows):
            part = slice(start, start + rows)
            terms = loss.terms(ClassFirst(logits[part]), y[part])
            for name, term in terms.items():
                values.setdefault(name, []).append(term.value)
            gradients.append(_sum([(t.gradient(), t.factor) for t in terms.values()]).t())
        gradient = gradients[0] if len(gradients) == 1 else torch.cat(gradients)
        reduced = {name: reduce(_join(parts), weight, reduction) for name, parts in values.items()}
        loss.record({name: terms[name].factor * value for name, value in reduced.items()})
        ctx.save_for_backward(logits, y, weight, gradient)
        ctx.loss, ctx.reduction = loss, reduction
        return _sum([(value, terms[name].factor) for name, value in reduced.items()])

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


def _sum(parts: list[tuple[Tensor, float]]) -> Tensor:
    first, factor = parts[0]
    total = first if factor == 1 else factor * first
    for tensor, factor in parts[1:]:
        total = torch.add(total, tensor, alpha=factor)
    return total


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
