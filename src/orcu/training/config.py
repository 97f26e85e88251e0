"""Hyperparameters of a training; the defaults are those of the paper."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count, as_positive

SCHEDULERS = ("plateau", "linear", "cosine", "constant")
CRITERIA = ("loss", "sce", "ece", "rps", "qwk", "accuracy")  # validation metrics for early stopping


@dataclass(frozen=True)
class TrainConfig:
    """Hyperparameters of a training.

    Args:
        epochs: number of passes over the training rows.
        batch_size: rows per step, on each device.
        head_learning_rate: initial learning rate of the head.
        learning_rate: initial learning rate of all other parameters.
        weight_decay: weight decay of AdamW.
        scheduler: learning-rate scheduler: "plateau" (of the validation loss), "linear" or "cosine" (to zero, in every
            step), or "constant".
        plateau_factor: factor of the learning rates on a plateau.
        plateau_patience: epochs without improvement before a plateau.
        plateau_threshold: minimum absolute improvement of the loss; ORCU's loss can be negative.
        max_grad_norm: maximum norm of the gradient, or ``None`` for no clipping.
        mixed_precision: whether to compute the network in half precision (autocast): bfloat16 on a CPU and on GPUs that
            have it, else float16 with scaled gradients. Losses are computed in float32.
        channels_last: whether to use the memory layout that is fastest for convolutions on most devices.
        deterministic: whether to use only deterministic algorithms.
        select: validation metric whose best epoch is kept; ``None`` keeps the last epoch.
        patience: epochs without improvement of ``select`` before the training stops.
    """

    epochs: int = 100
    batch_size: int = 64
    head_learning_rate: float = 0.01
    learning_rate: float = 0.001
    weight_decay: float = 0.01
    scheduler: str = "plateau"
    plateau_factor: float = 0.1
    plateau_patience: int = 10
    plateau_threshold: float = 1e-4
    max_grad_norm: float | None = None
    mixed_precision: bool = False
    channels_last: bool = False
    deterministic: bool = False
    select: str | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        as_count(self.epochs, name="epochs", minimum=1)
        as_count(self.batch_size, name="batch_size", minimum=2)  # batch normalisation needs two rows
        as_positive(self.head_learning_rate, name="head_learning_rate")
        as_positive(self.learning_rate, name="learning_rate")
        if self.max_grad_norm is not None:
            as_positive(self.max_grad_norm, name="max_grad_norm")
        for name in ("mixed_precision", "channels_last", "deterministic"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}: expected true or false, got {getattr(self, name)!r}.")
        if self.scheduler not in SCHEDULERS:
            raise UnknownNameError("scheduler", self.scheduler, SCHEDULERS)
        if self.select is not None and self.select not in CRITERIA:
            raise UnknownNameError("validation metric (select)", self.select, CRITERIA)
        if self.patience is not None and self.select is None:
            raise InputError("patience: needs select, the validation metric for early stopping.")

    def replace(self, **changes: Any) -> "TrainConfig":
        """A copy with some hyperparameters changed.

        Raises:
            UnknownNameError: if there is no such hyperparameter.

        Example:
            >>> TRAIN_CONFIGS["images"].replace(epochs=3).epochs
            3
        """
        names = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise UnknownNameError("hyperparameter of the training", name, names)
        return dataclasses.replace(self, **changes)


# Paper: Appendix II-B for images and texts. The plateau's numbers and those for tables and frozen features are ours.
TRAIN_CONFIGS = {
    "images": TrainConfig(),
    "texts": TrainConfig(batch_size=256, head_learning_rate=5e-4, learning_rate=5e-4, scheduler="linear"),
    "table": TrainConfig(epochs=60, head_learning_rate=3e-3, learning_rate=3e-3),
    "frozen": TrainConfig(epochs=30, head_learning_rate=1e-3, learning_rate=1e-3),
}
# Changes for the networks of an ensemble, which use early stopping.
ENSEMBLE: dict[str, Any] = {"epochs": 50, "batch_size": 128, "scheduler": "cosine", "select": "rps", "patience": 10}
