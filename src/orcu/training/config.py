"""Recipes: every setting of a training, the paper's by default."""

from dataclasses import dataclass, fields, replace
from typing import Any

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count

SCHEDULES = ("plateau", "linear", "cosine", "constant")
CRITERIA = ("loss", "sce", "ece", "rps", "qwk", "accuracy")  # of validation, to stop or select by


@dataclass(frozen=True)
class TrainConfig:
    """RunConfig of a training.

    Args:
        epochs: passes over the training rows.
        batch_size: rows per step, on each device.
        head_rate: the initial learning rate of the head.
        rate: the initial learning rate of everything else.
        weight_decay: of AdamW.
        schedule: "plateau" (on validation loss), "linear" or "cosine" (to zero, step by step), or "constant".
        plateau_factor: what rates are multiplied by on a plateau.
        plateau_patience: epochs without improvement before that.
        plateau_threshold: what counts as improvement, absolute: ORCU's loss can be negative.
        clip: the largest norm of the gradient, or ``None``.
        mixed_precision: compute in half precision where the device gains by it.
        channels_last: the memory layout that convolutions prefer on most devices.
        deterministic: only algorithms that repeat to the bit.
        select: evaluate the epoch that is best by this validation criterion instead of the last.
        patience: stop after so many epochs without improvement by ``select``.
    """

    epochs: int = 100
    batch_size: int = 64
    head_rate: float = 0.01
    rate: float = 0.001
    weight_decay: float = 0.01
    schedule: str = "plateau"
    plateau_factor: float = 0.1
    plateau_patience: int = 10
    plateau_threshold: float = 1e-4
    clip: float | None = None
    mixed_precision: bool = False
    channels_last: bool = False
    deterministic: bool = False
    select: str | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        as_count(self.epochs, name="epochs", minimum=1)
        as_count(self.batch_size, name="batch_size", minimum=2)  # one row has no spread to normalise by
        for name in ("head_rate", "rate"):
            if not isinstance(getattr(self, name), (int, float)) or not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name}: expected a number above 0, got {getattr(self, name)!r}.")
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise InputError(f"clip: expected a number above 0, got {self.clip!r}.")
        for name in ("mixed_precision", "channels_last", "deterministic"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}: expected true or false, got {getattr(self, name)!r}.")
        if self.schedule not in SCHEDULES:
            raise UnknownNameError("schedule", self.schedule, SCHEDULES)
        if self.select is not None and self.select not in CRITERIA:
            raise UnknownNameError("criterion", self.select, CRITERIA)
        if self.patience is not None and self.select is None:
            raise InputError("patience: name the criterion to stop by with select.")

    def but(self, **changes: Any) -> "TrainConfig":
        """The recipe with some settings changed.

        Raises:
            UnknownNameError: if there is no such setting.

        Example:
            >>> TRAIN_CONFIGS["images"].but(epochs=3).epochs
            3
        """
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting of a recipe", name, known)
        return replace(self, **changes)


# Paper: Appendix II-B for images and texts; the plateau's numbers, tables and frozen features are ours.
TRAIN_CONFIGS = {
    "images": TrainConfig(),
    "texts": TrainConfig(batch_size=256, head_rate=5e-4, rate=5e-4, schedule="linear"),
    "table": TrainConfig(epochs=60, head_rate=3e-3, rate=3e-3),
    "frozen": TrainConfig(epochs=30, head_rate=1e-3, rate=1e-3),
}
# What an ensemble changes in them: its members stop by themselves.
ENSEMBLE: dict[str, Any] = {"epochs": 50, "batch_size": 128, "schedule": "cosine", "select": "rps", "patience": 10}
