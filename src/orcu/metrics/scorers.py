"""Scorers for scikit-learn: any metric, for estimators whose classes have an order."""

from dataclasses import dataclass
from typing import Any

from orcu.errors import InputError
from orcu.metrics.base import METRICS
from orcu.metrics.rows import checked_rows
from orcu.metrics.sums import row_sums

N_BINS = 15


@dataclass(frozen=True)
class Scorer:
    """Metric of an estimator on labelled rows, transformed so that higher is better.

    Attributes:
        name: name of the metric.
    """

    name: str

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score; labels are matched to the estimator's ``classes_`` by value."""
        from orcu.predictions.labels import (  # not needed for the formulas
            canonical_label,
            check_class_order,
            label_codes,
        )

        check_class_order(estimator)
        classes = tuple(canonical_label(label) for label in estimator.classes_)
        codes, _ = label_codes(y, classes, explicit_order=False)
        rows = checked_rows(estimator.predict_proba(X), codes, sample_weight=sample_weight).with_adaptive_bins(N_BINS)
        metric = METRICS.get(self.name)
        return -float(metric.cost(float(metric(row_sums(rows, N_BINS)))))


def scorer(name: str) -> Scorer:
    """Scorer for scikit-learn's ``scoring=``, by the name of a metric.

    The order of the classes comes from the estimator; scikit-learn's own scorers sort them. Metrics that are better
    when lower, such as the RPS, are negated; for metrics that should be 0 the absolute value is negated.

    Args:
        name: name of a metric that is better in one direction.

    Raises:
        UnknownNameError: if there is no such metric.
        InputError: if the metric has no better direction; when scoring, if the order of the classes is unknown.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_val_score
        >>> X = [[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]]
        >>> cross_val_score(LogisticRegression(), X, [0, 0, 1, 1, 2, 2], scoring=scorer("rps"), cv=2).round(3)
        array([-0.235, -0.235])
    """
    if not METRICS.get(name).better:  # checked here, so that an unknown name fails before the first fold
        raise InputError(f"scorer: {name} has no better direction; choose another metric.")
    return Scorer(name)
