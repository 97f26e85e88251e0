"""Your own texts, in a column of a CSV or Parquet table."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from orcu.data.base import DATASETS, TEXTS, Row
from orcu.data.catalog.table import UserTable
from orcu.errors import InputError, UnknownNameError


@DATASETS.register("texts")
class UserTexts(UserTable):
    """A table with a column of texts and a column of ordered labels.

    Args:
        label: the column of labels.
        text: the column of texts.
        file: its name under the root, .csv or .parquet; not needed if it is the only one there.
        classes: the labels from lowest to highest, as a list or a text with commas. Not needed for
            numbers.
        subject: a column of subjects, such as who wrote the text.
        id: a column of ids; rows are numbered without one.
        sep: the separator of a CSV file, if it is not recognised.
    """

    card = dataclasses.replace(UserTable.card, title="your own texts", kind=TEXTS)

    def __init__(
        self,
        *,
        label: str,
        text: str = "text",
        file: str | None = None,
        classes: Sequence[str] | str | None = None,
        subject: str | None = None,
        id: str | None = None,
        sep: str | None = None,
    ) -> None:
        super().__init__(label=label, file=file, classes=classes, subject=subject, id=id, sep=sep)
        self.text = text

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows, in the file's order; other columns are left out."""
        for number, row in enumerate(super().rows(root), 1):
            features = row.features or {}
            if self.text not in features:
                raise UnknownNameError("column of texts", self.text, features)
            text = features[self.text]
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{root}: row {number} has no text in column {self.text!r}.")
            yield Row(row.id, row.label, text=text, subject=row.subject)
