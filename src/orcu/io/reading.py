"""Reading of CSV and Parquet tables, completely or in batches."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, first_line
from orcu.inputs import FloatArray, missing_entry_message
from orcu.io.dialect import Dialect, detect_dialect, not_decodable_message
from orcu.io.locations import Location, RemotePath, as_location, require_file

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 1 << 18
BLOCK_BYTES = 1 << 24  # bytes of a CSV file that are read at once; no row may be longer
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class TableFile:
    """Table in a file, which can be read repeatedly."""

    path: Location
    names: tuple[str, ...]  # names of the columns, also of those that `partitions` adds
    dialect: Dialect | None = None  # format of a CSV file; None for Parquet
    metadata: dict[str, str] = field(default_factory=dict)  # metadata of a Parquet file by key
    rows: int | None = None  # number of rows of a Parquet file; None for CSV
    partitions: dict[str, str | None] = field(default_factory=dict)  # text columns that the names of folders stand for
    own_names: tuple[str, ...] = ()  # names of the columns in the file, if there are partitions

    def in_partition(self, values: Mapping[str, str | None]) -> "TableFile":
        """Return the file with a constant text column for each folder such as ``site=north`` that it is in."""
        names = (*self.names, *(name for name in values if name not in self.names))
        return replace(self, names=names, partitions=dict(values), own_names=self.names)

    @property
    def notes(self) -> list[str]:
        """Description of the detected format."""
        return [] if self.dialect is None else [f"{self.path.name}: {self.dialect}"]

    @property
    def decimal(self) -> str:
        """Decimal sign of numbers that are written as text."""
        return "." if self.dialect is None else self.dialect.decimal

    @property
    def schema(self) -> "pyarrow.Schema":
        """Names and types of the columns that `batches` reads, and the metadata of the file."""
        import pyarrow as pa
        import pyarrow.parquet

        names = self.own_names if self.partitions else self.names
        schema = pa.schema([(name, pa.string()) for name in names])
        if self.dialect is None:
            with _input_errors(self.path):
                schema = pa.parquet.read_schema(_seekable(self.path))
        for name in self.names[len(names) :]:
            schema = schema.append(pa.field(name, pa.string()))
        return schema

    def batches(self, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
        """Iterate over record batches of some columns; cells of a CSV file are texts, as they are written."""
        if not self.partitions:
            yield from self._batches(columns)
            return
        import pyarrow as pa

        first_row = 1
        for batch in self._batches([name for name in columns if name in self.own_names] or self.own_names[:1]):
            arrays = []
            for name in columns:
                if name not in self.own_names:
                    arrays.append(pa.repeat(pa.scalar(self.partitions[name], pa.string()), batch.num_rows))
                    continue
                arrays.append(batch.column(name))
                if name in self.partitions:
                    self._check_partition(name, batch.column(name), first_row)
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
            first_row += batch.num_rows

    def _check_partition(self, name: str, column: Any, first_row: int) -> None:
        value = self.partitions[name]
        for row, cell in enumerate(column.to_pylist(), first_row):
            if cell != value and str(cell) != value:
                raise InputError(
                    f"{self.path.name}: column {name!r} has {cell!r} in row {row}, but the file is in the folder "
                    f"{name}={value or ''}. Rename the column or the folder, or move the row."
                )

    def _batches(self, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow as pa
        import pyarrow.csv

        if self.dialect is None:
            import pyarrow.parquet

            # With pre_buffer the file would keep all batches in memory.
            with _input_errors(self.path), pa.parquet.ParquetFile(_seekable(self.path), pre_buffer=False) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=list(columns))
            return
        types = {name: pa.string() for name in columns}
        convert = pa.csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_null=False)
        with _input_errors(self.path, self.dialect.encoding), _stream(self.path) as stream:
            try:
                yield from pa.csv.open_csv(stream, *_csv_options(self.dialect), convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):
                    raise


def _seekable(path: Location) -> Any:
    """Return what pyarrow reads Parquet from."""
    return path.open() if isinstance(path, RemotePath) else path


def _stream(path: Location) -> Any:
    """Open a file for reading bytes in order, decompressed."""
    import pyarrow as pa

    return path.open_stream() if isinstance(path, RemotePath) else pa.input_stream(path, compression="detect")


@contextmanager
def _input_errors(path: Location, encoding: str = "utf-8") -> Iterator[None]:
    """Turn errors of pyarrow and the file system into `InputError`."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:
        raise InputError(not_decodable_message(path.name, encoding, error)) from None
    except (pa.ArrowInvalid, OSError) as error:
        if "invalid UTF8" in str(error):
            raise InputError(not_decodable_message(path.name, encoding, error)) from None
        if isinstance(path, RemotePath) and not isinstance(error, pa.ArrowInvalid):
            with path.errors():
                raise
        kind = "Parquet file" if path.name.lower().endswith(PARQUET) else "CSV file"
        raise InputError(f"{path.name}: damaged or incomplete {kind} ({first_line(error)}).") from None


def open_table(
    path: str | os.PathLike[str], *, sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> TableFile:
    """Open a .csv, .tsv or .txt file, also compressed (.gz), or a .parquet file.

    Args:
        path: path or URI of the file.
        sep: separator of a CSV file; detected by default.
        decimal: decimal sign of a CSV file, "." or ","; detected by default.
        encoding: encoding of a CSV file, such as "cp1252". Default: UTF-8, or UTF-16 by its byte-order mark.

    Raises:
        InputError: if the file has another ending, or cannot be read.
    """
    path = as_location(path)
    require_file(path)
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:  # pyarrow takes only such names
        raise InputError(f"{path}: the path is not valid UTF-8; rename the file or folder.") from None
    name = path.name.lower()
    if name.endswith(CSV):
        dialect = detect_dialect(path, sep=sep, decimal=decimal, encoding=encoding)
        return TableFile(path, dialect.header, dialect)
    if not name.endswith(PARQUET):
        raise InputError(f"{path}: expected a file name that ends in .parquet, .csv, .tsv, .txt, .csv.gz or .tsv.gz.")
    import pyarrow as pa
    import pyarrow.parquet

    with _input_errors(path):
        file = pa.parquet.read_metadata(_seekable(path))
        schema = file.schema.to_arrow_schema()
    duplicate = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"{path.name}: duplicate column {duplicate!r}.")
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()
    }
    return TableFile(path, tuple(schema.names), metadata=metadata, rows=file.num_rows)


def read_table(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    text_columns: Collection[str] = (),
) -> "pyarrow.Table":
    r"""Read a file into a pyarrow table; arguments as for `open_table`.

    The column types of a CSV file are detected, and empty cells are null. ``text_columns`` stay text, so that an id
    such as 007 is not read as the number 7.

    Raises:
        InputError: if the file cannot be read, or has two columns with the same name.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "grades.csv"
        >>> _ = path.write_text("grade;size\nlow;0,9\nhigh;\n")
        >>> read_table(path).to_pydict()
        {'grade': ['low', 'high'], 'size': [0.9, None]}
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    file = open_table(path, sep=sep, decimal=decimal, encoding=encoding)
    with _input_errors(file.path, "utf-8" if file.dialect is None else file.dialect.encoding):
        if file.dialect is None:
            return pa.parquet.read_table(_seekable(file.path))
        types = {name: pa.string() for name in text_columns}
        convert = pa.csv.ConvertOptions(strings_can_be_null=True, decimal_point=file.decimal, column_types=types)
        with _stream(file.path) as stream:
            try:
                return pa.csv.read_csv(stream, *_csv_options(file.dialect), convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):
                    raise
                return pa.table({name: [] for name in file.names})


def to_float64(column: Any, name: str, *, first_row: int, decimal: str = ".") -> FloatArray:
    """Convert a pyarrow column of numbers, or of numbers written as text, to float64; an InputError names the row."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        text = pa.compute.utf8_trim_whitespace(column.cast(pa.string()))
        if decimal == ",":
            points = pa.compute.match_substring(text, ".")
            if pa.compute.any(points).as_py():
                row = pa.compute.index(points, True).as_py()
                raise InputError(
                    f"column {name!r}: row {row + first_row} has {text[row].as_py()!r} with a point, but the decimal "
                    "sign is a comma. Use one decimal sign and no thousands separators, or give --decimal."
                )
            text = pa.compute.replace_substring(text, ",", ".")
        try:
            column = text.cast(pa.float64())
        except pa.ArrowInvalid:
            raise InputError(_invalid_number_message(text.to_pylist(), name, first_row)) from None
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"column {name!r}: expected numbers, got {kind}.")
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InputError(missing_entry_message(f"column {name!r}", row + first_row))
    return to_numpy(column.cast(pa.float64()), np.float64)


def to_numpy(column: Any, dtype: Any) -> npt.NDArray[Any]:
    """Convert a pyarrow column of numbers without nulls to numpy, without a copy.

    pyarrow's own ``to_numpy`` imports pandas, which takes longer than reading a million rows.
    """
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    values, size = column.buffers()[1], np.dtype(dtype).itemsize
    if values is None:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(values, dtype=dtype, count=len(column), offset=size * column.offset)


def _invalid_number_message(texts: list[str | None], name: str, first_row: int) -> str:
    for row, text in enumerate(texts):
        if not text or not _NUMBER.fullmatch(text):
            if not text:
                return missing_entry_message(f"column {name!r}", row + first_row)
            hint = "Check the separator and the decimal sign (--sep, --decimal)."
            if text.endswith("%"):
                hint = "Write the numbers without the percent sign, and use --percent."
            return f"column {name!r}: row {row + first_row} has {text!r}, expected a number. {hint}"
    return f"column {name!r}: expected numbers, got text."


def _csv_options(dialect: Dialect) -> tuple[Any, Any]:
    import pyarrow.csv

    # pyarrow checks UTF-8 itself, and names the column; a byte-order mark is in the header, which is skipped.
    encoding = "utf8" if dialect.encoding.startswith("utf-8") else dialect.encoding
    return (
        pyarrow.csv.ReadOptions(
            column_names=list(dialect.header), skip_rows=dialect.skip, block_size=BLOCK_BYTES, encoding=encoding
        ),
        pyarrow.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
    )
