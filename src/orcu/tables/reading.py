"""Reading tables."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orcu.errors import InputError

if TYPE_CHECKING:
    import pyarrow


def read_table(path: str | os.PathLike[str]) -> "pyarrow.Table":
    """A whole .csv, .tsv or .parquet file as a pyarrow table; empty cells are missing.

    Raises:
        InputError: if it is neither, cannot be read, or has two columns of one name.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    if path.suffix.lower() not in {".csv", ".tsv", ".parquet"}:
        raise InputError(f"{path}: expected a name that ends in .csv, .tsv or .parquet.")
    try:
        if path.suffix.lower() == ".parquet":
            table = pyarrow.parquet.read_table(path)
        else:
            options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
            lines = pyarrow.csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            table = pyarrow.csv.read_csv(path, parse_options=lines, convert_options=options)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]}).") from None
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise InputError(f"{path}: the column {twice[0]!r} stands twice in the header.")
    return table
