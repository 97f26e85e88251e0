"""Predictions out of fold, with the classes in their order."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import check_cv

from orcu.errors import InputError
from orcu.predictions.labels import need_order


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    method: Literal["predict_proba", "predict", "predict_logits"] = "predict_proba",
) -> npt.NDArray[Any]:
    """What an ordinal estimator says of each row when it was fitted on other rows.

    scikit-learn's function of this name numbers the labels by the alphabet before it fits, so an estimator that knows
    the order of names cannot be used with it. This one hands the labels over as they are; columns stand in the order of
    the estimator's ``classes_``.

    Args:
        estimator: `OrdinalClassifier`, `CalibratedOrdinal`, or another classifier with ``classes_``.
        X: rows.
        y: labels.
        cv: folds, stratified by the labels, or a splitter of scikit-learn.
        groups: a group per row that a splitter keeps together.
        method: of the estimator.

    Returns:
        Shape (n, C) for probabilities and logits, (n,) for decisions.

    Raises:
        InputError: if a row is in no test fold or in several, a fold's training rows lack a class, or the estimator has
            names in the order of the alphabet.

    Example:
        >>> from orcu import CalibratedOrdinal
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 1))
        >>> y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        >>> model = CalibratedOrdinal(LogisticRegression(), classes=["low", "mid", "high"])
        >>> cross_val_predict(model, X, y, cv=3).shape
        (300, 3)
    """
    labels = np.asarray(y)
    splits = list(check_cv(cv, labels, classifier=True).split(X, labels, groups))
    judged = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(judged), np.arange(len(labels))):
        raise InputError("cv: every row must be in one test fold; use a splitter that divides the rows.")
    parts, order = [], None
    for train, test in splits:
        fitted = clone(estimator).fit(_rows(X, train), _rows(y, train))
        if order is not None and list(fitted.classes_) != order:
            raise InputError(
                "y: the folds do not have the same classes, as some have few rows; use fewer folds, or give the "
                "estimator classes=[lowest, ..., highest]."
            )
        need_order(fitted)
        order = list(fitted.classes_)
        parts.append(getattr(fitted, method)(_rows(X, test)))
    out = np.empty_like(np.concatenate(parts))
    out[judged] = np.concatenate(parts)
    return out


def _rows(values: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Some rows of an array, a frame or a list."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]
