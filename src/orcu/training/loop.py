"""The training loop, for prepared data and for arrays in memory.

It runs on a CPU, a CUDA or an MPS device. Under torchrun every process trains on its part of each epoch, torch averages
the gradients, and every process evaluates all validation rows, so the metrics are exact.
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
from orcu.evaluation.statistics import metric_values
from orcu.metrics.base import METRICS
from orcu.metrics.rows import Rows
from orcu.raters.votes import weighted_rows
from orcu.threads import cores
from orcu.training import checkpoint
from orcu.training.config import TrainConfig
from orcu.training.optim import Scheduler, adamw, half_precision, learning_rates
from orcu.training.parallel import is_first

Curve = dict[str, float]  # metrics of an epoch by name
# Multiplications of a forward pass below which one thread is used. At a tenth of this it takes a fifth longer than two
# threads, but on a busy machine waiting threads take ten times as long.
SMALL_STEP = 100_000_000
ModelT = TypeVar("ModelT", bound=nn.Module)
CHECKPOINT_SECONDS = 5.0  # minimum time between checkpoints; epochs of a small table take milliseconds
CURVES = ("unimodality", "ece", "sce", "ace", "qwk", "rps", "accuracy")  # metrics of the validation rows


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training: epoch, step of the epoch, remaining seconds, and metrics at the end of an epoch."""

    epoch: int
    epochs: int
    step: int
    steps: int
    seconds_left: float
    curve: Curve | None = None


class DivergedError(InputError):
    """The loss or the logits of a training are not finite."""

    def __init__(self, epoch: int, message: str) -> None:
        super().__init__(f"epoch {epoch + 1}: {message}")
        self.epoch = epoch


def fit(
    model: ModelT,
    criterion: nn.Module,
    train: Batches,
    validation: Batches | None,
    train_config: TrainConfig,
    *,
    folder: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
    make_optimizer: Callable[[nn.Module, TrainConfig], Optimizer] = adamw,
    progress: Callable[[TrainingProgress], None] | None = None,
    after_epoch: Callable[[int, ModelT], Curve] | None = None,
    should_stop: Callable[[], bool] | None = None,
    alone: bool = False,
) -> list[Curve]:
    """Train a model in place; returns the metrics of each epoch.

    The model ends with the weights of the last epoch, or of the best epoch if the configuration selects one.

    Args:
        model: module from inputs to logits, or to an output with ``logits`` and ``for_loss``.
        criterion: loss of logits (or the output's ``for_loss``) and labels, for weighted batches also of
            ``sample_weight``.
        train: shuffled batches.
        validation: batches in order, for the scheduler, epoch selection and metrics; or ``None``.
        train_config: hyperparameters.
        folder: folder of checkpoints, from which an interrupted training continues with the same results.
        seed: seed of dropout and sampled embeddings; batches have their own.
        device: "cpu", "cuda" or "mps".
        make_optimizer: function from the model and the hyperparameters to the optimiser.
        progress: called after every step and every epoch.
        after_epoch: function from the epoch and the model to further metrics of the epoch.
        should_stop: asked before every epoch but the first whether the training ends, such as at a time limit.
        alone: whether the model belongs to this process only, where the processes of torchrun would share it.

    Raises:
        DivergedError: if the training loss is not finite.
        InputError: if the metric that selects the epoch is not computed.
    """
    if train_config.deterministic:
        torch.use_deterministic_algorithms(True)
    layout = torch.channels_last if train_config.channels_last else torch.contiguous_format
    model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
    criterion.to(device)
    optimizer = make_optimizer(model, train_config)
    steps = len(train)
    scheduler = Scheduler(optimizer, train_config, train_config.epochs * steps)
    autocast, scaler = half_precision(device, train_config.mixed_precision)
    curves: list[Curve] = []
    best: dict[str, Tensor] = {}

    if folder is not None:
        best_file = folder / checkpoint.BEST if train_config.select else None
        restored = checkpoint.restore(folder / "checkpoint", model=model, optimizer=optimizer, best=best_file)
        if restored is not None:
            state, best = restored
            scheduler.load_state_dict(state["scheduler"])
            if state.get("scaler"):  # not in checkpoints of version 0.2, nor without float16
                scaler.load_state_dict(state["scaler"])
            curves = state["curves"]
    distributed = dist.is_initialized() and not alone
    network: nn.Module = DistributedDataParallel(model) if distributed else model

    saved = time.monotonic()
    clock = _Clock(train_config.epochs * steps, done=len(curves) * steps)
    for epoch in range(len(curves), train_config.epochs):
        if _is_stopped(curves, train_config) or (curves and should_stop is not None and should_stop()):
            break
        # The random numbers of an epoch depend on its number only, so their state is not part of checkpoints.
        torch.manual_seed(int(np.random.default_rng([seed, epoch]).integers(2**62)))
        model.train()
        terms: list[dict[str, Tensor]] = []
        counts: list[int] = []
        for step, (inputs, labels, *weights) in enumerate(train.epoch(epoch)):
            if len(labels) == 1 and steps > 1:  # batch normalisation needs two rows
                scheduler.step()
                continue
            if train_config.channels_last and isinstance(inputs, Tensor) and inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            with autocast:
                loss = _compute_loss(criterion, network(inputs), labels, *weights)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            if train_config.max_grad_norm is not None:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), train_config.max_grad_norm)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            # The values stay on the device, since reading them would synchronise it in every step.
            terms.append({"loss": loss.detach(), **getattr(criterion, "parts", {})})
            counts.append(len(labels))
            if progress is not None:
                progress(TrainingProgress(epoch, train_config.epochs, step + 1, steps, clock.seconds_left(1)))

        curve: Curve = {"epoch": float(epoch)}
        curve |= {f"train_{name}": _mean([values[name] for values in terms], counts) for name in terms[0]}
        if not math.isfinite(curve["train_loss"]):
            raise DivergedError(
                epoch,
                f"the training loss is {curve['train_loss']}; use a smaller learning rate, max_grad_norm, or full "
                "precision.",
            )
        curve |= {f"learning_rate_{k}": rate for k, rate in enumerate(learning_rates(optimizer))}
        if validation is not None:
            metrics = validation_curve(model, criterion, validation)
            curve |= _broadcast(metrics) if distributed else metrics
        scheduler.end_epoch(curve.get("validation_loss", curve["train_loss"]))
        if after_epoch is not None:
            curve |= after_epoch(epoch, model)
        curves.append(curve)
        costs = [] if train_config.select is None else _costs(curves, train_config.select)
        if costs and costs[-1] == min(costs):
            best = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        finished = epoch + 1 == train_config.epochs or _is_stopped(curves, train_config)
        is_due = finished or time.monotonic() - saved >= CHECKPOINT_SECONDS
        if folder is not None and (alone or is_first()) and is_due:
            if best:  # written first, since the checkpoint counts this epoch
                checkpoint.write_tensors(folder / checkpoint.BEST, best)
            state = {"scheduler": scheduler.state_dict(), "scaler": scaler.state_dict(), "curves": curves}
            checkpoint.save(folder / "checkpoint", model=model, optimizer=optimizer, state=state)
            saved = time.monotonic()
        if progress is not None:
            progress(TrainingProgress(epoch, train_config.epochs, steps, steps, clock.seconds_left(0), curve))
    if best:
        model.load_state_dict(best)
    return curves


@torch.no_grad()
def validation_curve(model: nn.Module, criterion: nn.Module, batches: Batches) -> Curve:
    """Loss and metrics of all validation rows, unweighted."""
    model.eval()
    logits, losses, counts = [], [], []
    for inputs, labels, *_ in batches.epoch(0):
        output = model(inputs)
        logits.append(logits_of(output).float())
        losses.append(_compute_loss(criterion, output, labels).float())
        counts.append(len(labels))
    weights = torch.tensor(counts, dtype=torch.float32, device=losses[0].device)
    loss = float((torch.stack(losses) * weights).sum() / weights.sum())
    probs = torch.cat(logits).double().softmax(1).cpu().numpy()
    case, label, weight = weighted_rows(batches.labels[batches.rows])
    values = metric_values(Rows(probs[case], label, weight))
    return {"validation_loss": loss} | {f"validation_{name}": values[name] for name in CURVES}


def logits_of(output: Any) -> Tensor:
    """The logits of a model's output, which is a tensor or has an attribute ``logits``."""
    logits: Tensor = getattr(output, "logits", output)
    return logits


def _compute_loss(criterion: nn.Module, output: Any, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    options = {} if weights is None else {"sample_weight": weights}
    loss: Tensor = criterion(getattr(output, "for_loss", output), labels, **options)
    return loss


def _mean(values: list[Tensor], counts: list[int]) -> float:
    """Mean over rows of the values of batches, summed in float32 batch by batch."""
    sums = torch.stack(values).float().cpu().numpy() * np.array(counts, dtype=np.float32)
    return float(np.add.accumulate(sums)[-1]) / sum(counts)


def _broadcast(curve: Curve) -> Curve:
    """The metrics of the first process; those of others differ slightly by their batch-normalisation statistics."""
    records: list[Curve] = [curve]
    dist.broadcast_object_list(records)
    return records[0]


class _Clock:
    """Estimate of the remaining time from the steps of this session."""

    def __init__(self, steps: int, done: int) -> None:
        self._steps, self._done, self._done_before = steps, done, done
        self._start = time.monotonic()

    def seconds_left(self, steps: int) -> float:
        """Remaining seconds after ``steps`` more steps."""
        self._done += steps
        per_step = (time.monotonic() - self._start) / max(1, self._done - self._done_before)
        return per_step * (self._steps - self._done)


def _costs(curves: list[Curve], metric: str) -> list[float]:
    """The values of a validation metric in all epochs, with the sign changed if higher is better."""
    name = f"validation_{metric}"
    if any(name not in curve for curve in curves):
        raise InputError(f"select: the validation metric {metric} is not computed; pass validation rows.")
    cost = float if metric == "loss" else METRICS.get(metric).cost
    return [float(cost(curve[name])) for curve in curves]


def _is_stopped(curves: list[Curve], train_config: TrainConfig) -> bool:
    if train_config.select is None or train_config.patience is None or not curves:
        return False
    return len(curves) - 1 - int(np.argmin(_costs(curves, train_config.select))) >= train_config.patience


@contextmanager
def threads_for(model: nn.Module, batch_size: int) -> Iterator[None]:
    """Use one thread while steps are small, because splitting them takes as long as computing them."""
    before = torch.get_num_threads()
    small = batch_size * sum(weights.numel() for weights in model.parameters()) < SMALL_STEP
    torch.set_num_threads(1 if small else min(before, cores()))
    try:
        yield
    finally:
        torch.set_num_threads(before)
