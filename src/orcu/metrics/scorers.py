"""Scorers for scikit-learn: any metric, for estimators that know the order of their classes."""

from dataclasses import dataclass
from typing import Any

from orcu.errors import InputError
from orcu.metrics.base import METRICS
from orcu.metrics.rows import checked_rows
from orcu.metrics.sums import row_sums

BINS = 15


@dataclass(frozen=True)
class Scorer:
    """A metric of an estimator on labelled rows, turned so that higher is better.

    Attributes:
        name: of the metric.
    """

    name: str

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score; labels are matched to the estimator's ``classes_`` by value."""
        from orcu.predictions.labels import canonical, label_codes, need_order  # not needed for the formulas

        need_order(estimator)
        classes = tuple(canonical(label) for label in estimator.classes_)
        codes, _ = label_codes(y, classes, given=False)
        rows = checked_rows(estimator.predict_proba(X), codes, sample_weight).grouped(BINS)
        metric = METRICS.get(self.name)
        return -float(metric.cost(float(metric(row_sums(rows, BINS)))))


def scorer(name: str) -> Scorer:
    """A scorer for scikit-learn's ``scoring=``, by the name of a metric.

    It knows the order of the classes from the estimator, where scikit-learn's own scorers know the alphabet's, and
    which way the metric is better: errors and scores such as the RPS are negated, of what should be 0 the size is.

    Args:
        name: of a metric that is better one way or the other.

    Raises:
        UnknownNameError: if there is no such metric.
        InputError: if it is better neither high nor low; when it scores, if the order of the classes is not known.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_val_score
        >>> X = [[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]]
        >>> cross_val_score(LogisticRegression(), X, [0, 0, 1, 1, 2, 2], scoring=scorer("rps"), cv=2).round(3)
        array([-0.235, -0.235])
    """
    if not METRICS.get(name).better:  # an unknown name is refused now, not in the first fold
        raise InputError(f"scorer: {name} is better neither high nor low; choose another metric.")
    return Scorer(name)
