"""Conversion of pandas and polars frames to numpy columns."""

from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError


def is_frame(table: Any) -> bool:
    """Return whether a table is a pandas or polars frame."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


class Category(str):
    """Text of a cell whose column has a categorical type: a category also if the text is a number."""

    __slots__ = ()


def columns_from_frame(frame: Any) -> dict[str, npt.NDArray[Any]]:
    """Convert a frame to columns by name: numbers as float64 with NaN, cells of other types unchanged or ``None``.

    Cells of categorical types become `Category`.

    Raises:
        InputError: if a column holds dates, or two columns have the same name.

    Example:
        >>> import pandas as pd
        >>> table = columns_from_frame(pd.DataFrame({"age": [30, None], "site": ["n", None]}))
        >>> table["age"].tolist(), table["site"].tolist()
        ([30.0, nan], ['n', None])
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    for index, name in enumerate(map(str, frame.columns)):
        if name in columns:
            raise InputError(f"X: two columns have the name {name!r}; rename or drop one of them.")
        column = frame.iloc[:, index] if hasattr(frame, "iloc") else frame[name]
        if getattr(column.dtype, "kind", "") in ("m", "M"):
            raise InputError(date_message(name))
        if _is_number(column.dtype):
            columns[name] = np.asarray(
                column.to_numpy(dtype=np.float64, na_value=np.nan)
                if hasattr(column, "iloc")
                else column.cast(float).to_numpy(),
                dtype=np.float64,
            )
            continue
        missing = column.isna() if hasattr(column, "isna") else column.is_null()
        categorical = type(column.dtype).__name__ in ("CategoricalDtype", "Categorical", "Enum")
        cells = np.empty(len(column), dtype=object)  # filled one by one, because numpy would unpack lists
        for row, (cell, is_missing) in enumerate(zip(column, missing, strict=True)):
            cells[row] = None if is_missing else Category(category_text(cell)) if categorical else cell
        columns[name] = cells
    return columns


def category_text(cell: Any) -> str:
    """Return a cell as the name of a category; 2.0 is "2", because columns of whole numbers with gaps are floats."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def date_message(name: str) -> str:
    """Return the error message for a column of dates, times, periods or durations."""
    return (
        f"column {name!r}: holds dates, times or durations. Convert them to numbers, such as days since a date, or to "
        "a categorical type if each is a category."
    )


def check_numeric_columns(frame: Any, estimator: str) -> None:
    """Raise `InputError` if a column of the frame is not numeric; ``estimator`` names who needs numbers."""
    for name in frame.columns:
        if not _is_number(frame[name].dtype):
            raise InputError(
                f"X: {estimator} needs numeric columns, but column {name!r} is not numeric. Encode it first."
            )


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"  # numpy, and nullable types of pandas
