"""Common base of the estimators: input validation, class weights, calibrated probabilities, predictions."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from orcu.boosting.learner import BoostingConfig, BoostingLearner
from orcu.boosting.libraries import boosting_learner
from orcu.boosting.objective import objective
from orcu.decisions.conformal import check_target
from orcu.decisions.rules import decide_checked
from orcu.defaults import CV, HOLD_OUT_FROM, HOLD_OUT_ROWS, SCALE
from orcu.ensemble.ensemble import Ensemble, calibrated_probs
from orcu.ensemble.progress import ProgressPrinter
from orcu.errors import CalibrationWarning, InputError
from orcu.estimators.explanation import ExplainRowMixin
from orcu.estimators.labels import carries_order, check_scorer, class_codes, ordered_labels, ordered_votes
from orcu.estimators.parameters import SCORERS, Check, check_parameters
from orcu.estimators.validation import (
    check_no_mask,
    group_codes,
    scaled_sample_weight,
    warn_of_empty_classes,
    without_mask,
)
from orcu.inputs import FloatArray, IntArray, as_array, as_fraction
from orcu.io.frames import check_numeric_columns, columns_from_frame, is_frame
from orcu.model_selection import (
    Fold,
    copy_groups,
    cross_fit_folds,
    hold_out,
    is_splitter,
    merge_groups,
    n_copies,
    take_rows,
)
from orcu.predictions.labels import canonical_label, check_no_missing
from orcu.preprocessing import Inputs, TableEncoder
from orcu.raters.votes import Targets, grades, weighted_rows
from orcu.threads import limit_threads

MIN_ROWS_PER_FOLD = 4


@dataclass(frozen=True)
class TrainingRows:
    """Validated arguments of ``fit``, without the rows of weight 0."""

    table: Any
    y: Targets  # codes of the labels, (n,); or shares of votes, (n, C)
    weight: FloatArray | None  # with mean one
    classes: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    rows: IntArray  # numbers of these rows in the arguments of ``fit``


class OrdinalEstimator(ExplainRowMixin, ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of `OrdinalClassifier`, `OrdinalBoosting` and `OrdinalLogistic`, which define their fit and parameters."""

    knows_order = True  # classes_ are in their order, not sorted alphabetically
    _parameter_checks: ClassVar[Mapping[str, Check]]  # the constraint of each parameter
    module: Any = None
    time_limit: float | None = None
    loss: Any
    cv: Any
    scale: float | str
    validation_fraction: float
    classes: Any
    calibrator: Any
    class_weight: Any
    rule: Any
    scoring: str
    n_jobs: int | None
    verbose: int
    classes_: npt.NDArray[Any]
    calibrator_: Any
    weights_: dict[str, float]  # weight of each base learner
    ensemble_: Ensemble | None  # None for a single network
    encoder_: TableEncoder
    n_copies_: int  # training rows that have a copy among the training rows

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the base learners on cross-fitting folds, their weights and the calibrator.

        Args:
            X: array of numbers (NaN where missing), or a frame of numbers and categories.
            y: labels, shape (n,); or votes of several raters, counts or shares of shape (n, C). Every row then counts
                once, and the model learns the distribution of its votes. The columns are in the order of ``classes``;
                a frame of votes names them.
            sample_weight: weight of each row, scaled to mean one; a common factor changes nothing. Rows of weight 0
                are left out, and their labels stay in ``classes_``.
            groups: group of each row, such as its patient; the rows of a group stay in one fold.

        Raises:
            InputError: if the order of the classes is unknown, a label is not a class, or a parameter cannot be used.
        """
        self._check_parameters()
        with limit_threads(self.n_jobs):
            return self._adopt(copy.copy(self)._fit(X, y, sample_weight, groups))._keep_background(X)

    def _progress(self) -> ProgressPrinter:
        """Prints the progress of a fit that starts now."""
        return ProgressPrinter(type(self).__name__, self.verbose, time_limit=self.time_limit)

    @abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit this copy of the estimator."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated, unimodal probabilities, columns in the order of ``classes_``, shape (n, C).

        Raises:
            InputError: if a scorer of scikit-learn that sorts the classes, such as "neg_log_loss", would mix them up.
        """
        logits = self.predict_logits(X)  # before the fitted attributes, because it checks that there are any
        check_scorer(self.classes_)
        return calibrated_probs(self.calibrator_, logits)

    def predict_proba_members(self, X: Any) -> FloatArray:
        """Calibrated probabilities of every member of the ensemble, shape (M, n, C).

        `orcu.decisions.disagreement.mutual_information` measures how much the members disagree.
        """
        log_probs = self._member_log_probs(X)
        members = log_probs.reshape(-1, *log_probs.shape[2:])
        return np.stack([calibrated_probs(self.calibrator_, logits) for logits in members])

    def predict_logits(self, X: Any) -> FloatArray:
        """Logits before the calibrator, shape (n, C)."""
        log_probs = self._member_log_probs(X)
        by_fold = log_probs[0] if self.ensemble_ is None else self.ensemble_.fold_logits(log_probs)
        mean: FloatArray = by_fold.mean(axis=0)
        return mean

    def _member_log_probs(self, X: Any) -> FloatArray:
        """Log-probabilities of each member and fold, (M, K, n, C)."""
        inputs = self._encode(X)
        assert self.ensemble_ is not None  # noqa: S101
        return self.ensemble_.member_log_probs(inputs)

    def predict_sets(self, X: Any, alpha: float = 0.1, *, target: str = "vote") -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's prediction set, shape (n, 2); see `CrossConformalSets`.

        A model fitted on votes covers the vote of a new rater, or with ``target="majority"`` the grade with the most
        votes.

        Raises:
            InputError: if there are too few rows for this alpha, or the target is unknown.
        """
        check_is_fitted(self, "weights_")
        check_target(target)
        assert self.ensemble_ is not None  # noqa: S101
        low, high = self.ensemble_.predict_sets(self._encode(X), as_fraction(alpha, name="alpha"), target)
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    def _encode(self, X: Any) -> Inputs:
        """New rows for the base learners; warns of categories that are not in the training rows."""
        check_is_fitted(self, "weights_")
        table = self._validate_rows(X, reset=False)
        inputs = self._inputs(table, X)
        for note in [] if self.module is not None else self.encoder_.unseen(table):
            warnings.warn(f"X: {note}.", UserWarning, stacklevel=5)
        return inputs

    @abstractmethod
    def _inputs(self, table: Any, X: Any = None) -> Inputs:
        """Validated rows in the form that the base learners take; ``X`` is the rows as the user passed them."""

    def _check_parameters(self) -> None:
        """Check the constructor's parameters and required packages; scikit-learn wants this in ``fit``."""
        check_parameters(self, self._parameter_checks)
        names = [self._loss_name(loss) for loss in self._loss_list()]
        duplicate = next((name for index, name in enumerate(names) if name in names[:index]), None)
        if duplicate is not None:
            raise InputError(f"loss: duplicate loss {duplicate!r}; give one of them a label in its table.")

    def _loss_list(self) -> list[Any]:
        """The losses, each a name or a table."""
        return list(self.loss) if isinstance(self.loss, (tuple, list)) else [self.loss]

    def _loss_name(self, loss: Any) -> str:
        """Name of a loss in ``weights_``."""
        if isinstance(loss, str):
            return loss
        return str(loss.get("label") or loss.get("name") or dict(loss))

    def _loss_table(self, loss: Any) -> dict[str, Any]:
        """Options of a loss, with the estimator's scale if it is ORCU."""
        table = {"name": loss} if isinstance(loss, str) else {key: loss[key] for key in loss if key != "label"}
        if table.get("name") == "orcu":
            table.setdefault("scale", self._default_scale())
        return table

    def _default_scale(self) -> Any:
        return SCALE if self.scale == "auto" else self.scale

    def _n_folds(self, rows: int, *, min_folds: int) -> Any:
        """Number of folds that the rows allow, with a warning where they are fewer than ``cv``; or a splitter.

        "auto" stays "auto" where the rows are enough for one held-out part instead of folds.
        """
        if is_splitter(self.cv) or (self.cv == "auto" and rows >= HOLD_OUT_FROM):
            return self.cv
        wanted = CV if self.cv == "auto" else self.cv
        n_folds = max(min_folds, min(wanted, rows // MIN_ROWS_PER_FOLD))
        if n_folds < wanted:
            warnings.warn(
                f"cv: {rows} rows are too few for {wanted} folds; using {n_folds}. Fit on more rows.",
                CalibrationWarning,
                stacklevel=4,
            )
        return n_folds

    def _folds(self, y: Targets, cv: Any, groups: npt.NDArray[Any] | None, seed: int) -> list[Fold]:
        """The cross-fitting folds, or one held-out part, of the result of `_n_folds`."""
        labels = grades(y)
        if isinstance(cv, str):  # "auto"
            rows = min(HOLD_OUT_ROWS, len(labels) // CV)
            cv = hold_out(labels, rows, groups=groups, random_state=seed)
        return cross_fit_folds(labels, cv, early_stopping=self.validation_fraction, groups=groups, random_state=seed)

    def _boosting_learner(self, loss: Any, name: str, config: BoostingConfig, seed: int) -> BoostingLearner:
        loss_objective = objective(self._loss_table(loss), num_classes=len(self.classes_))
        categorical = tuple(self.encoder_.categorical)
        return boosting_learner(name, config, objective=loss_objective, categorical=categorical, seed=seed)

    def _set_ensemble(self, ensemble: Ensemble) -> None:
        """Fitted attributes that follow from the ensemble."""
        self.ensemble_, self.weights_, self.calibrator_ = ensemble, ensemble.weights, ensemble.calibrator

    def _adopt(self, fitted: Self) -> Self:
        """Take over the state of a fitted copy; a fit that fails before leaves this estimator unchanged."""
        self.__dict__.clear()
        self.__dict__.update(fitted.__dict__)
        return self

    def __repr__(self, *args: Any, **options: Any) -> str:
        text: str = super().__repr__(*args, **options)
        if "weights_" not in self.__dict__:
            return text
        choice = self.ensemble_.summary() if self.ensemble_ is not None else f"Calibrator: {self.calibrator_!r}"
        return f"{text} fitted on {len(self.classes_)} classes: {choice}"

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The predicted class of each row: the most likely one, or by ``rule``."""
        codes = decide_checked(self.predict_proba(X), self.rule)
        return self.classes_[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or quadratic weighted kappa with ``scoring="qwk"``; of votes, that of a random vote of each row."""
        check_is_fitted(self, "weights_")
        self._check_parameters()
        votes = ordered_votes(y, self.classes_)
        codes: Targets = class_codes(y, self.classes_) if votes is None else votes[0]
        check_consistent_length(X, codes)
        pred = decide_checked(self.predict_proba(X), self.rule)
        if self.scoring == "accuracy" and sample_weight is None and codes.ndim == 1:
            return float(np.mean(pred == codes))
        case, label, weight = weighted_rows(codes, None if sample_weight is None else np.asarray(sample_weight))
        return SCORERS[self.scoring](np.eye(len(self.classes_))[pred][case], label, sample_weight=weight)

    def _validate_training(
        self, X: Any, y: Any, sample_weight: Any, *, classes: Any = None, groups: Any = None, reset: bool = True
    ) -> TrainingRows:
        """Validated rows of positive weight; labels that have rows of weight 0 only stay among the classes."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        check_no_mask(y, "y")
        y = y.detach() if hasattr(y, "detach") else y
        table = self._validate_rows(X, reset=reset)
        check_consistent_length(X, y)
        order = self.classes if classes is None else classes
        targets: Targets
        targets, labels = ordered_votes(y, order) or self._validate_labels(y, order)
        group = group_codes(groups, len(targets))
        weight, rows = scaled_sample_weight(sample_weight, len(targets)), np.arange(len(targets))
        if weight is not None:
            _case, label, row_weight = weighted_rows(targets, weight)
            warn_of_empty_classes(label, row_weight, labels, stacklevel=5)
            rows = np.flatnonzero(weight > 0)
            table, targets, weight = take_rows(table, rows), targets[rows], weight[rows]
            group = None if group is None else group[rows]
        present = np.unique(weighted_rows(targets).label)
        if classes is None and len(present) < 2:
            raise InputError(
                f"y: every row has the class {labels.tolist()[present[0]]!r}; a classifier needs more than one class."
            )
        return TrainingRows(table, targets, weight, labels, group, rows)

    def _validate_labels(self, y: Any, order: Any) -> tuple[IntArray, npt.NDArray[Any]]:
        """Codes of labels, and the classes in their order."""
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import column_or_1d

        check_no_missing(y, order)
        if order is None and carries_order(y):
            order = ordered_labels(y, None)
        if carries_order(y) or getattr(getattr(y, "dtype", None), "kind", "") == "i":  # also pandas' Int64
            y = np.asarray(y, dtype=object if carries_order(y) else np.int64)
        y = column_or_1d(y, warn=True)
        labels = ordered_labels(y, order)
        codes = class_codes(y, labels)
        if order is None:
            check_classification_targets(labels[codes])
        return codes, labels

    def _group_copies(self, table: Any, y: Targets, groups: npt.NDArray[Any] | None) -> Any:
        """Groups that keep copies of rows together, within the groups of the user; warns of copies."""
        copies = copy_groups(table, grades(y))
        self.n_copies_ = 0
        if copies is None:
            return groups
        self.n_copies_ = n_copies(copies)
        warnings.warn(
            f"X: {self.n_copies_:,} of {len(y):,} rows are copies of other rows. "
            "Copies are kept in one fold. Test rows that have a copy among the training rows give scores that are too "
            "good; remove duplicates before you split, or evaluate on rows without a copy.",
            UserWarning,
            stacklevel=4,
        )
        return copies if groups is None else merge_groups(groups, copies)

    def _class_names(self) -> tuple[str, ...]:
        return tuple(canonical_label(label) for label in self.classes_.tolist())

    def _validate_rows(self, X: Any, *, reset: bool) -> Any:
        """A dictionary of columns; an array where ``module`` takes the rows."""
        if self.module is not None:
            check_no_mask(X, "X")
        X = X.detach() if hasattr(X, "detach") else without_mask(X)
        if hasattr(X, "collect"):
            raise InputError(f"X: expected a frame with rows in memory, got {type(X).__name__}; call collect() first.")
        if is_frame(X) and self.module is None:
            if not len(X) or not len(X.columns):
                what = "columns" if len(X) else "rows"
                raise InputError(f"X: the frame has no {what}; at least one is needed.")
            columns = columns_from_frame(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            return columns
        if is_frame(X):
            check_numeric_columns(X, "module=")
        if self.module is not None and np.ndim(X) != 2:  # images, sequences
            return check_array(X, dtype=np.float32, allow_nd=True, ensure_2d=False)
        finite = "allow-nan" if self.module is None else True
        cells = None if self.module is not None or hasattr(X, "toarray") else as_array(X, "X")
        if cells is not None and cells.dtype.kind in "mM":
            raise InputError("X: holds dates or durations. Convert them to numbers, such as days since a date.")
        if cells is not None and cells.dtype.kind in "OUS":  # objects and texts follow the rule of frames
            array = validate_data(self, cells.astype(object), reset=reset, dtype=object, ensure_all_finite=False)
        else:
            array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
        if self.module is not None:
            return array
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(array.shape[1])])
        return {str(name): array[:, k] for k, name in enumerate(names)}

    def _class_weights(self, y: Targets) -> list[float]:
        """Weight of each class."""
        _, label, share = weighted_rows(y)
        counts = np.bincount(label, weights=share, minlength=len(self.classes_))
        if self.class_weight == "balanced":
            return [len(y) / (np.count_nonzero(counts) * max(count, 1)) for count in counts]
        weights = {canonical_label(label): float(weight) for label, weight in self.class_weight.items()}
        unknown = set(weights) - set(self._class_names())
        if unknown:
            raise InputError(
                f"class_weight: {sorted(unknown)[0]!r} is not one of the classes {', '.join(self._class_names())}."
            )
        return [weights.get(name, 1.0) for name in self._class_names()]

    def _apply_class_weight(self, y: Targets, sample_weight: FloatArray | None) -> tuple[Targets, FloatArray | None]:
        """Targets, and sample weights times class weights or ``None``.

        The weights of the classes of votes change the shares of a row, and their sum is the weight of the row.
        """
        if self.class_weight is None:
            return y, sample_weight
        class_weights = np.array(self._class_weights(y))
        if y.ndim == 1:
            by_class = class_weights[y]
        else:
            weighted = y * class_weights
            by_class = weighted.sum(axis=1)
            y = np.where(by_class[:, None] > 0, weighted / np.where(by_class > 0, by_class, 1.0)[:, None], y)
        product = by_class if sample_weight is None else sample_weight * by_class
        if not product.any():
            raise InputError("class_weight: every row has weight 0; at least one class must have a positive weight.")
        return y, scaled_sample_weight(product, len(y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.module is None
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
