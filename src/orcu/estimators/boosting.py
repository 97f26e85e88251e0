"""`OrdinalBoosting`: boosted trees for tables, cross-fitted, calibrated, unimodal."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from orcu import geometry
from orcu.boosting.adapters import for_lightgbm, lightgbm_metric
from orcu.boosting.objective import Objective, objective
from orcu.calibrators.pool import pool_weights, pooled
from orcu.dealing import Fold, deal
from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError, require
from orcu.estimators.base import OrdinalEstimator
from orcu.inputs import FloatArray, IntArray, as_count, as_fraction, as_positive
from orcu.tables.frames import unseen_note
from orcu.threads import cores

SMALL = 200_000  # numbers in a table that one thread goes through as quickly as several, which wait for each other


class TreeColumns:
    """A table as trees take it: numbers as they are, gaps included; categories by their number.

    Args:
        table: columns by name: numbers as a float array, categories as texts or ``None``.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.categories: dict[str, list[str]] = {}
        self.names = list(table)
        for name, values in table.items():
            if not _is_numeric(values):
                self.categories[name] = sorted({str(value) for value in values if value is not None})

    @property
    def categorical(self) -> list[int]:
        """Which columns of the matrix hold categories."""
        return [place for place, name in enumerate(self.names) if name in self.categories]

    def matrix(self, table: Mapping[str, Any]) -> FloatArray:
        """Shape (n, D); a category that was not there before is a gap.

        Raises:
            InputError: if a column is missing or of another kind.
        """
        parts = []
        for name in self.names:
            if name not in table:
                raise InputError(f"the table has no column {name!r}, which the model was trained on.")
            numeric, known = _is_numeric(table[name]), self.categories.get(name)
            if numeric == (known is not None):
                kinds = ("numbers", "categories") if numeric else ("categories", "numbers")
                raise InputError(f"column {name!r}: has {kinds[0]}, where the model was trained on {kinds[1]}.")
            if known is None:
                parts.append(np.asarray(table[name], dtype=np.float64))
            else:
                place = {category: float(number) for number, category in enumerate(known)}
                parts.append(np.array([place.get(str(value), np.nan) for value in table[name]]))
        return np.stack(parts, axis=1)

    def unseen(self, table: Mapping[str, Any]) -> list[str]:
        """A note for each column with categories that were not there in training."""
        notes = []
        for name, known in self.categories.items():
            strange = [value for value in table[name] if value is not None and str(value) not in known]
            if strange:
                notes.append(unseen_note(name, strange, len(table[name])))
        return notes


def _is_numeric(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


class OrdinalBoosting(OrdinalEstimator):
    """Boosted trees (LightGBM) by ordinal objectives: cross-fitted, weighed, calibrated, unimodal.

    The rows are dealt into five folds. For each fold and loss trees are grown on the others, stopped by the RPS of a
    part of them; what they say of their own fold's rows weighs the losses and fits one calibrator. A prediction
    averages the log-probabilities of all of them, then calibrates. The boosters are LightGBM's own (``boosters_``);
    their raw scores start at ``starts_``, which a later ``predict`` of a booster does not hold.

    Args:
        loss: names or tables, as for `orcu.boosting.objective`; or a single one. "ce" is LightGBM's ``multiclass``.
        folds: how many.
        scale: s of ORCU.
        calibrator: a name or a chain; "auto" chooses one; ``None`` for none.
        rounds: trees of each class, at most.
        learning_rate: of a round.
        leaves: of a tree, at most.
        patience: rounds without a lower RPS before trees stop growing.
        validation_fraction: share of the rows that stops them.
        params: further parameters of LightGBM, such as ``{"monotone_constraints": [1, 0, -1]}``.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        decide: how ``predict`` decides, as for `orcu.decide`.
        metric: of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories carry their
            order.
        random_state: a seed, or numpy's ``RandomState``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-1, 0, 1])
        >>> model = OrdinalBoosting(rounds=30, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((600, 4), 1.0)
    """

    weights_: dict[str, float]

    def __init__(
        self,
        loss: Any = ("ce", "orcu"),
        *,
        folds: int = 5,
        scale: float = 3.0,
        calibrator: Any = "auto",
        rounds: int = 1000,
        learning_rate: float = 0.1,
        leaves: int = 31,
        patience: int = 30,
        validation_fraction: float = 0.1,
        params: Mapping[str, Any] | None = None,
        class_weight: Any = None,
        decide: Any = "argmax",
        metric: str = "accuracy",
        classes: Sequence[Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.folds = folds
        self.scale = scale
        self.calibrator = calibrator
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.params = params
        self.class_weight = class_weight
        self.decide = decide
        self.metric = metric
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Grow, weigh, calibrate.

        Args:
            X: an array of numbers (gaps as NaN), or a frame of numbers and categories.
            y: labels.
            sample_weight: one weight per row.
            groups: of each row, such as its subject; the rows of a group stay in one fold.

        Raises:
            InputError: if the order of the classes is not known, a label is none of them, or an option cannot be used.
        """
        require("lightgbm", extra="boosting", what="OrdinalBoosting")
        self._check_options()
        return self._become(copy.copy(self)._fit(X, y, sample_weight, groups))

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        table, codes, weight, self.classes_, groups = self._read(X, y, sample_weight, groups=groups)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.columns_ = TreeColumns(table)
        matrix = self.columns_.matrix(table)
        folds = self._used_folds(len(codes), fewest=2)
        dealt = deal(codes, folds, stop=self.validation_fraction, groups=groups, seed=seed)
        counted = self._counted(codes, weight)
        boosters, starts, out_of_fold = {}, {}, {}
        for name, loss in self._objectives().items():
            starts[name] = loss.start(codes, counted)
            boosters[name] = [self._grown(loss, starts[name], matrix, codes, counted, fold, seed) for fold in dealt]
            logits = np.empty((len(codes), len(self.classes_)))
            for booster, fold in zip(boosters[name], dealt, strict=True):
                logits[fold.held] = _raw(booster, matrix[fold.held]) + starts[name]
            out_of_fold[name] = geometry.log_probs(logits)
        stacked = np.stack(list(out_of_fold.values()))
        weights = pool_weights(stacked, codes, weight)
        self.weights_ = dict(zip(boosters, weights.tolist(), strict=True))
        self.boosters_ = {name: boosters[name] for name, share in self.weights_.items() if share > 0}
        self.starts_ = {name: starts[name] for name in self.boosters_}
        self._out_of_fold, self._labels = pooled(stacked, weights), codes
        self._fold = np.empty(len(codes), dtype=np.int64)
        for number, fold in enumerate(dealt):
            self._fold[fold.held] = number
        self.n_iter_ = max(booster.best_iteration for each in self.boosters_.values() for booster in each)
        self.calibrator_ = self._fitted_calibrator(self._out_of_fold, codes, weight)
        return self

    def predict_proba(self, X: Any, members: bool = False) -> FloatArray:
        """Calibrated, unimodal probabilities, columns in the order of ``classes_``, shape (n, C).

        Args:
            X: rows.
            members: those of every booster instead, each calibrated alike, shape (M, n, C).
        """
        if members:
            return np.stack([self._probs(logs) for each in self._log_probs(X).values() for logs in each])
        return self._probs(self.predict_logits(X))

    def predict_logits(self, X: Any) -> FloatArray:
        """The weighed log-probabilities of all boosters, before the calibrator, shape (n, C)."""
        means = np.stack([logs.mean(axis=0) for logs in self._log_probs(X).values()])
        return pooled(means, np.array([self.weights_[name] for name in self.boosters_]))

    def predict_sets(self, X: Any, alpha: float = 0.1) -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's set, shape (n, 2); see `CrossConformalSets`.

        Raises:
            InputError: if rows are too few for this alpha.
        """
        alpha = as_fraction(alpha, name="alpha")
        said = self._log_probs(X)
        sets = CrossConformalSets(alpha=alpha).fit(self._probs(self._out_of_fold), self._labels, fold=self._fold)
        by_fold = sum(self.weights_[name] * logs for name, logs in said.items())
        low, high = sets.predict(np.stack([self._probs(logits) for logits in np.asarray(by_fold)]))
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    @property
    def feature_importances_(self) -> FloatArray:
        """The share of each column in the gain of all splits, weighed as the losses are; shape (D,)."""
        check_is_fitted(self)
        total = np.zeros(len(self.columns_.names))
        for name, each in self.boosters_.items():
            gains = sum(booster.feature_importance("gain") for booster in each)
            total += self.weights_[name] * gains / max(float(np.sum(gains)), 1e-300)
        return total / max(total.sum(), 1e-300)

    # --- the parts of a fit ---

    def _check_options(self) -> None:
        as_count(self.folds, name="folds", minimum=2)
        as_count(self.rounds, name="rounds", minimum=1)
        as_count(self.leaves, name="leaves", minimum=2)
        as_count(self.patience, name="patience", minimum=1)
        for name in ("scale", "learning_rate"):
            as_positive(getattr(self, name), name=name)
        specs = self._specs()
        if not specs:
            raise InputError("loss: name at least one.")
        for spec in specs:
            try:
                objective(_plain(spec), num_classes=3)
            except InputError as error:
                raise InputError(f"loss: {error}") from None
        self._check_shared_options()

    def _objectives(self) -> dict[str, Objective]:
        objectives = {}
        for spec in self._specs():
            table = _plain(spec)
            if table.get("name") == "orcu":
                table.setdefault("scale", self.scale)
            objectives[self._name(spec)] = objective(table, num_classes=len(self.classes_))
        return objectives

    def _counted(self, codes: IntArray, weight: FloatArray | None) -> FloatArray | None:
        if self.class_weight is None:
            return weight
        by_class = np.array(self._class_weights(codes))[codes]
        return by_class if weight is None else weight * by_class

    def _grown(
        self,
        loss: Objective,
        start: FloatArray,
        matrix: FloatArray,
        codes: IntArray,
        weight: FloatArray | None,
        fold: Fold,
        seed: int,
    ) -> Any:
        """The trees of one loss in one fold."""
        import lightgbm as lgb

        classes = len(self.classes_)
        params = {
            "objective": "multiclass" if loss.name == "ce" else for_lightgbm(loss, num_classes=classes),
            "num_class": classes,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": max(1, min(10, len(fold.train) // 20)),
            # LightGBM's own are for categories of a hundred rows and more
            "min_data_per_group": 10,
            "cat_smooth": 1.0,
            "cat_l2": 1.0,
            "metric": "None",
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": 1 if matrix.size < SMALL else cores(),
            "verbosity": -1,
            **(self.params or {}),
        }

        def rows(part: IntArray, reference: Any = None) -> Any:
            own = None if weight is None else weight[part]
            scores = np.tile(start, (len(part), 1))
            return lgb.Dataset(
                matrix[part],
                codes[part],
                weight=own,
                init_score=scores,
                categorical_feature=self.columns_.categorical or "auto",
                reference=reference,
                params={"verbosity": -1},
            )

        train = rows(fold.train)
        stopping: dict[str, Any] = {}
        if len(fold.stop):
            stopping = {
                "valid_sets": [rows(fold.stop, train)],
                "feval": lightgbm_metric("rps", num_classes=classes),
                "callbacks": [lgb.early_stopping(self.patience, verbose=False)],
            }
        booster = lgb.train(params, train, num_boost_round=self.rounds, **stopping)
        if booster.best_iteration <= 0:
            booster.best_iteration = booster.current_iteration()
        return booster

    def _log_probs(self, X: Any) -> dict[str, FloatArray]:
        """Of every loss the log-probabilities by the boosters of each fold, (K, n, C)."""
        check_is_fitted(self, "boosters_")
        table = self._checked(X, reset=False)
        matrix = self.columns_.matrix(table)
        for note in self.columns_.unseen(table):
            warnings.warn(f"X: {note}.", UserWarning, stacklevel=4)
        return {
            name: np.stack([geometry.log_probs(_raw(one, matrix) + self.starts_[name]) for one in each])
            for name, each in self.boosters_.items()
        }


def _raw(booster: Any, matrix: FloatArray) -> FloatArray:
    """The raw scores of a booster's best rounds, without its start."""
    return np.asarray(booster.predict(matrix, raw_score=True, num_iteration=booster.best_iteration), dtype=np.float64)


def _plain(spec: Any) -> dict[str, Any]:
    if isinstance(spec, str):
        return {"name": spec}
    if not isinstance(spec, Mapping):
        raise InputError(f"expected a name or a table, got {spec!r}.")
    return {key: value for key, value in spec.items() if key != "label"}
