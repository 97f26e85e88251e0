"""Encoding of tables: columns of numbers and categories to the matrices that trees and networks take."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

MISSING = "(missing)"
_UNSEEN = -1.0  # code of a category that is not in the training rows


@dataclass(frozen=True)
class Inputs:
    """Rows in the forms that base learners take."""

    codes: FloatArray | None  # numbers and category codes with NaN for missing values, (n, D); only of tables
    features: Any  # float32 array or tensor for networks, (n, F) or of any further shape

    def __getitem__(self, rows: IntArray) -> "Inputs":
        return Inputs(
            None if self.codes is None else self.codes[rows], None if self.features is None else self.features[rows]
        )


@dataclass(frozen=True)
class Column:
    """Statistics of a column of the training rows."""

    name: str
    mean: float = 0.0
    std: float = 1.0
    gaps: bool = False  # whether values are missing, so that a second feature marks where
    categories: tuple[str, ...] | None = None  # sorted; `MISSING` is the last one where values are missing

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.categories) if self.categories is not None else 1 + self.gaps


class TableEncoder:
    """Encode a table for trees and networks.

    For trees (``codes``) numbers stay as they are and categories are numbered; missing values and unseen categories
    are NaN. For networks (``features``) numbers are standardised with missing values filled by the mean and marked,
    and categories are one-hot; an unseen category is all zeros.

    Args:
        columns: column statistics, from `fit`.

    Example:
        >>> encoder = TableEncoder.fit({"age": [30.0, None, 50.0], "site": ["n", "s", "n"]})
        >>> inputs = encoder.encode({"age": [40.0], "site": ["n"]})
        >>> inputs.codes.tolist(), inputs.features.tolist()
        ([[40.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]])
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)

    @classmethod
    def fit(cls, table: Mapping[str, Any]) -> "TableEncoder":
        """Learn the column statistics of training rows: column names to values, ``None`` or NaN where missing."""
        return cls([_column(name, values) for name, values in table.items()])

    @property
    def width(self) -> int:
        """Number of features of a row for networks."""
        return sum(column.width for column in self.columns)

    @property
    def categorical(self) -> list[int]:
        """Indices of the columns that hold categories."""
        return [index for index, column in enumerate(self.columns) if column.categories is not None]

    def encode(self, table: Mapping[str, Any], *, features: bool = True) -> Inputs:
        """Encode rows, for networks only if ``features``; a missing column or another type is an `InputError`."""
        values = []
        for column in self.columns:
            if column.name not in table:
                raise InputError(f"the table has no column {column.name!r}, which the model was trained on.")
            values.append(_parse(column, table[column.name]))
        codes = np.stack(values, axis=1)
        encoded = None
        if features:
            encoded = np.concatenate(
                [_features(column, codes[:, k]) for k, column in enumerate(self.columns)], axis=1
            ).astype(np.float32)
        categorical = self.categorical
        codes[:, categorical] = np.where(codes[:, categorical] == _UNSEEN, np.nan, codes[:, categorical])
        return Inputs(codes, encoded)

    def unseen(self, table: Mapping[str, Any]) -> list[str]:
        """A note for each column with categories that are not in the training rows."""
        notes = []
        for column in self.columns:
            if column.categories is not None:
                categories = set(column.categories)
                values = table[column.name]
                unseen = [value for value in values if value is not None and str(value) not in categories]
                if unseen:
                    notes.append(
                        f"column {column.name!r}: {len(unseen):,} of {len(values):,} values did not occur in training, "
                        f"such as {str(unseen[0])!r}"
                    )
        return notes

    def to_dict(self) -> list[dict[str, Any]]:
        """The column statistics as plain data for JSON."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_dict(cls, state: Sequence[Mapping[str, Any]]) -> "TableEncoder":
        """The encoder that `to_dict` describes."""
        columns = []
        for column in state:
            names = column["categories"]
            columns.append(Column(**{**column, "categories": None if names is None else tuple(names)}))
        return cls(columns)


def _is_float_array(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


def _column(name: str, values: Any) -> Column:
    if not _is_float_array(values):
        values = list(values)
        present = [value for value in values if value is not None]
        if any(isinstance(value, str) for value in present):
            names = sorted({str(value) for value in present})
            return Column(name, categories=(*names, MISSING) if len(present) < len(values) else tuple(names))
        values = _numbers(name, values)
    present = values[~np.isnan(values)]
    if not np.isfinite(present).all():
        raise InputError(f"column {name!r}: has an infinite value; remove it or use a finite number.")
    std = float(present.std()) if present.size else 0.0
    mean = float(present.mean()) if present.size else 0.0
    return Column(name, mean, std or 1.0, gaps=len(present) < len(values))


def _parse(column: Column, values: Any) -> npt.NDArray[np.float64]:
    """Numbers, or codes of categories with `_UNSEEN` for others; NaN where missing."""
    if column.categories is None:
        return _numbers(column.name, values)
    if _is_float_array(values):
        raise InputError(
            f"column {column.name!r}: has numbers, but the model was trained on categories such as "
            f"{column.categories[0]!r}."
        )
    codes = {name: float(code) for code, name in enumerate(column.categories)} | {MISSING: np.nan}
    return np.array([np.nan if value is None else codes.get(str(value), _UNSEEN) for value in values], dtype=np.float64)


def _numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    if _is_float_array(values):
        return np.asarray(values, dtype=np.float64)
    try:
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        text = next(value for value in values if isinstance(value, str))
        raise InputError(f"column {name!r}: expected numbers, got {text!r}.") from None


def _features(column: Column, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    missing = np.isnan(values)
    if column.categories is None:
        standardised = (np.where(missing, column.mean, values) - column.mean) / column.std
        return np.stack([standardised, missing], axis=1) if column.gaps else standardised[:, None]
    one_hot = np.zeros((len(values), len(column.categories)))
    seen = values >= 0
    one_hot[seen, values[seen].astype(np.int64)] = 1.0
    if column.categories[-1:] == (MISSING,):
        one_hot[missing, -1] = 1.0
    return one_hot
