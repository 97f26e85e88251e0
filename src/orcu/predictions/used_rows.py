"""Record of the rows that something was fitted on, to keep them out of its evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray


@dataclass(frozen=True)
class UsedRows:
    """Rows used for fitting: their number, the SHA-256 digest of their values, and their ids."""

    count: int
    sha256: str
    ids: tuple[str, ...] | None = None

    @classmethod
    def from_values(cls, values: FloatArray, ids: Any = None) -> "UsedRows":
        """Record the rows of ``values``, shape (n, C), and their ids, one per row."""
        names = None if ids is None else tuple(map(_id_text, np.asarray(ids).tolist()))
        if names is not None and len(names) != len(values):
            raise InputError(f"ids: {len(names)} ids for {len(values)} rows; expected one id per row.")
        return cls(len(values), sha256(np.ascontiguousarray(values).data).hexdigest(), names)

    def count_shared(self, other: "UsedRows") -> int:
        """Return the number of shared rows: by id if both have ids, otherwise all or none, by digest."""
        if self.ids is not None and other.ids is not None:
            return len(set(self.ids) & set(other.ids))
        return self.count if self.sha256 == other.sha256 else 0

    def check_disjoint(self, other: "UsedRows", *, reason: str) -> None:
        """Raise `InputError` if rows are shared; ``reason`` completes the sentence "3 of the 9 rows ..."."""
        shared = self.count_shared(other)
        if not shared:
            return
        first = ""
        if self.ids is not None and other.ids is not None:
            used = set(self.ids)
            first = f" (first: id {next(row_id for row_id in other.ids if row_id in used)!r})"
        raise InputError(f"{shared:,} of the {other.count:,} rows{first} {reason}")

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data for JSON."""
        return {"count": self.count, "sha256": self.sha256, "ids": None if self.ids is None else list(self.ids)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "UsedRows":
        """Restore a record from `to_dict`."""
        ids = state.get("ids")
        return cls(int(state["count"]), str(state["sha256"]), None if ids is None else tuple(ids))


def _id_text(value: Any) -> str:
    """Return an id as text; pandas turns integer ids into floats if one is missing."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
