"""The training loop: one pass through this file is one training, from top to bottom.

It runs on a CPU, a CUDA or an MPS device; under torchrun every process takes its part of each batch
order, gradients are averaged by torch, and validation is gathered, so its metrics are exact.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from orcu.data.batches import Batches
from orcu.errors import InputError
from orcu.evaluation.evidence import values_of
from orcu.metrics.rows import Rows
from orcu.models.classifier import Classifier
from orcu.training import checkpoint
from orcu.training.optim import adamw, half_precision, rates, schedule
from orcu.training.parallel import is_first
from orcu.training.recipes import Recipe

Curve = dict[str, float]
SAVE_EVERY = 5.0  # seconds between checkpoints, at least; epochs of a small table take milliseconds
CURVES = ("unimodality", "ece", "sce", "ace", "qwk", "rps", "accuracy")  # of validation rows
BETTER_HIGH = {"qwk", "accuracy"}  # criteria that are better when higher


@dataclass(frozen=True)
class Moment:
    """Where a training stands, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    seconds_left: float
    curve: Curve | None = None  # of the epoch, once it is over


def fit(
    model: Classifier,
    criterion: nn.Module,
    train: Batches,
    validation: Batches,
    recipe: Recipe,
    *,
    folder: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Callable[[Moment], None] | None = None,
    after_epoch: Callable[[int, Classifier], Curve] | None = None,
) -> list[Curve]:
    """Train a model and give the curves: one record per epoch.

    The model ends with the last epoch's weights, or with those of the best epoch if the recipe selects.

    Args:
        model: it is trained in place.
        criterion: of the model's output ``for_loss`` and labels.
        train: shuffled batches.
        validation: batches in order; used for the schedule, selection and the curves.
        recipe: every setting.
        folder: where checkpoints go, after epochs that end some seconds after the last one; a training that was
            cut off goes on from there, to the bit.
        seed: of dropout and sampled embeddings; orders and augmentation have the batches' own.
        device: "cpu", "cuda", "mps".
        progress: told after every step and epoch.
        after_epoch: further entries of an epoch's record, from the epoch's number and the model.
    """
    if recipe.deterministic:
        torch.use_deterministic_algorithms(True)
    layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
    model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
    criterion.to(device)
    optimizer = adamw(model, recipe)
    plan = schedule(optimizer, recipe, recipe.epochs * len(train))
    half, scaler = half_precision(device, recipe.mixed_precision)
    curves: list[Curve] = []
    best: dict[str, Tensor] = {}

    if folder is not None:
        state = checkpoint.restore(folder / "checkpoint", model=model, optimizer=optimizer)
        if state is not None:
            plan.load_state_dict(state["schedule"])
            curves = state["curves"]
            best = checkpoint.read_best(folder) if recipe.select else {}
    parallel = DistributedDataParallel(model) if dist.is_initialized() else None
    network: Any = parallel if parallel is not None else model

    saved = time.monotonic()
    clock = _Clock(recipe.epochs * len(train), done=len(curves) * len(train))
    for epoch in range(len(curves), recipe.epochs):
        if _stopped(curves, recipe):
            break
        # An epoch's chances follow from its number, so none has to be saved.
        torch.manual_seed(int(np.random.default_rng([seed, epoch]).integers(2**62)))
        model.train()
        parts: dict[str, Tensor] = {}
        seen = 0
        for step, (inputs, labels) in enumerate(train.epoch(epoch)):
            if len(labels) == 1 and len(train) > 1:  # one row has no spread to normalise by
                plan.step()
                continue
            if recipe.channels_last and isinstance(inputs, Tensor) and inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            with half:
                output = network(inputs)
                loss = criterion(output.for_loss, labels)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            if recipe.clip is not None:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            scaler.step(optimizer)
            scaler.update()
            plan.step()
            # Sums stay on the device: reading them here would wait for it at every step.
            told = {"loss": loss.detach(), **getattr(criterion, "parts", {})}
            for name, value in told.items():
                parts[name] = parts.get(name, 0) + value.float() * len(labels)
            seen += len(labels)
            if progress is not None:
                progress(Moment(epoch, recipe.epochs, step + 1, len(train), clock.left(1)))

        curve: Curve = {"epoch": float(epoch)}
        curve |= {f"train_{name}": float(total) / seen for name, total in parts.items()}
        if not math.isfinite(curve["train_loss"]):
            raise InputError(
                f"epoch {epoch + 1}: the training loss is {curve['train_loss']}; lower the learning rate, clip the "
                "gradient, or train in full precision."
            )
        curve |= {f"rate_{k}": rate for k, rate in enumerate(rates(optimizer))}
        curve |= _agreed(validated(model, criterion, validation))
        plan.epoch(curve["validation_loss"])
        if after_epoch is not None:
            curve |= after_epoch(epoch, model)
        curves.append(curve)
        if recipe.select is not None and _is_best(curves, recipe.select):
            best = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        over = epoch + 1 == recipe.epochs or _stopped(curves, recipe)
        if folder is not None and is_first() and (over or time.monotonic() - saved >= SAVE_EVERY):
            if best:
                checkpoint.write_best(folder, best)  # before the checkpoint that counts this epoch
            state = {"schedule": plan.state_dict(), "curves": curves}
            checkpoint.save(folder / "checkpoint", model=model, optimizer=optimizer, state=state)
            saved = time.monotonic()
        if progress is not None:
            progress(Moment(epoch, recipe.epochs, len(train), len(train), clock.left(0), curve))
    if best:
        model.load_state_dict(best)
    return curves


@torch.no_grad()
def validated(model: Classifier, criterion: nn.Module, batches: Batches) -> Curve:
    """Loss and metrics on all validation rows; exact under torchrun, where every process takes all."""
    model.eval()
    logits, losses, counts = [], [], []
    for inputs, labels in batches.epoch(0):
        output = model(inputs)
        logits.append(output.logits.float())
        losses.append(criterion(output.for_loss, labels).float())
        counts.append(len(labels))
    weights = torch.tensor(counts, dtype=torch.float32, device=losses[0].device)
    loss = float((torch.stack(losses) * weights).sum() / weights.sum())
    probs = torch.cat(logits).double().softmax(1).cpu().numpy()
    y = batches.labels[batches.rows]
    values = values_of(Rows.of(probs, y, None, is_logits=False))
    return {"validation_loss": loss} | {f"validation_{name}": values[name] for name in CURVES}


def _agreed(curve: Curve) -> Curve:
    """The first process's record for all, whose own statistics of normalisation layers differ a little."""
    if not dist.is_initialized():
        return curve
    told: list[Curve] = [curve]
    dist.broadcast_object_list(told)
    return told[0]


class _Clock:
    """How long it will take, from the steps of this session."""

    def __init__(self, steps: int, done: int) -> None:
        self._steps, self._done, self._before = steps, done, done
        self._start = time.monotonic()

    def left(self, steps: int) -> float:
        """Seconds left after so many more steps."""
        self._done += steps
        each = (time.monotonic() - self._start) / max(1, self._done - self._before)
        return each * (self._steps - self._done)


def _value(curve: Curve, criterion: str) -> float:
    value = curve[f"validation_{criterion}"]
    return -value if criterion in BETTER_HIGH else value


def _is_best(curves: list[Curve], criterion: str) -> bool:
    return _value(curves[-1], criterion) == min(_value(curve, criterion) for curve in curves)


def _stopped(curves: list[Curve], recipe: Recipe) -> bool:
    if recipe.select is None or recipe.patience is None or not curves:
        return False
    values = [_value(curve, recipe.select) for curve in curves]
    return len(values) - 1 - int(np.argmin(values)) >= recipe.patience
