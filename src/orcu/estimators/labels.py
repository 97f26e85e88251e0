"""Labels as estimators get them: the order of their classes, and the class of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import IntArray
from orcu.predictions.labels import POSITIONS, canonical, check_no_gaps, label_codes


def carries_order(y: Any) -> bool:
    """Whether labels know their order: an ordered pandas categorical, or an Enum of polars.

    Example:
        >>> import pandas as pd
        >>> carries_order(pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True))
        True
    """
    dtype = getattr(y, "dtype", None)
    return bool(getattr(dtype, "ordered", False)) or type(dtype).__name__ == "Enum"


def ordered_labels(y: Any, classes: Sequence[Any] | None) -> npt.NDArray[Any]:
    """The labels from lowest to highest.

    Raises:
        InputError: if they are strings whose order was not given, a label is missing, or the given
            classes are not two or more different ones.

    Example:
        >>> ordered_labels([3, 1, 2, 1], None).tolist()
        [1, 2, 3]
    """
    if classes is not None:
        names = [] if isinstance(classes, str) else [canonical(name) for name in classes]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"classes: expected two or more different labels, lowest first; got {classes!r}.")
        return np.asarray(classes)
    if carries_order(y):
        return np.asarray(y.dtype.categories)
    check_no_gaps(y)
    labels = np.unique(np.asarray(y))
    if not np.issubdtype(labels.dtype, np.number):
        raise InputError(
            f"classes: the labels are {', '.join(map(str, labels[:5].tolist()))}; their order cannot be told "
            "from the alphabet. Give classes=[lowest, ..., highest]."
        )
    return labels


def class_codes(y: Any, classes: npt.NDArray[Any]) -> IntArray:
    """The number 0..C-1 of each label's class, shape (n,).

    Integers in place of names are refused: scikit-learn's own tools encode names by the alphabet before they fit, and
    nobody can tell these from positions.

    Args:
        y: labels.
        classes: the labels from lowest to highest.

    Raises:
        InputError: if a label is missing, is none of the classes, or is an integer where classes have names.

    Example:
        >>> class_codes(["mid", "low"], np.array(["low", "mid", "high"])).tolist()
        [1, 0]
    """
    names = tuple(canonical(label) for label in classes.tolist())
    codes, mapping = label_codes(y, names, given=True)
    if mapping == POSITIONS:
        raise InputError(
            f"y: holds integers, but the classes have names ({', '.join(names)}): are they positions, or numbers that "
            "scikit-learn has given to the names by the alphabet? Give the names themselves. cross_val_predict, "
            "VotingClassifier, StackingClassifier and BaggingClassifier of scikit-learn number the labels before they "
            "fit: use orcu.estimators.cross_val_predict, or labels 0, 1, ... in the order of the classes."
        )
    return codes
