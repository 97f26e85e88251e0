"""Rows of a frame or an array whose cells come from several rows, and predictions for them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray
from orcu.io.frames import is_frame
from orcu.predictions.labels import check_class_order

MAX_BACKGROUND = 100  # rows that stand for a population
MAX_CELL_ROWS = 20_000  # rows of one call of predict_proba


class Classifier(Protocol):
    """A fitted classifier: its classes in order, and their probabilities."""

    classes_: Any

    def predict_proba(self, X: Any, /) -> Any:
        """Probabilities, (n, C)."""


def as_rows(X: Any) -> Any:
    """A frame as it is, other rows as a two-dimensional array.

    Raises:
        InputError: if there are no rows, or the array is not two-dimensional.
    """
    rows = X if is_frame(X) else np.asarray(X)
    if np.ndim(rows) != 2 or not len(rows):
        raise InputError(f"X: expected a frame or an array of shape (n, D) with rows, got shape {np.shape(rows)}.")
    return rows


def column_names(X: Any, feature_names: Sequence[str] | None = None) -> list[str]:
    """Names of the columns: those of a frame, ``feature_names``, or x0, x1, ...

    Raises:
        InputError: if there is not one name per column.
    """
    count = X.shape[1]
    names = list(map(str, X.columns)) if is_frame(X) else [f"x{k}" for k in range(count)]
    if feature_names is None:
        return names
    if len(feature_names) != count:
        raise InputError(f"feature_names: {len(feature_names)} names for {count} columns; expected one per column.")
    return [str(name) for name in feature_names]


def column_index(column: Any, names: Sequence[str]) -> int:
    """Index of a column, which is given by name or by index.

    Raises:
        UnknownNameError: if there is no such column.
    """
    if isinstance(column, (int, np.integer)) and str(column) not in names and -len(names) <= column < len(names):
        return int(column) % len(names)
    if str(column) not in names:
        raise UnknownNameError("column", column, names)
    return list(names).index(str(column))


def take_cells(X: Any, rows: IntArray) -> Any:
    """Rows whose cell in column k of row i is that of row ``rows[i, k]``; types of columns stay.

    Args:
        X: frame or array, (n, D).
        rows: numbers of rows of X, (m, D).

    Example:
        >>> take_cells(np.array([[1, 2], [3, 4]]), np.array([[0, 1]])).tolist()
        [[1, 4]]
    """
    if hasattr(X, "iloc"):
        columns = {name: X.iloc[:, k].array.take(rows[:, k]) for k, name in enumerate(X.columns)}
        return type(X)(columns, columns=X.columns)
    if is_frame(X):  # polars
        return type(X)([X.to_series(k)[rows[:, k]] for k in range(X.shape[1])])
    return np.take_along_axis(X, rows, axis=0)


def as_row(row: Any, X: Any) -> Any:
    """One row of the same kind as the rows X: from a frame of one row, an array, a dictionary or a series.

    Raises:
        InputError: if it is not one row, or a column is missing.

    Example:
        >>> as_row([1.0, 2.0], np.zeros((5, 2))).tolist()
        [[1.0, 2.0]]
    """
    if is_frame(row):
        if len(row) != 1:
            raise InputError(f"x: expected one row, got a frame of {len(row)} rows.")
        cells = {str(name): row[name].to_list()[0] for name in row.columns}
    elif isinstance(row, Mapping) or hasattr(row, "to_dict"):
        cells = {str(name): value for name, value in dict(row).items()}
    else:
        values = np.asarray(row)
        if values.size != X.shape[1] or values.shape not in {(X.shape[1],), (1, X.shape[1])}:
            raise InputError(f"x: expected one row of {X.shape[1]} columns, got shape {values.shape}.")
        if not is_frame(X):
            return values.reshape(1, -1)
        cells = dict(zip(map(str, X.columns), values.ravel().tolist(), strict=True))
    if not is_frame(X):
        raise InputError(f"x: expected an array of one row, as X is an array; got {type(row).__name__}.")
    missing = next((name for name in map(str, X.columns) if name not in cells), None)
    if missing is not None:
        raise InputError(f"x: has no column {missing!r}, which the other rows have.")
    return type(X)({name: [cells[str(name)]] for name in X.columns})


def stack_rows(first: Any, second: Any) -> Any:
    """The rows of two frames or arrays; categorical columns of pandas get the categories of both."""
    if hasattr(first, "iloc"):
        columns = {}
        for name in first.columns:
            upper, lower = first[name].reset_index(drop=True), second[name].reset_index(drop=True)
            if hasattr(upper, "cat"):
                new = [value for value in lower.dropna().unique() if value not in upper.cat.categories]
                upper = upper.cat.add_categories(new)
                lower = lower.astype(upper.dtype)
            both = upper.to_list() + lower.to_list()
            columns[name] = type(upper)(both, dtype=upper.dtype if upper.dtype == lower.dtype else None)
        return type(first)(columns, columns=first.columns)
    if is_frame(first):
        return first.vstack(second.cast(dict(first.schema)))
    return np.concatenate([first, second])


def sample_rows(n: int, max_rows: int, random_state: int) -> IntArray:
    """Numbers of at most ``max_rows`` of n rows, drawn at random, in increasing order."""
    if n <= max_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, max_rows, replace=False))


def predict_cells(estimator: Classifier, X: Any, rows: IntArray) -> FloatArray:
    """Probabilities of `take_cells`, (m, C), in batches."""
    parts = [
        np.asarray(estimator.predict_proba(take_cells(X, rows[start : start + MAX_CELL_ROWS])), dtype=np.float64)
        for start in range(0, len(rows), MAX_CELL_ROWS)
    ]
    return np.concatenate(parts)


def grade_values(estimator: Classifier) -> FloatArray:
    """Numbers of the classes for the expected grade, (C,): the labels if they are increasing numbers, else 0, 1, ...

    Raises:
        InputError: if the estimator has no classes_, or they are names in alphabetical order by default.
    """
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        raise InputError(f"estimator: expected a fitted classifier with predict_proba, got {type(estimator).__name__}.")
    check_class_order(estimator)
    classes: npt.NDArray[Any] = np.asarray(estimator.classes_)
    try:
        values = classes.astype(np.float64)
    except (TypeError, ValueError):
        return np.arange(len(classes), dtype=np.float64)
    increasing = np.isfinite(values).all() and (np.diff(values) > 0).all()
    return values if increasing else np.arange(len(classes), dtype=np.float64)
