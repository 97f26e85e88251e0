"""The training loop: one pass through this file is one training, from top to bottom.

Runs over prepared data and the estimator's arrays are trained by it alike. It runs on a CPU, a CUDA or an MPS device;
under torchrun every process takes its part of each batch order, gradients are averaged by torch, and validation is
gathered, so its metrics are exact.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from orcu.data.batches import Batches
from orcu.errors import InputError
from orcu.evaluation.evidence import values_of
from orcu.metrics.base import METRICS
from orcu.metrics.rows import Rows
from orcu.training import checkpoint
from orcu.training.config import TrainConfig
from orcu.training.optim import adamw, half_precision, rates, schedule
from orcu.training.parallel import is_first

Curve = dict[str, float]
# Multiplications of a forward that one thread does nearly as quickly as two (a fifth more time at a tenth of this). On
# a busy machine threads that wait for each other take ten times as long.
SMALL = 100_000_000
ModelT = TypeVar("ModelT", bound=nn.Module)
SAVE_EVERY = 5.0  # seconds between checkpoints, at least; epochs of a small table take milliseconds
CURVES = ("unimodality", "ece", "sce", "ace", "qwk", "rps", "accuracy")  # of validation rows


@dataclass(frozen=True)
class Moment:
    """Where a training stands, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    seconds_left: float
    curve: Curve | None = None  # of the epoch, once it is over


class DivergedError(InputError):
    """A training whose loss or logits are no longer finite."""

    def __init__(self, epoch: int, message: str) -> None:
        super().__init__(f"epoch {epoch + 1}: {message}")
        self.epoch = epoch


def fit(
    model: ModelT,
    criterion: nn.Module,
    train: Batches,
    validation: Batches | None,
    recipe: TrainConfig,
    *,
    folder: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
    make_optimizer: Callable[[nn.Module, TrainConfig], Optimizer] = adamw,
    progress: Callable[[Moment], None] | None = None,
    after_epoch: Callable[[int, ModelT], Curve] | None = None,
    alone: bool = False,
) -> list[Curve]:
    """Train a model and give the curves: one record per epoch.

    The model ends with the last epoch's weights, or with those of the best epoch if the recipe selects.

    Args:
        model: from inputs to logits, or to an output with ``logits`` and ``for_loss``; it is trained in place.
        criterion: of logits (or the output's ``for_loss``) and labels; of weighted batches also ``sample_weight``.
        train: shuffled batches.
        validation: batches in order, for the schedule, selection and the curves; ``None`` where no rows are
            judged but by ``after_epoch``.
        recipe: every setting.
        folder: where checkpoints go, after epochs that end some seconds after the last one; a training that was
            cut off goes on from there, to the bit.
        seed: of dropout and sampled embeddings; orders and augmentation have the batches' own.
        device: "cpu", "cuda", "mps".
        make_optimizer: from the model and the recipe.
        progress: told after every step and epoch.
        after_epoch: further entries of an epoch's record, from the epoch's number and the model.
        alone: a model of this process's own, where torchrun's processes would share one.

    Raises:
        DivergedError: if the training loss is no longer finite.
        InputError: if the recipe selects by what is not measured.
    """
    if recipe.deterministic:
        torch.use_deterministic_algorithms(True)
    layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
    model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
    criterion.to(device)
    optimizer = make_optimizer(model, recipe)
    steps = len(train)
    plan = schedule(optimizer, recipe, recipe.epochs * steps)
    half, scaler = half_precision(device, recipe.mixed_precision)
    curves: list[Curve] = []
    best: dict[str, Tensor] = {}

    if folder is not None:
        kept = folder / checkpoint.BEST if recipe.select else None
        restored = checkpoint.restore(folder / "checkpoint", model=model, optimizer=optimizer, best=kept)
        if restored is not None:
            state, best = restored
            plan.load_state_dict(state["schedule"])
            curves = state["curves"]
    together = dist.is_initialized() and not alone
    network: nn.Module = DistributedDataParallel(model) if together else model

    saved = time.monotonic()
    clock = _Clock(recipe.epochs * steps, done=len(curves) * steps)
    for epoch in range(len(curves), recipe.epochs):
        if _stopped(curves, recipe):
            break
        # An epoch's chances follow from its number, so none has to be saved.
        torch.manual_seed(int(np.random.default_rng([seed, epoch]).integers(2**62)))
        model.train()
        terms: list[dict[str, Tensor]] = []
        counts: list[int] = []
        for step, (inputs, labels, *weights) in enumerate(train.epoch(epoch)):
            if len(labels) == 1 and steps > 1:  # one row has no spread to normalise by
                plan.step()
                continue
            if recipe.channels_last and isinstance(inputs, Tensor) and inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            with half:
                loss = _loss(criterion, network(inputs), labels, *weights)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            if recipe.clip is not None:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            scaler.step(optimizer)
            scaler.update()
            plan.step()
            # Values stay on the device: reading them here would wait for it at every step.
            terms.append({"loss": loss.detach(), **getattr(criterion, "parts", {})})
            counts.append(len(labels))
            if progress is not None:
                progress(Moment(epoch, recipe.epochs, step + 1, steps, clock.left(1)))

        curve: Curve = {"epoch": float(epoch)}
        curve |= {f"train_{name}": _mean([each[name] for each in terms], counts) for name in terms[0]}
        if not math.isfinite(curve["train_loss"]):
            raise DivergedError(
                epoch,
                f"the training loss is {curve['train_loss']}; lower the learning rate, clip the gradient, or train in "
                "full precision.",
            )
        curve |= {f"rate_{k}": rate for k, rate in enumerate(rates(optimizer))}
        if validation is not None:
            measured = validation_curve(model, criterion, validation)
            curve |= _agreed(measured) if together else measured
        plan.epoch(curve.get("validation_loss", curve["train_loss"]))
        if after_epoch is not None:
            curve |= after_epoch(epoch, model)
        curves.append(curve)
        if recipe.select is not None and _is_best(curves, recipe.select):
            best = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        over = epoch + 1 == recipe.epochs or _stopped(curves, recipe)
        if folder is not None and (alone or is_first()) and (over or time.monotonic() - saved >= SAVE_EVERY):
            if best:
                checkpoint.write_best(folder / checkpoint.BEST, best)  # before the checkpoint that counts this epoch
            state = {"schedule": plan.state_dict(), "curves": curves}
            checkpoint.save(folder / "checkpoint", model=model, optimizer=optimizer, state=state)
            saved = time.monotonic()
        if progress is not None:
            progress(Moment(epoch, recipe.epochs, steps, steps, clock.left(0), curve))
    if best:
        model.load_state_dict(best)
    return curves


@torch.no_grad()
def validation_curve(model: nn.Module, criterion: nn.Module, batches: Batches) -> Curve:
    """Loss and metrics on all validation rows, unweighted; exact under torchrun, where every process takes all."""
    model.eval()
    logits, losses, counts = [], [], []
    for inputs, labels, *_ in batches.epoch(0):
        output = model(inputs)
        logits.append(logits_of(output).float())
        losses.append(_loss(criterion, output, labels).float())
        counts.append(len(labels))
    weights = torch.tensor(counts, dtype=torch.float32, device=losses[0].device)
    loss = float((torch.stack(losses) * weights).sum() / weights.sum())
    probs = torch.cat(logits).double().softmax(1).cpu().numpy()
    y = batches.labels[batches.rows]
    values = values_of(Rows(probs, y))
    return {"validation_loss": loss} | {f"validation_{name}": values[name] for name in CURVES}


def logits_of(output: Any) -> Tensor:
    """The logits of a model's output: of one of ours its field, else the tensor itself."""
    logits: Tensor = getattr(output, "logits", output)
    return logits


def _loss(criterion: nn.Module, output: Any, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """The loss of a batch; of one of our models' outputs, of what its head made for it."""
    weighted = {} if weights is None else {"sample_weight": weights}
    loss: Tensor = criterion(getattr(output, "for_loss", output), labels, **weighted)
    return loss


def _mean(values: list[Tensor], counts: list[int]) -> float:
    """The mean of the batches' values over rows, added up in float32, batch by batch."""
    sums = torch.stack(values).float().cpu().numpy() * np.array(counts, dtype=np.float32)
    return float(np.add.accumulate(sums)[-1]) / sum(counts)


def _agreed(curve: Curve) -> Curve:
    """The first process's record for all, whose own statistics of normalisation layers differ a little."""
    records: list[Curve] = [curve]
    dist.broadcast_object_list(records)
    return records[0]


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


def _cost(curve: Curve, criterion: str) -> float:
    """What an epoch is selected by, turned so that lower is better."""
    try:
        value = curve[f"validation_{criterion}"]
    except KeyError:
        raise InputError(f"select: no validation {criterion} is measured; give validation rows.") from None
    return value if criterion == "loss" else float(METRICS.get(criterion).cost(value))


def _is_best(curves: list[Curve], criterion: str) -> bool:
    return _cost(curves[-1], criterion) == min(_cost(curve, criterion) for curve in curves)


def _stopped(curves: list[Curve], recipe: TrainConfig) -> bool:
    if recipe.select is None or recipe.patience is None or not curves:
        return False
    costs = [_cost(curve, recipe.select) for curve in curves]
    return len(costs) - 1 - int(np.argmin(costs)) >= recipe.patience


@contextmanager
def threads_for(model: nn.Module, batch_size: int) -> Iterator[None]:
    """One thread while steps are small: sharing them out takes as long as doing them, on every core."""
    before = torch.get_num_threads()
    small = batch_size * sum(weights.numel() for weights in model.parameters()) < SMALL
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
