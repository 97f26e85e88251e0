"""Partial dependence and individual curves of the expected grade and of P(grade >= k)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.explain.cells import Classifier, as_rows, column_index, column_names, grade_values, predict_cells, sample_rows
from orcu.inputs import FloatArray, as_count, as_probs
from orcu.io.frames import columns_from_frame, is_frame
from orcu.model_selection import take_rows
from orcu.predictions.labels import canonical_label
from orcu.preprocessing import TableEncoder

MAX_ROWS = 500
TRIMMED = (0.05, 0.95)  # quantiles at the ends of the grid of a column of numbers


@dataclass(frozen=True)
class PartialDependence:
    """Predictions of rows in which one column is set to each value of a grid.

    Attributes:
        column: name of the column.
        values: values of the grid, (G,): numbers in increasing order, or categories.
        probs: probabilities of each row at each value, (n, G, C).
        observed: values of the column in the rows, (n,).
        grades: number of each class, (C,).
        classes: names of the classes.
    """

    column: str
    values: npt.NDArray[Any]
    probs: FloatArray
    observed: npt.NDArray[Any]
    grades: FloatArray
    classes: tuple[str, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers, so that its values have distances."""
        return self.values.dtype.kind == "f"

    @property
    def individual(self) -> FloatArray:
        """Expected grade of each row at each value (individual conditional expectation), (n, G)."""
        return self.probs @ self.grades

    @property
    def expected_grade(self) -> FloatArray:
        """Mean of the expected grade over the rows, (G,)."""
        mean: FloatArray = self.individual.mean(axis=0)
        return mean

    @property
    def individual_at_least(self) -> FloatArray:
        """P(grade >= k) of each row at each value for k = 1..C-1, (n, G, C - 1)."""
        return self.probs[:, :, ::-1].cumsum(axis=2)[:, :, -2::-1]

    @property
    def at_least(self) -> FloatArray:
        """Mean of P(grade >= k) over the rows for k = 1..C-1, (G, C - 1)."""
        mean: FloatArray = self.individual_at_least.mean(axis=0)
        return mean

    def to_dict(self) -> dict[str, Any]:
        """The means as plain data for JSON."""
        return {
            "column": self.column,
            "values": self.values.tolist(),
            "expected_grade": self.expected_grade.tolist(),
            "at_least": {name: self.at_least[:, k].tolist() for k, name in enumerate(self.classes[1:])},
        }


def partial_dependence(
    estimator: Classifier,
    X: Any,
    column: Any,
    *,
    grid_size: int = 20,
    max_rows: int = MAX_ROWS,
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> PartialDependence:
    """Predict rows with one column set to each value of a grid.

    The grid of numbers has the values that occur, or of many the quantiles from 5 % to 95 %, which occur too. The grid
    of categories has all of them. The means are those of scikit-learn's ``partial_dependence`` at the same values. A
    curve shows what the model does, not what would happen if the column were changed.

    Args:
        estimator: fitted classifier with ``predict_proba``.
        X: frame or array.
        column: name or index of the column.
        grid_size: maximum number of values of a column of numbers.
        max_rows: of more rows a random sample is used.
        feature_names: names of the columns of an array.
        random_state: seed of the sample.

    Raises:
        InputError: if the classes have no order, or the column is unknown.

    Example:
        >>> from orcu import OrdinalLogistic
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
        >>> model = OrdinalLogistic().fit(X, [0, 1, 0, 2, 1, 2])
        >>> partial_dependence(model, X, "x0").expected_grade.round(2).tolist()
        [0.21, 0.46, 0.81, 1.19, 1.54, 1.79]
    """
    grades = grade_values(estimator)
    X = as_rows(X)
    names = column_names(X, feature_names)
    index = column_index(column, names)
    grid_size = as_count(grid_size, name="grid_size", minimum=2)
    max_rows = as_count(max_rows, name="max_rows", minimum=1)
    X = take_rows(X, sample_rows(len(X), max_rows, random_state))
    observed = _values(X, index, names[index])
    values, source = _grid(observed, grid_size)
    n, size = len(X), len(values)
    cells = np.tile(np.arange(n)[:, None], (size, X.shape[1]))
    cells[:, index] = np.repeat(source, n)
    probs = as_probs(predict_cells(estimator, X, cells)).reshape(size, n, len(grades)).transpose(1, 0, 2)
    classes = tuple(canonical_label(label) for label in np.asarray(estimator.classes_).tolist())
    return PartialDependence(names[index], values, probs, observed, grades, classes)


def _values(X: Any, index: int, name: str) -> npt.NDArray[Any]:
    """Values of a column: numbers as float64, categories as texts; NaN and "(missing)" where missing."""
    cells = list(columns_from_frame(X).values())[index] if is_frame(X) else X[:, index]
    encoder = TableEncoder.fit({name: cells}, robust=False, warn=False)
    codes = encoder.encode({name: cells}, features=False).codes
    assert codes is not None  # noqa: S101
    categories = encoder.columns[0].categories
    if categories is None:
        return codes[:, 0]
    missing = np.isnan(codes[:, 0])
    return np.array(categories, dtype=object)[np.where(missing, len(categories) - 1, codes[:, 0]).astype(int)]


def _grid(observed: npt.NDArray[Any], grid_size: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Values of the grid, and for each the number of a row that has it."""
    if observed.dtype == object:
        values, rows = np.unique(observed.astype(str), return_index=True)
        return values.astype(object), rows
    values, rows = np.unique(observed, return_index=True)
    present = ~np.isnan(values)
    if present.any():
        values, rows = values[present], rows[present]
    if len(values) > grid_size:
        levels = np.linspace(*TRIMMED, grid_size)
        quantiles = np.quantile(observed[~np.isnan(observed)], levels, method="inverted_cdf")
        chosen = np.unique(np.searchsorted(values, quantiles))
        values, rows = values[chosen], rows[chosen]
    return values, rows
