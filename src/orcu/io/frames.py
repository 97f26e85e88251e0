"""Conversion of pandas and polars frames to numpy columns."""

from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError


def is_frame(table: Any) -> bool:
    """Return whether a table is a pandas or polars frame."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def columns_from_frame(frame: Any) -> dict[str, npt.NDArray[Any]]:
    """Convert a frame to columns by name: numbers as float64 with NaN, other types as text with None.

    Raises:
        InputError: if a number is infinite, or a column holds dates.

    Example:
        >>> import pandas as pd
        >>> table = columns_from_frame(pd.DataFrame({"age": [30, None], "site": ["n", None]}))
        >>> table["age"].tolist(), table["site"].tolist()
        ([30.0, nan], ['n', None])
    """
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if getattr(column.dtype, "kind", "") in ("m", "M") or "Date" in str(column.dtype):
            raise InputError(f"column {name!r}: holds dates. Convert them to numbers, such as days since a date.")
        if _is_number(column.dtype):
            numbers = np.asarray(
                column.to_numpy(dtype=np.float64, na_value=np.nan)
                if hasattr(column, "iloc")
                else column.cast(float).to_numpy(),
                dtype=np.float64,
            )
            if np.isinf(numbers).any():
                row = int(np.argmax(np.isinf(numbers)))
                raise InputError(f"column {name!r}: row {row} is infinite, expected finite or missing numbers.")
            columns[str(name)] = numbers
        else:
            missing = column.isna() if hasattr(column, "isna") else column.is_null()
            cells = [None if is_missing else str(cell) for cell, is_missing in zip(column, missing, strict=True)]
            columns[str(name)] = np.array(cells, dtype=object)
    return columns


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
