"""Files that are either whole or not there, and locks between processes."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orcu.errors import InputError


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
