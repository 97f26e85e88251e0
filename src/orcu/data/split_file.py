"""Division of a table into files, with clusters kept together and classes in equal shares."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.data.folds import Samples, partition
from orcu.errors import InputError
from orcu.inputs import IntArray
from orcu.io.extending import write_extended
from orcu.io.locations import Location, as_location
from orcu.io.reading import TableFile, open_table
from orcu.predictions.columns import missing_column_message
from orcu.predictions.labels import is_missing


@dataclass(frozen=True)
class Part:
    """One of the files that `split_file` has written."""

    path: Location
    rows: int
    clusters: int | None  # None without a column of clusters
    labels: dict[str, int]  # number of rows of each label, "" for none; empty without a column of labels


def split_file(
    path: str | os.PathLike[str],
    parts: Mapping[Any, float],
    *,
    label: str | None = None,
    cluster: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    random_state: int = 0,
) -> list[Part]:
    r"""Divide the rows of a table into files; every row is in exactly one of them, unchanged.

    Clusters are placed as a whole, the largest first, each in the part that lacks its classes most
    (`orcu.data.folds.partition`). The result depends on the order of the rows and the seed only.

    Args:
        path: table (.csv, .tsv, .txt, also with .gz, or .parquet).
        parts: share of the rows by path of the output file; the shares sum to 1.
        label: column of the labels, whose shares are kept equal in the parts. Missing labels count as another class.
        cluster: column of clusters, such as patients, that stay together.
        sep: separator of a CSV file; detected by default.
        encoding: encoding of a CSV file; UTF-8 by default.
        random_state: seed of the division.

    Raises:
        InputError: if a column is missing, a row has no cluster, the shares do not sum to 1, or a part would be empty.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "visits.csv").write_text(
        ...     "patient,grade\n" + "".join(f"{k // 2},low\n" for k in range(20))
        ... )
        >>> shares = {folder / "fit.csv": 0.6, folder / "test.csv": 0.4}
        >>> [
        ...     (part.rows, part.clusters)
        ...     for part in split_file(folder / "visits.csv", shares, cluster="patient")
        ... ]
        [(12, 6), (8, 4)]
    """
    if len(parts) < 2 or not all(0 < share < 1 for share in parts.values()):
        raise InputError("parts: expected two or more files with shares between 0 and 1.")
    if not math.isclose(sum(parts.values()), 1, abs_tol=1e-6):
        raise InputError(f"parts: the shares sum to {sum(parts.values()):.6g}, expected 1.")
    table = open_table(path, sep=sep, encoding=encoding)
    rows = sum(batch.num_rows for batch in table.batches(table.names[:1]))
    if not rows:
        raise InputError(f"{table.path.name}: there are no rows below the header.")
    clusters = None if cluster is None else _texts(table, cluster, "cluster")
    if clusters is not None and "" in clusters:
        raise InputError(
            f"{table.path.name}: row {clusters.index('') + 1} has no cluster in the column {cluster!r}; fill it in or "
            "drop the row."
        )
    labels, codes = np.unique([""] * rows if label is None else _texts(table, label, "label"), return_inverse=True)
    number = _part_numbers(codes, clusters, list(parts.values()), random_state)
    for k, output in enumerate(parts):
        if not (number == k).any():
            raise InputError(f"parts: {output} would have no rows; there are too few rows or clusters.")
    written = []
    for k, output in enumerate(parts):
        chosen = np.flatnonzero(number == k)
        write_extended([table], output, rows=chosen)
        counts = dict(zip(map(str, labels), np.bincount(codes[chosen], minlength=len(labels)).tolist(), strict=True))
        count = None if clusters is None else len({clusters[row] for row in chosen})
        written.append(Part(as_location(output), len(chosen), count, {} if label is None else counts))
    return written


def _texts(table: TableFile, column: str, role: str) -> list[str]:
    """Read a column as texts, "" where a cell is missing."""
    if column not in table.names:
        raise InputError(missing_column_message(column, list(table.names), table.path.name, role))
    cells = [cell for batch in table.batches([column]) for cell in batch.column(0).to_pylist()]
    return ["" if is_missing(cell) else str(cell).strip() for cell in cells]


def _part_numbers(codes: IntArray, clusters: list[str] | None, shares: list[float], seed: int) -> IntArray:
    nothing = [None] * len(codes)
    samples = Samples([str(row) for row in range(len(codes))], codes, nothing, clusters or nothing, nothing)
    return partition(samples, shares, by_cluster=clusters is not None, seed=seed)
