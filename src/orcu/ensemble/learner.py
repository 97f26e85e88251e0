"""Base learners and cross-fitting: every row trains, and every row is predicted by models that have not seen it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.io.files import atomic_write
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs
from orcu.raters.votes import Targets, weighted_rows
from orcu.threads import map_ordered

# Called with the learner's name, the steps done, the number of steps, and the mean RPS of the early-stopping rows
# (NaN where it is not known).
Progress = Callable[[str, int, int, float], None]
SMOOTHING = 0.5  # rows of each class that `smoothed_log_probs` adds


@dataclass(frozen=True)
class Deadline:
    """The time, by `time.monotonic`, at which a training stops; by default never.

    Example:
        >>> Deadline().remaining(), Deadline.after(60.0).share(0.5).remaining() <= 30.0
        (inf, True)
    """

    end: float = float("inf")

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """The deadline in so many seconds."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.end - time.monotonic())

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() == 0.0

    def share(self, part: float) -> "Deadline":
        """The deadline of a part of the work: this share of the remaining time from now on."""
        return Deadline.after(part * self.remaining())


NO_DEADLINE = Deadline()


@dataclass(frozen=True)
class TrainingData:
    """Rows that an ensemble is fitted on.

    Attributes:
        inputs: encoded rows.
        y: labels 0..C-1, (n,); or shares of the votes of several raters, (n, C).
        num_classes: number of classes, C.
        sample_weight: weight of each row, class weights included, or ``None``.
    """

    inputs: Inputs
    y: Targets
    num_classes: int
    sample_weight: FloatArray | None = None

    def __getitem__(self, rows: IntArray) -> "TrainingData":
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return TrainingData(self.inputs[rows], self.y[rows], self.num_classes, weight)

    def with_labels(self) -> "TrainingData":
        """Rows with one label each: votes become weighted rows, for learners that take labels only."""
        if self.y.ndim == 1:
            return self
        case, label, weight = weighted_rows(self.y, self.sample_weight)
        return TrainingData(self.inputs[case], label, self.num_classes, weight)


class BaseLearner(ABC):
    """A kind of model in an ensemble, fitted once per fold."""

    name: str
    subfolder: ClassVar[str]  # of the model files

    @abstractmethod
    def cross_fit(
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> "list[CrossFitted]":
        """Fit a model per fold and predict each fold's test rows.

        Args:
            data: all rows.
            folds: cross-fitting folds.
            folder: folder of the model files, or ``None``; models that are there already are read, not fitted.
            progress: see `Progress`.
            deadline: time at which the training stops with the rounds, epochs or trees that it has.

        Returns:
            One entry; several for a learner that fits several losses at once.

        Raises:
            InputError: if a file in the folder cannot be read, or a training diverges.
        """

    @abstractmethod
    def predict_log_proba(self, model: Any, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""

    def is_constant(self, model: Any) -> bool:
        """Whether a model gives every row the same prediction, because it has learnt nothing from the columns."""
        return False

    def cross_fitted(
        self, models: Sequence[Any], data: TrainingData, folds: Sequence[Fold], *, name: str = "", n_iter: int = 0
    ) -> "CrossFitted":
        """The models of all folds with their out-of-fold predictions."""
        log_probs = np.full((len(data.y), data.num_classes), np.nan)
        for model, fold in zip(models, folds, strict=True):
            log_probs[fold.test] = self.predict_log_proba(model, data.inputs[fold.test])
        return CrossFitted(name or self.name, self, list(models), log_probs, n_iter)


class FoldLearner(BaseLearner):
    """A base learner whose models are fitted fold by fold, and written to one file each."""

    suffix: str  # of the model files
    n_jobs: int = 1  # models fitted at the same time

    @abstractmethod
    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline) -> Any:
        """Fit a model on the training rows of a fold; the early-stopping rows may stop it, the deadline must."""

    @abstractmethod
    def save(self, model: Any, path: Path) -> None:
        """Write a model to a file."""

    @abstractmethod
    def load(self, path: Path) -> Any:
        """Read a model from a file.

        Raises:
            InputError: if the file is missing or damaged.
        """

    @abstractmethod
    def shape(self, model: Any) -> tuple[int, int]:
        """Number of columns (of features for a linear model) and of classes of a model."""

    def load_all(self, folder: Path, n_folds: int, shape: tuple[int, int]) -> "CrossFitted":
        """Read the models of all folds, which must have the given numbers of columns and classes.

        Raises:
            InputError: if a file is missing or damaged, or belongs to another model.
        """
        models = []
        for number in range(n_folds):
            path = self.path(folder, number)
            model = self.load(path)
            if self.shape(model) != shape:
                has, expected = ("{} columns and {} classes".format(*size) for size in (self.shape(model), shape))
                raise InputError(
                    f"{path}: belongs to another model: it has {has}, expected {expected}. Copy the whole folder that "
                    "`orcu train` wrote, or train again."
                )
            models.append(model)
        return CrossFitted(self.name, self, models, np.zeros((0, shape[1])))

    def n_iter(self, model: Any) -> int:
        """Number of epochs or boosting rounds of a model; 0 where there is no such number."""
        return 0

    def prepare(
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        path: Path | None,
        step: Callable[[], None],
        deadline: Deadline = NO_DEADLINE,
    ) -> Self:
        """A copy of the learner with the settings that the models of all folds share; by default itself.

        Args:
            data: all rows.
            folds: cross-fitting folds.
            path: file in which the settings are kept, or ``None``.
            step: to be called `preparing_steps` times per fold.
            deadline: time at which the settings must be known.
        """
        return self

    @property
    def preparing_steps(self) -> int:
        """Number of progress steps of `prepare` per fold."""
        return 0

    @property
    def preparing_share(self) -> float:
        """Share of the time limit that `prepare` may take."""
        return self.preparing_steps / (1 + self.preparing_steps)

    def path(self, folder: Path, fold: int) -> Path:
        """File of the model of a fold."""
        return folder / self.subfolder / f"{self.name.replace(' ', '_')}.{fold}.{self.suffix}"

    def cross_fit(  # noqa: D102
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> "list[CrossFitted]":
        done, steps = 0, len(folds) * (1 + self.preparing_steps)

        def step() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(self.name, done, steps, float("nan"))

        settings = None if folder is None else folder / self.subfolder / f"{self.name}.json"
        learner = self.prepare(data, folds, settings, step, deadline.share(self.preparing_share))
        n_jobs = min(learner.n_jobs, len(folds))

        def fit_or_load(fold: Fold) -> Any:
            path = None if folder is None else learner.path(folder, fold.number)
            if path is not None and path.exists():
                return learner.load(path)
            left = len(folds) - fold.number
            model = learner.fit(data, fold, deadline.share(min(n_jobs, left) / left))
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as temporary:
                    learner.save(model, temporary)
            return model

        models = []
        for model in map_ordered(fit_or_load, folds, threads=n_jobs):
            models.append(model)
            step()
        return [learner.cross_fitted(models, data, folds, n_iter=max(map(learner.n_iter, models)))]


@dataclass(frozen=True)
class CrossFitted:
    """The models of a base learner, one per fold, and their out-of-fold predictions.

    Attributes:
        name: name in the ensemble's weights.
        learner: the base learner.
        models: one model per fold.
        log_probs: out-of-fold log-probabilities, (n, C).
        n_iter: largest number of epochs or boosting rounds of a model.
    """

    name: str
    learner: BaseLearner
    models: list[Any]
    log_probs: FloatArray
    n_iter: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether the models of all folds are constant."""
        return all(map(self.learner.is_constant, self.models))

    def predict_log_proba(self, inputs: Inputs) -> FloatArray:
        """Log-probabilities of new rows by the model of each fold, (K, n, C)."""
        return np.stack([self.learner.predict_log_proba(model, inputs) for model in self.models])


def smoothed_log_probs(probs: FloatArray, rows: float) -> FloatArray:
    """Logarithms of probabilities that may be zero: (n p_k + 1/2) / (n + C/2) for frequencies among n rows or trees.

    Example:
        >>> np.exp(smoothed_log_probs(np.array([[1.0, 0.0]]), 9)).round(3).tolist()
        [[0.95, 0.05]]
    """
    num_classes = probs.shape[1]
    log_probs: FloatArray = np.log((rows * probs + SMOOTHING) / (rows + SMOOTHING * num_classes))
    return log_probs
