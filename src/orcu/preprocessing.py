"""Encoding of tables: columns of numbers and categories to the matrices that trees and networks take."""

import datetime
import math
import numbers
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, is_missing, is_null
from orcu.io.frames import Category, category_text, date_message

MISSING = "(missing)"
_UNSEEN = -1.0  # code of a category that is not in the training rows
N_BINS = 16  # bins of the piecewise-linear encoding of a number
MAX_BINNED_COLUMNS = 50  # wider tables are usually features of images or texts, which are not binned
CLIP = 3.0  # bound of a scaled number; values within one are hardly changed
IQR_OF_NORMAL = 1.349  # interquartile range of the standard normal distribution
MAX_SCALED = 1e18  # of numbers that are not bounded; networks compute squares in single precision
# A number in text. Numerals with leading zeros, such as 007 or a postal code, are names.
_NUMBER = re.compile(
    r"[+-]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}.*)?|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{4}")
_DATE_TYPES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
MIN_ID_ROWS = 20  # in fewer rows all values of a column may differ by chance
MAX_ID_RANGE = 2  # range of distinct integers per row: random integers of such a range would have ties
FAR = 1e4  # distance from the training rows, in units of the column's scale, of which `TableEncoder.unseen` tells
MAX_NAMED_NUMBERS = 0.5  # share of numbers among the cells of a column of names, above which `TableEncoder.fit` warns


@dataclass(frozen=True)
class Inputs:
    """Rows in the forms that base learners take."""

    codes: FloatArray | None  # numbers and category codes with NaN for missing values, (n, D); only of tables
    features: Any  # float32 array or tensor for networks and linear models, (n, F) or of any further shape
    rows: Any = None  # frame or array as the user passed it, for estimators of other packages

    def __getitem__(self, rows: IntArray) -> "Inputs":
        user_rows = self.rows.iloc if hasattr(self.rows, "iloc") else self.rows
        parts = (self.codes, self.features, user_rows)
        return Inputs(*(None if part is None else part[rows] for part in parts))


def table_codes(inputs: Inputs) -> FloatArray:
    """The codes of a table, (n, D); `InputError` for inputs that are not a table."""
    if inputs.codes is None:
        raise InputError("X: this estimator needs a table of numbers and categories.")
    return inputs.codes


@dataclass(frozen=True)
class Column:
    """Statistics of a column of the training rows."""

    name: str
    center: float = 0.0  # also the value of missing numbers
    scale: float = 1.0
    gaps: bool = False  # whether values are missing, so that a feature marks where
    categories: tuple[str, ...] | None = None  # sorted; `MISSING` is the last one where values are missing
    clip: bool = True  # whether scaled numbers are bounded; encoders of orcu 0.2 do not bound them
    edges: tuple[float, ...] = ()  # increasing edges of the bins; none where the number is not binned

    @property
    def width(self) -> int:
        """Number of features."""
        if self.categories is not None:
            return len(self.categories)
        return 1 + self.gaps + max(0, len(self.edges) - 1)


class TableEncoder:
    """Encode a table for trees and networks.

    For trees (``codes``) numbers stay as they are and categories are numbered; missing values and unseen categories
    are NaN. For networks and linear models (``features``) a number x becomes z / sqrt(1 + (z / 3)^2) with
    z = (x - median) / scale, so that no value can dominate a row. Tables of up to 50 columns get a piecewise-linear
    encoding in addition: for each of 16 quantile bins the share of the bin that lies below x. The scale is the
    interquartile range divided by that of the standard normal distribution, or half the range of the values. Missing
    numbers are filled by the median and marked, categories are one-hot, and an unseen category is all zeros.

    A column is one of numbers if each of its cells is a number: of any numeric type, also ``Decimal``, ``Fraction`` and
    booleans, or a text such as "12.5" (but not "007", which is a name). Otherwise each of its values is a category. To
    keep numbers as categories, use a categorical type of pandas or polars. Dates, times and durations are refused.

    Args:
        columns: column statistics, from `fit`.

    Example:
        >>> encoder = TableEncoder.fit({"age": [30.0, None, 50.0], "site": ["n", "s", "n"]})
        >>> inputs = encoder.encode({"age": [40.0], "site": ["n"]})
        >>> inputs.codes.tolist(), inputs.features[:, :2].tolist()
        ([[40.0, 0.0]], [[0.0, 0.0]])
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)

    @classmethod
    def fit(cls, table: Mapping[str, Any], *, robust: bool = True) -> "TableEncoder":
        """Learn the column statistics of training rows: column names to values, ``None`` or NaN where missing.

        With ``robust=False`` numbers are standardised by mean and standard deviation, without bounds and bins. Single
        networks of benchmarks and of ``orcu train`` use this, as in orcu 0.2.

        Raises:
            InputError: if a column holds dates, times or durations, or an infinite number.

        Warns:
            UserWarning: for a column whose values become categories although most are numbers, or that are objects;
                and for columns that look like an id: every row has another name, or another integer of a dense range
                or in increasing or decreasing order.
        """
        fit_column = _column if robust else _standardised_column
        binned = len(table) <= MAX_BINNED_COLUMNS
        encoder = cls([fit_column(name, values, binned=binned) for name, values in table.items()])
        ids = [repr(column.name) for column in encoder.columns if _is_id(column, table[column.name])]
        if ids:
            warnings.warn(
                f"column {', '.join(ids)}: every row has another value, as in an id or a row number. A model learns "
                "nothing from it that holds for new rows; drop the column.",
                UserWarning,
                stacklevel=5,
            )
        return encoder

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
        """A note for each column with values unlike those in training: other categories, gaps, far numbers."""
        notes = []
        for column in self.columns:
            values = table[column.name]
            if column.categories is not None:
                categories = set(column.categories)
                missing = np.array([is_null(value) for value in values], dtype=bool)
                unlike = np.array([category_text(value) not in categories for value in values], dtype=bool) & ~missing
                gaps = MISSING in categories
            else:
                numbers = _numbers(column.name, values)
                missing = np.isnan(numbers)
                unlike = np.abs(np.where(missing, column.center, numbers) - column.center) > FAR * column.scale
                gaps = column.gaps
            if unlike.any():
                what = (
                    "are far outside of the training rows" if column.categories is None else "did not occur in training"
                )
                notes.append(
                    f"column {column.name!r}: {int(unlike.sum()):,} of {len(values):,} values {what}, such as "
                    f"{_shown(values[int(np.argmax(unlike))])}"
                )
            if missing.any() and not gaps:
                notes.append(
                    f"column {column.name!r}: {int(missing.sum()):,} of {len(values):,} values are missing, but none "
                    "was in training"
                )
        return notes

    def to_dict(self) -> list[dict[str, Any]]:
        """The column statistics as plain data for JSON."""
        states = [asdict(column) for column in self.columns]
        tuples = ("categories", "edges")
        return [
            {key: list(value) if key in tuples and value is not None else value for key, value in state.items()}
            for state in states
        ]

    @classmethod
    def from_dict(cls, state: Sequence[Mapping[str, Any]]) -> "TableEncoder":
        """The encoder that `to_dict` describes."""
        columns = []
        for column in state:
            names = column["categories"]
            entries: dict[str, Any] = {**column, "categories": None if names is None else tuple(names)}
            if "mean" in entries:  # written by orcu 0.2
                entries |= {"center": entries.pop("mean"), "scale": entries.pop("std"), "clip": False}
            columns.append(Column(**entries | {"edges": tuple(entries.get("edges", ()))}))
        return cls(columns)


def _is_float_array(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


def _categories(name: str, values: Any) -> tuple[str, ...] | None:
    """The categories of a column, or ``None`` for numbers; see `TableEncoder`."""
    if _is_float_array(values):
        return None
    present = [value for value in values if not is_null(value)]
    distinct = _distinct(present)
    if all(_number(value) is not None for value in distinct):
        return None
    if any(isinstance(value, _DATE_TYPES) or type(value).__name__ == "Period" for value in distinct):
        raise InputError(date_message(name))
    if all(type(value) is str and _DATE.fullmatch(value.strip()) for value in distinct):
        raise InputError(date_message(name))
    _warn_of_lost_numbers(name, present, distinct)
    names = sorted({category_text(value) for value in distinct})
    return (*names, MISSING) if len(present) < len(values) else tuple(names)


def _shown(value: Any) -> str:
    """A value in a note."""
    return f"{value:g}" if isinstance(value, float) else repr(str(value))


def _is_id(column: Column, values: Any) -> bool:
    """Whether a column looks like an id or a row number; see `TableEncoder.fit`."""
    if len(values) < MIN_ID_ROWS:
        return False
    if column.categories is not None:
        return len(column.categories) == len(values)
    numbers = _numbers(column.name, values)
    if np.isnan(numbers).any() or (numbers != np.floor(numbers)).any():
        return False
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return True
    return bool(np.ptp(numbers) < MAX_ID_RANGE * len(numbers) and len(np.unique(numbers)) == len(numbers))


def _distinct(values: Sequence[Any]) -> Iterable[Any]:
    """The distinct values, or all of them where they have no hash."""
    try:
        return set(values)
    except TypeError:
        return values


def _number(value: Any) -> float | None:
    """The number in a cell, NaN for a text that means a missing value; ``None`` if it is not a number."""
    if isinstance(value, (numbers.Real, Decimal, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if not isinstance(value, str) or isinstance(value, Category):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    return math.nan if is_missing(text) else None


def _warn_of_lost_numbers(name: str, present: Sequence[Any], distinct: Iterable[Any]) -> None:
    """Warn of a column of categories most of whose cells are numbers, or in which a cell is neither text nor number."""
    other = next((value for value in distinct if not isinstance(value, (str, numbers.Real, Decimal, np.bool_))), None)
    if other is not None:
        reason = f"has cells of type {type(other).__name__}"
    else:
        count = sum(_number(value) is not None and not is_missing(value) for value in present)
        if count <= MAX_NAMED_NUMBERS * len(present):
            return
        text = next(value for value in present if _number(value) is None)
        reason = f"{count:,} of {len(present):,} values are numbers, but others are not, such as {text!r}"
    warnings.warn(
        f"column {name!r}: {reason}, so that each value is a category. Convert the column to numbers with gaps, or to "
        "a categorical type.",
        UserWarning,
        stacklevel=6,
    )


def _present_numbers(name: str, values: Any) -> tuple[FloatArray, bool]:
    """The numbers of a column without missing ones, and whether any is missing."""
    numbers = _numbers(name, values)
    present = numbers[~np.isnan(numbers)]
    return present, len(present) < len(numbers)


def _standardised_column(name: str, values: Any, *, binned: bool) -> Column:
    values = values if _is_float_array(values) else list(values)
    categories = _categories(name, values)
    if categories is not None:
        return Column(name, categories=categories)
    present, gaps = _present_numbers(name, values)
    center, scale = (float(present.mean()), float(present.std())) if present.size else (0.0, 0.0)
    return Column(name, center, scale or 1.0, gaps, clip=False)


def _column(name: str, values: Any, *, binned: bool) -> Column:
    values = values if _is_float_array(values) else list(values)
    categories = _categories(name, values)
    if categories is not None:
        return Column(name, categories=categories)
    present, gaps = _present_numbers(name, values)
    if not present.size:
        return Column(name, gaps=gaps)
    low, center, high = np.quantile(present, [0.25, 0.5, 0.75])
    scale = (high - low) / IQR_OF_NORMAL or present.max() / 2 - present.min() / 2
    edges = np.unique(np.quantile(present, np.linspace(0, 1, N_BINS + 1))) if binned else np.zeros(0)
    # Two levels are one step, which the scaled number has already.
    return Column(name, float(center), float(scale) or 1.0, gaps, edges=tuple(edges.tolist()) if len(edges) > 2 else ())


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
    return np.array(
        [np.nan if is_null(value) else codes.get(category_text(value), _UNSEEN) for value in values], dtype=np.float64
    )


def _numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    """The numbers of a column, NaN where missing; `InputError` for other values and infinite numbers."""
    if _is_float_array(values):
        array = np.asarray(values, dtype=np.float64)
    else:
        cells = [math.nan if is_null(value) else _number(value) for value in values]
        if None in cells:
            row = cells.index(None)
            raise InputError(f"column {name!r}: row {row} has {values[row]!r}, expected a number as in training.")
        array = np.array(cells, dtype=np.float64)
    if np.isinf(array).any():
        row = int(np.argmax(np.isinf(array)))
        raise InputError(f"column {name!r}: row {row} is infinite, expected finite or missing numbers.")
    return array


def _features(column: Column, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    missing = np.isnan(values)
    if column.categories is None:
        filled = np.where(missing, column.center, values)
        scaled = (filled - column.center) / column.scale
        if column.clip:
            scaled /= np.hypot(1.0, scaled / CLIP)
        elif (np.abs(scaled) > MAX_SCALED).any():
            row = int(np.argmax(np.abs(scaled) > MAX_SCALED))
            raise InputError(
                f"column {column.name!r}: row {row} has {values[row]:g}, which is too far from the training rows (mean "
                f"{column.center:g}, standard deviation {column.scale:g}) to compute with; check the number."
            )
        parts = [scaled[:, None], missing[:, None]] if column.gaps else [scaled[:, None]]
        if column.edges:
            edges = np.array(column.edges)
            parts.append(((filled[:, None] - edges[:-1]) / np.diff(edges)).clip(0.0, 1.0))
        return np.concatenate(parts, axis=1)
    one_hot = np.zeros((len(values), len(column.categories)))
    seen = values >= 0
    one_hot[seen, values[seen].astype(np.int64)] = 1.0
    if column.categories[-1:] == (MISSING,):
        one_hot[missing, -1] = 1.0
    return one_hot
