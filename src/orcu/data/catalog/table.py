"""Your own table, CSV or Parquet."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row
from orcu.errors import InputError, UnknownNameError
from orcu.io.reading import open_table, read_table
from orcu.predictions.labels import class_names, is_missing, label_codes

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


@DATASETS.register("table")
class UserTable(Dataset):
    """A table of numbers and categories with a column of ordered labels.

    Args:
        label: the column of labels.
        file: its name under the root, .csv or .parquet; not needed if it is the only one there.
        classes: the labels from lowest to highest, as a list or a text with commas. Not needed for
            numbers.
        subject: a column of subjects.
        id: a column of ids; rows are numbered without one.
        drop: columns that are no features, as a list or a text with commas.
        sep: the separator of a CSV file, if it is not recognised.
        decimal: its decimal sign, "." or ",", if it is not recognised.
    """

    card = Card(
        title="your own table",
        kind=TABLE,
        classes=(),
        counts=None,
        licence="yours",
        citation="yours",
        obtain="Put a CSV or Parquet file into a folder.",
        layout="one .csv or .parquet file with a header.",
    )

    def __init__(
        self,
        *,
        label: str,
        file: str | None = None,
        classes: Sequence[str] | str | None = None,
        subject: str | None = None,
        id: str | None = None,
        drop: Sequence[str] | str = (),
        sep: str | None = None,
        decimal: str | None = None,
    ) -> None:
        self.label, self.file, self.subject, self.id = label, file, subject, id
        self.sep, self.decimal = sep, decimal
        self._given = classes.split(",") if isinstance(classes, str) else classes
        self._found: tuple[str, ...] = ()
        self._notes: list[str] = []
        names = drop.split(",") if isinstance(drop, str) else drop
        self.drop = tuple(name.strip() for name in names if name.strip())

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels in order, once they are known."""
        return self._found

    @property
    def notes(self) -> str:
        """How the file was read, once it was."""
        return "; ".join(self._notes)

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows, in the file's order."""
        path = self._path(root)
        self._notes = open_table(path, sep=self.sep, decimal=self.decimal).notes
        table = read_table(path, sep=self.sep, decimal=self.decimal)
        special = [name for name in (self.label, self.subject, self.id, *self.drop) if name]
        for name in special:
            if name not in table.column_names:
                raise UnknownNameError(f"column of {path.name}", name, table.column_names)
        labels = _labels(table.column(self.label))
        missing = [row for row, value in enumerate(labels, 1) if is_missing(value)]
        if missing:
            raise InputError(f"{path}: row {missing[0]} has no label; drop or repair such rows first.")
        self._found = self._order(labels)
        try:
            codes, _ = label_codes(labels, self._found, given=True)
        except InputError as error:
            raise InputError(f"{path}: column {self.label!r}: {error}") from None
        features = {name: _values(table.column(name)) for name in table.column_names if name not in special}
        if not features:
            raise InputError(f"{path}: no column is left for the features.")
        columns = {
            role: table.column(name).to_pylist() if name else None
            for role, name in (("subject", self.subject), ("id", self.id))
        }
        ids, subjects = columns["id"], columns["subject"]
        if ids is not None and None in ids:
            raise InputError(f"{path}: row {ids.index(None) + 1} has no id.")
        for row, code in enumerate(codes.tolist()):
            yield Row(
                str(row + 1) if ids is None else str(ids[row]),
                code,
                features={name: values[row] for name, values in features.items()},
                subject=None if subjects is None or subjects[row] is None else str(subjects[row]),
            )

    def _path(self, root: Path) -> Path:
        if self.file is not None:
            return root / self.file
        tables = sorted(path for path in root.iterdir() if path.name.lower().endswith(ENDINGS))
        if len(tables) != 1:
            names = ", ".join(path.name for path in tables) or "none"
            raise InputError(f"{root}: expected one .csv or .parquet file, there are {names}; say file=NAME.")
        return tables[0]

    def _order(self, labels: list[Any]) -> tuple[str, ...]:
        if self._given is not None:
            return class_names([str(name).strip() for name in self._given], len(self._given))
        distinct = np.unique(np.asarray(labels))
        if not np.issubdtype(distinct.dtype, np.number):
            raise InputError(
                f"classes: the labels are {', '.join(map(str, distinct[:5].tolist()))}; their order cannot be told "
                "from the alphabet. Give classes=lowest,...,highest."
            )
        return class_names(distinct.tolist(), len(distinct))


def _labels(column: pa.ChunkedArray) -> list[Any]:
    """The labels; yes and no are 1 and 0."""
    values: list[Any] = column.to_pylist()
    return [int(value) if isinstance(value, bool) else value for value in values]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Numbers and yes or no as floats, everything else as text; ``None`` where there is nothing."""
    kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    if not any(kind(column.type) for kind in kinds):
        return [None if value is None else str(value) for value in column.to_pylist()]
    return [None if value is None else float(value) for value in column.to_pylist()]
