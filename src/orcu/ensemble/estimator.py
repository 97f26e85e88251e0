"""Any scikit-learn classifier as a base learner of an ensemble."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from orcu.ensemble.learner import NO_DEADLINE, Deadline, FoldLearner, TrainingData, smoothed_log_probs
from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs


@dataclass(frozen=True)
class EstimatorLearner(FoldLearner):
    """A scikit-learn classifier or pipeline, fitted on the rows as the user passed them, labels 0..C-1.

    Args:
        name: name in the ensemble's weights.
        estimator: classifier with ``predict_proba``; a clone is fitted in every fold.
    """

    subfolder: ClassVar[str] = "estimators"
    suffix = ""
    name: str
    estimator: Any

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> tuple[Any, int, int]:
        """The fitted classifier, its number of training rows, and the number of classes; the deadline is not kept.

        Votes become weighted rows, one for each grade of a case.
        """
        rows = data[fold.all_training].with_labels()
        options = {}
        if rows.sample_weight is not None:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                is_labels = data.y.ndim == 1
                raise InputError(
                    f"{'sample_weight' if is_labels else 'y'}: {self.name!r} ({type(self.estimator).__name__}) does "
                    f"not take weights in fit; leave out the {'weights (or class_weight)' if is_labels else 'votes'}, "
                    "or this estimator."
                )
            options["sample_weight"] = rows.sample_weight
        fitted = clone(self.estimator).fit(rows.inputs.rows, rows.y, **options)
        return fitted, len(fold.all_training), data.num_classes

    def predict_log_proba(self, model: tuple[Any, int, int], inputs: Inputs) -> FloatArray:
        """Smoothed log-probabilities of rows, (n, C); a class without training rows has the smoothed frequency 0."""
        fitted, n_rows, num_classes = model
        probs = np.zeros((len(inputs.rows), num_classes))
        probs[:, fitted.classes_] = fitted.predict_proba(inputs.rows)
        if not np.isfinite(probs).all():
            raise InputError(f"estimators: {self.name!r} predicts probabilities that are not finite.")
        return smoothed_log_probs(probs, n_rows)

    def shape(self, model: tuple[Any, int, int]) -> tuple[int, int]:
        """Number of columns and of classes."""
        return model[0].n_features_in_, model[2]

    def save(self, model: Any, path: Path) -> None:
        """Not possible: a file of any class would have to be a pickle."""
        raise InputError(f"estimators: {self.name!r} cannot be written to a model folder; use a named kind.")

    def load(self, path: Path) -> Any:
        """Not possible, as `save`."""
        raise InputError(f"{path}: estimators of other packages are not read from files.")
