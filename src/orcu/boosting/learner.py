"""Boosted trees of an ordinal objective as a base learner of an ensemble, for any boosting library."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from orcu import geometry
from orcu.boosting.objective import Objective, objective
from orcu.ensemble.learner import NO_DEADLINE, CrossFitted, Deadline, FoldLearner, TrainingData
from orcu.errors import InputError, UnknownNameError, first_line, import_problem
from orcu.inputs import FloatArray, as_count, as_positive
from orcu.io.files import read_json, write_json
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs, table_codes
from orcu.threads import cores, map_ordered

LIBRARIES = ("lightgbm", "xgboost")
NUM_LEAVES = (7, 31)  # small trees suit noisy tables, larger ones large tables
# Rounds beyond early stopping: the models of the folds are averaged, which removes much of the variance that stops a
# single model (benchmarks/tree_sizes.py).
ROUND_FACTOR = 1.5
STOPPING_ROWS = 2_000  # early-stopping rows that settle the size: the folds beyond them are not trained for it


@dataclass(frozen=True)
class BoostingConfig:
    """Settings of boosted trees: the parameters of these names of `orcu.OrdinalBoosting`."""

    library: str = "lightgbm"
    n_estimators: int = 1000
    learning_rate: float = 0.1
    num_leaves: int | None = None
    early_stopping_rounds: int = 30
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise UnknownNameError("boosting library", self.library, LIBRARIES)
        as_count(self.n_estimators, name="n_estimators", minimum=1)
        if self.num_leaves is not None:
            as_count(self.num_leaves, name="num_leaves", minimum=2)
        as_count(self.early_stopping_rounds, name="early_stopping_rounds", minimum=1)
        as_positive(self.learning_rate, name="learning_rate")


@dataclass(frozen=True)
class EnsembleSize:
    """Number of leaves of a tree and of boosting rounds."""

    num_leaves: int
    n_estimators: int


@dataclass(frozen=True)
class BoostingLearner(FoldLearner):
    """Boosted trees, one booster per fold; subclasses call a boosting library.

    The number of leaves and of rounds is chosen first, by early stopping in as many folds as give 2,000 early-stopping
    rows: the number of leaves with the lower RPS of these rows, and 1.5 times the mean of its rounds. Then each fold's
    booster is trained at that size on all rows that the fold may train on, including the early-stopping rows. With a
    single fold, the booster of the chosen number of leaves is kept as early stopping left it.

    Args:
        name: name in the ensemble's weights.
        objective: objective to minimise; ``None`` for a learner that only predicts.
        config: settings.
        categorical: indices of the categorical columns.
        seed: seed of the library.
        init_score: initial logits, (C,), which a booster alone does not hold; set by `prepare`.
        size: size of the boosters; set by `prepare`.
        stopped: the booster of a single fold, which is not trained twice; set by `prepare`.
        n_threads: threads of one training; set by `prepare`.
    """

    subfolder: ClassVar[str] = "trees"
    name: str
    objective: Objective | None = None
    config: BoostingConfig = field(default_factory=BoostingConfig)
    categorical: tuple[int, ...] = ()
    seed: int = 0
    init_score: Any = None
    size: EnsembleSize | None = None
    stopped: Any = None
    n_threads: int = 1

    @abstractmethod
    def stop_early(
        self, train: TrainingData, stopping: TrainingData, num_leaves: int, deadline: Deadline
    ) -> tuple[Any, int, float]:
        """Train until the RPS of the early-stopping rows no longer falls; the booster, its best round and that RPS."""

    @abstractmethod
    def train(self, data: TrainingData, size: EnsembleSize, deadline: Deadline) -> Any:
        """Train a booster of a given size."""

    @abstractmethod
    def predict_raw(self, booster: Any, codes: FloatArray) -> FloatArray:
        """Raw scores by the best rounds, without the initial score, (n, C)."""

    @abstractmethod
    def total_gains(self, booster: Any, n_columns: int) -> FloatArray:
        """Total gain of the splits on each column, (D,)."""

    @abstractmethod
    def to_text(self, booster: Any) -> str:
        """The booster in the library's own text format."""

    @abstractmethod
    def from_text(self, text: str) -> Any:
        """The booster that `to_text` wrote."""

    @property
    def n_jobs(self) -> int:  # type: ignore[override]
        """Models fitted at the same time."""
        return cores()

    @property
    def preparing_steps(self) -> int:
        """Number of progress steps of `prepare` per fold."""
        return len(self._num_leaves)

    @property
    def _num_leaves(self) -> tuple[int, ...]:
        return NUM_LEAVES if self.config.num_leaves is None else (self.config.num_leaves,)

    def prepare(
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        path: Path | None,
        step: Callable[[], None],
        deadline: Deadline = NO_DEADLINE,
    ) -> Self:
        """Choose the initial score and the size of the boosters; a size that is kept in ``path`` is read."""
        assert self.objective is not None  # noqa: S101 -- a learner that only predicts is not fitted
        init_score = self.objective.init_score(data.y, data.sample_weight)
        learner = replace(self, init_score=init_score, n_threads=max(1, cores() // len(folds)))
        if path is not None and path.exists():
            for _ in range(len(folds) * self.preparing_steps):
                step()
            return replace(learner, size=read_json(path, _read_size))
        size, booster = learner._choose_size(data, folds, step, deadline)
        if path is not None and any(len(fold.early_stopping) for fold in folds):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, asdict(size))
        return replace(learner, size=size, stopped=booster)

    def _choose_size(
        self, data: TrainingData, folds: Sequence[Fold], step: Callable[[], None], deadline: Deadline
    ) -> tuple[EnsembleSize, Any]:
        """The size, and the booster of that size where there is one fold."""
        boosters: dict[int, Any] = {}
        stopped: dict[int, list[tuple[int, float]]] = {num_leaves: [] for num_leaves in self._num_leaves}
        with_stopping = _folds_to_stop([fold for fold in folds if len(fold.early_stopping)])
        for _ in range((len(folds) - len(with_stopping)) * self.preparing_steps):
            step()
        if not with_stopping:  # too few rows for early stopping
            return EnsembleSize(min(stopped), self.config.n_estimators), None
        n_jobs, trainings = cores(), [(size, fold) for size in stopped for fold in with_stopping]

        def train(number: int) -> tuple[Any, int, float]:
            num_leaves, fold = trainings[number]
            left = len(trainings) - number
            limit = deadline.share(min(n_jobs, left) / left)
            with self._params_errors():
                return self.stop_early(data[fold.train], data[fold.early_stopping], num_leaves, limit)

        for number, (booster, rounds, rps) in enumerate(map_ordered(train, range(len(trainings)), threads=n_jobs)):
            num_leaves = trainings[number][0]
            stopped[num_leaves].append((rounds, rps))
            boosters[num_leaves] = booster
            step()
        num_leaves = min(stopped, key=lambda size: sum(rps for _, rps in stopped[size]))
        factor = ROUND_FACTOR if len(folds) > 1 else 1.0
        mean_rounds = sum(number for number, _ in stopped[num_leaves]) / len(with_stopping)
        size = EnsembleSize(num_leaves, min(self.config.n_estimators, max(1, round(factor * mean_rounds))))
        return size, boosters[num_leaves] if len(folds) == 1 else None

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> Any:
        """Train the booster of a fold."""
        assert self.size is not None  # noqa: S101 -- set by `prepare`
        if self.stopped is not None:
            return self.stopped
        with self._params_errors():
            return self.train(data[fold.all_training], self.size, deadline)

    @contextmanager
    def _params_errors(self) -> Iterator[None]:
        """Raise errors of the library as `InputError` where the user's ``params`` may be the reason."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # the libraries raise their own types, TypeError and AttributeError
            if not self.config.params:
                raise
            raise InputError(
                f"params: {self.config.library} cannot train with {dict(self.config.params)!r} ({first_line(error)})."
            ) from error

    def is_constant(self, model: Any) -> bool:
        """Whether no tree has a split."""
        return not self.total_gains(model, self.shape(model)[0]).any()

    def predict_log_proba(self, model: Any, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""
        log_probs: FloatArray = geometry.log_probs(self.predict_raw(model, table_codes(inputs)) + self.init_score)
        return log_probs

    def cross_fitted(
        self, models: Sequence[Any], data: TrainingData, folds: Sequence[Fold], *, name: str = "", n_iter: int = 0
    ) -> CrossFitted:
        """The boosters of all folds; their learner only predicts, so that it can be pickled.

        Without any split the initial score is that of the class frequencies, under every objective.
        """
        predictor = replace(self, objective=None, stopped=None)
        if all(map(self.is_constant, models)):
            frequencies = objective("ce", num_classes=data.num_classes).init_score(data.y, data.sample_weight)
            predictor = replace(predictor, init_score=frequencies)
        return super(BoostingLearner, predictor).cross_fitted(models, data, folds, name=name, n_iter=n_iter)

    def save(self, model: Any, path: Path) -> None:
        """Write a booster in the library's own text format."""
        path.write_text(self.to_text(model), encoding="utf-8")

    def load(self, path: Path) -> Any:
        """Read a booster; `InputError` if the file is missing or damaged, or the library is not installed."""
        problem = import_problem(self.config.library)
        if problem:
            raise InputError(f"{path}: needs {self.config.library}, which {problem}: pip install 'orcu[boosting]'.")
        try:
            return self.from_text(path.read_text(encoding="utf-8"))
        except Exception as error:  # the libraries have no common exception type for damaged files
            raise InputError(
                f"{path}: cannot be read ({first_line(error)}). Copy the whole folder that `orcu train` wrote, or "
                "delete this file and train again."
            ) from None

    def gains(self, boosters: Sequence[Any], n_columns: int) -> FloatArray:
        """Share of each column in the total gain of all splits, (D,)."""
        total = sum((self.total_gains(booster, n_columns) for booster in boosters), np.zeros(n_columns))
        return np.asarray(total / max(float(total.sum()), 1e-300))


def _folds_to_stop(folds: Sequence[Fold]) -> Sequence[Fold]:
    """The first folds whose early-stopping rows are enough together."""
    rows = np.cumsum([len(fold.early_stopping) for fold in folds])
    return folds[: int(np.searchsorted(rows, STOPPING_ROWS)) + 1]


def _read_size(state: Any) -> EnsembleSize:
    """The size in a JSON file; files of 0.2 call the entries leaves and rounds."""
    try:
        num_leaves, n_estimators = (
            (state["leaves"], state["rounds"]) if "leaves" in state else (state["num_leaves"], state["n_estimators"])
        )
    except (KeyError, TypeError):
        raise InputError("num_leaves or n_estimators is missing; delete the file and train again.") from None
    return EnsembleSize(
        as_count(num_leaves, name="num_leaves", minimum=2), as_count(n_estimators, name="n_estimators", minimum=1)
    )
