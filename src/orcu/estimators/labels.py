"""Labels of the estimators: the order of the classes, and the class code of each label."""

import numbers
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.predictions.labels import POSITIONS, canonical_label, check_no_missing, label_codes
from orcu.raters.votes import as_votes, label_shares, multilabel_warning


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


def ordered_votes(y: Any, classes: Any) -> tuple[FloatArray, npt.NDArray[Any]] | None:
    """Shares of votes, (n, C), from the lowest to the highest class, and the classes; ``None`` for labels.

    Several columns are votes, one column is a column of labels. The columns of an array are the classes 0..C-1, or
    ``classes`` in their order. The columns of a frame have names: numbers have an order, other names need ``classes``.

    Raises:
        InputError: if the order of the columns is unknown, a column is not a class, or votes are invalid.

    Warns:
        UserWarning: if the votes look like labels of which several can hold for a row.

    Example:
        >>> votes, labels = ordered_votes([[3, 1, 0]], ["low", "mid", "high"])
        >>> votes.tolist(), labels.tolist()
        ([[0.75, 0.25, 0.0]], ['low', 'mid', 'high'])
    """
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    if len(shape) != 2 or shape[1] == 1:
        return None
    names = [canonical_label(name) for name in getattr(y, "columns", [])]
    if not names:
        labels = np.arange(shape[1]) if classes is None else ordered_labels(None, classes)
        return label_shares(_checked_votes(y, len(labels))), labels
    labels = ordered_labels(np.array(list(y.columns), dtype=object), classes)
    expected = [canonical_label(label) for label in labels.tolist()]
    if sorted(names) != sorted(expected):
        raise InputError(
            f"y: the columns of votes are {', '.join(names)}; expected one column for each of the classes "
            f"{', '.join(expected)}."
        )
    return label_shares(_checked_votes(y, len(names)))[:, [names.index(name) for name in expected]], labels


def _checked_votes(y: Any, num_classes: int) -> FloatArray:
    votes = as_votes(y, num_classes)
    if warning := multilabel_warning(votes):
        warnings.warn(f"y: {warning}", UserWarning, stacklevel=5)
    return votes


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


# Functions of sklearn.metrics that take probabilities in the sorted order of the labels.
_SORTING_METRICS = (
    "average_precision_score",
    "brier_score_loss",
    "d2_brier_score",
    "d2_log_loss_score",
    "log_loss",
    "roc_auc_score",
    "top_k_accuracy_score",
)


def check_scorer(classes: npt.NDArray[Any]) -> None:
    """Raise `InputError` if a scorer of scikit-learn requests probabilities whose columns it would mix up.

    The functions of ``sklearn.metrics`` expect the columns of probabilities in the sorted order of the labels, and are
    not told ``classes_``. With the classes none, mild, severe, "neg_log_loss" would read the column of "none" as that
    of "mild", without a warning. An estimator cannot know from its arguments who calls ``predict_proba``, so the
    callers are inspected, and only if the classes are not in sorted order. Code that calls ``predict_proba`` and uses
    such a function by hand gets a warning, because the function sees an array only.
    """
    if _is_sorted(classes):
        return
    _warn_of_sorting_metrics(classes)
    frame = sys._getframe(1)
    while frame is not None:
        if (
            frame.f_globals.get("__name__") == "sklearn.metrics._scorer"
            and frame.f_code.co_qualname == "_Scorer._score"
        ):
            _check_scored_estimator(frame.f_locals)
        frame = frame.f_back  # type: ignore[assignment]


def _warn_of_sorting_metrics(classes: npt.NDArray[Any]) -> None:
    """Warn if the code that calls ``predict_proba`` uses a function of ``sklearn.metrics`` that sorts the labels.

    The code is that of a function, or of a script or notebook cell with what was imported before. Code that reads
    ``classes_`` has the order of the columns, and gets no warning.
    """
    frame, depth = sys._getframe(3), 4  # above this function, `check_scorer` and `predict_proba`
    while frame.f_back is not None and _is_sklearn_delegation(frame):
        frame, depth = frame.f_back, depth + 1
    code, functions = frame.f_code, vars(sys.modules.get("sklearn.metrics", object))
    if "classes_" in code.co_names or frame.f_globals.get("__name__", "").split(".")[0] in ("orcu", "sklearn"):
        return
    for name in _SORTING_METRICS:
        variable = frame.f_locals.get(name, frame.f_globals.get(name))
        if variable is None and name in code.co_names:  # sklearn.metrics.log_loss, or imported further below
            variable = functions.get(name)
        used = code.co_name == "<module>" or name in code.co_names or name in code.co_varnames
        if used and variable is not None and variable is functions.get(name):
            warnings.warn(
                f"predict_proba: {name} of scikit-learn expects the columns in alphabetical order of the labels, but "
                f"their order is {', '.join(map(str, classes))}; with these labels its result is wrong. Use "
                "orcu.metrics.scorer('nll')(model, X, y) or another metric of orcu, pass labels 0, 1, ... in the order "
                "of the classes, or sort the columns: probs[:, numpy.argsort(model.classes_)].",
                stacklevel=depth,
            )
            return


def _is_sklearn_delegation(frame: FrameType) -> bool:
    """Whether a frame is that of a pipeline or search of scikit-learn, which returns the columns as they are."""
    module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
    return module in ("sklearn.pipeline", "sklearn.model_selection._search") and name == "predict_proba"


def _check_scored_estimator(scoring: Mapping[str, Any]) -> None:
    """Raise if the estimator that a scorer evaluates has probabilities in another order than the scorer expects."""
    classes = getattr(scoring["estimator"], "classes_", None)
    if classes is None or _is_sorted(classes):  # a wrapper such as CalibratedClassifierCV has sorted the columns
        return
    if scoring["response_method"].__name__ == "predict":
        return
    # Functions of the user are refused too: they may call log_loss, and with several metrics they share the
    # probabilities with the other scorers.
    function = getattr(scoring["self"]._score_func, "__name__", "the scorer")
    raise InputError(
        f"scoring: {function} expects the columns of probabilities in the sorted order of the labels, but the order of "
        f"the classes is {', '.join(map(str, classes))}; the score would be wrong. Use "
        "scoring=orcu.metrics.scorer('nll') or another metric of orcu, a function of (estimator, X, y), or labels "
        "0, 1, ... in the order of the classes."
    )


def _is_sorted(classes: Any) -> bool:
    """Whether labels are in the order of numpy's sort, which scikit-learn uses."""
    labels = np.asarray(classes)
    try:
        return bool(np.array_equal(np.sort(labels), labels))
    except TypeError:  # labels of several types have no order
        return False
