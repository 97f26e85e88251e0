"""The kinds of data: what preparing does differently for images, texts and tables.

What models do differently is in `orcu.models.kinds`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from orcu.data.base import IMAGES, TABLE, TEXTS, Row
from orcu.data.cache import Progress
from orcu.data.images import BadImageError, check_image
from orcu.errors import UnknownNameError


class Kind(ABC):
    """A kind of data.

    Attributes:
        has_images: whether there is something to decode and to look at.
        package_has_files: whether a package that carries such data has them as files, which a copy can replace.
    """

    has_images: ClassVar[bool] = False
    package_has_files: ClassVar[bool] = True

    @abstractmethod
    def contents(
        self, rows: Sequence[Row], root: Path, *, workers: int | None = None, progress: Progress | None = None
    ) -> list[str | BadImageError | None]:
        """What tells copies of one case: the digest of each row's bytes, or what is wrong with them.

        Args:
            rows: of the data set.
            root: the folder that their paths are relative to.
            workers: threads; as many as there are cores by default.
            progress: called with "check", the rows done, and all.
        """


class ImageKind(Kind):
    """Images, in files or in arrays of an archive."""

    has_images = True

    def contents(
        self, rows: Sequence[Row], root: Path, *, workers: int | None = None, progress: Progress | None = None
    ) -> list[str | BadImageError | None]:
        """The digest of each file; an image that cannot be decoded to its end is wrong."""

        def checked(row: Row) -> str | BadImageError:
            try:
                return check_image(root, str(row.path))
            except BadImageError as error:
                return error

        contents: list[str | BadImageError | None] = []
        with ThreadPoolExecutor(workers) as pool:
            for content in pool.map(checked, rows):
                contents.append(content)
                if progress is not None:
                    progress("check", len(contents), len(rows))
        return contents


class TextKind(Kind):
    """Texts."""

    def contents(
        self, rows: Sequence[Row], root: Path, *, workers: int | None = None, progress: Progress | None = None
    ) -> list[str | BadImageError | None]:
        """The digest of each text."""
        return [sha256(str(row.text).encode()).hexdigest() for row in rows]


class TableKind(Kind):
    """Rows of numbers and categories."""

    package_has_files = False

    def contents(
        self, rows: Sequence[Row], root: Path, *, workers: int | None = None, progress: Progress | None = None
    ) -> list[str | BadImageError | None]:
        """Nothing: equal numbers in a table are no copies of one case."""
        return [None] * len(rows)


KINDS: dict[str, Kind] = {IMAGES: ImageKind(), TEXTS: TextKind(), TABLE: TableKind()}


def kind_of(name: str) -> Kind:
    """The kind that a card or a manifest names.

    Raises:
        UnknownNameError: if there is none of that name.

    Example:
        >>> kind_of("images").has_images
        True
    """
    if name not in KINDS:
        raise UnknownNameError("kind of data", name, KINDS)
    return KINDS[name]
