"""Downloads of data files, on request of the user."""

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
    """A file that may be downloaded without registration.

    Args:
        url: address.
        name: file name in the root folder.
        md5: published checksum, or ``None``.
        unpack: whether it is a ZIP archive to unpack into the root folder.
    """

    url: str
    name: str
    md5: str | None = None
    unpack: bool = False

    def fetch(self, root: Path, progress: Callable[[int, int | None], None] | None = None) -> Path:
        """Download the file into ``root``, verify and unpack it; an existing valid file is not downloaded again.

        ``progress`` is called with the number of bytes so far and in total (``None`` if unknown).
        """
        target = root / self.name
        if not (target.exists() and self._is_valid(target)):
            root.mkdir(parents=True, exist_ok=True)
            with atomic_write(target) as temporary:
                self._copy(temporary, progress)
                if not self._is_valid(temporary):
                    raise InputError(
                        f"{self.url}: the MD5 of the file differs from the published {self.md5}; try again, or "
                        f"download it by hand to {target}."
                    )
        if self.unpack:
            with zipfile.ZipFile(target) as archive:
                unsafe = [name for name in archive.namelist() if _is_outside(name)]
                if unsafe:
                    raise InputError(f"{target}: unpacking {unsafe[0]!r} would write outside the root folder.")
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
                f"{self.url}: the download failed ({error}). Download it by hand to {target.parent / self.name}."
            ) from None

    def _is_valid(self, path: Path) -> bool:
        if self.md5 is None:
            return path.stat().st_size > 0
        with path.open("rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest() == self.md5


def check_disk_space(folder: Path, needed: int) -> None:
    """Raise `InputError` if the disk of a folder has less free space than needed, in bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: {needed / 1e9:.1f} GB are needed, but only {free / 1e9:.1f} GB are free. Free some space, or "
            "choose another folder or a smaller size."
        )


def _is_outside(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in Path(name).parts
