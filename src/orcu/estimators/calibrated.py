"""`CalibratedOrdinal`: any scikit-learn classifier, calibrated on out-of-fold predictions, with ordered classes."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from orcu import calibrators
from orcu.decisions.rules import decide_checked
from orcu.errors import InputError
from orcu.estimators.labels import check_scorer, class_codes, ordered_labels
from orcu.estimators.parameters import COMMON_CHECKS, calibrator, check_parameters, valid_if
from orcu.estimators.validation import check_no_mask, scaled_sample_weight, warn_of_empty_classes
from orcu.inputs import FloatArray

PARAMETER_CHECKS = {
    "estimator": valid_if(
        lambda estimator: not isinstance(estimator, type) and hasattr(estimator, "fit"),
        "a scikit-learn classifier with predict_proba",
    ),
    "calibrator": calibrator,
    "rule": COMMON_CHECKS["rule"],
    "classes": COMMON_CHECKS["classes"],
}


class CalibratedOrdinal(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
            y: labels.
            sample_weight: weight of each row, for both, scaled to mean one; a common factor changes nothing.

        Raises:
            InputError: if the order of the classes is unknown, or a label is not a class.
        """
        check_parameters(self, PARAMETER_CHECKS)
        for values, name in ((X, "X"), (y, "y")):
            check_no_mask(values, name)
        classes = ordered_labels(y, self.classes)
        codes = class_codes(y, classes)
        check_consistent_length(X, codes)
        if len(np.unique(codes)) < 2:
            raise InputError("y: every row has the same class; a classifier needs more than one class.")
        weight = scaled_sample_weight(sample_weight, len(codes))
        if weight is not None:
            warn_of_empty_classes(codes, weight, classes, stacklevel=2)
        params = None if weight is None else {"sample_weight": weight}
        out_of_fold = np.zeros((len(codes), len(classes)))
        out_of_fold[:, np.unique(codes)] = cross_val_predict(
            self.estimator, X, codes, cv=self.cv, method="predict_proba", params=params
        )
        named = isinstance(self.calibrator, (str, dict))
        fitted = calibrators.create(self.calibrator) if named else clone(self.calibrator)
        fitted.fit(probs=out_of_fold, y=codes, sample_weight=weight)
        estimator = clone(self.estimator).fit(X, codes, **(params or {}))
        # Set last, so that a fit that fails changes nothing.
        self.classes_, self.calibrator_, self.estimator_ = classes, fitted, estimator
        self.n_features_in_ = getattr(self.estimator_, "n_features_in_", None)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, columns in the order of ``classes_``, shape (n, C).

        Raises:
            InputError: if a scorer of scikit-learn that sorts the classes, such as "neg_log_loss", would mix them up.
        """
        check_is_fitted(self, "calibrator_")
        check_scorer(self.classes_)
        raw = self.estimator_.predict_proba(X)
        probs = np.zeros((len(raw), len(self.classes_)))
        probs[:, self.estimator_.classes_] = raw
        calibrated: FloatArray = self.calibrator_.predict_proba(probs=probs)
        return calibrated

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The predicted class of each row: the most likely one, or by ``rule``."""
        codes = decide_checked(self.predict_proba(X), self.rule)
        return self.classes_[codes]

    def __repr__(self, *args: Any, **options: Any) -> str:
        text: str = super().__repr__(*args, **options)
        return f"{text} fitted: {self.calibrator_!r}" if "calibrator_" in self.__dict__ else text
