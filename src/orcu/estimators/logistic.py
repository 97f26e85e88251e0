"""`OrdinalLogistic`: proportional-odds and partial proportional-odds regression with coefficients and tests."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from orcu.errors import InputError, UnknownNameError
from orcu.estimators.base import OrdinalEstimator, TrainingRows
from orcu.estimators.coefficient_table import CoefficientTable
from orcu.estimators.parameters import COMMON_CHECKS, Check, is_number, valid_if
from orcu.estimators.proportional_odds import (
    BrantTest,
    CumulativeLogit,
    brant_test,
    column_of_coefficient,
    cumulative_logits,
    fit_cumulative_logit,
)
from orcu.inputs import FloatArray, IntArray, as_numbers
from orcu.kernels import cumulative
from orcu.preprocessing import Inputs, TableEncoder

MAX_ROWS_NAMED = 5


class OrdinalLogistic(OrdinalEstimator):
    """Proportional-odds logistic regression by maximum likelihood: P(y <= k | x) = sigma(theta_k - x beta).

    A positive coefficient moves rows to higher classes. exp(beta) is the odds ratio: the factor of the odds of y > k
    for one unit more, the same for every threshold k. Columns in ``partial`` have a coefficient for each threshold.

    A column of numbers has one coefficient, per unit of the column; columns are not scaled. A column of K categories
    has K - 1 coefficients, such as "site=south", relative to the first category in alphabetical order. Missing values
    are refused, because they have no coefficient.

    Args:
        C: inverse strength of the ridge penalty ``beta' beta / (2 C)``, as in ``LogisticRegression``. The
            default is no penalty, as in statsmodels, because standard errors and p-values do not hold for penalised
            coefficients.
        partial: names of the columns without the assumption of proportional odds; "x0", "x1", ... for an array.
        rule: decision rule of ``predict``, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        scoring: metric of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories have an
            order.

    Attributes:
        coef_: coefficients, shape (P,).
        coef_names_: name of each coefficient.
        thresholds_: thresholds theta, shape (C - 1,).
        covariance_: covariance of the thresholds and the coefficients, in this order, shape (C - 1 + P, C - 1 + P).
        log_likelihood_: sum of log p(y | x) over the training rows.
        n_groups_: number of groups of the cluster-robust covariance; ``None`` without ``groups``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 2))
        >>> y = np.digitize(X[:, 0] + rng.logistic(size=500), [-1, 1])
        >>> model = OrdinalLogistic().fit(X, y)
        >>> model.coef_.round(2).tolist(), model.odds_ratios_.round(2).tolist()
        ([1.13, -0.02], [3.11, 0.98])
    """

    _parameter_checks: ClassVar[Mapping[str, Check]] = {
        "C": valid_if(lambda C: is_number(C) and C > 0, "a number above 0, or infinity for no penalty"),  # noqa: N803
        "partial": valid_if(
            lambda partial: not isinstance(partial, str) and np.iterable(partial), "a list of column names"
        ),
        **{name: COMMON_CHECKS[name] for name in ("rule", "scoring", "classes")},
    }
    loss: Any = ()  # the base class checks losses; the likelihood is the only one here
    n_jobs: int | None = None
    class_weight: Any = None
    coef_: FloatArray
    coef_names_: tuple[str, ...]
    thresholds_: FloatArray
    covariance_: FloatArray
    log_likelihood_: float
    n_groups_: int | None

    def __init__(
        self,
        *,
        C: float = np.inf,  # noqa: N803
        partial: Sequence[str] = (),
        rule: Any = "argmax",
        scoring: str = "accuracy",
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.C = C
        self.partial = partial
        self.rule = rule
        self.scoring = scoring
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit by maximum likelihood.

        Args:
            X: array of numbers, or a frame of numbers and categories, without missing values.
            y: labels; each class needs a row.
            sample_weight: number of times that each row counts, as in ``LogisticRegression``: a weight of 3 is the same
                as three rows, also for the standard errors.
            groups: group of each row, such as its patient. Standard errors are then cluster-robust.

        Raises:
            InputError: if a value is missing, or a class has no rows.

        Warns:
            ConvergenceWarning: if columns separate the classes, so that their coefficients are infinite.
            UserWarning: if a column is constant or a linear combination of others; if training rows have negative
                probabilities, which columns in ``partial`` can cause.
        """
        return super().fit(X, y, sample_weight, groups)

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        training = self._validate_training(X, y, sample_weight, groups=groups)
        self.classes_ = training.classes
        codes = _labels(training)
        counts = np.bincount(codes, minlength=len(self.classes_))
        if not counts.all():
            name = self.classes_.tolist()[int(np.argmin(counts))]
            raise InputError(
                f"y: class {name!r} has no rows, so that its thresholds are not determined. Leave it out of classes, "
                "or merge it with a neighbour."
            )
        self.encoder_ = TableEncoder.fit(training.table)
        x, weight = self._design(training.table), _counts(sample_weight, training)
        names, columns = self._column_names()
        model = fit_cumulative_logit(
            x,
            codes,
            len(self.classes_),
            penalty=0.0 if np.isinf(self.C) else 1 / float(self.C),
            sample_weight=weight,
            partial=self._is_partial(columns),
        )
        n_thresholds = len(self.classes_) - 1
        self.thresholds_, self.coef_ = np.split(model.parameters, [n_thresholds])
        self.coef_names_ = self._coef_names(names, model.partial)
        self.covariance_, self.n_groups_ = model.covariance, None
        if training.groups is not None:
            self.n_groups_ = int(training.groups.max()) + 1
            if self.n_groups_ < 2:
                raise InputError("groups: every row has the same group; cluster-robust errors need two groups or more.")
            self.covariance_ = model.cluster_covariance(training.groups)
        self.log_likelihood_ = model.log_likelihood
        self.weights_, self.calibrator_, self.ensemble_ = {"proportional odds": 1.0}, None, None
        self._n_rows = len(x) if weight is None else float(weight.sum())
        self._without_errors(model, names)
        if model.partial.any():
            crossing = _crossing_rows(self._cumulative_logits(x))
            if len(crossing):
                warnings.warn(
                    f"partial: {len(crossing):,} of {len(x):,} training rows have a negative probability, such as row "
                    f"{training.rows[crossing[0]]} (from 0), because their thresholds cross. predict_proba refuses "
                    "such rows. Take columns out of partial, or use a penalty, such as C=1.0.",
                    UserWarning,
                    stacklevel=4,
                )
        return self

    def _without_errors(self, model: CumulativeLogit, names: Sequence[str]) -> None:
        """Warn of coefficients that are infinite or not determined, and set their covariance to NaN."""
        for columns, reason, kind in (
            (
                model.separating,
                "separates classes perfectly in the training rows, so that the coefficient of maximum likelihood is "
                "infinite. The coefficients are those of the last iteration, without standard errors. Use a penalty, "
                "such as C=1.0, or drop the column if it is known only after the outcome.",
                ConvergenceWarning,
            ),
            (
                model.undetermined,
                "is constant, or a linear combination of other columns, so that the coefficients are not determined. "
                "They are the smallest that fit, without standard errors. Drop a column, or use a penalty, such as "
                "C=1.0.",
                UserWarning,
            ),
        ):
            if not columns.any():
                continue
            owner = column_of_coefficient(model.partial, len(self.classes_))
            affected = len(self.thresholds_) + np.flatnonzero(columns[owner])
            affected = np.append(np.arange(len(self.thresholds_)), affected)  # thresholds depend on all coefficients
            self.covariance_[affected] = np.nan
            self.covariance_[:, affected] = np.nan
            named = ", ".join(repr(name) for name, chosen in zip(names, columns, strict=True) if chosen)
            warnings.warn(f"X: column {named} {reason}", kind, stacklevel=5)

    def predict_logits(self, X: Any) -> FloatArray:
        """Log-probabilities of the classes, shape (n, C).

        Raises:
            InputError: if a value is missing, a category did not occur in training, or thresholds cross.
        """
        logits = self._cumulative_logits(self._encode(X).features)
        crossing = _crossing_rows(logits)
        if len(crossing):
            named = ", ".join(map(str, crossing[:MAX_ROWS_NAMED].tolist()))
            more = " and more" if len(crossing) > MAX_ROWS_NAMED else ""
            raise InputError(
                f"X: {len(crossing):,} of {len(logits):,} rows have a negative probability (row {named}{more}, from "
                "0), because their thresholds cross. Fit with fewer columns in partial, or with a penalty, such as "
                "C=1.0."
            )
        ends = np.pad(logits, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
        upper, lower = ends[:, 1:], ends[:, :-1]
        return cumulative.log_interval(upper, lower, upper - lower)[0]

    def predict_proba_members(self, X: Any) -> FloatArray:
        """Not available: a regression is not an ensemble."""
        check_is_fitted(self, "weights_")
        raise InputError("predict_proba_members: OrdinalLogistic is a single model; use OrdinalClassifier.")

    def predict_sets(self, X: Any, alpha: float = 0.1, *, target: str = "vote") -> npt.NDArray[Any]:
        """Not available: the sets need out-of-fold predictions."""
        check_is_fitted(self, "weights_")
        raise InputError(
            "predict_sets: OrdinalLogistic holds no rows out; use OrdinalClassifier(estimators='linear'), or fit "
            "orcu.OrdinalPredictionSets on the probabilities of other rows."
        )

    @property
    def odds_ratios_(self) -> FloatArray:
        """Odds ratios exp(coef), shape (P,)."""
        return self.summary().odds_ratio

    @property
    def std_errors_(self) -> FloatArray:
        """Standard errors of the coefficients, shape (P,); NaN where columns separate the classes."""
        check_is_fitted(self, "weights_")
        return np.sqrt(np.diag(self.covariance_))[len(self.thresholds_) :]

    def summary(self) -> CoefficientTable:
        """Coefficients, odds ratios, 95 % intervals and p-values; prints as a table, in notebooks as HTML."""
        check_is_fitted(self, "weights_")
        errors = np.sqrt(np.diag(self.covariance_))
        kind = "" if self.n_groups_ is None else f" Standard errors are cluster-robust, with {self.n_groups_:,} groups."
        if not np.isinf(self.C):
            kind += f" The coefficients are penalised (C={self.C:g}): intervals and p-values ignore the shrinkage."
        names = self._class_names()
        return CoefficientTable(
            self.coef_names_,
            self.coef_,
            errors[len(self.thresholds_) :],
            tuple(f"{low} | {high}" for low, high in pairwise(names)),
            self.thresholds_,
            errors[: len(self.thresholds_)],
            f"{self._n_rows:,.10g} rows, log-likelihood {self.log_likelihood_:.2f}. A positive coefficient means "
            f"higher classes.{kind}",
        )

    def brant_test(self, X: Any, y: Any, sample_weight: Any = None) -> BrantTest:
        """Brant's test of proportional odds, for all columns together and for each column.

        It compares the coefficients of the logistic regressions of y > k, one for each threshold k, without a penalty.

        Args:
            X: rows, usually those of ``fit``.
            y: labels.
            sample_weight: number of times that each row counts.

        Raises:
            InputError: if there are two classes only, or a threshold is separated.
        """
        check_is_fitted(self, "weights_")
        if len(self.classes_) < 3:
            raise InputError("brant_test: needs three classes or more; two classes have one threshold only.")
        training = self._validate_training(X, y, sample_weight, classes=self.classes_, reset=False)
        names, columns = self._column_names()
        return brant_test(
            self._design(training.table),
            _labels(training),
            len(self.classes_),
            names=names,
            columns=columns,
            sample_weight=_counts(sample_weight, training),
        )

    # --- columns ---

    def _inputs(self, table: Any, X: Any = None) -> Inputs:
        return Inputs(None, self._design(table))

    def _design(self, table: Any) -> FloatArray:
        """Numbers, and indicators of all categories but the first, (n, F)."""
        unseen = self.encoder_.unseen(table)
        if unseen:
            raise InputError(f"X: {unseen[0]}; there is no coefficient for it. Fit on rows that contain it.")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*values are missing")  # refused below
            codes = self.encoder_.encode(table, features=False).codes
        assert codes is not None  # noqa: S101
        missing = np.isnan(codes)
        if missing.any():
            row, column = (int(index) for index in np.argwhere(missing)[0])
            count, name = int(missing[:, column].sum()), self.encoder_.columns[column].name
            raise InputError(
                f"X: column {name!r} has {count:,} missing values (NaN or empty), the first in row {row} (from 0), for "
                "which there is no coefficient. Fill them in, such as with scikit-learn's SimpleImputer, or drop the "
                "rows."
            )
        parts = [
            codes[:, [k]]
            if column.categories is None
            else (codes[:, [k]] == np.arange(1, len(column.categories))).astype(np.float64)
            for k, column in enumerate(self.encoder_.columns)
        ]
        return np.concatenate(parts, axis=1)

    def _column_names(self) -> tuple[list[str], list[str]]:
        """Names of the design's columns, and the user's column of each."""
        names, columns = [], []
        for column in self.encoder_.columns:
            levels = [column.name]
            if column.categories is not None:
                levels = [f"{column.name}={category}" for category in column.categories[1:]]
            names += levels
            columns += [column.name] * len(levels)
        return names, columns

    def _is_partial(self, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
        valid = [column.name for column in self.encoder_.columns]
        for name in self.partial:
            if str(name) not in valid:
                raise UnknownNameError("column of partial", name, valid)
        chosen = {str(name) for name in self.partial}
        return np.array([name in chosen for name in columns], dtype=bool)

    def _coef_names(self, names: Sequence[str], partial: npt.NDArray[np.bool_]) -> tuple[str, ...]:
        events = [f"y > {name}" for name in self._class_names()[:-1]]
        return tuple(
            label
            for name, varies in zip(names, partial, strict=True)
            for label in ([f"{name} [{event}]" for event in events] if varies else [name])
        )

    def _cumulative_logits(self, x: FloatArray) -> FloatArray:
        parameters = np.concatenate([self.thresholds_, self.coef_])
        return cumulative_logits(parameters, x, self._is_partial(self._column_names()[1]), len(self.classes_))

    def __repr__(self, *args: Any, **options: Any) -> str:
        text: str = super(OrdinalEstimator, self).__repr__(*args, **options)
        if "weights_" not in self.__dict__:
            return text
        return f"{text} fitted on {len(self.classes_)} classes: {len(self.coef_)} coefficients"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.classifier_tags.poor_score = True  # one direction cannot separate classes without an order
        return tags


def _crossing_rows(logits: FloatArray) -> npt.NDArray[np.intp]:
    """Rows whose cumulative logits do not increase, so that a class has a negative probability."""
    return np.flatnonzero((np.diff(logits, axis=1) <= 0).any(axis=1))


def _labels(training: TrainingRows) -> IntArray:
    """Class indices of the labels, shape (n,); votes of several raters are refused."""
    if training.y.ndim == 2:
        raise InputError(
            "y: expected one label per row, got votes of several raters. Standard errors of votes are not available; "
            "use OrdinalClassifier(estimators='linear'), or the median vote of each case."
        )
    return training.y


def _counts(sample_weight: Any, training: TrainingRows) -> FloatArray | None:
    """Weights of the training rows as given; the base class has checked them and scaled them to mean one."""
    if sample_weight is None:
        return None
    weight = np.asarray(as_numbers(sample_weight, "sample_weight"), dtype=np.float64)
    return weight[training.rows] if weight.ndim else np.full(len(training.rows), float(weight))
