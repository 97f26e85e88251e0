"""The one reader of tables: CSV in any dialect and Parquet, whole or in batches."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, first_line
from orcu.inputs import FloatArray
from orcu.io.dialect import Dialect, dialect_of

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 1 << 18
BLOCK_BYTES = 1 << 24  # of a CSV file that are read at once; no row may be longer
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class TableFile:
    """A table on disk that can be read as often as needed.

    Attributes:
        path: of the file.
        names: of its columns.
        dialect: of a CSV file; ``None`` for Parquet.
        metadata: of a Parquet file, by key.
        rows: how many a Parquet file has; a CSV file has to be read to know.
    """

    path: Path
    names: tuple[str, ...]
    dialect: Dialect | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    rows: int | None = None

    @property
    def notes(self) -> list[str]:
        """What was recognised."""
        return [] if self.dialect is None else [f"{self.path.name}: {self.dialect}"]

    @property
    def decimal(self) -> str:
        """The decimal sign of numbers that are written as text."""
        return "." if self.dialect is None else self.dialect.decimal

    def batches(self, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
        """Some columns, some hundred thousand rows at a time; the cells of a CSV file as text, as they are written.

        Raises:
            InputError: if the file is damaged.
        """
        return _parquet_batches(self.path, columns) if self.dialect is None else self._csv_batches(columns)

    def _csv_batches(self, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow as pa
        import pyarrow.csv

        assert self.dialect is not None  # noqa: S101 - else it is Parquet
        types = {name: pa.string() for name in columns}
        convert = pa.csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_null=False)
        try:
            with pa.input_stream(self.path, compression="detect") as stream:
                yield from pa.csv.open_csv(stream, *_csv_options(self.dialect), convert)
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise InputError(f"{self.path.name}: {first_line(error)}") from None
        except OSError as error:
            raise InputError(f"{self.path.name}: cannot be read to its end ({first_line(error)}).") from None


def open_table(path: str | os.PathLike[str], *, sep: str | None = None, decimal: str | None = None) -> TableFile:
    """Open a .csv, .tsv or .txt file, these packed (.gz), or a .parquet file.

    Args:
        path: the file.
        sep: the separator of a CSV file; recognised from its first rows if not given.
        decimal: "." or ","; recognised likewise.

    Raises:
        InputError: if it is none of these, or cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    name = path.name.lower()
    if name.endswith(CSV):
        dialect = dialect_of(path, sep=sep, decimal=decimal)
        return TableFile(path, dialect.header, dialect)
    if not name.endswith(PARQUET):
        raise InputError(f"{path}: expected a name that ends in .parquet, .csv, .tsv or these with .gz.")
    import pyarrow as pa
    import pyarrow.parquet

    try:
        about = pa.parquet.read_metadata(path)
        schema = about.schema.to_arrow_schema()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path.name}: not a whole Parquet file ({first_line(error)}). Was it cut off while copying?"
        ) from None
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path.name}: the column {twice!r} stands twice.")
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()
    }
    return TableFile(path, tuple(schema.names), metadata=metadata, rows=about.num_rows)


def read_table(path: str | os.PathLike[str], *, sep: str | None = None, decimal: str | None = None) -> "pyarrow.Table":
    r"""A whole file as a pyarrow table; the types of a CSV file's columns are recognised, empty cells are missing.

    Args:
        path: as for `open_table`.
        sep: as for `open_table`.
        decimal: as for `open_table`.

    Raises:
        InputError: if it cannot be read, or has two columns of one name.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "grades.csv"
        >>> _ = path.write_text("grade;size\nlow;0,9\nhigh;\n")
        >>> read_table(path).to_pydict()
        {'grade': ['low', 'high'], 'size': [0.9, None]}
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    file = open_table(path, sep=sep, decimal=decimal)
    try:
        if file.dialect is None:
            return pa.parquet.read_table(path)
        convert = pa.csv.ConvertOptions(strings_can_be_null=True, decimal_point=file.decimal)
        with pa.input_stream(path, compression="detect") as stream:
            return pa.csv.read_csv(stream, *_csv_options(file.dialect), convert)
    except (pa.ArrowInvalid, OSError) as error:
        if "Empty CSV" in str(error):
            return pa.table({name: [] for name in file.names})
        raise InputError(f"{path}: cannot be read ({first_line(error)}).") from None


def as_numbers(column: Any, name: str, *, first_row: int, decimal: str = ".") -> FloatArray:
    """A column of numbers, or of texts that write them, as float64.

    Args:
        column: a pyarrow array.
        name: of the column, in messages.
        first_row: the number of the first row in messages.
        decimal: the decimal sign of texts.

    Raises:
        InputError: if a cell is empty or no number; the text names the row.

    Example:
        >>> import pyarrow
        >>> as_numbers(pyarrow.array(["0,5", " 1 "]), "p_low", first_row=1, decimal=",")
        array([0.5, 1. ])
    """
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
                    f"column {name!r}: row {row + first_row} has {text[row].as_py()!r}, with a point, where the "
                    "decimal sign is a comma. Write all numbers in one way, without separators of thousands, or say "
                    "--decimal."
                )
            text = pa.compute.replace_substring(text, ",", ".")
        try:
            column = text.cast(pa.float64())
        except pa.ArrowInvalid:
            raise InputError(_not_a_number(text.to_pylist(), name, first_row)) from None
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"column {name!r}: expected numbers, got {kind}.")
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InputError(f"column {name!r}: row {row + first_row} is empty; every row needs a number there.")
    return as_numpy(column.cast(pa.float64()), np.float64)


def as_numpy(column: Any, dtype: Any) -> npt.NDArray[Any]:
    """A pyarrow column without gaps as numpy has it, without a copy.

    pyarrow's own ``to_numpy`` imports pandas, which takes longer than to read a million rows.

    Args:
        column: of numbers.
        dtype: their type.

    Example:
        >>> import pyarrow
        >>> as_numpy(pyarrow.array([1, 2, 3])[1:], np.int64)
        array([2, 3])
    """
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    values, size = column.buffers()[1], np.dtype(dtype).itemsize
    if values is None:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(values, dtype=dtype, count=len(column), offset=size * column.offset)


def _not_a_number(texts: list[str | None], name: str, first_row: int) -> str:
    for row, text in enumerate(texts):
        try:
            float(text or "x")
        except ValueError:
            if not text:
                return f"column {name!r}: row {row + first_row} is empty; every row needs a number there."
            hint = "Check the separator and the decimal sign (--sep, --decimal)."
            if text.endswith("%"):
                hint = "Write the numbers without the sign, and say --percent."
            return f"column {name!r}: row {row + first_row} has {text!r}, which is no number. {hint}"
    return f"column {name!r}: holds text that is no number."


def _csv_options(dialect: Dialect) -> tuple[Any, Any]:
    import pyarrow.csv

    return (
        pyarrow.csv.ReadOptions(column_names=list(dialect.header), skip_rows=dialect.skip, block_size=BLOCK_BYTES),
        pyarrow.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
    )


def _parquet_batches(path: Path, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with pa.parquet.ParquetFile(path, pre_buffer=False) as file:  # else it keeps what was read
            yield from file.iter_batches(BATCH_ROWS, columns=list(columns))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path.name}: damaged Parquet file ({first_line(error)}).") from None
