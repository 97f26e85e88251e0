"""The manifest: one Parquet file with all rows of a prepared data set."""

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
from orcu.data.folds import Samples
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table
from orcu.raters.votes import as_votes

SCHEMA_VERSION = 1
VOTES, RATINGS = "votes", "ratings"  # columns of the votes per class, and of the ratings of each rater
FEATURE = "feature:"  # prefix of feature columns, whose names may equal those of other columns
# Names of columns and options in files of orcu 0.2. Digests are computed with the old names, so that those of prepared
# data, feature caches and benchmark runs stay the same.
OLD_NAMES = {"subject": "cluster"}
_verified: dict[tuple[int, ...], str] = {}  # digests of verified files by device, inode, size and time


@dataclass(frozen=True)
class About:
    """Origin of a manifest: data set and options, kind of data, class names, root folder and feature names."""

    dataset: str
    options: dict[str, Any]
    kind: str
    classes: list[str]
    root: str | None
    features: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Manifest:
    """The rows of a prepared data set.

    Columns: id, label (0..C-1), one of path (relative to the root), text and the features, cluster,
    split (the publisher's), content (SHA-256 of the image or text), and extra columns of the data set.

    Args:
        table: columns.
        about: origin of the rows.
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
        """Class names from lowest to highest."""
        return tuple(self.about.classes)

    @cached_property
    def ids(self) -> list[str]:
        """Unique row ids."""
        return self.column("id")

    @cached_property
    def labels(self) -> IntArray:
        """Class indices 0..C-1, shape (n,)."""
        return np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)

    @cached_property
    def votes(self) -> FloatArray:
        """Votes of several raters per class, counts or shares, shape (n, C).

        Raises:
            InputError: if the data set has none.
        """
        if VOTES in self.table.column_names:
            return as_votes(np.array(self.column(VOTES), dtype=np.float64), len(self.classes), name="votes")
        if RATINGS not in self.table.column_names:
            raise InputError(
                f"label: the prepared data set {self.about.dataset} has no votes. Data sets with votes are vader, "
                "vader_words, image_aesthetics with the option ratings=true, and your own table with label_shares or "
                "rater."
            )
        dataset, counts = self.dataset(), np.zeros((len(self), len(self.classes)))
        for row, ratings in enumerate(self.column(RATINGS)):
            for rating in ratings:
                counts[row, dataset.rating_code(rating)] += 1
        return as_votes(counts, len(self.classes), name="votes")

    @cached_property
    def root(self) -> Path:
        """Folder that paths are relative to."""
        return Path(self.about.root or ".")

    def column(self, name: str) -> list[Any]:
        """Values of a column; all ``None`` if there is no such column."""
        if name not in self.table.column_names:
            return [None] * len(self)
        values: list[Any] = self.table.column(name).to_pylist()
        return values

    def clusters(self) -> list[Any] | None:
        """Cluster of each row, or ``None`` if the first row has none."""
        clusters = self.column("cluster")
        return None if clusters[0] is None else clusters

    def feature(self, name: str) -> list[Any]:
        """Values of a feature column, ``None`` where they are missing."""
        return self.column(FEATURE + name)

    def counts(self) -> list[int]:
        """Number of rows per class."""
        return [int(n) for n in np.bincount(self.labels, minlength=len(self.classes))]

    def dataset(self) -> Dataset:
        """The data set that the rows come from."""
        dataset: Dataset = DATASETS.create(self.about.dataset, **self.about.options)
        return dataset

    def samples(self) -> Samples:
        """The columns that evaluation protocols use."""
        columns = (self.column(name) for name in ("content", "cluster", "split"))
        return Samples(self.ids, self.labels, *columns)

    @cached_property
    def digest(self) -> str:
        """Hash of the data set's options, classes and rows; it does not depend on their location."""
        old_names = {new: old for old, new in OLD_NAMES.items()}
        options = {old_names.get(name, name): value for name, value in self.about.options.items()}
        digest = sha256(json.dumps([self.about.dataset, options, self.classes]).encode())
        for old, name in sorted((old_names.get(name, name), name) for name in self.table.column_names):
            if name != "path":
                digest.update(json.dumps([old, self.column(name)], default=str).encode())
        return digest.hexdigest()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest as Parquet, atomically."""
        about = asdict(self.about) | {"schema_version": SCHEMA_VERSION, "digest": self.digest}
        write_table(self.table.replace_schema_metadata({"orcu": json.dumps(about)}), path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Manifest":
        """Read a manifest that `write` has written.

        The digest of the rows is verified when this process reads the file for the first time and after changes.

        Raises:
            InputError: if the file is not a manifest, or its rows were changed.
        """
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
                table = pq.read_table(file)
            about = json.loads((table.schema.metadata or {})[b"orcu"])
        except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
            raise InputError(f"{path}: not a manifest of orcu ({error}); run `orcu data prepare`.") from None
        version, digest = about.pop("schema_version"), about.pop("digest")
        if version != SCHEMA_VERSION:
            raise InputError(f"{path}: unknown schema version {version}; run `orcu data prepare` again.")
        table = table.replace_schema_metadata(None).rename_columns([OLD_NAMES.get(n, n) for n in table.column_names])
        about["options"] = {OLD_NAMES.get(name, name): value for name, value in about["options"].items()}
        manifest = cls(table, About(**about))
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp in _verified:
            manifest.digest = _verified[stamp]
        if manifest.digest != digest:
            raise InputError(f"{path}: the rows were changed after they were written; run `orcu data prepare` again.")
        _verified[stamp] = digest
        return manifest


def build_manifest(rows: Sequence[Row], contents: Sequence[str | None], about: About) -> Manifest:
    """Build the manifest of checked rows, at least one, from them and the hashes of their contents, if known."""
    columns: dict[str, Any] = {
        "id": pa.array([row.id for row in rows]),
        "label": pa.array([row.label for row in rows], pa.int16()),
    }
    texts = {name: [getattr(row, name) for row in rows] for name in ("path", "text", "cluster", "split")}
    texts["content"] = list(contents)
    columns |= {name: pa.array(v, pa.string()) for name, v in texts.items() if any(x is not None for x in v)}
    for name in rows[0].features or {}:
        columns[FEATURE + name] = pa.array([(row.features or {})[name] for row in rows])
    for name in rows[0].extra:
        columns[name] = pa.array([row.extra[name] for row in rows])
    return Manifest(pa.table(columns), about)
