"""Losses of a user's Python file, named by file and class: ``"my_loss.py:MyLoss"``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from orcu.errors import InputError
from orcu.losses.base import OrdinalLoss
from orcu.registry import accepted_parameters, class_from_source, construct, file_and_class, read_source


class ModuleLoss(OrdinalLoss):
    """A torch module ``module(logits, y)`` that returns the mean loss of a batch, with the input checks of a loss.

    Args:
        module: the module. It gets float32 logits of shape (n, C) and labels of shape (n,).
        num_classes: number of classes, C, at least 2.
        reduction: ``"mean"``, or ``"sum"``, which is the mean times the number of samples.

    Example:
        >>> import torch
        >>> loss = ModuleLoss(nn.CrossEntropyLoss(), 3)
        >>> round(loss(torch.zeros(2, 3), torch.tensor([0, 2])).item(), 4)
        1.0986
    """

    batch_statistic = True  # its values of single samples are not known
    soft_labels = False

    def __init__(self, module: nn.Module, num_classes: int, *, reduction: str = "mean") -> None:
        super().__init__(num_classes, reduction=reduction)
        self.module: nn.Module = module

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Call the module."""
        name = type(self.module).__name__
        if weight is not None:
            raise InputError(f"loss: {name} takes no sample weights; derive it from orcu.losses.OrdinalLoss.")
        value = self.module(logits, y)
        if not isinstance(value, Tensor) or value.dim() != 0:
            shape = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(f"loss: {name} must return a scalar, the mean over the batch; got {shape}.")
        if reduction == "sum":
            value = value * len(logits)
        self.record({self.term: value})
        return value


def create_from_file(spec: str | Mapping[str, Any], num_classes: int, options: Mapping[str, Any]) -> OrdinalLoss:
    """Create a loss from a name such as ``"my_loss.py:MyLoss"``, or a table of it and options.

    The class derives from `OrdinalLoss`, or is a torch module that `ModuleLoss` can call. ``num_classes`` is passed to
    it if it takes it.

    Raises:
        InputError: if there is no such file or class, the class is not a module, or an option is unknown.
    """
    table = {"name": spec} if isinstance(spec, str) else dict(spec)
    name, source = str(table.pop("name")), table.pop("source", None)
    file, class_name = file_and_class(name) or (Path(), name)
    loss = class_from_source("loss", name, read_source("loss", file) if source is None else source)
    if not issubclass(loss, nn.Module):
        raise InputError(
            f"loss: {class_name} of {file} is not a loss; derive it from orcu.losses.OrdinalLoss or torch.nn.Module."
        )
    arguments = {"num_classes": num_classes, **options, **table}
    if issubclass(loss, OrdinalLoss):
        created: OrdinalLoss = construct("loss", class_name, loss, arguments)
        return created
    parameters, reduction = accepted_parameters(loss), "mean"
    if "num_classes" not in parameters:
        del arguments["num_classes"]
    if "reduction" not in parameters:
        reduction = arguments.pop("reduction", reduction)
    return ModuleLoss(construct("loss", class_name, loss, arguments), num_classes, reduction=reduction)
