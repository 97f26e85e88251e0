"""A table as trees take it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.io.frames import unseen_note


class TreeColumns:
    """Numbers as they are, gaps included; categories by their number.

    Args:
        categories: of each column the names of its categories in order; ``None`` for numbers.

    Example:
        >>> columns = TreeColumns.fit({"age": [30.0, None], "site": ["n", "s"]})
        >>> columns.matrix({"age": [40.0], "site": ["s"]}).tolist()
        [[40.0, 1.0]]
    """

    def __init__(self, categories: Mapping[str, Sequence[str] | None]) -> None:
        self.categories = {name: None if known is None else list(known) for name, known in categories.items()}

    @classmethod
    def fit(cls, table: Mapping[str, Any]) -> "TreeColumns":
        """Learn which columns hold categories, those with a text in them, and which: ``None`` and NaN are gaps."""
        categories: dict[str, list[str] | None] = {}
        for name, values in table.items():
            texts = not _is_numeric(values) and any(isinstance(value, str) for value in values)
            categories[name] = sorted({str(value) for value in values if value is not None}) if texts else None
        return cls(categories)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self.categories)

    @property
    def categorical(self) -> list[int]:
        """Which columns of the matrix hold categories."""
        return [place for place, known in enumerate(self.categories.values()) if known is not None]

    def matrix(self, table: Mapping[str, Any]) -> FloatArray:
        """Shape (n, D); a category that was not there before is a gap.

        Raises:
            InputError: if a column is missing or of another kind.
        """
        parts = []
        for name, known in self.categories.items():
            if name not in table:
                raise InputError(f"the table has no column {name!r}, which the model was trained on.")
            if known is None:
                parts.append(_numbers(name, table[name]))
            elif _is_numeric(table[name]):
                raise InputError(
                    f"column {name!r}: has numbers, where the model was trained on categories such as {known[0]!r}."
                )
            else:
                place = {category: float(number) for number, category in enumerate(known)}
                cells = table[name]  # a gap is no category, not even one that is called "None"
                parts.append(np.array([np.nan if one is None else place.get(str(one), np.nan) for one in cells]))
        return np.stack(parts, axis=1)

    def unseen(self, table: Mapping[str, Any]) -> list[str]:
        """A note for each column with categories that were not there in training."""
        notes = []
        for name, known in self.categories.items():
            if known is not None:
                strange = [value for value in table[name] if value is not None and str(value) not in known]
                if strange:
                    notes.append(unseen_note(name, strange, len(table[name])))
        return notes


def _is_numeric(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


def _numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    if _is_numeric(values):
        return np.asarray(values, dtype=np.float64)
    try:
        return np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError):
        strange = next(value for value in values if isinstance(value, str))
        raise InputError(f"column {name!r}: expected numbers, got {strange!r}.") from None
