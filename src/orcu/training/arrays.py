"""Training on arrays that fit into memory: batches are slices of tensors, and nothing is written."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.metrics.scoring import rps

SMALL = 10_000_000  # multiplications of a forward that one thread does as quickly as several


@dataclass(frozen=True)
class Rows:
    """Inputs, labels and weights of some rows, as tensors."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> "Rows":
        return Rows(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Args:
        epochs: passes over the rows, at most.
        batch_size: rows per step.
        learning_rate: AdamW's, falling to zero along a half cosine.
        weight_decay: AdamW's.
        patience: epochs without a lower validation RPS before it stops; ``None`` for all epochs.
        steady: keep the rate, for passes of which no one knows the last.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int | None
    steady: bool = False


def train(
    model: nn.Module,
    criterion: nn.Module,
    rows: Rows,
    schedule: Schedule,
    *,
    validation: Rows | None,
    generator: torch.Generator,
) -> list[float]:
    """Train in place; the validation RPS (or the training loss) of each epoch.

    With validation rows the model ends with the weights of its best epoch.

    Args:
        model: from inputs to logits (n, C), or an output with ``logits``.
        criterion: of logits and labels.
        rows: to train on.
        schedule: how long and how fast.
        validation: rows to stop by.
        generator: of the order of the rows; its seed is that of everything else that is drawn.

    Raises:
        InputError: if loss or logits are no longer finite.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    steps = -(-len(rows) // schedule.batch_size)
    count = schedule.epochs * steps
    step = 0
    curve: list[float] = []
    best, since = float("inf"), 0
    kept: dict[str, Tensor] = {}
    with _threads(model, schedule.batch_size), torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())  # of dropout, and of POE's samples
        for epoch in range(schedule.epochs):
            model.train()
            total = 0.0
            shuffled = rows[torch.randperm(len(rows), generator=generator)]
            for start in range(0, len(rows), schedule.batch_size):
                if not schedule.steady:  # by hand: a scheduler costs as much as the optimizer
                    fall = 0.5 * (1 + math.cos(math.pi * step / count))
                    optimizer.param_groups[0]["lr"] = schedule.learning_rate * fall
                step += 1
                batch = shuffled[start : start + schedule.batch_size]
                if len(batch) == 1 and len(rows) > 1:
                    continue  # one row has no spread to normalise by
                loss = criterion(for_loss(model(batch.x)), batch.y, sample_weight=batch.weight)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(batch)
            looked_at = rows if validation is None else validation
            if not (math.isfinite(total) and np.isfinite(logits(model, looked_at.x[:1000])).all()):
                raise InputError(
                    f"training diverged in epoch {epoch}: loss or logits are not finite; lower learning_rate (it is "
                    f"{schedule.learning_rate:g}), or look for columns with extreme values."
                )
            value = total / len(rows) if validation is None else judged(model, validation)
            curve.append(value)
            if validation is None:
                continue
            if value < best:
                best, since = value, 0
                kept = copy.deepcopy(model.state_dict())
            else:
                since += 1
                if schedule.patience is not None and since >= schedule.patience:
                    break
    if kept:
        model.load_state_dict(kept)
    return curve


@contextmanager
def _threads(model: nn.Module, batch_size: int) -> Iterator[None]:
    """One thread while steps are small: sharing them out takes as long as doing them, on every core."""
    before = torch.get_num_threads()
    small = batch_size * sum(weights.numel() for weights in model.parameters()) < SMALL
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def for_loss(output: Any) -> Any:
    """What a loss takes of a model's output: of ours what its head made for it, else the tensor."""
    return getattr(output, "for_loss", output)


@torch.no_grad()
def logits(model: nn.Module, x: Tensor, *, at_once: int = 8192) -> FloatArray:
    """The logits of rows, in float64."""
    model.eval()
    parts = [x[start : start + at_once] for start in range(0, len(x), at_once)]
    found = [getattr(output, "logits", output) for output in map(model, parts)]
    made: FloatArray = torch.cat(found).double().cpu().numpy()
    return made


def judged(model: nn.Module, rows: Rows) -> float:
    """The mean RPS of rows."""
    weight = None if rows.weight is None else rows.weight.double().cpu().numpy()
    return rps(geometry.probs(logits(model, rows.x)), rows.y.cpu().numpy(), weight=weight)
