"""Fetching files, only when the user has asked for it."""

import hashlib
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orcu.errors import InputError
from orcu.io.files import atomic_write

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Download:
    """A file that its publisher lets anyone fetch.

    Args:
        url: where it is.
        name: what it is called under the root.
        md5: its published checksum, where there is one.
        unpack: whether it is a ZIP archive to be unpacked under the root.
    """

    url: str
    name: str
    md5: str | None = None
    unpack: bool = False

    def fetch(self, root: Path, progress: Callable[[int, int | None], None] | None = None) -> Path:
        """Fetch the file into ``root``, check it, unpack it; a file that is there and right is kept.

        Args:
            root: the folder.
            progress: called with the bytes so far and in all, if the server tells.

        Raises:
            InputError: if it cannot be reached or its checksum is another.
        """
        target = root / self.name
        if not (target.exists() and self._right(target)):
            root.mkdir(parents=True, exist_ok=True)
            with atomic_write(target) as temporary:
                self._copy(temporary, progress)
                if not self._right(temporary):
                    raise InputError(
                        f"{self.url}: the file does not have the published MD5 {self.md5}; try again, or "
                        f"fetch it by hand and put it at {target}."
                    )
        if self.unpack:
            with zipfile.ZipFile(target) as archive:
                unsafe = [name for name in archive.namelist() if _leaves(name)]
                if unsafe:
                    raise InputError(f"{target}: {unsafe[0]!r} would be written outside the root.")
                archive.extractall(root)
        return target

    def _copy(self, target: Path, progress: Callable[[int, int | None], None] | None) -> None:
        try:
            with urllib.request.urlopen(self.url, timeout=60) as source, target.open("wb") as file:  # noqa: S310
                length = source.headers.get("Content-Length")
                total = None if length is None else int(length)
                done = 0
                while chunk := source.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if progress is not None:
                        progress(done, total)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise InputError(
                f"{self.url}: cannot be fetched ({error}). Fetch it by hand and put it at {target.parent / self.name}."
            ) from None

    def _right(self, path: Path) -> bool:
        if self.md5 is None:
            return path.stat().st_size > 0
        with path.open("rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest() == self.md5


def enough_space(folder: Path, needed: int) -> None:
    """Complain before the work rather than after it.

    Raises:
        InputError: if the disk has less free space than needed.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: {needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free. Make room, choose "
            "another folder, or a smaller size."
        )


def _leaves(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in Path(name).parts
