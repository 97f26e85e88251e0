"""Files that are either whole or not there, JSON among them, and locks between processes."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from orcu.errors import InputError

T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends well.

    If the block raises, the temporary file is removed and a file of that name stays as it was.

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "result.txt"
        >>> with atomic_write(target) as temporary:
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


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write plain data as JSON; the file appears whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: str | os.PathLike[str], make: Callable[[Any], T]) -> T:
    """What ``make`` makes of a JSON file's content; every fault names the file.

    Raises:
        InputError: if the file cannot be read, or ``make`` refuses it.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "class_names.json"
        >>> write_json(path, ["low", "high"])
        >>> read_json(path, tuple)
        ('low', 'high')
    """
    try:
        return make(json.loads(Path(path).read_text()))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON file ({error}).") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file; it is free again when the process ends, however it ends.

    Args:
        path: of the file, which may stay behind.
        wait: until another process is done, instead of complaining.

    Raises:
        InputError: if another process holds it.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(path, blocking=wait).acquire()
    except Timeout:
        raise InputError(f"{Path(path).parent}: another process is writing here; wait for it.") from None
    with lock:
        yield
