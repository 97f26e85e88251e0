"""Encoding of tables: columns of numbers and categories to the matrices that trees and networks take."""

import datetime
import difflib
import math
import numbers
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
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
FAR = 10.0  # ranges of the training rows beyond which a number is reported
FLOAT32_MAX = float(np.finfo(np.float32).max)
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


def float32_codes(codes: FloatArray) -> npt.NDArray[np.float32]:
    """The codes of a table in float32; numbers outside of its range become its largest one."""
    return np.ascontiguousarray(np.clip(codes, -FLOAT32_MAX, FLOAT32_MAX), dtype=np.float32)


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
    low: float | None = None  # range of the numbers; not known to encoders of orcu 0.2
    high: float | None = None

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
    def fit(cls, table: Mapping[str, Any], *, robust: bool = True, warn: bool = True) -> "TableEncoder":
        """Learn the column statistics of training rows: column names to values, ``None`` or NaN where missing.

        With ``robust=False`` numbers are standardised by mean and standard deviation, without bounds and bins. Single
        networks of benchmarks and of ``orcu train`` use this, as in orcu 0.2. ``warn=False`` is for some rows of a
        table whose rows were all checked before, as those of prepared data.

        Raises:
            InputError: if a column holds dates, times or durations, or an infinite number.

        Warns:
            UserWarning: for a column whose values become categories although most are numbers, or that are objects;
                and for columns that look like an id: every row has another name, or another integer of a dense range
                or in increasing or decreasing order.
        """
        fit_column = _column if robust else _standardised_column
        binned = len(table) <= MAX_BINNED_COLUMNS
        with nullcontext() if warn else warnings.catch_warnings():
            if not warn:
                warnings.simplefilter("ignore", UserWarning)
            encoder = cls([fit_column(name, values, binned=binned) for name, values in table.items()])
        if not warn:
            return encoder
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
        """Encode rows, for networks only if ``features``.

        Warns of columns with missing values that had none in the training rows, and of numbers far outside of the range
        of the training rows.

        Raises:
            InputError: if a column is missing or has another type, or a number is infinite.
        """
        values = []
        for column in self.columns:
            if column.name not in table:
                raise InputError(_missing_column_message(column.name, list(table)))
            values.append(_parse(column, table[column.name]))
            for note in _unlike_training(column, values[-1]):
                warnings.warn(note, UserWarning, stacklevel=2)
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
            if column.categories is None:
                continue
            names = [None if is_null(value) else category_text(value) for value in table[column.name]]
            unseen = [name for name in names if name is not None and name not in column.categories]
            if unseen:
                notes.append(
                    f"column {column.name!r}: {len(unseen):,} of {len(names):,} values did not occur in training, such "
                    f"as {unseen[0]!r}"
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


def _with_scale(column: Column) -> Column:
    """The column; `InputError` if its numbers are too large for their mean or scale to be a number."""
    if not (np.isfinite(column.center) and np.isfinite(column.scale)):
        raise InputError(
            f"column {column.name!r}: its numbers, from {column.low:g} to {column.high:g}, are too large to be "
            "scaled; divide them by a constant, or take the logarithm."
        )
    return column


def _standardised_column(name: str, values: Any, *, binned: bool) -> Column:
    values = values if _is_float_array(values) else list(values)
    categories = _categories(name, values)
    if categories is not None:
        return Column(name, categories=categories)
    present, gaps = _present_numbers(name, values)
    if not present.size:
        return Column(name, gaps=gaps, clip=False)
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = float(present.mean()), float(present.std())
    low, high = float(present.min()), float(present.max())
    return _with_scale(Column(name, center, scale or 1.0, gaps, clip=False, low=low, high=high))


def _column(name: str, values: Any, *, binned: bool) -> Column:
    values = values if _is_float_array(values) else list(values)
    categories = _categories(name, values)
    if categories is not None:
        return Column(name, categories=categories)
    present, gaps = _present_numbers(name, values)
    if not present.size:
        return Column(name, gaps=gaps)
    with np.errstate(over="ignore", invalid="ignore"):
        first, center, third = np.quantile(present, [0.25, 0.5, 0.75])
        scale = (third - first) / IQR_OF_NORMAL or present.max() / 2 - present.min() / 2
        edges = np.unique(np.quantile(present, np.linspace(0, 1, N_BINS + 1))) if binned else np.zeros(0)
    # Two levels are one step, which the scaled number has already.
    bins = tuple(edges.tolist()) if len(edges) > 2 else ()
    low, high = float(present.min()), float(present.max())
    return _with_scale(Column(name, float(center), float(scale) or 1.0, gaps, edges=bins, low=low, high=high))


def _missing_column_message(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1) or [other for other in names if other.lower() == name.lower()]
    hint = f"Is it {near[0]!r}? Rename it." if near else f"It has {', '.join(map(repr, names[:10]))}."
    return f"the table has no column {name!r}, which the model was trained on. {hint}"


def _unlike_training(column: Column, values: npt.NDArray[np.float64]) -> list[str]:
    """Notes on missing values in a column that had none, and on numbers far outside of the training range."""
    notes, missing = [], int(np.count_nonzero(np.isnan(values)))
    if column.categories is None:
        is_expected, filled = (
            column.gaps,
            f"networks and linear models take the typical value {column.center:.4g} for them",
        )
    else:
        is_expected, filled = column.categories[-1:] == (MISSING,), "no category stands for them"
    if missing and not is_expected:
        notes.append(
            f"column {column.name!r}: {missing:,} of {len(values):,} values are missing, but none was missing in "
            f"training; {filled}. Check the file."
        )
    if column.categories is None and column.low is not None and column.high is not None:
        with np.errstate(over="ignore"):
            margin = FAR * ((column.high - column.low) or max(1.0, abs(column.high)))
            far = (values < column.low - margin) | (values > column.high + margin)
        if far.any():
            notes.append(
                f"column {column.name!r}: {int(np.count_nonzero(far)):,} of {len(values):,} values, such as "
                f"{values[far][0]:.4g}, are far outside of the range {column.low:.4g} to {column.high:.4g} of the "
                "training rows, so the model cannot predict them. Check units and placeholders for missing values."
            )
    return notes


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
            raise InputError(
                f"column {name!r}: row {row} (from 0) has {values[row]!r}, expected a number as in training."
            )
        array = np.array(cells, dtype=np.float64)
    if np.isinf(array).any():
        row = int(np.argmax(np.isinf(array)))
        raise InputError(
            f"column {name!r}: row {row} (from 0) is {array[row]}, expected a finite number. Leave missing values "
            "empty."
        )
    return array


def _features(column: Column, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    missing = np.isnan(values)
    if column.categories is None:
        filled = np.where(missing, column.center, values)
        with np.errstate(over="ignore"):
            scaled = (filled - column.center) / column.scale
        if column.clip:
            scaled = np.clip(scaled, -FLOAT32_MAX, FLOAT32_MAX)  # infinity / infinity would be NaN
            scaled /= np.hypot(1.0, scaled / CLIP)
        elif (np.abs(scaled) > MAX_SCALED).any():
            row = int(np.argmax(np.abs(scaled) > MAX_SCALED))
            raise InputError(
                f"column {column.name!r}: row {row} (from 0) is {values[row]:g}, which is too far from the training "
                f"rows (mean {column.center:g}, standard deviation {column.scale:g}) to compute with; check the number."
            )
        parts = [scaled[:, None], missing[:, None]] if column.gaps else [scaled[:, None]]
        if column.edges:
            edges = np.array(column.edges)
            with np.errstate(over="ignore"):
                parts.append(((filled[:, None] - edges[:-1]) / np.diff(edges)).clip(0.0, 1.0))
        return np.concatenate(parts, axis=1)
    one_hot = np.zeros((len(values), len(column.categories)))
    seen = values >= 0
    one_hot[seen, values[seen].astype(np.int64)] = 1.0
    if column.categories[-1:] == (MISSING,):
        one_hot[missing, -1] = 1.0
    return one_hot
