"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orcu.errors import InputError

if TYPE_CHECKING:
    import pyarrow


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends well.

    If the block raises, the temporary file is removed and a file of that name stays as it was.

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "result.txt"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("42")
        >>> target.read_text(), len(list(target.parent.iterdir()))
        ('42', 1)
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; a result gets the permissions any new file gets.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def only_one(lock: str | os.PathLike[str], *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file; it is free again when the process ends, however it ends.

    Args:
        lock: the file; it stays.
        wait: until another process is done, instead of complaining.

    Raises:
        InputError: if another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows; there the files themselves cannot be replaced while in use
        yield
        return
    path = Path(lock)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path.parent}: another process is writing here; wait for it.") from None
        yield


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
