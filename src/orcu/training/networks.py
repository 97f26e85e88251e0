"""Networks on rows in memory: one network trained with early stopping, and networks as base learners of an ensemble."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from orcu import geometry
from orcu.data.batches import ArrayBatches
from orcu.ensemble.ensemble import Ensemble
from orcu.ensemble.learner import NO_DEADLINE, BaseLearner, CrossFitted, Deadline, Progress, TrainingData
from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.losses.base import OrdinalLoss
from orcu.metrics.scoring import rps_unchecked
from orcu.model_selection import Fold
from orcu.models.classifier import Classifier
from orcu.models.ensemble import NetworkEnsemble, NetworkStack, make_perceptrons
from orcu.models.tabular import Mlp
from orcu.preprocessing import Inputs
from orcu.raters.votes import Targets, loss_targets, weighted_rows
from orcu.training.checkpoint import write_tensors
from orcu.training.config import TrainConfig
from orcu.training.loop import Curve, DivergedError, TrainingProgress, fit, logits_of, threads_for
from orcu.training.optim import Scheduler, fused_adamw

PREDICT_ROWS = 8192  # rows of a forward pass without gradients
CHECKED_ROWS = 1000  # training rows whose logits must stay finite where there are no validation rows


def train_network(
    model: nn.Module,
    criterion: nn.Module,
    train: TrainingData,
    validation: TrainingData,
    config: TrainConfig,
    *,
    seed: int,
    deadline: Deadline = NO_DEADLINE,
    name: str = "network",
    progress: Progress | None = None,
) -> list[float]:
    """Train a network in place, with early stopping by the ranked probability score of the validation rows, if any.

    ``seed`` is that of the row order and of everything else that is random; torch's global state does not change. No
    epoch starts after the ``deadline``. ``progress`` is called with the ``name`` after each epoch. Returns the
    validation RPS of each epoch, or the training loss without validation rows. Raises `InputError` if the loss or the
    logits are not finite.
    """
    x = torch.as_tensor(train.inputs.features)
    batches = ArrayBatches(
        x,
        np.arange(len(train.y)),
        loss_targets(train.y),
        weights=_float32_weight(train),
        batch_size=config.batch_size,
        generator=torch.Generator().manual_seed(seed),
    )
    validates, weight = len(validation.y) > 0, _float32_weight(validation)

    def validate(epoch: int, model: nn.Module) -> Curve:
        z = predict_logits(model, validation.inputs.features if validates else x[:CHECKED_ROWS])
        if not np.isfinite(z).all():
            raise DivergedError(epoch, "logits are not finite.")
        if not validates:
            return {}
        row_weight = None if weight is None else weight.astype(float)
        case, label, row_weight = weighted_rows(validation.y, row_weight)
        return {"validation_rps": rps_unchecked(geometry.probs(z)[case], label, sample_weight=row_weight)}

    def report(state: TrainingProgress) -> None:
        if progress is not None and state.curve is not None:
            progress(name, state.epoch + 1, state.epochs, state.curve.get("validation_rps", float("nan")))

    try:
        with threads_for(model, config.batch_size), torch.random.fork_rng(devices=[]):
            curves = fit(
                model,
                criterion,
                batches,
                None,
                config,
                seed=seed,
                make_optimizer=fused_adamw,
                after_epoch=validate,
                should_stop=deadline.is_over,
                progress=report,
                alone=True,
            )
    except DivergedError as error:
        raise _diverged(error.epoch, config) from None
    return [curve["validation_rps" if validates else "train_loss"] for curve in curves]


def _float32_weight(data: TrainingData) -> npt.NDArray[np.float32] | None:
    return None if data.sample_weight is None else data.sample_weight.astype(np.float32)


def _diverged(epoch: int, config: TrainConfig) -> InputError:
    return InputError(
        f"training diverged in epoch {epoch}: the loss or the logits are not finite; lower learning_rate (now "
        f"{config.learning_rate:g}), or check the columns for extreme values."
    )


@torch.no_grad()
def predict_logits(model: nn.Module, features: Any) -> FloatArray:
    """Logits in float64, shape (n, C), of an array or tensor of rows."""
    model.eval()
    parts = [logits_of(model(part)) for part in torch.split(torch.as_tensor(features), PREDICT_ROWS)]
    values: FloatArray = torch.cat(parts).double().cpu().numpy()
    return values


class _NetworkLearner(BaseLearner):
    """Prediction of networks."""

    def predict_log_proba(self, model: nn.Module, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""
        log_probs: FloatArray = geometry.log_probs(predict_logits(model, inputs.features))
        return log_probs


def is_batchable(criterion: Any) -> bool:
    """Whether networks of a loss can be trained in one batch: it is a mean over samples, on a linear head."""
    return criterion.head == OrdinalLoss.head and not criterion.batch_statistic


@dataclass(frozen=True)
class PerceptronLearner(_NetworkLearner):
    """Multilayer perceptrons of one or several losses, those of all losses and folds trained as one stack.

    Each batch goes through all perceptrons at once; a row counts for those that may train on it.

    Args:
        criteria: losses by name, with ``reduction="sum"``.
        config: training settings; epoch selection and patience apply to each perceptron separately.
        hidden_layer_sizes: number of units of each hidden layer.
        seed: seed of weights and row order.
        index: number of the model file.
        name: name of the learner.
    """

    subfolder: ClassVar[str] = "members"
    criteria: Mapping[str, nn.Module]
    config: TrainConfig
    hidden_layer_sizes: tuple[int, ...]
    seed: int = 0
    index: int = 0
    name: str = "perceptrons"

    def cross_fit(  # noqa: D102
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[CrossFitted]:
        path = None if folder is None else folder / self.subfolder / f"{self.index}.safetensors"
        x = torch.as_tensor(data.inputs.features)
        networks = make_perceptrons(
            len(self.criteria) * len(folds), x.shape[1], data.num_classes, self.hidden_layer_sizes, seed=self.seed
        )
        epochs: list[int] = []
        if path is not None and path.exists():
            try:
                nn.ModuleList(networks).load_state_dict(load_file(path))
            except (OSError, SafetensorError, RuntimeError):
                raise InputError(f"{path}: is damaged or incomplete; delete it to train its loss again.") from None
        else:
            epochs = self._train(networks, x, data, folds, progress, deadline)
            if path is not None:
                write_tensors(path, nn.ModuleList(networks).state_dict())
        parts = [slice(start, start + len(folds)) for start in range(0, len(networks), len(folds))]
        return [
            self.cross_fitted(networks[part], data, folds, name=name, n_iter=max(epochs[part], default=0))
            for name, part in zip(self.criteria, parts, strict=True)
        ]

    def _train(
        self,
        networks: Sequence[Classifier],
        x: Tensor,
        data: TrainingData,
        folds: Sequence[Fold],
        progress: Progress | None,
        deadline: Deadline,
    ) -> list[int]:
        """Train the networks in place; the epoch of each one's final weights."""
        stack, config, n_folds = NetworkStack(networks), self.config, len(folds)
        optimizer = fused_adamw(stack, config)
        weight = _float32_weight(data)
        row_weight = torch.zeros(n_folds, len(data.y))  # 0 for rows that a fold may not train on
        for k, fold in enumerate(folds):
            row_weight[k, fold.train] = (
                torch.ones(len(fold.train)) if weight is None else torch.from_numpy(weight[fold.train])
            )
        labels = torch.from_numpy(loss_targets(data.y))
        scheduler = Scheduler(optimizer, config, config.epochs * -(-len(data.y) // config.batch_size))
        best = _BestEpochs(stack, folds, len(self.criteria), config)
        generator = torch.Generator().manual_seed(self.seed)

        def train_epoch() -> None:
            for rows in torch.split(torch.randperm(len(data.y), generator=generator), config.batch_size):
                if deadline.is_over():  # of large tables an epoch may take minutes
                    break
                share = row_weight[:, rows]
                share = share / share.sum(dim=1, keepdim=True).clamp(min=1e-30)  # mean over each network's rows
                logits = stack(x[rows])
                repeated = labels[rows].repeat(n_folds, *[1] * (labels.ndim - 1))
                total = logits.new_zeros(())
                for index, criterion in enumerate(self.criteria.values()):
                    z = logits[index * n_folds : (index + 1) * n_folds].reshape(-1, data.num_classes)
                    total = total + criterion(z, repeated, sample_weight=share.reshape(-1))
                optimizer.zero_grad(set_to_none=True)
                total.backward()
                optimizer.step()
                scheduler.step()

        with threads_for(stack, config.batch_size):
            for epoch in range(config.epochs):
                train_epoch()
                best.update(epoch, x, data.y, weight)
                if progress is not None:
                    progress(", ".join(self.criteria), epoch + 1, config.epochs, best.mean_rps)
                if best.all_stopped(epoch) or deadline.is_over():
                    break
        best.restore()
        for index, network in enumerate(networks):
            network.load_state_dict(stack.state_of(index))
        return best.epochs


class _BestEpochs:
    """The best epoch of every network in a stack, by the RPS of its early-stopping rows; else the last epoch."""

    def __init__(self, stack: NetworkStack, folds: Sequence[Fold], n_losses: int, config: TrainConfig) -> None:
        self._stack, self._config = stack, config
        self._stopping_rows = [fold.early_stopping for fold in folds] * n_losses
        self._selects = config.select is not None and all(len(rows) for rows in self._stopping_rows)
        self._rows = np.unique(np.concatenate(self._stopping_rows)) if self._selects else np.zeros(0, np.int64)
        self._lowest = np.full(len(self._stopping_rows), np.inf)
        self.epochs = [0] * len(self._stopping_rows)
        self._best_parameters: list[Tensor] = []
        self.mean_rps = float("nan")

    @torch.no_grad()
    def update(self, epoch: int, x: Tensor, y: Targets, weight: npt.NDArray[np.float32] | None) -> None:
        """Evaluate every network after an epoch, and keep the parameters of those that improved."""
        rows = self._rows if self._selects else np.arange(min(len(y), CHECKED_ROWS))
        parts = [self._stack(part) for part in torch.split(x[rows], PREDICT_ROWS)]
        logits = torch.cat(parts, dim=1).double().numpy()
        if not np.isfinite(logits).all():
            raise _diverged(epoch, self._config)
        if not self._selects:
            self.epochs = [epoch + 1] * len(self._stopping_rows)
            return
        improved, values = [], []
        for network, stopping_rows in enumerate(self._stopping_rows):
            probs = geometry.probs(logits[network, np.searchsorted(rows, stopping_rows)])
            stopping_weight = None if weight is None else weight[stopping_rows].astype(np.float64)
            case, label, stopping_weight = weighted_rows(y[stopping_rows], stopping_weight)
            values.append(rps_unchecked(probs[case], label, sample_weight=stopping_weight))
            if values[-1] < self._lowest[network]:
                self._lowest[network], self.epochs[network] = values[-1], epoch + 1
                improved.append(network)
        self.mean_rps = float(np.mean(values))
        if not self._best_parameters:
            self._best_parameters = [parameter.detach().clone() for parameter in self._stack.parameters()]
        elif improved:
            for best, parameter in zip(self._best_parameters, self._stack.parameters(), strict=True):
                best[improved] = parameter.detach()[improved]

    def all_stopped(self, epoch: int) -> bool:
        """Whether no network has improved for the patience of the settings."""
        patience = self._config.patience
        return self._selects and patience is not None and epoch + 1 - max(self.epochs) >= patience

    @torch.no_grad()
    def restore(self) -> None:
        """Give every network the parameters of its best epoch."""
        for best, parameter in zip(self._best_parameters, self._stack.parameters(), strict=bool(self._best_parameters)):
            parameter.copy_(best)


@dataclass(frozen=True)
class ModuleLearner(_NetworkLearner):
    """A network of your own, or a perceptron with a loss that cannot be batched, trained fold by fold.

    Args:
        name: name in the ensemble's weights.
        criterion: loss.
        config: training settings.
        module: network from inputs to logits, copied for each fold; ``None`` for a perceptron.
        hidden_layer_sizes: number of units of each hidden layer of the perceptron.
        seed: seed of the first fold.
        head: head of the perceptron; "" for the head of the loss.
    """

    name: str
    criterion: Any
    config: TrainConfig
    module: nn.Module | None = None
    hidden_layer_sizes: tuple[int, ...] = ()
    seed: int = 0
    head: str = ""

    def network(self, width: int, num_classes: int, seed: int) -> nn.Module:
        """A network with fresh weights."""
        if self.module is not None:
            return copy.deepcopy(self.module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Classifier(
                Mlp(width, hidden_layer_sizes=self.hidden_layer_sizes),
                num_classes,
                head=self.head or self.criterion.head,
            )

    def cross_fit(
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[CrossFitted]:
        """Train a network per fold; these networks are not written to files."""
        networks, epochs = [], []
        for index, fold in enumerate(folds):
            seed = self.seed + fold.number
            network = self.network(data.inputs.features.shape[-1], data.num_classes, seed)
            train, validation = data[fold.train], data[fold.early_stopping]
            criterion, limit = copy.deepcopy(self.criterion), deadline.share(1 / (len(folds) - index))
            curve = train_network(network, criterion, train, validation, self.config, seed=seed, deadline=limit)
            networks.append(network)
            epochs.append(len(curve))
            if progress is not None:
                progress(self.name, len(networks), len(folds), min(curve))
        return [self.cross_fitted(networks, data, folds, n_iter=max(epochs))]


def network_members(ensemble: Ensemble) -> list[CrossFitted]:
    """The members of an ensemble that are networks."""
    return [member for member in ensemble.members if isinstance(member.learner, _NetworkLearner)]


def as_module(ensemble: Ensemble) -> NetworkEnsemble:
    """The networks of an ensemble as one module, with their factors; other members are not part of it."""
    members = network_members(ensemble)
    networks = [network for member in members for network in member.models]
    factors = [ensemble.factors[member.name] / len(member.models) for member in members for _ in member.models]
    return NetworkEnsemble(networks, factors)
