"""Your own images, one folder per class."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row
from orcu.data.images import SUFFIXES
from orcu.errors import InputError


@DATASETS.register("folder")
class Folder(Dataset):
    r"""Images in class folders, at any depth below them.

    Args:
        classes: the folders' names from lowest to highest, as a list or a text with commas. Not needed
            if every name starts with a number, such as 0_none, 1_mild.
        subject: a regular expression whose first group in the path is the subject, such as
            ``patient(\d+)``.
    """

    card = Card(
        title="your own images in class folders",
        kind=IMAGES,
        classes=(),
        counts=None,
        licence="yours",
        citation="yours",
        obtain="Put the images of each class into a folder of its name.",
        layout="<class>/<image>, at any depth.",
    )

    def __init__(self, *, classes: Sequence[str] | str | None = None, subject: str | None = None) -> None:
        self._named = classes.split(",") if isinstance(classes, str) else classes
        self._classes: tuple[str, ...] = tuple(name.strip() for name in self._named or ())
        if len(set(self._classes)) < len(self._classes):
            raise InputError(f"classes: a name stands twice in {', '.join(self._classes)}.")
        try:
            self._subject = None if subject is None else re.compile(subject)
        except re.error as error:
            raise InputError(f"subject: {subject!r} is no regular expression ({error}).") from None
        if self._subject is not None and self._subject.groups < 1:
            raise InputError(f"subject: {subject!r} needs a group in brackets, such as patient(\\d+).")

    @property
    def classes(self) -> tuple[str, ...]:
        """The folders' names, once they are known."""
        return self._classes

    def rows(self, root: Path) -> Iterator[Row]:
        """The images of each class, by path."""
        folders = sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
        if self._named is None:
            self._classes = _numbered(folders, root)
        missing = [name for name in self._classes if name not in folders]
        if missing:
            raise InputError(f"{root}: no folder {missing[0]!r}; there are {', '.join(folders) or 'none'}.")
        left = [name for name in folders if name not in self._classes]
        if left:
            raise InputError(f"{root}: the folder {left[0]!r} is none of the classes; move it elsewhere.")
        for label, name in enumerate(self._classes):
            for file in sorted((root / name).rglob("*")):
                if file.suffix.lower() in SUFFIXES and (file.is_file() or file.is_symlink()):
                    path = file.relative_to(root).as_posix()
                    yield Row(path, label, path=path, subject=self._subject_of(path))

    def _subject_of(self, path: str) -> str | None:
        if self._subject is None:
            return None
        match = self._subject.search(path)
        if match is None:
            raise InputError(f"{path}: the pattern {self._subject.pattern!r} finds no subject in it.")
        return match[1]


def _numbered(folders: list[str], root: Path) -> tuple[str, ...]:
    """The folders in the order of the numbers that their names start with."""
    numbers = [re.match(r"\d+", name) for name in folders]
    if not folders:
        raise InputError(f"{root}: there are no class folders in it.")
    values = [int(number[0]) for number in numbers if number]
    if not all(numbers) or len(set(values)) < len(values):
        raise InputError(
            f"classes: the folders are {', '.join(folders)}; their order cannot be told from the alphabet. Give "
            "classes=lowest,...,highest, or start the names with numbers."
        )
    return tuple(sorted(folders, key=lambda name: int(re.match(r"\d+", name)[0])))  # type: ignore[index]
