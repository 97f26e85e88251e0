"""Writing tables: the file appears whole or not at all."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orcu.errors import InputError
from orcu.io.files import atomic_write

if TYPE_CHECKING:
    import pyarrow


FORMULA = r"^[=+\-@\t\r]"  # what a spreadsheet takes for the start of a formula
NUMBER = r"^[+-]?[0-9.]"


def write_table(table: "pyarrow.Table", path: str | os.PathLike[str], *, no_formulas: bool = False) -> None:
    """Write a pyarrow table to .parquet, .csv or .csv.gz; the file appears whole or not at all.

    Args:
        table: what is written.
        path: where.
        no_formulas: in CSV, put a ' before texts that a spreadsheet would run, such as ids of strangers.

    Raises:
        InputError: if the ending is another.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    name = Path(path).name.lower()
    if not name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"{path}: expected a name that ends in .parquet, .csv or .csv.gz.")
    with atomic_write(path) as temporary:
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(table, temporary)
            return
        if no_formulas:
            table = _without_formulas(table)
        compression = "gzip" if name.endswith(".gz") else None
        with pyarrow.output_stream(temporary, compression=compression) as stream:
            pyarrow.csv.write_csv(table, stream)


def _without_formulas(table: "pyarrow.Table") -> "pyarrow.Table":
    """The table with a ' before every text, names of columns included, that starts as a formula and is no number.

    Example:
        >>> import pyarrow as pa
        >>> _without_formulas(pa.table({"=id": ["=cmd|x", "-1.5", "plain"]})).to_pydict()
        {"'=id": ["'=cmd|x", '-1.5', 'plain']}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def guarded(texts: Any) -> Any:
        runs = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
        return pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)

    def is_text(column: Any) -> bool:
        return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)

    columns = [guarded(column) if is_text(column) else column for column in table.columns]
    return pa.table(columns, names=guarded(pa.array(table.column_names)).to_pylist())
