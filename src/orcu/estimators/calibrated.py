"""Any scikit-learn classifier, calibrated out of fold, with its classes in their order."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import check_is_fitted

from orcu import calibrators
from orcu.decisions.rules import decide_checked
from orcu.estimators.labels import class_codes, ordered_labels
from orcu.inputs import FloatArray


class CalibratedOrdinal(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated on predictions it made out of fold.

    ``fit`` predicts every row by a copy of the estimator that has not seen it, fits the calibrator on
    these, and refits the estimator on all rows. ``predict_proba`` has a column per class in the order
    of ``classes_``, which is the order given, not the alphabet's.

    Args:
        estimator: any classifier with ``predict_proba``.
        method: a calibrator, or its name: "gap", "dirichlet+projection", ...; "auto" chooses (see
            `orcu.calibrators.AutoCalibration`).
        cv: folds, or a splitter of scikit-learn.
        decide: how ``predict`` decides, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas
            categories carry their order.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + rng.normal(size=300), [-0.7, 0.7])]
        >>> model = CalibratedOrdinal(LogisticRegression(), classes=["low", "mid", "high"]).fit(X, y)
        >>> model.classes_.tolist(), model.predict_proba(X).shape
        (['low', 'mid', 'high'], (300, 3))
    """

    knows_order = True  # of its classes, whatever the alphabet says

    def __init__(
        self,
        estimator: Any,
        *,
        method: Any = "auto",
        cv: Any = 5,
        decide: Any = "argmax",
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.decide = decide
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator and its calibrator.

        Args:
            X: what the estimator takes, one row per case.
            y: labels.
            sample_weight: one weight per row, for both.

        Raises:
            InputError: if the order of the classes is not known, or a label is none of them.
        """
        classes = ordered_labels(y, self.classes)
        codes = class_codes(y, classes)
        params = None if sample_weight is None else {"sample_weight": sample_weight}
        out_of_fold = np.zeros((len(codes), len(classes)))
        out_of_fold[:, np.unique(codes)] = cross_val_predict(
            self.estimator, X, codes, cv=self.cv, method="predict_proba", params=params
        )
        calibrator = calibrators.create(self.method) if isinstance(self.method, str) else clone(self.method)
        calibrator.fit(probs=out_of_fold, y=codes, weight=sample_weight)
        estimator = clone(self.estimator).fit(X, codes, **(params or {}))
        self.classes_, self.calibrator_, self.estimator_ = (
            classes,
            calibrator,
            estimator,
        )  # a fit that fails changes nothing
        self.n_features_in_ = getattr(self.estimator_, "n_features_in_", None)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, columns in the order of ``classes_``, shape (n, C)."""
        check_is_fitted(self, "calibrator_")
        of_estimator = self.estimator_.predict_proba(X)
        probs = np.zeros((len(of_estimator), len(self.classes_)))
        probs[:, self.estimator_.classes_] = of_estimator
        calibrated: FloatArray = self.calibrator_.predict_proba(probs=probs)
        return calibrated

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The decided class of each row, the most likely one unless ``decide`` says otherwise."""
        return self.classes_[decide_checked(self.predict_proba(X), self.decide)]
