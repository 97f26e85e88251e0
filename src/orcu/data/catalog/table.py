"""The user's table, CSV or Parquet."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row
from orcu.data.manifest import VOTES
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, is_missing
from orcu.io.frames import date_message
from orcu.io.reading import open_table, read_table
from orcu.predictions.columns import order_classes, select_value_columns
from orcu.predictions.labels import class_names, label_codes
from orcu.preprocessing import TableEncoder
from orcu.raters.votes import as_votes, majority_grade

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


@DATASETS.register("table")
class UserTable(Dataset):
    """A table of numbers and categories with a column of ordered labels, or with votes of several raters.

    With votes, the label of a row is its majority grade (see `orcu.raters.votes.majority_grade`).

    Args:
        label: column of labels.
        label_shares: columns of shares or counts of votes, one per class: a pattern such as ``y_*``, or names separated
            by commas; in place of ``label``.
        rater: columns of labels, one per rater: a pattern such as ``r_*``, or names separated by commas; in place of
            ``label``. Raters may be missing in some rows.
        file: name of the .csv or .parquet file in the root; not needed if there is only one.
        classes: labels from lowest to highest, as a list or separated by commas; not needed for numbers.
        cluster: column of clusters of dependent rows, such as patients.
        id: column of unique ids; by default rows are numbered.
        drop: columns that are not features, as a list or separated by commas.
        sep: separator of a CSV file; detected by default.
        decimal: decimal sign of a CSV file, "." or ","; detected by default.
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
        label: str | None = None,
        label_shares: str | None = None,
        rater: str | None = None,
        file: str | None = None,
        classes: Sequence[str] | str | None = None,
        cluster: str | None = None,
        id: str | None = None,
        drop: Sequence[str] | str = (),
        sep: str | None = None,
        decimal: str | None = None,
    ) -> None:
        if sum(option is not None for option in (label, label_shares, rater)) != 1:
            raise InputError(
                f"data set {self.card.kind!r}: pass exactly one of the options 'label', 'label_shares' and 'rater'."
            )
        self.label, self.label_shares, self.rater = label, label_shares, rater
        self.file, self.cluster, self.id = file, cluster, id
        self.sep, self.decimal = sep, decimal
        self._order = classes.split(",") if isinstance(classes, str) else classes
        self._classes: tuple[str, ...] = ()
        self._notes: list[str] = []
        names = drop.split(",") if isinstance(drop, str) else drop
        self.drop = tuple(name.strip() for name in names if name.strip())

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels in order; empty before `rows` has read them."""
        return self._classes

    @property
    def notes(self) -> str:
        """Detected CSV format; empty before `rows` has read the file."""
        return "; ".join(self._notes)

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows in the order of the file."""
        path = self._find_file(root)
        self._notes = open_table(path, sep=self.sep, decimal=self.decimal).notes
        text_columns = [name for name in (self.id, self.cluster) if name]
        table = read_table(path, sep=self.sep, decimal=self.decimal, text_columns=text_columns)
        label_columns, class_columns = self._label_columns(table.column_names, path.name)
        special = [name for name in (*label_columns, self.cluster, self.id, *self.drop) if name]
        for name in special:
            if name not in table.column_names:
                raise UnknownNameError(f"column of {path.name}", name, table.column_names)
        if self.label is not None:
            votes, codes = None, self._read_labels(path, table)
        else:
            votes = self._read_votes(path, table, label_columns, class_columns)
            codes = majority_grade(votes)
        features = {
            name: _feature_values(name, table.column(name)) for name in table.column_names if name not in special
        }
        if not features:
            raise InputError(f"{path}: no feature columns are left besides {', '.join(special)}.")
        if self.card.kind == TABLE:
            TableEncoder.fit(features)  # warns of columns that look wrong, once and not in every training
        ids, clusters = (
            [None] * len(codes) if name is None else table.column(name).to_pylist() for name in (self.id, self.cluster)
        )
        if self.id is not None and None in ids:
            raise InputError(f"{path}: row {ids.index(None) + 1} has no id.")
        for row, code in enumerate(codes.tolist()):
            yield Row(
                str(row + 1 if self.id is None else ids[row]),
                code,
                features={name: values[row] for name, values in features.items()},
                cluster=None if clusters[row] is None else str(clusters[row]),
                extra={} if votes is None else {VOTES: votes[row].tolist()},
            )

    def _label_columns(self, names: list[str], file: str) -> tuple[list[str], list[str]]:
        """Columns of labels or votes, and the class names in the columns of shares."""
        if self.label is not None:
            return [self.label], []
        return select_value_columns(self.label_shares or self.rater, names, file)

    def _read_labels(self, path: Path, table: pa.Table) -> IntArray:
        """Class indices of the column of labels; sets the classes."""
        values = table.column(self.label).to_pylist()
        labels = [int(value) if isinstance(value, bool) else value for value in values]
        missing = [row for row, value in enumerate(labels, 1) if is_missing(value)]
        if missing:
            raise InputError(f"{path}: row {missing[0]} has no label; remove or complete such rows.")
        self._classes = self._class_names(labels)
        return self._codes(path, str(self.label), labels)

    def _codes(self, path: Path, column: str, labels: list[Any]) -> IntArray:
        try:
            return label_codes(labels, self._classes, explicit_order=True)[0]
        except InputError as error:
            raise InputError(f"{path}: column {column!r}: {error}") from None

    def _read_votes(self, path: Path, table: pa.Table, columns: list[str], names: list[str]) -> FloatArray:
        """Votes per class, shape (n, C), of the columns of shares or of raters; sets the classes."""
        if self.label_shares is not None:
            self._classes, columns = order_classes(self._order, names, columns, path.name)
            cells = [[np.nan if v is None else v for v in table.column(name).to_pylist()] for name in columns]
            return as_votes(np.array(cells).T, len(self._classes), name=f"{path.name}, label_shares")
        ratings = {name: table.column(name).to_pylist() for name in columns}
        self._classes = self._class_names([v for values in ratings.values() for v in values if not is_missing(v)])
        votes = np.zeros((table.num_rows, len(self._classes)))
        for name, values in ratings.items():
            rows = [row for row, value in enumerate(values) if not is_missing(value)]
            if rows:
                votes[rows, self._codes(path, name, [values[row] for row in rows])] += 1
        return as_votes(votes, len(self._classes), name=f"{path.name}, rater")

    def _find_file(self, root: Path) -> Path:
        if self.file is not None:
            return root / self.file
        tables = sorted(path for path in root.iterdir() if path.name.lower().endswith(SUFFIXES))
        if len(tables) != 1:
            names = ", ".join(path.name for path in tables) or "none"
            raise InputError(f"{root}: expected one .csv or .parquet file, found {names}; choose one with file=NAME.")
        return tables[0]

    def _class_names(self, labels: list[Any]) -> tuple[str, ...]:
        if self._order is not None:
            return class_names([str(name).strip() for name in self._order], len(self._order))
        distinct = np.unique(np.asarray(labels))
        if not np.issubdtype(distinct.dtype, np.number):
            raise InputError(
                f"classes: the labels are {', '.join(map(str, distinct[:5].tolist()))}, and their order is unknown. "
                "Pass classes=lowest,...,highest."
            )
        return class_names(distinct.tolist(), len(distinct))


def _feature_values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Numbers and booleans as floats, other values as text, missing values as ``None``; dates are refused."""
    if pa.types.is_temporal(column.type):
        raise InputError(f"{date_message(name)} To leave the column out, use drop={name}.")
    numeric = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    convert = float if any(is_type(column.type) for is_type in numeric) else str
    return [None if value is None else convert(value) for value in column.to_pylist()]
