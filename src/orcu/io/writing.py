"""Writing of tables to Parquet and CSV files."""

import os
from typing import TYPE_CHECKING, Any

from orcu.errors import InputError
from orcu.io.files import atomic_write
from orcu.io.locations import as_location

if TYPE_CHECKING:
    import pyarrow


FORMULA = r"^[=+\-@\t\r]"  # start of a text that a spreadsheet takes for a formula
NUMBER = r"^[+-]?[0-9.]"


def write_table(table: "pyarrow.Table", path: str | os.PathLike[str], *, escape_formulas: bool = False) -> None:
    """Write a pyarrow table to a .parquet, .csv or .csv.gz file, atomically.

    Args:
        table: table to write.
        path: file to write.
        escape_formulas: whether to put a ' before texts in CSV that a spreadsheet would run as formulas.

    Raises:
        InputError: if the name has another ending.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    name = check_table_name(path)
    with atomic_write(path) as temporary:
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(table, temporary)
            return
        if escape_formulas:
            table = escape_formula_texts(table)
        compression = "gzip" if name.endswith(".gz") else None
        with pyarrow.output_stream(temporary, compression=compression) as stream:
            pyarrow.csv.write_csv(table, stream)


def check_table_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a table file in lower case; raises `InputError` if its ending is not one of a table."""
    path = as_location(path)
    name = path.name.lower()
    if not name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"{path}: expected a file name that ends in .parquet, .csv or .csv.gz.")
    return name


def escape_formula_texts(table: "pyarrow.Table") -> "pyarrow.Table":
    """Put a ' before texts and column names that start like a formula and are not numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def escape(texts: Any) -> Any:
        runs = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
        return pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)

    def is_text(column: Any) -> bool:
        return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)

    columns = [escape(column) if is_text(column) else column for column in table.columns]
    return pa.table(columns, names=escape(pa.array(table.column_names)).to_pylist())
