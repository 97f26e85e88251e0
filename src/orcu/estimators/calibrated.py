"""`CalibratedOrdinal`: any scikit-learn classifier, calibrated on out-of-fold predictions, with ordered classes."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter

from orcu import calibrators
from orcu.decisions.rules import decide_checked
from orcu.errors import InputError
from orcu.estimators.explanation import ExplainRowMixin
from orcu.estimators.labels import check_scorer, class_codes, ordered_labels, ordered_votes
from orcu.estimators.parameters import COMMON_CHECKS, calibrator, check_parameters, valid_if
from orcu.estimators.validation import check_no_mask, scaled_sample_weight, warn_of_empty_classes
from orcu.inputs import FloatArray
from orcu.model_selection import take_rows
from orcu.raters.votes import Targets, grades, weighted_rows

PARAMETER_CHECKS = {
    "estimator": valid_if(
        lambda estimator: not isinstance(estimator, type) and hasattr(estimator, "fit"),
        "a scikit-learn classifier with predict_proba",
    ),
    "calibrator": calibrator,
    "rule": COMMON_CHECKS["rule"],
    "classes": COMMON_CHECKS["classes"],
}


class CalibratedOrdinal(ExplainRowMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated on its out-of-fold predictions.

    ``fit`` predicts every row by a copy of the estimator that has not seen it, fits the calibrator on these
    predictions, and refits the estimator on all rows. ``predict_proba`` has a column per class in the order of
    ``classes_``, which is the given order, not the alphabetical one.

    Args:
        estimator: classifier with ``predict_proba``.
        calibrator: calibrator or its name: "gap", "dirichlet+projection", ...; "auto" chooses one (see
            `orcu.calibrators.AutoCalibration`).
        cv: number of folds, or a scikit-learn splitter.
        rule: decision rule of ``predict``, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories have an
            order.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + rng.normal(size=300), [-0.7, 0.7])]
        >>> model = CalibratedOrdinal(LogisticRegression(), classes=["low", "mid", "high"]).fit(X, y)
        >>> model.classes_.tolist(), model.predict_proba(X).shape
        (['low', 'mid', 'high'], (300, 3))
    """

    knows_order = True  # classes_ are in their order, not sorted alphabetically

    def __init__(
        self,
        estimator: Any,
        *,
        calibrator: Any = "auto",
        cv: Any = 5,
        rule: Any = "argmax",
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.rule = rule
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator and its calibrator.

        Args:
            X: rows as the estimator takes them.
            y: labels, shape (n,); or votes of several raters, counts or shares of shape (n, C). The estimator is then
                fitted on weighted rows, one for each grade of a case, so its ``fit`` must take ``sample_weight``.
            sample_weight: weight of each row, for both, scaled to mean one; a common factor changes nothing.

        Raises:
            InputError: if the order of the classes is unknown, or a label is not a class.
        """
        check_parameters(self, PARAMETER_CHECKS)
        for values, name in ((X, "X"), (y, "y")):
            check_no_mask(values, name)
        votes = ordered_votes(y, self.classes)
        classes = ordered_labels(y, self.classes) if votes is None else votes[1]
        targets: Targets = class_codes(y, classes) if votes is None else votes[0]
        check_consistent_length(X, targets)
        weight = scaled_sample_weight(sample_weight, len(targets))
        case, label, row_weight = weighted_rows(targets, weight)
        if len(np.unique(label)) < 2:
            raise InputError("y: every row has the same class; a classifier needs more than one class.")
        if weight is not None:
            warn_of_empty_classes(label, row_weight, classes, stacklevel=2)
        params = {} if row_weight is None else {"sample_weight": row_weight}
        if votes is None:
            rows, out_of_fold = X, np.zeros((len(label), len(classes)))
            out_of_fold[:, np.unique(label)] = cross_val_predict(
                self.estimator, X, label, cv=self.cv, method="predict_proba", params=params or None
            )
        else:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise InputError(
                    f"y: votes are fitted as weighted rows, but {type(self.estimator).__name__} does not take "
                    "sample_weight in fit; use another estimator, or one label per row."
                )
            rows, out_of_fold = take_rows(X, case), self._out_of_fold_votes(X, targets, weight)
        named = isinstance(self.calibrator, (str, dict))
        fitted = calibrators.create(self.calibrator) if named else clone(self.calibrator)
        fitted.fit(probs=out_of_fold, y=targets, sample_weight=weight)
        estimator = clone(self.estimator).fit(rows, label, **params)
        # Set last, so that a fit that fails changes nothing.
        self.classes_, self.calibrator_, self.estimator_ = classes, fitted, estimator
        self.n_features_in_ = getattr(self.estimator_, "n_features_in_", None)
        return self._keep_background(X)

    def _out_of_fold_votes(self, X: Any, votes: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Out-of-fold probabilities of rows with votes, (n, C); folds are stratified by the majority grade."""
        from sklearn.model_selection import check_cv

        majority = grades(votes)
        probs = np.full(votes.shape, np.nan)
        for train, test in check_cv(self.cv, majority, classifier=True).split(X, majority):
            case, label, row_weight = weighted_rows(votes[train], None if weight is None else weight[train])
            fitted = clone(self.estimator).fit(take_rows(X, train[case]), label, sample_weight=row_weight)
            probs[test] = _probs_by_class(fitted, take_rows(X, test), votes.shape[1])
        if np.isnan(probs).any():
            row = int(np.argmax(np.isnan(probs).any(axis=1)))
            raise InputError(f"cv: row {row} is in no test fold; use a splitter whose test folds partition the rows.")
        return probs

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, columns in the order of ``classes_``, shape (n, C).

        Raises:
            InputError: if a scorer of scikit-learn that sorts the classes, such as "neg_log_loss", would mix them up.
        """
        check_is_fitted(self, "calibrator_")
        check_scorer(self.classes_)
        probs = _probs_by_class(self.estimator_, X, len(self.classes_))
        calibrated: FloatArray = self.calibrator_.predict_proba(probs=probs)
        return calibrated

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The predicted class of each row: the most likely one, or by ``rule``."""
        codes = decide_checked(self.predict_proba(X), self.rule)
        return self.classes_[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of votes, the expected accuracy for a random vote of each row."""
        check_is_fitted(self, "calibrator_")
        votes = ordered_votes(y, self.classes_)
        if votes is None:
            return float(super().score(X, y, sample_weight))
        case, label, weight = weighted_rows(votes[0], None if sample_weight is None else np.asarray(sample_weight))
        codes = decide_checked(self.predict_proba(X), self.rule)
        return float(np.average(codes[case] == label, weights=weight))

    def __repr__(self, *args: Any, **options: Any) -> str:
        text: str = super().__repr__(*args, **options)
        return f"{text} fitted: {self.calibrator_!r}" if "calibrator_" in self.__dict__ else text


def _probs_by_class(estimator: Any, X: Any, num_classes: int) -> FloatArray:
    """Probabilities of a classifier fitted on codes, (n, C); 0 for classes without training rows."""
    raw = estimator.predict_proba(X)
    probs = np.zeros((len(raw), num_classes))
    probs[:, estimator.classes_] = raw
    return probs
