"""The user's texts, in a column of a CSV or Parquet table."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orcu.data.base import DATASETS, TEXTS, Row
from orcu.data.catalog.table import UserTable
from orcu.errors import InputError, UnknownNameError


@DATASETS.register("texts")
class UserTexts(UserTable):
    """A table with a column of texts and a column of ordered labels; other columns are not used.

    Args:
        text: column of texts.
        **options: ``label``, ``label_shares``, ``rater``, ``file``, ``classes``, ``cluster``, ``id``, ``drop``, ``sep``
            and ``decimal``, as for the data set "table".
    """

    card = dataclasses.replace(UserTable.card, title="your own texts", kind=TEXTS)

    def __init__(self, *, text: str = "text", **options: Any) -> None:
        super().__init__(**options)
        self.text = text

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows in the order of the file."""
        for number, row in enumerate(super().rows(root), 1):
            features = row.features or {}
            if self.text not in features:
                raise UnknownNameError("column of texts", self.text, features)
            text = features[self.text]
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{root}: row {number} has no text in column {self.text!r}.")
            yield Row(row.id, row.label, text=text, cluster=row.cluster, extra=row.extra)
