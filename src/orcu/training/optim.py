"""Optimiser and schedules: AdamW with two learning rates, and what changes them."""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orcu.training.config import TrainConfig


def adamw(model: nn.Module, recipe: TrainConfig) -> AdamW:
    """AdamW with the head's learning rate for ``model.head``, if there is one, and the other for everything else."""
    named = getattr(model, "head", None)
    head = list(named.parameters()) if isinstance(named, nn.Module) else []
    ours = {id(parameter) for parameter in head}
    rest = [p for p in model.parameters() if id(p) not in ours and p.requires_grad]
    groups = [{"params": head, "lr": recipe.head_rate}, {"params": rest, "lr": recipe.rate}]
    return AdamW([group for group in groups if group["params"]], weight_decay=recipe.weight_decay)


def fused_adamw(model: nn.Module, recipe: TrainConfig) -> AdamW:
    """AdamW with one rate, all parameters in one kernel: quicker where steps are small, with other last digits."""
    return AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay, fused=True)


class Schedule(Protocol):
    """What a training loop asks of a schedule."""

    def step(self) -> None:
        """After every optimiser step."""

    def epoch(self, loss: float) -> None:
        """After every epoch, with its validation loss, or its training loss where no rows validate."""

    def state_dict(self) -> dict[str, Any]:
        """Plain data."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""


class Plateau:
    """Rates fall when the loss stops falling, by an absolute measure."""

    def __init__(self, optimizer: Optimizer, recipe: TrainConfig) -> None:
        # A relative threshold would ask a negative loss to rise.
        self._inner = ReduceLROnPlateau(
            optimizer,
            factor=recipe.plateau_factor,
            patience=recipe.plateau_patience,
            threshold=recipe.plateau_threshold,
            threshold_mode="abs",
        )

    def step(self) -> None:
        """Nothing."""

    def epoch(self, loss: float) -> None:
        """Look at the loss."""
        self._inner.step(loss)

    def state_dict(self) -> dict[str, Any]:
        """Best loss and bad epochs so far."""
        return {name: getattr(self._inner, name) for name in ("best", "num_bad_epochs", "last_epoch")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        for name, value in state.items():
            setattr(self._inner, name, value)


class ByStep:
    """Rates are a share of the initial ones that follows from the steps done.

    Args:
        optimizer: whose rates are set.
        share: from the steps done, and all, to the share.
        steps: all of them.
    """

    def __init__(self, optimizer: Optimizer, share: Callable[[int, int], float], steps: int) -> None:
        self._optimizer, self._share, self._steps, self._done = optimizer, share, steps, 0
        self._initial = [float(group["lr"]) for group in optimizer.param_groups]

    def step(self) -> None:
        """One step nearer to the end."""
        self._done += 1
        share = self._share(min(self._done, self._steps), self._steps)
        for group, initial in zip(self._optimizer.param_groups, self._initial, strict=True):
            group["lr"] = initial * share

    def epoch(self, loss: float) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Steps so far."""
        return {"done": self._done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self._done = int(state["done"])


SHARES: dict[str, Callable[[int, int], float]] = {
    "linear": lambda done, steps: 1 - done / steps,
    "cosine": lambda done, steps: 0.5 * (1 + math.cos(math.pi * done / steps)),
    "constant": lambda done, steps: 1.0,
}


def schedule(optimizer: Optimizer, recipe: TrainConfig, steps: int) -> Schedule:
    """The recipe's schedule for so many optimiser steps in all."""
    if recipe.schedule == "plateau":
        return Plateau(optimizer, recipe)
    return ByStep(optimizer, SHARES[recipe.schedule], steps)


def rates(optimizer: Optimizer) -> list[float]:
    """The learning rates, the head's first."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def half_precision(device: str, wanted: bool) -> tuple[Any, Any]:
    """The context to compute in, and the scaler of the loss; both do nothing unless wanted."""
    kind = torch.device(device).type
    dtype = torch.float16 if kind == "cuda" and not torch.cuda.is_bf16_supported() else torch.bfloat16
    scaler = torch.amp.GradScaler(kind, enabled=wanted and dtype is torch.float16)
    return torch.autocast(kind, dtype=dtype) if wanted else nullcontext(), scaler
