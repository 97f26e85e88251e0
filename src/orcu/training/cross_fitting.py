"""Cross-fitting: every row trains, every row is predicted by networks that have not seen it.

The rows are dealt into K folds. The networks of fold k train on the others, less a part that stops them; what they say
of fold k's own rows is out of fold. Perceptrons of all folds and losses train together, as one `Stack`: each batch goes
through all of them at once, and a row counts for those that may learn from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.scoring import rps
from orcu.model_selection import Fold
from orcu.models.ensemble import Stack, perceptrons
from orcu.training.config import TrainConfig
from orcu.training.loop import threads_for
from orcu.training.optim import fused_adamw, schedule

AT_ONCE = 8192  # rows of a forward without gradients


@dataclass(frozen=True)
class CrossFitted:
    """Networks of one loss, one a fold, and what they say of the rows that they have not seen."""

    name: str
    networks: list[nn.Module]
    log_probs: FloatArray  # out of fold, (n, C)
    epochs: list[int]  # that each network was trained for

    def said(self, x: Tensor) -> FloatArray:
        """The log-probabilities of other rows by each fold's network, (K, n, C)."""
        return np.stack([_log_probs(network, x) for network in self.networks])


def stacks(criterion: Any) -> bool:
    """Whether networks of a loss can be trained together: it is a mean over samples, on plain logits."""
    return not (criterion.needs_head or criterion.batch_statistic)


def train_together(
    criteria: Mapping[str, nn.Module],
    x: Tensor,
    y: IntArray,
    folds: Sequence[Fold],
    recipe: TrainConfig,
    *,
    num_classes: int,
    hidden: Sequence[int],
    weight: npt.NDArray[np.float32] | None = None,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[CrossFitted]:
    """Train a perceptron for every loss and fold, all at once.

    Args:
        criteria: losses by name, that sum over samples with weights (``reduction="sum"``).
        x: all rows, shape (n, D).
        y: their labels.
        folds: as `deal` gives them.
        recipe: of each network; ``select`` and ``patience`` are each network's own.
        num_classes: how many classes, C.
        hidden: layers of a perceptron.
        weight: one per row, or ``None``.
        seed: of weights and order.
        progress: told after each epoch how many are done, of how many at most, and the mean RPS of the rows that
            stop the networks (NaN where none do).

    Raises:
        InputError: if a training diverges.
    """
    losses, count = list(criteria), len(folds)
    networks = perceptrons(len(losses) * count, x.shape[1], num_classes, hidden=hidden, seed=seed)
    stack = Stack(networks)
    optimizer = fused_adamw(stack, recipe)
    learns = torch.zeros(count, len(y))
    for k, fold in enumerate(folds):
        own = torch.ones(len(fold.train)) if weight is None else torch.from_numpy(weight[fold.train])
        learns[k, fold.train] = own
    labels = torch.from_numpy(y)
    steps = -(-len(y) // recipe.batch_size)
    plan = schedule(optimizer, recipe, recipe.epochs * steps)
    best = _Best(stack, folds, len(losses), recipe)
    generator = torch.Generator().manual_seed(seed)

    def one_epoch() -> None:
        for rows in torch.split(torch.randperm(len(y), generator=generator), recipe.batch_size):
            share = learns[:, rows]
            share = share / share.sum(dim=1, keepdim=True).clamp(min=1e-30)  # the mean of each network's own rows
            logits = stack(x[rows])
            repeated = labels[rows].repeat(count)
            total = logits.new_zeros(())
            for place, name in enumerate(losses):
                mine = logits[place * count : (place + 1) * count].reshape(-1, num_classes)
                total = total + criteria[name](mine, repeated, sample_weight=share.reshape(-1))
            optimizer.zero_grad(set_to_none=True)
            total.backward()
            optimizer.step()
            plan.step()

    with threads_for(stack, recipe.batch_size):
        for epoch in range(recipe.epochs):
            one_epoch()
            best.look(epoch, x, y, weight)
            if progress is not None:
                progress(epoch + 1, recipe.epochs, best.mean)
            if best.all_stopped(epoch):
                break
    best.restore()
    for place, network in enumerate(networks):
        network.load_state_dict(stack.state_of(place))
    out = []
    for place, name in enumerate(losses):
        mine = networks[place * count : (place + 1) * count]
        epochs = best.epochs[place * count : (place + 1) * count]
        out.append(CrossFitted(name, list(mine), out_of_fold(mine, x, folds, num_classes), epochs))
    return out


class _Best:
    """The best epoch of every network in a stack, by the RPS of the rows that stop it; the last where none do."""

    def __init__(self, stack: Stack, folds: Sequence[Fold], losses: int, recipe: TrainConfig) -> None:
        self._stack, self._recipe = stack, recipe
        self._stops = [fold.stop for fold in folds] * losses
        self._selects = recipe.select is not None and all(len(rows) for rows in self._stops)
        self._rows = np.unique(np.concatenate(self._stops)) if self._selects else np.zeros(0, np.int64)
        self._lowest = np.full(len(self._stops), np.inf)
        self._kept: list[Tensor] = []
        self.mean = float("nan")
        self.epochs = [0] * len(self._stops)

    @torch.no_grad()
    def look(self, epoch: int, x: Tensor, y: IntArray, weight: npt.NDArray[np.float32] | None) -> None:
        """Judge every network after an epoch, and keep those that are better than before."""
        looked = self._rows if self._selects else np.arange(min(len(y), 1000))
        parts = [self._stack(part) for part in torch.split(x[looked], AT_ONCE)]
        logits = torch.cat(parts, dim=1).double().numpy()
        if not np.isfinite(logits).all():
            raise InputError(
                f"training diverged in epoch {epoch}: logits are not finite; lower learning_rate (it is "
                f"{self._recipe.rate:g}), or look for columns with extreme values."
            )
        if not self._selects:
            self.epochs = [epoch + 1] * len(self._stops)
            return
        better, values = [], []
        for network, rows in enumerate(self._stops):
            place = np.searchsorted(looked, rows)
            own = None if weight is None else weight[rows].astype(np.float64)
            value = rps(geometry.probs(logits[network, place]), y[rows], weight=own)
            values.append(value)
            if value < self._lowest[network]:
                self._lowest[network], self.epochs[network] = value, epoch + 1
                better.append(network)
        self.mean = float(np.mean(values))
        if not self._kept:
            self._kept = [parameter.detach().clone() for parameter in self._stack.parameters()]
        elif better:
            for kept, parameter in zip(self._kept, self._stack.parameters(), strict=True):
                kept[better] = parameter.detach()[better]

    def all_stopped(self, epoch: int) -> bool:
        """Whether no network has become better for the recipe's patience."""
        patience = self._recipe.patience
        return self._selects and patience is not None and epoch + 1 - max(self.epochs) >= patience

    @torch.no_grad()
    def restore(self) -> None:
        """Give every network its best weights."""
        for kept, parameter in zip(self._kept, self._stack.parameters(), strict=bool(self._kept)):
            parameter.copy_(kept)


def out_of_fold(networks: Sequence[nn.Module], x: Tensor, folds: Sequence[Fold], num_classes: int) -> FloatArray:
    """The log-probabilities of every row by the network of its fold, (n, C)."""
    out = np.full((len(x), num_classes), np.nan)
    for network, fold in zip(networks, folds, strict=True):
        out[fold.held] = _log_probs(network, x[fold.held])
    return out


@torch.no_grad()
def _log_probs(network: nn.Module, x: Tensor) -> FloatArray:
    network.eval()
    parts = [network(part) for part in torch.split(x, AT_ONCE)]
    logits = torch.cat([getattr(part, "logits", part) for part in parts]).double().numpy()
    log_probs: FloatArray = geometry.log_probs(logits)
    return log_probs
