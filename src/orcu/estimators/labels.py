"""Labels of the estimators: the order of the classes, and the class code of each label."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import IntArray
from orcu.predictions.labels import POSITIONS, canonical_label, check_no_missing, label_codes


def carries_order(y: Any) -> bool:
    """Whether labels have an order: an ordered pandas categorical, or a polars Enum.

    Example:
        >>> import pandas as pd
        >>> carries_order(pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True))
        True
    """
    dtype = getattr(y, "dtype", None)
    return bool(getattr(dtype, "ordered", False)) or type(dtype).__name__ == "Enum"


def ordered_labels(y: Any, classes: Sequence[Any] | None) -> npt.NDArray[Any]:
    """The labels from lowest to highest: ``classes``, or numbers or ordered categories in their own order.

    Example:
        >>> ordered_labels([3, 1, 2, 1], None).tolist()
        [1, 2, 3]
    """
    if classes is not None:
        names = [] if isinstance(classes, str) else [canonical_label(name) for name in classes]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"classes: expected two or more different labels, lowest first; got {classes!r}.")
        return np.asarray(classes)
    if carries_order(y):
        return np.asarray(y.dtype.categories)
    check_no_missing(y)
    values = np.asarray(y)
    if values.dtype == object:  # mixed types cannot be sorted
        _check_one_type(values)
        if all(isinstance(label, numbers.Real) and not isinstance(label, bool) for label in values.ravel().tolist()):
            values = np.array(values.tolist())
    labels = np.unique(values)
    if not np.issubdtype(labels.dtype, np.number):
        raise InputError(
            f"classes: the labels are {', '.join(map(str, labels[:5].tolist()))}; their alphabetical "
            "order may be wrong. Give classes=[lowest, ..., highest]."
        )
    return labels


def _check_one_type(labels: npt.NDArray[Any]) -> None:
    """Raise `InputError` if some labels are text and others are not."""
    is_text = np.array([isinstance(label, str) for label in labels.ravel().tolist()], dtype=bool)
    if is_text.any() and not is_text.all():
        number, text = (int(np.argmax(is_text == kind)) for kind in (False, True))
        raise InputError(
            f"y: labels are both numbers and text (row {number} has {labels.ravel()[number]!r}, row {text} has "
            f"{labels.ravel()[text]!r}). Use one type, or give classes=[lowest, ..., highest]."
        )


def class_codes(y: Any, classes: npt.NDArray[Any]) -> IntArray:
    """The code 0..C-1 of each label, shape (n,).

    Integers in place of names are refused: some scikit-learn tools encode names alphabetically before they fit, and
    these codes cannot be distinguished from positions.

    Example:
        >>> class_codes(["mid", "low"], np.array(["low", "mid", "high"])).tolist()
        [1, 0]
    """
    names = tuple(canonical_label(label) for label in classes.tolist())
    codes, mapping = label_codes(y, names, explicit_order=True)
    if mapping == POSITIONS:
        raise InputError(
            f"y: has integers, but the classes have names ({', '.join(names)}); they may be positions or alphabetical "
            "codes of scikit-learn. Give the names. scikit-learn's cross_val_predict, VotingClassifier, "
            "StackingClassifier and BaggingClassifier encode the labels before they fit: use "
            "orcu.model_selection.cross_val_predict, or labels 0, 1, ... in the order of the classes."
        )
    return codes
