"""The manifest: every row of a prepared data set, with what identifies it, in one Parquet file."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from orcu.data.base import DATASETS, Dataset, Row
from orcu.data.folds import Cases
from orcu.errors import InputError
from orcu.inputs import IntArray
from orcu.io.writing import write_table

SCHEMA_VERSION = 1
FEATURE = "feature:"  # so that a column of the user's may be called label or id
_verified: dict[tuple[int, ...], str] = {}  # digests of files whose rows were hashed: device, inode, size, time


@dataclass(frozen=True)
class About:
    """Where a manifest comes from."""

    dataset: str
    options: dict[str, Any]
    kind: str
    classes: list[str]
    root: str | None
    features: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Manifest:
    """The rows of a prepared data set.

    Columns: id, label (0..C-1), one of path (relative to the root), text and the features, subject,
    split (the publisher's), content (SHA-256 of the image's or text's bytes), and further columns.

    Args:
        table: the columns.
        about: where they come from.
    """

    def __init__(self, table: pa.Table, about: About) -> None:
        self.table = table
        self.about = about

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"Manifest({self.about.dataset}: {len(self):,} rows, {len(self.classes)} classes)"

    @property
    def classes(self) -> tuple[str, ...]:
        """From lowest to highest."""
        return tuple(self.about.classes)

    @cached_property
    def ids(self) -> list[str]:
        """One per row, all different."""
        return self.column("id")

    @cached_property
    def labels(self) -> IntArray:
        """0..C-1, shape (n,)."""
        return np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)

    @cached_property
    def root(self) -> Path:
        """The folder that paths are relative to."""
        return Path(self.about.root or ".")

    def column(self, name: str) -> list[Any]:
        """A column as a list, ``None`` where the data have no such column."""
        if name not in self.table.column_names:
            return [None] * len(self)
        values: list[Any] = self.table.column(name).to_pylist()
        return values

    def feature(self, name: str) -> list[Any]:
        """A column of the features, ``None`` where there is nothing."""
        return self.column(FEATURE + name)

    def counts(self) -> list[int]:
        """Rows per class."""
        return [int(n) for n in np.bincount(self.labels, minlength=len(self.classes))]

    def dataset(self) -> Dataset:
        """The data set that made it."""
        dataset: Dataset = DATASETS.create(self.about.dataset, **self.about.options)
        return dataset

    def cases(self) -> Cases:
        """What protocols need to know."""
        columns = (self.column(name) for name in ("content", "subject", "split"))
        return Cases(self.ids, self.labels, *columns)

    @cached_property
    def digest(self) -> str:
        """What identifies the rows: data, labels and classes, not the place they were found at."""
        digest = sha256(json.dumps([self.about.dataset, self.about.options, self.classes]).encode())
        for name in sorted(self.table.column_names):
            if name != "path":
                digest.update(json.dumps([name, self.column(name)], default=str).encode())
        return digest.hexdigest()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it as Parquet; the file appears whole or not at all."""
        about = asdict(self.about) | {"schema_version": SCHEMA_VERSION, "digest": self.digest}
        write_table(self.table.replace_schema_metadata({"orcu": json.dumps(about)}), path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Manifest":
        """The manifest in a file that `write` has written.

        Its rows are hashed when this process first reads the file, and again only if it has changed.

        Raises:
            InputError: if it is none, or its rows are not those it was written with.
        """
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
                table = pq.read_table(file)
            about = json.loads((table.schema.metadata or {})[b"orcu"])
        except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
            raise InputError(f"{path}: no manifest of orcu ({error}); run `orcu data prepare`.") from None
        version, digest = about.pop("schema_version"), about.pop("digest")
        if version != SCHEMA_VERSION:
            raise InputError(f"{path}: schema version {version}; run `orcu data prepare` again.")
        manifest = cls(table.replace_schema_metadata(None), About(**about))
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp in _verified:
            manifest.digest = _verified[stamp]
        if manifest.digest != digest:
            raise InputError(f"{path}: its rows are not those it was written with; prepare it anew.")
        _verified[stamp] = digest
        return manifest


def manifest_of(rows: Sequence[Row], contents: Sequence[str | None], about: About) -> Manifest:
    """The manifest of checked rows.

    Args:
        rows: at least one.
        contents: the digest of each row's bytes, or ``None``.
        about: where they come from.
    """
    columns: dict[str, Any] = {
        "id": pa.array([row.id for row in rows]),
        "label": pa.array([row.label for row in rows], pa.int16()),
    }
    texts = {
        "path": [row.path for row in rows],
        "text": [row.text for row in rows],
        "subject": [row.subject for row in rows],
        "split": [row.split for row in rows],
        "content": list(contents),
    }
    columns |= {name: pa.array(v, pa.string()) for name, v in texts.items() if any(x is not None for x in v)}
    for name in rows[0].features or {}:
        columns[FEATURE + name] = pa.array([(row.features or {})[name] for row in rows])
    for name in rows[0].more:
        columns[name] = pa.array([row.more[name] for row in rows])
    return Manifest(pa.table(columns), about)
