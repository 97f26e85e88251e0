"""Tables: columns of numbers and categories to one matrix, and a multilayer perceptron on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from orcu.errors import InputError
from orcu.io.frames import unseen_note

MISSING = "(missing)"


@dataclass(frozen=True)
class Column:
    """What was learned about a column: of numbers, centre and spread; of categories, their names."""

    name: str
    mean: float = 0.0
    std: float = 1.0
    gaps: bool = False  # whether a second column says where the number is missing
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Columns in the matrix."""
        return len(self.categories) if self.categories is not None else 1 + self.gaps


class TableEncoder:
    """Numbers are standardised, gaps filled with the mean and marked; categories become one-hot.

    Args:
        columns: what `fit` has learned.

    Example:
        >>> encoder = TableEncoder.fit({"age": [30.0, None, 50.0], "site": ["n", "s", "n"]})
        >>> encoder.encode({"age": [40.0], "site": ["n"]}).tolist()
        [[0.0, 0.0, 1.0, 0.0]]
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)

    @classmethod
    def fit(cls, table: Mapping[str, Sequence[Any]]) -> "TableEncoder":
        """Learn from the training rows: names to values; ``None`` where there is nothing."""
        return cls([_learned(name, values) for name, values in table.items()])

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return sum(column.width for column in self.columns)

    def encode(self, table: Mapping[str, Sequence[Any]]) -> npt.NDArray[np.float32]:
        """The matrix of other rows; a category that was never seen is all zeros.

        Raises:
            InputError: if a column is missing or of another kind.
        """
        parts = []
        for column in self.columns:
            if column.name not in table:
                raise InputError(f"the table has no column {column.name!r}, which the model was trained on.")
            parts.append(_encoded(column, table[column.name]))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def unseen(self, table: Mapping[str, Sequence[Any]]) -> list[str]:
        """A note for each column with categories that were not there in training."""
        notes = []
        for column in self.columns:
            if column.categories is not None:
                known = set(column.categories)
                strange = [value for value in table[column.name] if value is not None and str(value) not in known]
                if strange:
                    notes.append(unseen_note(column.name, strange, len(table[column.name])))
        return notes

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data, fit for JSON."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_dict(cls, state: Sequence[Mapping[str, Any]]) -> "TableEncoder":
        """What `to_dict` gave."""
        columns = []
        for column in state:
            names = column["categories"]
            columns.append(Column(**{**column, "categories": None if names is None else tuple(names)}))
        return cls(columns)


class Mlp(nn.Module):
    """A multilayer perceptron from a matrix to its last hidden layer.

    Args:
        in_features: columns of the matrix.
        hidden: units of each layer.
        dropout: after each layer.
    """

    def __init__(self, in_features: int, *, hidden: Sequence[int] = (256,), dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = in_features
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            width = units
        self.layers = nn.Sequential(*layers)
        self.width = width

    def forward(self, matrix: Tensor) -> Tensor:
        """(n, in_features) to (n, width)."""
        features: Tensor = self.layers(matrix)
        return features


def _learned(name: str, values: Any) -> Column:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":  # gaps are NaN; no cell is looked at alone
        known = values[~np.isnan(values)]
        return _of_numbers(name, known, gaps=len(known) < len(values))
    values = list(values)
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there):
        names = sorted({str(value) for value in there})
        return Column(name, categories=(*names, MISSING) if len(there) < len(values) else tuple(names))
    return _of_numbers(name, np.array(there, dtype=np.float64), gaps=len(there) < len(values))


def _of_numbers(name: str, numbers: npt.NDArray[np.float64], *, gaps: bool) -> Column:
    if numbers.size and not np.isfinite(numbers).all():
        raise InputError(f"column {name!r}: has a value that is not finite.")
    spread = float(numbers.std()) if numbers.size else 0.0
    mean = float(numbers.mean()) if numbers.size else 0.0
    return Column(name, mean, spread or 1.0, gaps=gaps)


def _encoded(column: Column, values: Any) -> npt.NDArray[np.float64]:
    numeric = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    if numeric and column.categories is not None:
        raise InputError(
            f"column {column.name!r}: has numbers, where the model was trained on categories such as "
            f"{column.categories[0]!r}."
        )
    if numeric:
        missing = np.isnan(values)
        standard = (np.where(missing, column.mean, values) - column.mean) / column.std
        return np.stack([standard, missing], axis=1) if column.gaps else standard[:, None]
    values = list(values)
    if column.categories is not None:
        place = {name: k for k, name in enumerate(column.categories)}
        matrix = np.zeros((len(values), len(place)))
        for row, value in enumerate(values):
            k = place.get(MISSING if value is None else str(value))
            if k is not None:
                matrix[row, k] = 1.0
        return matrix
    missing = np.array([value is None for value in values])
    numbers = np.array([column.mean if value is None else _number(value, column.name) for value in values])
    standard = (numbers - column.mean) / column.std
    return np.stack([standard, missing], axis=1) if column.gaps else standard[:, None]


def _number(value: Any, column: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"column {column!r}: expected numbers, got {value!r}.") from None
