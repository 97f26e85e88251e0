"""The user's images, in one folder per class."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row
from orcu.data.images import SUFFIXES
from orcu.errors import InputError


@DATASETS.register("folder")
class Folder(Dataset):
    r"""Images in class folders and their subfolders.

    Args:
        classes: folder names from lowest to highest class, as a list or separated by commas. Not needed
            if every name starts with a number, such as 0_none, 1_mild.
        cluster: regular expression whose first group in the path is the cluster, such as ``patient(\d+)``.
    """

    card = Card(
        title="your own images in class folders",
        kind=IMAGES,
        classes=(),
        counts=None,
        licence="yours",
        citation="yours",
        obtain="Put the images of each class into a folder named after the class.",
        layout="<class>/<image>, subfolders are allowed.",
    )

    def __init__(self, *, classes: Sequence[str] | str | None = None, cluster: str | None = None) -> None:
        names = classes.split(",") if isinstance(classes, str) else classes or ()
        self._classes: tuple[str, ...] = tuple(name.strip() for name in names)
        self._from_numbers = classes is None
        if len(set(self._classes)) < len(self._classes):
            raise InputError(f"classes: duplicate name in {', '.join(self._classes)}.")
        try:
            self._cluster = None if cluster is None else re.compile(cluster)
        except re.error as error:
            raise InputError(f"cluster: {cluster!r} is not a regular expression ({error}).") from None
        if self._cluster is not None and self._cluster.groups < 1:
            raise InputError(f"cluster: {cluster!r} needs a group in parentheses, such as patient(\\d+).")

    @property
    def classes(self) -> tuple[str, ...]:
        """The folder names in order; empty before `rows` has read them unless they were given."""
        return self._classes

    def rows(self, root: Path) -> Iterator[Row]:
        """The images of each class, sorted by path."""
        folders = sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
        if self._from_numbers:
            self._classes = _sort_by_number(folders, root)
        missing = [name for name in self._classes if name not in folders]
        if missing:
            raise InputError(f"{root}: no folder {missing[0]!r}; the folders are {', '.join(folders) or 'none'}.")
        unknown = [name for name in folders if name not in self._classes]
        if unknown:
            raise InputError(f"{root}: the folder {unknown[0]!r} is not one of the classes; add or move it.")
        for label, name in enumerate(self._classes):
            for file in sorted((root / name).rglob("*")):
                if file.suffix.lower() in SUFFIXES and (file.is_file() or file.is_symlink()):
                    path = file.relative_to(root).as_posix()
                    yield Row(path, label, path=path, cluster=self._find_cluster(path))

    def _find_cluster(self, path: str) -> str | None:
        if self._cluster is None:
            return None
        match = self._cluster.search(path)
        if match is None:
            raise InputError(f"{path}: the pattern {self._cluster.pattern!r} of cluster does not match this path.")
        return match[1]


def _sort_by_number(folders: list[str], root: Path) -> tuple[str, ...]:
    """The folder names sorted by the number at their start."""
    if not folders:
        raise InputError(f"{root}: no class folders found.")
    numbers = {name: int(match[0]) for name in folders if (match := re.match(r"\d+", name))}
    if len(set(numbers.values())) < len(folders):
        raise InputError(
            f"classes: the order of the folders {', '.join(folders)} is unknown. Pass classes=lowest,...,highest, or "
            "start each folder name with a different number."
        )
    return tuple(sorted(folders, key=numbers.__getitem__))
