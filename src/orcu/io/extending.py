"""Writing of a user's table with columns replaced or added; all other cells stay as they are."""

import csv
import gzip
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from orcu.errors import InputError
from orcu.io.dialect import Dialect
from orcu.io.files import atomic_write
from orcu.io.locations import as_location
from orcu.io.reading import CSV, PARQUET, TableFile
from orcu.io.writing import escape_formula_texts, write_table

if TYPE_CHECKING:
    import pyarrow


def write_extended(
    files: Sequence[TableFile],
    path: str | os.PathLike[str],
    *,
    overwrite: Mapping[str, Any] | None = None,
    add: Mapping[str, Any] | None = None,
    rows: Any = None,
    metadata: Mapping[str, str] | None = None,
    escape_formulas: bool = False,
) -> None:
    r"""Write a copy of a table with some columns replaced and others added, atomically.

    A CSV copy of a CSV file has its separator, decimal sign, encoding and cells, as they are written. A Parquet copy of
    a CSV file has text columns, so that nothing is lost ("007" stays "007"), beside the numbers of new columns. A
    Parquet file keeps its types.

    Args:
        files: the table, or the files of a folder in order.
        path: file to write: .csv, .tsv, .txt, also with .gz, or .parquet.
        overwrite: new values of existing columns by name, one for each row of the table.
        add: values of new columns by name, likewise. An existing column of this name is an error.
        rows: numbers of the rows to write, from 0; all by default.
        metadata: metadata to add to a Parquet file.
        escape_formulas: whether to put a ' before texts in CSV that a spreadsheet would run as formulas.

    Raises:
        InputError: if a column to add exists, or the name of the file has another ending.

    Example:
        >>> import pathlib, tempfile
        >>> from orcu.io.reading import open_table
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "visits.csv").write_text("id;p;note\n007;0,9;ok\n")
        >>> table = open_table(folder / "visits.csv")
        >>> write_extended([table], folder / "new.csv", overwrite={"p": [0.5]}, add={"decision": ["low"]})
        >>> (folder / "new.csv").read_text()
        'id;p;note;decision\n007;0,5;ok;low\n'
    """
    overwrite, add = dict(overwrite or {}), dict(add or {})
    names = files[0].names
    existing = [name for name in add if name in names]
    if existing:
        raise InputError(
            f"{files[0].path.name}: already has a column {existing[0]!r}, which would be overwritten. Rename it in the "
            "file, or start from the file without it."
        )
    path = as_location(path)
    name = path.name.lower()
    if not name.endswith((*CSV, *PARQUET)):
        raise InputError(f"{path}: expected a file name that ends in .csv, .tsv, .txt, .csv.gz, .tsv.gz or .parquet.")
    table = _extended(files, overwrite, add, rows, metadata or {})
    dialect = files[0].dialect
    if name.endswith(CSV) and dialect is not None:
        opener = gzip.open if name.endswith(".gz") else open
        with atomic_write(path) as temporary, opener(temporary, "wb") as stream:
            try:
                _write_csv(escape_formula_texts(table) if escape_formulas else table, stream, dialect)
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{path}: {error.object[error.start : error.end]!r} cannot be written in the encoding "
                    f"{dialect.encoding} of {files[0].path.name}. Write a .parquet file."
                ) from None
        return
    write_table(table, path, escape_formulas=escape_formulas)


def _extended(
    files: Sequence[TableFile],
    overwrite: Mapping[str, Any],
    add: Mapping[str, Any],
    rows: Any,
    metadata: Mapping[str, str],
) -> "pyarrow.Table":
    import pyarrow as pa

    tables = [pa.Table.from_batches(list(file.batches(file.names)), schema=file.schema) for file in files]
    table = pa.concat_tables(tables, promote_options="default")
    for name, values in overwrite.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    for name, values in add.items():
        table = table.append_column(name, pa.array(values))
    if rows is not None:
        table = table.take(pa.array(np.asarray(rows)))
    inherited = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    return table.replace_schema_metadata(inherited | {key.encode(): value.encode() for key, value in metadata.items()})


def _write_csv(table: "pyarrow.Table", stream: Any, dialect: Dialect) -> None:
    with io.TextIOWrapper(stream, encoding=dialect.encoding, newline="") as text:
        writer = csv.writer(text, delimiter=dialect.separator, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(_rows(batch.columns, dialect.decimal))


def _rows(columns: Sequence[Any], decimal: str) -> Iterator[tuple[str, ...]]:
    import pyarrow as pa

    def texts(column: Any) -> Iterable[str]:
        values = column.to_pylist()
        if pa.types.is_string(column.type):
            return values
        cells = ("" if value is None else str(value) for value in values)
        return (cell.replace(".", decimal) for cell in cells) if pa.types.is_floating(column.type) else cells

    return zip(*map(texts, columns), strict=True)
