"""Losses with a gradient in closed form (see `orcu.kernels.terms`), evaluated in a single autograd node.

Autograd differentiates the value as usual for second derivatives, under `torch.compile`, and for weights that require
a gradient.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orcu.geometry import array_namespace
from orcu.inputs import FloatArray
from orcu.kernels.terms import ClassFirst, Term, columns, soft_cross_entropy, total_weight
from orcu.losses.base import OrdinalLoss, as_rows, is_traced, labels_shape, reduce

# Samples per block on the CPU: smaller blocks cost function calls, larger ones leave the cache.
BLOCK_SIZE = 16384
MAX_NUMPY_SIZE = 1 << 15  # largest number of logits for which numpy, with its cheaper calls, is faster than torch


def class_first(logits: Tensor) -> Tensor:
    """Reshape (n, C, ...) logits to (C, samples): a copy, or a view of a single dense output."""
    if logits.dim() > 2:
        return logits.transpose(0, 1).flatten(1)
    if len(logits) > 32 * logits.shape[1] and not is_traced():
        return torch.stack(logits.unbind(1))  # column by column, which is twice as fast for many rows
    return logits.t().clone(memory_format=torch.contiguous_format)


class ClosedFormLoss(OrdinalLoss, ABC):
    """Base class of losses that define `terms`."""

    dense = True
    has_closed_form: bool = True  # whether `terms` is available; a sum has it if both of its parts do

    @abstractmethod
    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Named terms whose sum is the loss, for tensors or numpy arrays."""

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the reduced loss, with the gradient in closed form where possible."""
        closed = (
            logits.requires_grad
            and torch.is_grad_enabled()
            and not is_traced()  # a compiler fuses the open form itself
            and (weight is None or not weight.requires_grad)
            and not y.requires_grad
        )
        if closed:
            return _Node.apply(logits, y, weight, self, reduction)
        return self.evaluate_open(logits, y, weight, reduction)

    def evaluate_open(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the reduced loss with operations that autograd differentiates."""
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
        """Compute the reduced loss and its gradient in the logits (with ``"none"``, that of the sum)."""
        compute = _with_numpy if logits.is_cpu and logits.numel() <= MAX_NUMPY_SIZE else _with_torch
        return compute(logits, y, weight, self, reduction)

    def columns(self, name: str, batch: ClassFirst, y: Any) -> Any:
        """Rows of a table selected by label, as columns (K, n); averaged over a label distribution."""
        if array_namespace(batch.z) is np:
            return columns(self.array(name, batch.z.dtype), y)
        return columns(self.table(name, batch.z), y)


class SoftTargetLoss(ClosedFormLoss):
    """-sum_k t_k log p_k, where t is row y of the table ``targets`` that a subclass adds."""

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Cross-entropy with the gradient p - t (Eq. 61)."""
        return {self.term: soft_cross_entropy(batch, self.columns("targets", batch, y))}


class _Node(torch.autograd.Function):
    """Autograd node that computes value and gradient of a `ClosedFormLoss`; backward only scales the gradient."""

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
        (logits,) = ctx.saved_tensors  # raises if the graph has been freed
        gradient = ctx.gradient
        if torch.is_grad_enabled():  # create_graph=True: autograd differentiates the open form
            loss, y, weight, reduction = ctx.open_form
            value = loss.evaluate_open(logits, y, weight, reduction)
            (gradient,) = torch.autograd.grad(value, logits, upstream, create_graph=True)
        elif upstream.dim():
            gradient = gradient * upstream.unsqueeze(1)
        elif not upstream.is_cpu or upstream.item() != 1:  # it is 1 for loss.backward()
            gradient = gradient * upstream
        return gradient, None, None, None, None


class Blocks:
    """Iterator over class-first blocks of at most ``size`` samples of a batch, and the buffer of their gradients."""

    def __init__(self, logits: Tensor, y: Tensor, weight: Tensor | None, size: int) -> None:
        n, num_classes = logits.shape[:2]
        self._logits = logits.detach().reshape(n, num_classes, -1)
        self._soft = y.dim() == logits.dim()
        positions = self._logits.shape[2]
        self._y = y.reshape(n, num_classes, -1) if self._soft else y.reshape(n, -1)
        self._weight = None if weight is None else weight.reshape(n, -1)
        # a block is a part of one large dense output, which needs no copy, or several small outputs
        self._splits_outputs = positions >= size
        shape = (n, num_classes, positions) if self._splits_outputs else (num_classes, n, positions)
        self._gradient = torch.empty(shape, dtype=logits.dtype, device=logits.device)
        if self._splits_outputs:
            self._bounds = [(i, i + 1, a, a + size) for i in range(n) for a in range(0, positions, size)]
        else:
            rows = max(1, size // positions)
            self._bounds = [(i, i + rows, 0, positions) for i in range(0, n, rows)]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor | None, Tensor]]:
        """Logits (C, m), labels (m,) or (m, C), weights (m,) and gradient buffer (C, m) of each block."""
        for i, j, a, b in self._bounds:
            z = self._logits[i:j, :, a:b]
            z = class_first(z[:, :, 0] if z.shape[2] == 1 else z)
            y = as_rows(self._y[i:j, :, a:b]) if self._soft else self._y[i:j, a:b].flatten()
            weight = None if self._weight is None else self._weight[i:j, a:b].flatten()
            gradient = self._gradient[i, :, a:b] if self._splits_outputs else self._gradient[:, i:j].flatten(1)
            yield z, y, weight, gradient

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient of all blocks in the shape of the logits."""
        gradient = self._gradient if self._splits_outputs else self._gradient.transpose(0, 1)
        return gradient.reshape(logits.shape)


def _with_torch(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """Reduced value and its gradient, computed by torch in blocks."""
    single_block = loss.batch_statistic or not logits.is_cpu
    blocks = Blocks(logits, y, weight, y.numel() if single_block else BLOCK_SIZE)
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


def _with_numpy(
    logits: Tensor, y: Tensor, weight: Tensor | None, loss: ClosedFormLoss, reduction: str
) -> tuple[Tensor, Tensor]:
    """Reduced value and its gradient, computed by numpy; for small batches."""
    labels = (as_rows(y) if y.dim() == logits.dim() else y.flatten()).numpy()
    weights = None if weight is None else weight.flatten().numpy()
    with np.errstate(all="ignore"):  # infinite logits give NaN without a warning, as in torch
        terms = loss.terms(ClassFirst(class_first_array(logits), weights), labels)
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
    """Convert a number to a tensor of an array's data type; ``from_numpy`` is three times as fast as ``tensor``."""
    return torch.from_numpy(np.asarray(value, dtype=like.dtype))


def class_first_array(logits: Tensor) -> FloatArray:
    """Copy (n, C, ...) logits to a numpy array of shape (C, samples)."""
    array = logits.detach().numpy()
    return array.T.copy() if array.ndim == 2 else array.swapaxes(0, 1).copy().reshape(array.shape[1], -1)


def from_class_first(gradient: Any, logits: Tensor) -> Tensor:
    """Reshape a (C, samples) gradient to the shape of the logits."""
    if logits.dim() == 2:
        return torch.from_numpy(gradient.T)
    n, num_classes = logits.shape[:2]
    return torch.from_numpy(gradient).view(num_classes, n, *logits.shape[2:]).transpose(0, 1)


def _gradient(terms: dict[str, Term]) -> Any:
    """Gradient of the sum of the terms."""
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
