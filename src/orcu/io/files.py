"""Atomic file writes, JSON files, and locks between processes."""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from orcu.errors import InputError
from orcu.io.locations import RemotePath, as_location, require_file

T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and rename it to ``path`` when the block ends.

    If the block raises, the temporary file is removed and an existing file is left unchanged. The file of a URI is
    written to a local temporary path and uploaded in one piece.

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "result.txt"
        >>> with atomic_write(target) as temporary:
        ...     _ = temporary.write_text("42")
        >>> target.read_text(), len(list(target.parent.iterdir()))
        ('42', 1)
    """
    location = as_location(path)
    if isinstance(location, RemotePath):
        with location.writer() as temporary:
            yield temporary
        return
    path = location
    with _errors_of(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            # mkstemp makes files private; give the result the default permissions.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Name the file in errors of the file system, instead of a temporary file or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a message only, as some libraries raise it
            raise OSError(errno.EIO, str(error), os.fspath(path)) from error
        error.filename = os.fspath(path)
        raise


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write plain data as JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: str | os.PathLike[str], parse: Callable[[Any], T]) -> T:
    """Read a JSON file and convert its content with ``parse``; an InputError of ``parse`` gets the name of the file."""
    location = as_location(path)
    if isinstance(location, RemotePath):
        path = location  # shown without credentials
        require_file(location)
    try:
        content = json.loads(location.read_text())
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, a number of 5,000 digits
        raise InputError(f"{path}: not valid JSON ({error}).") from None
    try:
        return parse(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: damaged (nested too deeply).") from None


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """Add the SHA-256 of plain data under the key "sha256", which `check_digest` compares.

    Example:
        >>> check_digest(with_digest({"temperature": 1.5}))["temperature"]
        1.5
    """
    return {**content, "sha256": _content_digest(content)}


def check_digest(content: Any) -> Any:
    """Return the content unchanged, after checking the digest of `with_digest`; files of orcu 0.2 have none.

    Raises:
        InputError: if the content was changed after it was written.
    """
    if isinstance(content, Mapping) and "sha256" in content:
        rest = {key: value for key, value in content.items() if key != "sha256"}
        if content["sha256"] != _content_digest(rest):
            raise InputError(
                "the content does not match its digest (sha256), so the file was changed or damaged after it was "
                "written. Restore it, or fit again."
            )
    return content


def _content_digest(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@contextmanager
def file_lock(path: str | os.PathLike[str], *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file; the lock is released when the process ends, even if it is killed.

    Args:
        path: lock file, which is not removed.
        wait: whether to wait for another process to release the lock.

    Raises:
        InputError: if another process holds the lock.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(path, blocking=wait).acquire()
    except Timeout:
        raise InputError(f"{path}: another process holds this lock. Wait until it ends.") from None
    with lock:
        yield
