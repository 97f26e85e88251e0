"""Losses of the package dlordinal, named by class: ``"dlordinal:WKLoss"``."""

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from orcu.errors import InputError, UnknownNameError, require
from orcu.losses.base import OrdinalLoss
from orcu.losses.from_file import ModuleLoss
from orcu.registry import accepted_parameters, construct

PREFIX, DEPRECATED = "dlordinal:", "CrossEntropyLoss"
# Classes that take other inputs than logits of shape (n, C) and labels.
OTHER_INPUTS = {
    "CORNLoss": "C - 1 conditional logits",
    "GaussianUncertaintyLossWrapper": "a pair of predictions and standard deviations",
    "OrdinalECOCDistanceLoss": "C - 1 values of an error-correcting code",
}


def is_dlordinal(name: Any) -> bool:
    """Whether a name is that of a loss of dlordinal.

    Example:
        >>> is_dlordinal("dlordinal:WKLoss"), is_dlordinal("wk")
        (True, False)
    """
    return isinstance(name, str) and name.startswith(PREFIX)


def create_from_dlordinal(spec: str | Mapping[str, Any], num_classes: int, options: Mapping[str, Any]) -> OrdinalLoss:
    """Create a loss of dlordinal, which computes value and gradient with its own code.

    Args:
        spec: name such as ``"dlordinal:WKLoss"``, or a table of it and arguments of the class, such as
            ``{"name": "dlordinal:CDWCELoss", "alpha": 5.0}``.
        num_classes: number of classes, C.
        options: further arguments of the class.

    Unless they are given, ``use_logits`` is True, because the models give logits; ``base_loss`` is
    ``nn.CrossEntropyLoss()``; and ``train_targets`` of its SORDLoss, which is used with ``prox`` only, is ``None``.

    Raises:
        MissingExtraError: if dlordinal is not installed.
        InputError: if there is no such class, it does not take logits, or an argument is unknown.

    Example:
        >>> import torch
        >>> loss = create_from_dlordinal("dlordinal:EMDLoss", 3, {})
        >>> round(loss(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([1])).item(), 4)
        0.13
    """
    table = {**options, **({"name": spec} if isinstance(spec, str) else spec)}
    reduction = table.pop("reduction", "mean")  # that of dlordinal's MCELoss is over classes
    name = str(table.pop("name")).removeprefix(PREFIX)
    require("dlordinal", extra=None, feature=f"the loss 'dlordinal:{name}'")
    library = importlib.import_module("dlordinal.losses")
    if name.endswith(DEPRECATED):
        raise InputError(
            f"loss: {name} is deprecated in dlordinal; use 'dlordinal:{name.removesuffix(DEPRECATED)}Loss', whose base "
            "loss is the cross-entropy."
        )
    if name not in library.__all__:
        usable = [key for key in library.__all__ if key not in OTHER_INPUTS and not key.endswith(DEPRECATED)]
        raise UnknownNameError("loss of dlordinal", name, usable)
    if name in OTHER_INPUTS:
        raise InputError(f"loss: dlordinal's {name} takes {OTHER_INPUTS[name]}, expected a loss of logits (n, C).")
    loss = getattr(library, name)
    parameters = accepted_parameters(loss)
    defaults: dict[str, Any] = {
        "num_classes": num_classes,
        "use_logits": True,
        "base_loss": nn.CrossEntropyLoss(),
        "train_targets": None,
    }
    arguments = {key: value for key, value in defaults.items() if key in parameters} | table
    for key in ("weight", "cls_probs"):  # a list in a TOML file
        if isinstance(arguments.get(key), list | tuple):
            arguments[key] = torch.tensor(arguments[key])
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise InputError(f"loss: dlordinal's {name} needs the argument {key}; give {key}=VALUE.")
    return ModuleLoss(construct("loss", f"dlordinal:{name}", loss, arguments), num_classes, reduction=reduction)
