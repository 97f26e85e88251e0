"""Losses that state their gradient beside their value (see `orcu.kernels.terms`), and the one autograd node that uses it.

Where the closed form is not wanted (second derivatives, `torch.compile`, weights that are learned) autograd
differentiates the value as usual.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orcu.geometry import namespace
from orcu.inputs import FloatArray
from orcu.kernels.terms import ClassFirst, Term, columns, total_weight
from orcu.losses.base import OrdinalLoss, as_rows, is_traced, labels_shape, reduce

# Samples worked on at a time on a CPU: fewer pay for the calls, more for memory fresh from the system.
CHUNK = 16384
SMALL = 1 << 15  # logits of a batch, up to which numpy is quicker than torch: its calls cost a third


def class_first(logits: Tensor) -> Tensor:
    """(n, C, ...) logits as (C, samples): a fresh tensor, or a view of a single dense output, which is so already."""
    if logits.dim() > 2:
        return logits.transpose(0, 1).flatten(1)
    if len(logits) > 32 * logits.shape[1] and not is_traced():
        return torch.stack(logits.unbind(1))  # column by column, which is twice as quick for many rows
    return logits.t().clone(memory_format=torch.contiguous_format)


class ClosedFormLoss(OrdinalLoss, ABC):
    """A loss that defines `terms`."""

    dense = True
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
        weight = None if weight is None else weight.flatten()
        labels = as_rows(y) if y.dim() == logits.dim() else y.flatten()
        terms = self.terms(ClassFirst(class_first(logits), weight), labels)
        values = {name: t.factor * reduce(t.value, weight, reduction) for name, t in terms.items()}
        if reduction == "none":
            values = {name: value.reshape(labels_shape(logits)) for name, value in values.items()}
        self.record(values)
        return torch.stack(list(values.values())).sum(0)

    def value_and_gradient(
        self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str
    ) -> tuple[Tensor, Tensor]:
        """The reduced loss and its gradient in the logits; of the values of each sample with ``"none"``."""
        work = _in_numpy if logits.is_cpu and logits.numel() <= SMALL else _in_torch
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
        value, ctx.gradient = loss.value_and_gradient(logits, y, weight, reduction)
        ctx.save_for_backward(logits)
        ctx.open_form = loss, y, weight, reduction
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (logits,) = ctx.saved_tensors  # which is refused after the graph has been freed
        gradient = ctx.gradient
        if torch.is_grad_enabled():  # create_graph=True: autograd differentiates the open form
            loss, y, weight, reduction = ctx.open_form
            value = loss.evaluate_open(logits, y, weight, reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
            return gradient, None, None, None, None
        if upstream.dim():
            gradient = gradient * upstream.unsqueeze(1)
        elif not upstream.is_cpu or upstream.item() != 1:  # it is 1 if the loss itself goes backward
            gradient = gradient * upstream
        return gradient, None, None, None, None


class Blocks:
    """The samples of a batch in blocks that stay in a core's cache, class-first, and their gradient.

    Args:
        logits: shape (n, C) or (n, C, d1, ...).
        y: labels, or label distributions of the shape of the logits.
        weight: of the shape of the labels, or ``None``.
        most: samples of a block.
    """

    def __init__(self, logits: Tensor, y: Tensor, weight: Tensor | None, most: int) -> None:
        n, num_classes = logits.shape[:2]
        self._logits, self._weight = logits.detach().reshape(n, num_classes, -1), weight
        self._soft = y.dim() == logits.dim()
        positions = self._logits.shape[2]
        self._y = y.reshape(n, num_classes, -1) if self._soft else y.reshape(n, -1)
        self._weight = None if weight is None else weight.reshape(n, -1)
        # a large output is worked on where it lies, small ones side by side
        self._one_by_one = positions >= most
        shape = (n, num_classes, positions) if self._one_by_one else (num_classes, n, positions)
        self._gradient = torch.empty(shape, dtype=logits.dtype, device=logits.device)
        self._cuts = []
        if self._one_by_one:
            self._cuts = [(i, i + 1, a, a + most) for i in range(n) for a in range(0, positions, most)]
        else:
            together = max(1, most // positions)
            self._cuts = [(i, i + together, 0, positions) for i in range(0, n, together)]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor | None, Tensor]]:
        """Of each block logits (C, m), labels (m,) or (m, C), weights (m,), and where its gradient goes, (C, m)."""
        for i, j, a, b in self._cuts:
            z = self._logits[i:j, :, a:b]
            z = class_first(z[:, :, 0] if z.shape[2] == 1 else z)
            y = as_rows(self._y[i:j, :, a:b]) if self._soft else self._y[i:j, a:b].flatten()
            weight = None if self._weight is None else self._weight[i:j, a:b].flatten()
            gradient = self._gradient[i, :, a:b] if self._one_by_one else self._gradient[:, i:j].flatten(1)
            yield z, y, weight, gradient

    def gradient(self, logits: Tensor) -> Tensor:
        """That of all blocks, of the shape of the logits."""
        gradient = self._gradient if self._one_by_one else self._gradient.transpose(0, 1)
        return gradient.reshape(logits.shape)


def _in_torch(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """The reduced value and its gradient."""
    whole = loss.batch_statistic or not logits.is_cpu
    blocks = Blocks(logits, y, weight, y.numel() if whole else CHUNK)
    values: dict[str, list[Tensor]] = {}
    terms: dict[str, Term] = {}
    for z, labels, weights, gradient in blocks:
        terms = loss.terms(ClassFirst(z, weights), labels)
        for name, term in terms.items():
            values.setdefault(name, []).append(term.value)
        torch.mul(_gradient(terms), 1.0 if weights is None else weights, out=gradient)
    gradient = blocks.gradient(logits)
    if reduction == "mean":
        gradient /= logits.numel() // logits.shape[1] if weight is None else total_weight(weight)
    flat = None if weight is None else weight.flatten()
    parts = {name: terms[name].factor * reduce(torch.cat(v), flat, reduction) for name, v in values.items()}
    if reduction == "none":
        parts = {name: value.reshape(labels_shape(logits)) for name, value in parts.items()}
    loss.record(parts)
    return torch.stack(list(parts.values())).sum(0), gradient


def _in_numpy(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """As `_in_torch`, of a batch whose arithmetic is little."""
    labels = (as_rows(y) if y.dim() == logits.dim() else y.flatten()).numpy()
    weights = None if weight is None else weight.flatten().numpy()
    with np.errstate(all="ignore"):  # infinite logits give NaN, as in torch: without a word
        terms = loss.terms(ClassFirst(array_of(logits), weights), labels)
        gradient = _gradient(terms)
        if weights is not None:
            gradient *= weights
        if reduction == "none":
            each = {n: t.factor * (t.value if weights is None else t.value * weights) for n, t in terms.items()}
            each = {name: value.reshape(labels_shape(logits)) for name, value in each.items()}
            loss.record({name: torch.from_numpy(value) for name, value in each.items()})
            value = torch.from_numpy(np.sum(list(each.values()), axis=0))
        else:
            count = 1.0
            if reduction == "mean":
                count = float(len(labels) if weights is None else total_weight(weights))
            parts = {
                n: t.factor * float(t.value.sum() if weights is None else t.value @ weights) / count
                for n, t in terms.items()
            }
            gradient *= 1 / count
            loss.set_parts(parts, logits.dtype)
            value = scalar(sum(parts.values()), gradient)
    return value, from_class_first(gradient, logits)


def scalar(value: float, like: FloatArray) -> Tensor:
    """The number as a tensor of the type of an array; by way of numpy, in a third of the time."""
    return torch.from_numpy(np.asarray(value, dtype=like.dtype))


def array_of(logits: Tensor) -> FloatArray:
    """(n, C, ...) logits as a fresh array of numpy's, (C, samples)."""
    array = logits.detach().numpy()
    return array.T.copy() if array.ndim == 2 else array.swapaxes(0, 1).copy().reshape(array.shape[1], -1)


def from_class_first(gradient: Any, logits: Tensor) -> Tensor:
    """A (C, samples) gradient as one of the shape of the logits."""
    if logits.dim() == 2:
        return torch.from_numpy(gradient.T)
    n, num_classes = logits.shape[:2]
    return torch.from_numpy(gradient).view(num_classes, n, *logits.shape[2:]).transpose(0, 1)


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
