"""The base class of data sets, their cards and rows, and helpers that read common file layouts."""

import csv
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orcu.data.download import Download
from orcu.data.folds import Protocol, RotatingKFold
from orcu.errors import InputError, UnknownNameError, require
from orcu.registry import Registry

if TYPE_CHECKING:
    from PIL.Image import Image

DATASETS: Registry[type["Dataset"]] = Registry("data set", package="orcu.data.catalog", plugins="orcu.data")
IMAGES, TEXTS, TABLE = "images", "texts", "table"  # kinds of data, as written in cards and files


@dataclass(frozen=True)
class Card:
    """Description of a data set.

    Args:
        title: full name.
        kind: `IMAGES`, `TEXTS` or `TABLE`.
        classes: class names from lowest to highest; empty if the user's data define them.
        counts: published number of rows per class (for the paper's sets: its appendix, Table I).
        licence: terms of use.
        citation: authors and publication.
        obtain: instructions for getting the files.
        layout: files expected in the root folder.
        notes: known differences from the publication, and our decisions.
        downloads: files that ``--download`` may fetch under the licence.
        package: PyPI package that contains the data, so that no root folder is needed.
        paper: whether it is one of the five data sets of the paper.
    """

    title: str
    kind: str
    classes: tuple[str, ...]
    counts: tuple[int, ...] | None
    licence: str
    citation: str
    obtain: str
    layout: str
    notes: str = ""
    downloads: tuple[Download, ...] = ()
    package: str | None = None
    paper: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled sample, with exactly one of ``path``, ``text`` and ``features``.

    Args:
        id: unique id.
        label: class index 0..C-1.
        path: image file relative to the root; ``file.npz#name/3`` is entry 3 of an array in an archive.
        text: text.
        features: values of a table row by column name.
        cluster: group of dependent rows, such as a patient.
        split: the publisher's split or fold.
        extra: further columns of the manifest.
    """

    id: str
    label: int
    path: str | None = None
    text: str | None = None
    features: Mapping[str, Any] | None = None
    cluster: str | None = None
    split: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Dataset(ABC):
    """A data set: its card, a generator of its rows, and its evaluation protocols.

    To add a data set, write a subclass with ``card`` and ``rows`` in a file of ``orcu.data.catalog`` or of a plugin,
    and register it by name. Options are keyword arguments of the constructor.

    Attributes:
        card: description of the data set.
        protocols: evaluation protocols by name.
        class_counts: class names and row counts, where they depend on an option; else those of the card.
    """

    card: ClassVar[Card]
    protocols: ClassVar[Mapping[str, Protocol]] = {"five_folds": RotatingKFold(n_splits=5, by_cluster=True)}
    class_counts: Mapping[str, int] | None = None

    @abstractmethod
    def rows(self, root: Path) -> Iterator[Row]:
        """Read the rows from files in the publisher's layout.

        Raises:
            InputError: if a file is missing or has unexpected content; the message names file and line.
        """

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names from lowest to highest."""
        return self.card.classes if self.class_counts is None else tuple(self.class_counts)

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Expected number of rows per class, or ``None``."""
        return self.card.counts if self.class_counts is None else tuple(self.class_counts.values())

    @property
    def notes(self) -> str:
        """Remarks on the rows, for the user."""
        return self.card.notes

    def root(self) -> Path | None:
        """Folder of the package that contains the data; ``None`` if the user has to give the root folder."""
        if self.card.package is None:
            return None
        require(self.card.package, extra="data", feature="this data set")
        return Path(str(importlib.util.find_spec(self.card.package).origin)).parent  # type: ignore[union-attr]

    def rating_code(self, rating: int) -> int:
        """Class index of a rating in the column ``ratings``; only data sets with such a column define it."""
        raise InputError(f"{self.card.title}: has no ratings of several raters.")

    @staticmethod
    def preprocess(image: "Image") -> "Image":
        """Preprocess an image before it is resized; by default it is returned as it is."""
        return image


def require_file(path: Path, card: Card) -> Path:
    """Return the path, or raise `InputError` with the layout and the source of the data if it does not exist."""
    if not path.exists():
        raise InputError(f"{path}: file not found. Expected layout: {card.layout} How to get it: {card.obtain}")
    return path


def import_data_module(name: str) -> Any:
    """Import a module of a package that contains data; `MissingExtraError` if the package is not installed."""
    require(name.partition(".")[0], extra="data", feature="this data set")
    return importlib.import_module(name)


def class_index(value: str, classes: Sequence[str], where: str) -> int:
    """Index of a label in the class names; ``where`` is its location for the error message."""
    if value not in classes:
        raise InputError(f"{where}: the label {value!r} is not one of {', '.join(classes)}.")
    return classes.index(value)


def check_choice(value: str, choices: Iterable[str], what: str) -> str:
    """Return an option's value if it is one of the choices, else raise `UnknownNameError`."""
    if value not in choices:
        raise UnknownNameError(what, value, choices)
    return value


def read_csv(path: Path, columns: Iterable[str], *, delimiter: str = ",") -> Iterator[tuple[str, dict[str, str]]]:
    """Location ("FILE: line 2") and cells by name of each line of a CSV file with a header and required columns."""
    with path.open(encoding="utf-8", newline="") as lines:
        for number, cells in enumerate(csv.DictReader(lines, delimiter=delimiter), 2):
            missing = [name for name in columns if name not in cells]
            if missing:
                raise InputError(
                    f"{path}: column {missing[0]!r} is missing; expected columns separated by {delimiter!r}."
                )
            yield f"{path}: line {number}", cells


def find_image(root: Path, stem: str, suffixes: Sequence[str]) -> str:
    """Path of an image relative to the root, with the first suffix for which the file exists, else the first one."""
    return stem + next((suffix for suffix in suffixes if (root / (stem + suffix)).exists()), suffixes[0])


def number_repeats(name: str, counts: Counter[str]) -> str:
    """NAME at its first occurrence, NAME#2 at its second and so on; ``counts`` counts the occurrences."""
    counts[name] += 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"
