"""Functional forms of the losses."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from orcu.errors import InputError
from orcu.losses.compose import create


def ordinal_loss(
    logits: Tensor,
    y: Tensor,
    loss: str | Mapping[str, Any] = "orcu",
    *,
    sample_weight: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Compute a loss by name: ``create(loss, num_classes=C, **options)(logits, y)``.

    In a training loop the module is faster, because it caches its tables.

    Args:
        logits: logits of shape (n, C), (n, C, d1, ...) or (C,); the number of classes is read from the shape.
        y: labels or label distributions, see `orcu.losses.OrdinalLoss.forward`.
        loss: name or table, as for `orcu.losses.create`.
        sample_weight: non-negative weights of the shape of the labels.
        options: options of the loss, such as ``reduction``, ``weight`` or ``scale``.

    Raises:
        InputError: if an argument has an invalid value.

    Example:
        >>> import torch
        >>> round(ordinal_loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1]), "sord").item(), 4)
        0.9753
    """
    if not isinstance(logits, Tensor) or not logits.dim():
        raise InputError(f"logits: expected a tensor of shape (n, C) or (n, C, ...), got {type(logits).__name__}.")
    num_classes = int(logits.shape[min(1, logits.dim() - 1)])
    return create(loss, num_classes=num_classes, **options)(logits, y, sample_weight=sample_weight)


def orcu_loss(logits: Tensor, y: Tensor, *, sample_weight: Tensor | None = None, **options: Any) -> Tensor:
    """Compute the ORCU loss; see `orcu.ORCULoss` for ``scale`` and the other options.

    Example:
        >>> import torch
        >>> round(orcu_loss(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([1]), scale=3.0).item(), 4)
        9.0236
    """
    return ordinal_loss(logits, y, "orcu", sample_weight=sample_weight, **options)
