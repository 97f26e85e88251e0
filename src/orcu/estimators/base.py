"""What the estimators share: labels in their order, tables as they come, weights, a calibrator, decisions."""

import copy
import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from orcu import calibrators, geometry
from orcu.boosting.objective import Objective, objective
from orcu.calibrators.pool import Pool
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.rules import RULES, decide_checked
from orcu.errors import CalibrationWarning, InputError, UnknownNameError
from orcu.estimators.labels import carries_order, class_codes, ordered_labels
from orcu.inputs import FloatArray, IntArray
from orcu.io.frames import check_numbers, is_frame, table_of
from orcu.metrics.ordinal import accuracy, qwk
from orcu.predictions.labels import canonical, check_no_gaps

FEW = 10  # rows for which a calibrator is not worth it
ROWS_PER_FOLD = 4  # at least
SCORES = {"accuracy": accuracy, "qwk": qwk}


class OrdinalEstimator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of `OrdinalClassifier` and `OrdinalBoosting`, which define ``fit``, their options and what members say."""

    knows_order = True  # of its classes, whatever the alphabet says
    fitted_by = "weights_"  # what a fitted one has
    module: Any = None
    loss: Any
    folds: int
    validation_fraction: float
    classes: Any
    calibrator: Any
    class_weight: Any
    decide: Any
    metric: str
    classes_: npt.NDArray[Any]
    calibrator_: Any
    weights_: dict[str, float]  # of the losses in the ensemble
    pool_: Pool | None  # what its members say out of fold; None for a single network
    _pooled_labels: IntArray  # of the rows of the pool

    @abstractmethod
    def _said(self, X: Any) -> FloatArray:
        """The log-probabilities of rows by each loss that helps in each fold, (L, K, n, C)."""

    def predict_proba(self, X: Any, members: bool = False) -> FloatArray:
        """Calibrated, unimodal probabilities, columns in the order of ``classes_``, shape (n, C).

        Args:
            X: rows.
            members: those of every member of the ensemble instead, each calibrated alike, shape (M, n, C); see
                `orcu.decisions.disagreement.mutual_information` for what they disagree about.
        """
        if not members:
            return self._probs(self.predict_logits(X))
        said = self._said(X)
        return np.stack([self._probs(logits) for logits in said.reshape(-1, *said.shape[2:])])

    def predict_logits(self, X: Any) -> FloatArray:
        """The ensemble's logits (of a single network its own), before the calibrator, shape (n, C)."""
        return self._together(self._said(X))

    def _together(self, said: FloatArray) -> FloatArray:
        mean: FloatArray = (said[0] if self.pool_ is None else self.pool_.by_fold(said)).mean(axis=0)
        return mean

    def _cross_conformal(self, X: Any, alpha: float) -> npt.NDArray[Any]:
        pool = self.pool_
        assert pool is not None  # noqa: S101
        sets = CrossConformalSets(alpha=alpha).fit(self._probs(pool.logits), self._pooled_labels, fold=pool.fold)
        by_fold = pool.by_fold(self._said(X))
        low, high = sets.predict(np.stack([self._probs(logits) for logits in by_fold]))
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    @abstractmethod
    def _check_options(self) -> None:
        """Refuse options that cannot be used, before anything is changed; scikit-learn wants this in ``fit``."""

    def _check_shared_options(self) -> None:
        """What `_check_options` has to look at in every estimator."""
        names = [self._name(spec) for spec in self._specs()]
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise InputError(f"loss: {twice[0]!r} stands twice; give one of them a label in its table.")
        if not 0 <= self.validation_fraction < 0.5:
            raise InputError(
                f"validation_fraction: expected a share from 0 to below 0.5, got {self.validation_fraction!r}."
            )
        if isinstance(self.calibrator, (str, dict)):
            calibrators.create(self.calibrator)
        if isinstance(self.decide, str) and self.decide not in RULES:
            raise UnknownNameError("decision rule", self.decide, list(RULES))
        if self.metric not in SCORES:
            raise UnknownNameError("metric", self.metric, SCORES)

    def _specs(self) -> list[Any]:
        """The losses, each a name or a table."""
        return list(self.loss) if isinstance(self.loss, (tuple, list)) else [self.loss]

    def _name(self, spec: Any) -> str:
        """How a loss is called in ``weights_``."""
        if isinstance(spec, str):
            return spec
        return str(spec.get("label") or spec.get("name") or dict(spec))

    def _used_folds(self, rows: int, fewest: int) -> int:
        """The folds that so many rows allow; a warning where they are fewer than asked for."""
        used = max(fewest, min(self.folds, rows // ROWS_PER_FOLD))
        if used < self.folds:
            warnings.warn(
                f"{rows} rows are few for {self.folds} folds: {used} {'are' if used > 1 else 'is'} used. Fit on more "
                "rows.",
                CalibrationWarning,
                stacklevel=4,
            )
        return used

    def _become(self, other: Self) -> Self:
        """Take over what another has learned; until then, a fit that fails leaves this one as it was."""
        self.__dict__.clear()
        self.__dict__.update(other.__dict__)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The decided class of each row, the most likely one unless ``decide`` says otherwise."""
        probs = self.predict_proba(X)
        return self.classes_[decide_checked(probs, self.decide)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or quadratic weighted kappa if ``metric`` says so."""
        check_is_fitted(self, self.fitted_by)
        self._check_options()
        codes = class_codes(y, self.classes_)
        check_consistent_length(X, codes)
        pred = decide_checked(self.predict_proba(X), self.decide)
        if self.metric == "accuracy" and sample_weight is None:
            return float(np.mean(pred == codes))
        probs = np.eye(len(self.classes_))[pred]
        return SCORES[self.metric](probs, codes, weight=sample_weight)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, classes: Any = None, groups: Any = None, reset: bool = True
    ) -> tuple[Any, IntArray, FloatArray | None, npt.NDArray[Any], npt.NDArray[Any] | None]:
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import _check_sample_weight, column_or_1d

        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        x = self._checked(X, reset=reset)
        check_consistent_length(X, y)
        order = self.classes if classes is None else classes
        check_no_gaps(y, order)
        if order is None and carries_order(y):
            order = ordered_labels(y, None)
        if carries_order(y) or getattr(getattr(y, "dtype", None), "kind", "") == "i":  # or pandas' Int64
            y = np.asarray(y, dtype=object if carries_order(y) else np.int64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weight = None
        if groups is not None:
            check_no_gaps(groups, None)
            groups = column_or_1d(np.asarray(groups))
            check_consistent_length(X, groups)
        if sample_weight is not None:
            if not np.asarray(sample_weight).any():
                raise InputError("sample_weight: every weight is zero; at least one must not be.")
            weight = _check_sample_weight(
                sample_weight, np.zeros((len(y), 1)), dtype=np.float64, ensure_non_negative=True
            )
            counts = weight > 0  # a row of no weight is no row
            x = x[counts] if isinstance(x, np.ndarray) else {k: v[counts] for k, v in x.items()}
            y, weight = y[counts], weight[counts]
            groups = None if groups is None else groups[counts]
        labels = ordered_labels(y, order)
        codes = class_codes(y, labels)
        if classes is None and len(np.unique(codes)) < 2:
            raise InputError(
                f"y: every row has the class {labels.tolist()[codes[0]]!r}; a classifier needs more than one class."
            )
        return x, codes, weight, labels, groups

    def _names(self) -> tuple[str, ...]:
        return tuple(canonical(label) for label in self.classes_.tolist())

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if is_frame(X) and self.module is None:
            if not len(X):
                raise InputError("X: has no rows; at least one is needed.")
            validate_data(self, X, reset=reset, skip_check_array=True)
            return table_of(X)
        if is_frame(X):
            check_numbers(X, "module=")
        if self.module is not None and np.ndim(X) != 2:  # images, sequences
            return check_array(X, dtype=np.float32, allow_nd=True, ensure_2d=False)
        finite = "allow-nan" if self.module is None else True
        array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
        if self.module is not None:
            return array
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(array.shape[1])])
        return {str(name): array[:, k] for k, name in enumerate(names)}

    def _class_weights(self, codes: IntArray) -> list[float]:
        counts = np.bincount(codes, minlength=len(self.classes_))
        if self.class_weight == "balanced":
            return [len(codes) / (np.count_nonzero(counts) * max(count, 1)) for count in counts]
        weights = {canonical(label): float(weight) for label, weight in self.class_weight.items()}
        strange = set(weights) - set(self._names())
        if strange:
            raise InputError(f"class_weight: {sorted(strange)[0]!r} is none of the classes.")
        return [weights.get(name, 1.0) for name in self._names()]

    def _counted(self, codes: IntArray, weight: FloatArray | None) -> FloatArray | None:
        """The weights that training gives to rows: their own times those of their classes."""
        if self.class_weight is None:
            return weight
        by_class = np.array(self._class_weights(codes))[codes]
        return by_class if weight is None else weight * by_class

    def _objective(self, spec: Any, scale: float) -> Objective:
        """The loss of trees."""
        table = {"name": spec} if isinstance(spec, str) else {key: spec[key] for key in spec if key != "label"}
        if table.get("name") == "orcu":
            table.setdefault("scale", scale)
        return objective(table, num_classes=len(self.classes_))

    def _probs(self, logits: FloatArray) -> FloatArray:
        if self.calibrator_ is None:
            plain: FloatArray = geometry.probs(logits)
            return plain
        calibrated: FloatArray = self.calibrator_.predict_proba(logits)
        return calibrated

    def _fitted_calibrator(self, logits: FloatArray, y: IntArray, weight: FloatArray | None, groups: Any = None) -> Any:
        """The calibrator, fitted; with too few rows only the projection, and a warning."""
        if self.calibrator is None:
            return None
        if len(y) >= FEW:
            named = isinstance(self.calibrator, (str, dict))
            calibrator = calibrators.create(self.calibrator) if named else copy.deepcopy(self.calibrator)
            return calibrator.fit(logits, y, weight=weight, **({} if groups is None else {"subject": groups}))
        warnings.warn(
            f"{len(y)} rows are left for the calibrator, fewer than {FEW}: probabilities are projected, not "
            "calibrated. Fit on more rows, or raise calibration_fraction.",
            CalibrationWarning,
            stacklevel=4,
        )
        return calibrators.UnimodalProjection()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.module is None
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
