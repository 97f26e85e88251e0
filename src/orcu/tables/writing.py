"""Writing tables: the file appears whole or not at all."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orcu.errors import InputError
from orcu.tables.files import replacing

if TYPE_CHECKING:
    import pyarrow


def write_table(table: "pyarrow.Table", path: str | os.PathLike[str]) -> None:
    """Write a pyarrow table to .parquet, .csv or .csv.gz; the file appears whole or not at all.

    Raises:
        InputError: if the ending is another.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    name = Path(path).name.lower()
    if not name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"{path}: expected a name that ends in .parquet, .csv or .csv.gz.")
    with replacing(path) as temporary:
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(table, temporary)
            return
        compression = "gzip" if name.endswith(".gz") else None
        with pyarrow.output_stream(temporary, compression=compression) as stream:
            pyarrow.csv.write_csv(table, stream)
