"""Frames as columns: numbers as float64 with NaN for gaps, everything else as text with None for gaps."""

from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError


def is_frame(table: Any) -> bool:
    """Whether it is a pandas or polars frame."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def table_of(frame: Any) -> dict[str, npt.NDArray[Any]]:
    """The columns of a frame by name.

    Raises:
        InputError: if a number is infinite, or a column holds dates, whose order a category would lose.

    Example:
        >>> import pandas as pd
        >>> table = table_of(pd.DataFrame({"age": [30, None], "site": ["n", None]}))
        >>> table["age"].tolist(), table["site"].tolist()
        ([30.0, nan], ['n', None])
    """
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if getattr(column.dtype, "kind", "") in ("m", "M") or "Date" in str(column.dtype):
            raise InputError(f"column {name!r}: holds dates; turn them into numbers, such as days since a day.")
        if _is_number(column.dtype):
            numbers = np.asarray(
                column.to_numpy(dtype=np.float64, na_value=np.nan)
                if hasattr(column, "iloc")
                else column.cast(float).to_numpy(),
                dtype=np.float64,
            )
            if np.isinf(numbers).any():
                row = int(np.argmax(np.isinf(numbers)))
                raise InputError(f"column {name!r}: row {row} is infinite; expected numbers, or gaps.")
            columns[str(name)] = numbers
        else:
            gaps = column.isna() if hasattr(column, "isna") else column.is_null()
            cells = [None if gap else str(cell) for cell, gap in zip(column, gaps, strict=True)]
            columns[str(name)] = np.array(cells, dtype=object)
    return columns


def check_numbers(frame: Any, what: str) -> None:
    """Refuse a frame with columns that are no numbers.

    Raises:
        InputError: which names the column.
    """
    for name in frame.columns:
        if not _is_number(frame[name].dtype):
            raise InputError(f"X: {what} takes numbers only, and column {name!r} has none; encode it first.")


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"  # numpy's, and those of pandas that may be missing


def unseen_note(column: str, strange: list[Any], rows: int) -> str:
    """What a user should know of categories that were not there in training.

    Example:
        >>> unseen_note("site", ["west"], rows=20)
        "column 'site': 1 of 20 values were not seen in training, such as 'west'"
    """
    return (
        f"column {column!r}: {len(strange):,} of {rows:,} values were not seen in training, such as {str(strange[0])!r}"
    )
