"""Trees of a loss, an ensemble for each fold: grown by LightGBM or XGBoost, asked, and kept in their own formats."""

import importlib
import importlib.util
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orcu import geometry
from orcu.boosting.adapters import for_lightgbm, for_xgboost, lightgbm_metric, xgboost_metric
from orcu.boosting.columns import TreeColumns
from orcu.boosting.objective import Objective
from orcu.errors import InputError, UnknownNameError, first_line
from orcu.inputs import FloatArray, IntArray, as_count, as_positive
from orcu.io.files import atomic_write, read_json, write_json
from orcu.model_selection import Fold
from orcu.threads import cores, map_ordered

# Of a logit by one leaf, before the learning rate. Where a class is rare its curvature all but vanishes, and without a
# bound a single leaf moves logits by thousands, in LightGBM's own multiclass as well.
LONGEST_STEP = 0.7
BOOSTING, NETWORK = "boosting", "network"  # kinds of members of an ensemble
LOSSES = ("ce", "orcu")  # of the trees in an ensemble
SCALE = 3.0  # s of ORCU, the paper's
SIZES = (7, 31)  # leaves of a tree: the one suits noisy tables, the other large ones
# How much further than the rows that stop them ask for: the ensembles of the folds are averaged, which takes off the
# variance that stops one that stands alone (benchmarks/tree_sizes.py).
FURTHER = 1.5
SMALL = 200_000  # numbers in a table that one thread goes through as quickly as several, which wait for each other
MOST_COLUMNS = 200  # of a table that trees are grown on unasked; wider ones are features of images or texts


@dataclass(frozen=True)
class Growth:
    """How trees are grown.

    Args:
        library: "lightgbm" or "xgboost".
        rounds: trees of each class, at most.
        learning_rate: of a round.
        leaves: of a tree, at most; ``None``: 7 or 31, by the RPS of the rows that stop them.
        patience: rounds without a lower RPS of the rows that stop them, before trees stop growing.
        params: further parameters of the library.

    Raises:
        InputError: if a value cannot be used.
    """

    library: str = "lightgbm"
    rounds: int = 1000
    learning_rate: float = 0.1
    leaves: int | None = None
    patience: int = 30
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise UnknownNameError("library of trees", self.library, LIBRARIES)
        as_count(self.rounds, name="rounds", minimum=1)
        if self.leaves is not None:
            as_count(self.leaves, name="leaves", minimum=2)
        as_count(self.patience, name="patience", minimum=1)
        as_positive(self.learning_rate, name="learning_rate")


@dataclass(frozen=True)
class Work:
    """What the ensembles of all folds are grown from."""

    loss: Objective
    start: FloatArray  # logits, (C,)
    matrix: FloatArray  # all rows, (n, D)
    columns: TreeColumns
    y: IntArray
    weight: FloatArray | None
    growth: Growth
    seed: int
    threads: int  # of one ensemble


@dataclass(frozen=True)
class Stop:
    """When an ensemble stopped: after how many rounds, and the RPS of the rows that stopped it."""

    rounds: int
    score: float


@dataclass(frozen=True)
class CrossFittedTrees:
    """Ensembles of one loss, one a fold, and what they say of the rows that they have not seen."""

    name: str
    library: str
    boosters: list[Any]  # the library's own
    start: FloatArray  # the logits that they start from, which a booster alone does not hold, (C,)
    log_probs: FloatArray  # out of fold, (n, C)

    def said(self, matrix: FloatArray) -> FloatArray:
        """The log-probabilities of other rows by each fold's ensemble, (K, n, C)."""
        raw = LIBRARIES[self.library].raw
        return np.stack([geometry.log_probs(raw(booster, matrix) + self.start) for booster in self.boosters])

    @property
    def rounds(self) -> int:
        """The most rounds of an ensemble."""
        return max(LIBRARIES[self.library].rounds(booster) for booster in self.boosters)

    def gains(self, columns: int) -> FloatArray:
        """The share of each column in the gain of all splits, (D,)."""
        total = sum((LIBRARIES[self.library].gains(booster, columns) for booster in self.boosters), np.zeros(columns))
        return np.asarray(total / max(float(total.sum()), 1e-300))


def grow(
    loss: Objective,
    matrix: FloatArray,
    columns: TreeColumns,
    y: IntArray,
    folds: Sequence[Fold],
    growth: Growth,
    *,
    name: str,
    weight: FloatArray | None = None,
    seed: int = 0,
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CrossFittedTrees:
    """Grow an ensemble for every fold, several at a time.

    How large trees are and how many rounds they take is learned first, by ensembles that the stopping rows of each
    fold stop: the size whose RPS there is lower, and the mean of its rounds, times 1.5. Then each fold's ensemble is
    grown so on all rows that the fold may train on, the stopping ones included.

    Args:
        loss: what they lower.
        matrix: all rows, as ``columns`` gives them, (n, D).
        columns: which of them hold categories.
        y: labels 0..C-1.
        folds: as `orcu.model_selection.deal` gives them.
        growth: how.
        name: what the ensembles are called.
        weight: one per row, or ``None``.
        seed: of the library.
        folder: where each fold's ensemble is kept when it is grown; those that are there already stay.
        progress: called with the ensembles done, and all.

    Raises:
        InputError: if a file in the folder cannot be read.
    """
    library = LIBRARIES[growth.library]
    start = loss.start(y, weight)
    work = Work(loss, start, matrix, columns, y, weight, growth, seed=seed, threads=max(1, cores() // len(folds)))

    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(folds) * (1 + len(_sizes(growth))))

    size = _common_size(work, folds, None if folder is None else folder / f"{name}.json", step)

    def grown(numbered: tuple[int, Fold]) -> Any:
        number, fold = numbered
        path = None if folder is None else library.path(folder, name, number)
        if path is not None and path.exists():
            return library.read(path)
        booster = library.grow(work, np.sort(np.concatenate([fold.train, fold.stop])), size)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as temporary:
                temporary.write_text(library.text(booster), encoding="utf-8")
        return booster

    boosters = []
    for booster in map_ordered(grown, enumerate(folds), threads=min(cores(), len(folds))):
        boosters.append(booster)
        step()
    logits = np.empty((len(y), loss.num_classes))
    for booster, fold in zip(boosters, folds, strict=True):
        logits[fold.held] = library.raw(booster, matrix[fold.held]) + start
    return CrossFittedTrees(name, growth.library, boosters, start, geometry.log_probs(logits))


@dataclass(frozen=True)
class Size:
    """Of an ensemble: leaves of a tree and rounds."""

    leaves: int
    rounds: int


def _size(state: Any) -> Size:
    """What a file holds.

    Raises:
        InputError: if it is damaged.
    """
    try:
        return Size(
            as_count(state["leaves"], name="leaves", minimum=2), as_count(state["rounds"], name="rounds", minimum=1)
        )
    except (KeyError, TypeError):
        raise InputError("it does not hold leaves and rounds; delete it, and it is made again.") from None


def _sizes(growth: Growth) -> tuple[int, ...]:
    return SIZES if growth.leaves is None else (growth.leaves,)


def _common_size(work: Work, folds: Sequence[Fold], path: Path | None, step: Callable[[], None]) -> Size:
    """How large the ensembles of all folds become; what a folder holds stays."""
    if path is not None and path.exists():
        for _ in range(len(folds) * len(_sizes(work.growth))):
            step()
        return read_json(path, _size)
    library, growth = LIBRARIES[work.growth.library], work.growth
    stops: dict[int, list[Stop]] = {}
    for leaves in _sizes(growth):
        stops[leaves] = []
        judged = [fold for fold in folds if len(fold.stop)]
        for one in map_ordered(partial(library.stop, work, leaves), judged, threads=cores()):
            stops[leaves].append(one)
            step()
    if not all(stops.values()):  # rows are too few to spare some
        return Size(min(stops), growth.rounds)
    leaves = min(stops, key=lambda size: sum(one.score for one in stops[size]))
    rounds = FURTHER * sum(one.rounds for one in stops[leaves]) / len(stops[leaves])
    size = Size(leaves, min(growth.rounds, max(1, round(rounds))))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(size))
    return size


def read_boosters(folder: Path, name: str, library: str, folds: int, *, shape: tuple[int, int]) -> list[Any]:
    """The ensembles that `grow` has kept in a folder.

    Args:
        folder: of the files.
        name: of the ensembles.
        library: that grew them.
        folds: how many.
        shape: columns and classes that they must have.

    Raises:
        InputError: if one is missing, cannot be read or is of another model, or the library is not installed.
    """
    kind = LIBRARIES[library]
    boosters = []
    for number in range(folds):
        path = kind.path(folder, name, number)
        booster = kind.read(path)
        if kind.shape(booster) != shape:
            raise InputError(
                f"{path}: is of another model: it has {_described(kind.shape(booster))}, expected "
                f"{_described(shape)}. Copy the whole folder that `orcu train` wrote, or train again."
            )
        boosters.append(booster)
    return boosters


def _described(shape: tuple[int, int]) -> str:
    return f"{shape[0]} columns and {shape[1]} classes"


def check_kinds(kinds: Any) -> None:
    """Refuse kinds of members that an ensemble cannot have.

    Raises:
        InputError: if there is none, one is not known, or trees are asked for and LightGBM is missing.
    """
    if not isinstance(kinds, (tuple, list)) or not kinds:
        raise InputError(f"members: expected some of {BOOSTING}, {NETWORK}; got {kinds!r}.")
    for kind in kinds:
        if kind not in (BOOSTING, NETWORK):
            raise UnknownNameError("kind of member", str(kind), (BOOSTING, NETWORK))
    if BOOSTING in kinds and LIBRARIES["lightgbm"].missing:
        raise InputError(
            f"members: {BOOSTING} needs LightGBM, which {LIBRARIES['lightgbm'].missing}: pip install 'orcu[boosting]'."
        )


def join_unasked(columns: int, *, without: str) -> bool:
    """Whether trees are part of an ensemble on a table unless it is said otherwise; a warning where they are missing.

    Args:
        columns: of the table.
        without: how to ask for networks alone.
    """
    if columns > MOST_COLUMNS:
        return False
    missing = LIBRARIES["lightgbm"].missing
    if missing:
        warnings.warn(
            f"LightGBM {missing}: the ensemble has networks only. On tables trees are the better half of it: "
            f"pip install 'orcu[boosting]'; {without} asks for networks alone.",
            UserWarning,
            stacklevel=6,
        )
        return False
    return True


class Library(ABC):
    """What is asked of a library of boosted trees."""

    package: str
    suffix: str

    @property
    def missing(self) -> str:
        """Why it cannot be used; empty if it can."""
        if importlib.util.find_spec(self.package) is None:
            return "is not installed"
        try:
            importlib.import_module(self.package)
        except (ImportError, OSError) as error:  # such as a missing libgomp
            return f"cannot be loaded ({first_line(error)})"
        return ""

    @abstractmethod
    def stop(self, work: Work, leaves: int, fold: Fold) -> Stop:
        """When the stopping rows of a fold stop trees of so many leaves, and their RPS then."""

    @abstractmethod
    def grow(self, work: Work, rows: IntArray, size: Size) -> Any:
        """An ensemble of these rows."""

    @abstractmethod
    def raw(self, booster: Any, matrix: FloatArray) -> FloatArray:
        """The scores by the best rounds, without the start, (n, C)."""

    @abstractmethod
    def rounds(self, booster: Any) -> int:
        """How many rounds are the best."""

    @abstractmethod
    def shape(self, booster: Any) -> tuple[int, int]:
        """How many columns and classes it is for."""

    @abstractmethod
    def gains(self, booster: Any, columns: int) -> FloatArray:
        """The gain of the splits on each column."""

    @abstractmethod
    def text(self, booster: Any) -> str:
        """The ensemble of the best rounds in the library's own format."""

    @abstractmethod
    def from_text(self, text: str) -> Any:
        """What `text` gave."""

    def path(self, folder: Path, name: str, fold: int) -> Path:
        """The file of a fold's ensemble."""
        return folder / f"{name.replace(' ', '_')}.{fold}.{self.suffix}"

    def read(self, path: Path) -> Any:
        """An ensemble from its file.

        Raises:
            InputError: if it is missing or cannot be read, or the library is not installed.
        """
        if self.missing:
            raise InputError(f"{path}: needs {self.package}, which {self.missing}: pip install 'orcu[boosting]'.")
        try:
            return self.from_text(path.read_text(encoding="utf-8"))
        except Exception as error:  # what the libraries raise of a damaged file has no common kind
            raise InputError(
                f"{path}: cannot be read ({first_line(error)}). Copy the whole folder that `orcu train` wrote, or "
                "delete this file and train again."
            ) from None


class LightGBM(Library):
    """LightGBM: leaves where they help most, categories by sets."""

    package = "lightgbm"
    suffix = "txt"

    def stop(self, work: Work, leaves: int, fold: Fold) -> Stop:  # noqa: D102
        import lightgbm as lgb

        train = self._data(work, fold.train)
        booster = lgb.train(
            self._params(work, leaves, len(fold.train)),
            train,
            num_boost_round=work.growth.rounds,
            valid_sets=[self._data(work, fold.stop, train)],
            feval=lightgbm_metric("rps", num_classes=work.loss.num_classes),
            callbacks=[lgb.early_stopping(work.growth.patience, verbose=False)],
        )
        return Stop(booster.best_iteration, float(booster.best_score["valid_0"]["rps"]))

    def grow(self, work: Work, rows: IntArray, size: Size) -> Any:  # noqa: D102
        import lightgbm as lgb

        params = self._params(work, size.leaves, len(rows))
        booster = lgb.train(params, self._data(work, rows), num_boost_round=size.rounds)
        booster.best_iteration = booster.current_iteration()
        return booster

    @staticmethod
    def _data(work: Work, rows: IntArray, reference: Any = None) -> Any:
        import lightgbm as lgb

        return lgb.Dataset(
            work.matrix[rows],
            work.y[rows],
            weight=None if work.weight is None else work.weight[rows],
            init_score=np.tile(work.start, (len(rows), 1)),
            categorical_feature=work.columns.categorical or "auto",
            reference=reference,
            params={"verbosity": -1},
        )

    @staticmethod
    def _params(work: Work, leaves: int, rows: int) -> dict[str, Any]:
        return {
            "objective": "multiclass"
            if work.loss.name == "ce"
            else for_lightgbm(work.loss, num_classes=work.loss.num_classes),
            "num_class": work.loss.num_classes,
            "learning_rate": work.growth.learning_rate,
            "num_leaves": leaves,
            "min_data_in_leaf": max(1, min(10, rows // 20)),
            # LightGBM's own are for categories of a hundred rows and more
            "min_data_per_group": 10,
            "cat_smooth": 1.0,
            "cat_l2": 1.0,
            "max_delta_step": LONGEST_STEP,
            "metric": "None",
            "seed": work.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": work.threads,
            "verbosity": -1,
            **work.growth.params,
        }

    def raw(self, booster: Any, matrix: FloatArray) -> FloatArray:  # noqa: D102
        threads = 1 if matrix.size < SMALL else cores()
        scores = booster.predict(
            matrix, raw_score=True, num_iteration=booster.best_iteration, num_threads=threads, validate_features=False
        )
        return np.asarray(scores, dtype=np.float64)

    def rounds(self, booster: Any) -> int:  # noqa: D102
        return int(booster.best_iteration)

    def shape(self, booster: Any) -> tuple[int, int]:  # noqa: D102
        return booster.num_feature(), booster.num_model_per_iteration()

    def gains(self, booster: Any, columns: int) -> FloatArray:  # noqa: D102
        return np.asarray(booster.feature_importance("gain"), dtype=np.float64)

    def text(self, booster: Any) -> str:  # noqa: D102
        return str(booster.model_to_string(num_iteration=booster.best_iteration))

    def from_text(self, text: str) -> Any:  # noqa: D102
        import lightgbm as lgb

        _check_whole(text)
        booster = lgb.Booster(model_str=text)
        booster.best_iteration = booster.current_iteration()
        return booster


def _check_whole(text: str) -> None:
    """Refuse LightGBM's text unless its trees are as long as its head says: LightGBM itself reads on past the end."""
    head, _, trees = text.partition("\nTree=0\n")
    sizes = next((line for line in head.splitlines() if line.startswith("tree_sizes=")), "tree_sizes=")
    said = sum(int(size) for size in sizes.removeprefix("tree_sizes=").split())
    there = len(f"Tree=0\n{trees.partition('end of trees')[0]}".encode())
    if not trees or "end of trees" not in trees or said != there:
        raise InputError("it is not whole")


class XGBoost(Library):
    """XGBoost: histograms, leaves where they help most."""

    package = "xgboost"
    suffix = "json"

    def stop(self, work: Work, leaves: int, fold: Fold) -> Stop:  # noqa: D102
        booster = self._trained(
            work,
            fold.train,
            Size(leaves, work.growth.rounds),
            evals=[(self._data(work, fold.stop), "stop")],
            custom_metric=xgboost_metric("rps", num_classes=work.loss.num_classes),
            early_stopping_rounds=work.growth.patience,
            verbose_eval=False,
        )
        return Stop(booster.best_iteration + 1, float(booster.best_score))

    def grow(self, work: Work, rows: IntArray, size: Size) -> Any:  # noqa: D102
        return self._trained(work, rows, size)

    @staticmethod
    def _data(work: Work, rows: IntArray) -> Any:
        import xgboost as xgb

        return xgb.DMatrix(
            work.matrix[rows],
            label=work.y[rows],
            weight=None if work.weight is None else work.weight[rows],
            base_margin=np.tile(work.start, (len(rows), 1)),
            feature_types=[
                "c" if place in work.columns.categorical else "float" for place in range(work.matrix.shape[1])
            ],
            enable_categorical=True,
            nthread=work.threads,
        )

    def _trained(self, work: Work, rows: IntArray, size: Size, **stopping: Any) -> Any:
        import xgboost as xgb

        params = {
            "num_class": work.loss.num_classes,
            "base_score": 0.0,  # the start is each row's margin
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": size.leaves,
            "max_delta_step": LONGEST_STEP,
            "learning_rate": work.growth.learning_rate,
            "disable_default_eval_metric": True,
            "seed": work.seed,
            "nthread": work.threads,
            "verbosity": 0,
            **work.growth.params,
        }
        objective = for_xgboost(work.loss, num_classes=work.loss.num_classes)
        return xgb.train(params, self._data(work, rows), num_boost_round=size.rounds, obj=objective, **stopping)

    def raw(self, booster: Any, matrix: FloatArray) -> FloatArray:  # noqa: D102
        import xgboost as xgb

        data = xgb.DMatrix(matrix, feature_types=booster.feature_types, enable_categorical=True)
        return np.asarray(booster.predict(data, output_margin=True), dtype=np.float64)

    def rounds(self, booster: Any) -> int:  # noqa: D102
        return int(booster.num_boosted_rounds())

    def shape(self, booster: Any) -> tuple[int, int]:  # noqa: D102
        learner = json.loads(booster.save_config())["learner"]
        return booster.num_features(), int(learner["learner_model_param"]["num_class"])

    def gains(self, booster: Any, columns: int) -> FloatArray:  # noqa: D102
        total = np.zeros(columns)
        for feature, gain in booster.get_score(importance_type="total_gain").items():
            total[int(feature.removeprefix("f"))] = gain
        return total

    def text(self, booster: Any) -> str:  # noqa: D102
        return str(booster.save_raw("json").decode("utf-8"))

    def from_text(self, text: str) -> Any:  # noqa: D102
        import xgboost as xgb

        booster = xgb.Booster()
        booster.load_model(bytearray(text, "utf-8"))
        return booster


LIBRARIES: dict[str, Library] = {"lightgbm": LightGBM(), "xgboost": XGBoost()}
