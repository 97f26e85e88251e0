"""Which rows did what: rows that fitted something must not also judge it."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray


@dataclass(frozen=True)
class UsedRows:
    """The rows that a fitted object has seen: how many, the digest of their values, and their ids.

    Example:
        >>> fitted = UsedRows.of(np.eye(3), ids=["a", "b", "c"])
        >>> fitted.shared_with(UsedRows.of(np.zeros((2, 3)), ids=["c", "d"]))
        1
        >>> UsedRows.of(np.eye(3)).shared_with(UsedRows.of(np.eye(3)))  # the very same values
        3
    """

    count: int
    sha256: str
    ids: tuple[str, ...] | None = None

    @classmethod
    def of(cls, values: FloatArray, ids: Any = None) -> "UsedRows":
        """Note the rows of ``values``, shape (n, C), and one id for each where there are ids.

        Raises:
            InputError: if the ids are of another number.
        """
        names = None if ids is None else tuple(map(_text, np.asarray(ids).tolist()))
        if names is not None and len(names) != len(values):
            raise InputError(f"ids: {len(names)} ids for {len(values)} rows; there must be one id per row.")
        return cls(len(values), sha256(np.ascontiguousarray(values).data).hexdigest(), names)

    def shared_with(self, other: "UsedRows") -> int:
        """How many rows are the same: by id where both have ids, else all of them or none, by digest."""
        if self.ids is not None and other.ids is not None:
            return len(set(self.ids) & set(other.ids))
        return self.count if self.sha256 == other.sha256 else 0

    def refuse(self, other: "UsedRows", *, because: str) -> None:
        """Raise if rows are shared.

        Raises:
            InputError: naming the first shared id and the reason.
        """
        shared = self.shared_with(other)
        if not shared:
            return
        first = ""
        if self.ids is not None and other.ids is not None:
            mine = set(self.ids)
            first = f" (first: id {next(one for one in other.ids if one in mine)!r})"
        raise InputError(f"{shared:,} of the {other.count:,} rows{first} {because}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON."""
        return {"count": self.count, "sha256": self.sha256, "ids": None if self.ids is None else list(self.ids)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "UsedRows":
        """What `to_dict` gave."""
        ids = state.get("ids")
        return cls(int(state["count"]), str(state["sha256"]), None if ids is None else tuple(ids))


def _text(value: Any) -> str:
    """One text for an id; a column of whole numbers with a gap in it comes as floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
