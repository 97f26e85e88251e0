"""AdamW with separate learning rates for head and backbone, learning-rate schedulers and mixed precision."""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orcu.training.config import TrainConfig

# Factors of the initial learning rate by finished steps and number of all steps.
FACTORS: dict[str, Callable[[int, int], float]] = {
    "linear": lambda done, steps: 1 - done / steps,
    "cosine": lambda done, steps: 0.5 * (1 + math.cos(math.pi * done / steps)),
    "constant": lambda done, steps: 1.0,
}
PLATEAU_STATE = ("best", "num_bad_epochs", "last_epoch")


def adamw(model: nn.Module, train_config: TrainConfig) -> AdamW:
    """AdamW with ``head_learning_rate`` for the parameters of ``model.head``, if it exists, and one for the others."""
    module = getattr(model, "head", None)
    head = list(module.parameters()) if isinstance(module, nn.Module) else []
    head_ids = {id(parameter) for parameter in head}
    others = [p for p in model.parameters() if id(p) not in head_ids and p.requires_grad]
    groups = ((head, train_config.head_learning_rate), (others, train_config.learning_rate))
    return AdamW([{"params": p, "lr": lr} for p, lr in groups if p], weight_decay=train_config.weight_decay)


def fused_adamw(model: nn.Module, train_config: TrainConfig) -> AdamW:
    """AdamW with one learning rate and a fused kernel: faster for small steps, with different rounding."""
    lr, weight_decay = train_config.learning_rate, train_config.weight_decay
    return AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)


class Scheduler:
    """Learning-rate scheduler of a training of so many optimiser steps."""

    def __init__(self, optimizer: Optimizer, train_config: TrainConfig, steps: int) -> None:
        self._optimizer, self._steps, self._done = optimizer, steps, 0
        self._initial = learning_rates(optimizer)
        self._factor = FACTORS.get(train_config.scheduler)
        self._plateau = None
        if self._factor is None:
            # The threshold is absolute, because a relative one would require a negative loss to rise.
            self._plateau = ReduceLROnPlateau(
                optimizer,
                factor=train_config.plateau_factor,
                patience=train_config.plateau_patience,
                threshold=train_config.plateau_threshold,
                threshold_mode="abs",
            )

    def step(self) -> None:
        """Update the learning rates after an optimiser step."""
        if self._factor is not None:
            self._done += 1
            factor = self._factor(min(self._done, self._steps), self._steps)
            for group, initial in zip(self._optimizer.param_groups, self._initial, strict=True):
                group["lr"] = initial * factor

    def end_epoch(self, loss: float) -> None:
        """Update the learning rates after an epoch with its validation loss (training loss without validation)."""
        if self._plateau is not None:
            self._plateau.step(loss)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        if self._plateau is None:
            return {"done": self._done}
        return {name: getattr(self._plateau, name) for name in PLATEAU_STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        if self._plateau is None:
            self._done = int(state["done"])
        else:
            for name in PLATEAU_STATE:
                setattr(self._plateau, name, state[name])


def learning_rates(optimizer: Optimizer) -> list[float]:
    """The learning rates of the parameter groups, that of the head first."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def half_precision(device: str, enabled: bool) -> tuple[Any, Any]:
    """An autocast context and a gradient scaler; both do nothing unless enabled."""
    kind = torch.device(device).type
    dtype = torch.float16 if kind == "cuda" and not torch.cuda.is_bf16_supported() else torch.bfloat16
    scaler = torch.amp.GradScaler(kind, enabled=enabled and dtype is torch.float16)
    return torch.autocast(kind, dtype=dtype) if enabled else nullcontext(), scaler
