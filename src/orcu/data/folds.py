"""Folds as data: which row is for training, validation or test, in which fold, by which protocol.

Chance here is the SHA-256 of a seed and the row's id, not a random generator: the same ids give the
same folds on every machine and with every version of numpy.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from orcu.errors import InputError
from orcu.inputs import IntArray

SPLITS = ("train", "validation", "test")  # from least to most held out
TRAIN, VALIDATION, TEST = range(3)
UNUSED = -1
SplitArray = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Cases:
    """What protocols know about the rows."""

    ids: Sequence[str]
    labels: IntArray
    contents: Sequence[str | None]  # equal where the bytes are equal
    subjects: Sequence[str | None]
    published: Sequence[str | None]  # the publisher's split or fold

    def __len__(self) -> int:
        return len(self.ids)

    def groups(self, *, by_subject: bool) -> IntArray:
        """The group of each row: rows of equal content, and of one subject if asked, are together."""
        return joined(self.contents, self.subjects) if by_subject else joined(self.contents)

    def take(self, rows: npt.NDArray[np.intp]) -> "Cases":
        """Some of the rows."""
        lists = (self.ids, self.contents, self.subjects, self.published)
        ids, contents, subjects, published = ([one[row] for row in rows] for one in lists)
        return Cases(ids, self.labels[rows], contents, subjects, published)


class Protocol(ABC):
    """How rows are divided into folds."""

    by_subject: bool

    @property
    @abstractmethod
    def num_folds(self) -> int:
        """How many folds there are, known before any data are."""

    @abstractmethod
    def _assign(self, cases: Cases, seed: int) -> Iterator[SplitArray]:
        """For each fold the split of every row: 0 train, 1 validation, 2 test, -1 unused."""

    def folds(self, cases: Cases, seed: int = 0) -> tuple[list[SplitArray], int]:
        """For each fold the split of every row, and how many rows were left out as doubles.

        Rows of equal content never stand on two sides: where a publisher's own split has them so, the
        one that is less held out is left out.
        """
        together = cases.groups(by_subject=False)
        folds, left_out = [], 0
        for splits in self._assign(cases, seed):
            most_held_out = np.full(together.max() + 1, UNUSED, dtype=np.int8)
            np.maximum.at(most_held_out, together, splits)
            leaking = (splits != UNUSED) & (splits < most_held_out[together])
            left_out += int(leaking.sum())
            folds.append(np.where(leaking, np.int8(UNUSED), splits))
        return folds, left_out


@dataclass(frozen=True)
class FixedTest(Protocol):
    """One test part; the rest in k parts, each of which is the validation part once.

    Args:
        parts: k.
        test: the share of the test part; ``None`` takes the rows whose published split is "test".
        by_subject: keep the rows of a subject together.
        balanced: first draw as many rows of each class as the smallest class has.
    """

    parts: int
    test: float | None = None
    by_subject: bool = False
    balanced: bool = False

    @property
    def num_folds(self) -> int:
        """K."""
        return self.parts

    def _assign(self, cases: Cases, seed: int) -> Iterator[SplitArray]:
        used = balanced_sample(cases, seed) if self.balanced else np.arange(len(cases))
        part = np.full(len(cases), UNUSED)
        if self.test is None:
            held = np.array([cases.published[row] == "test" for row in used])
            if not held.any():
                raise InputError("this protocol needs rows whose published split is 'test'.")
            part[used[held]] = 0
            rest, shares, first = used[~held], [1 / self.parts] * self.parts, 1
        else:
            rest, first = used, 0
            shares = [self.test] + [(1 - self.test) / self.parts] * self.parts
        part[rest] = first + partition(cases.take(rest), shares, by_subject=self.by_subject, seed=seed)
        for fold in range(self.parts):
            splits = np.where(part == UNUSED, UNUSED, TRAIN).astype(np.int8)
            splits[part == 0] = TEST
            splits[part == fold + 1] = VALIDATION
            yield splits


@dataclass(frozen=True)
class Rotation(Protocol):
    """k parts; in fold i part i is the test part and part i + 1 (mod k) the validation part, or a share of the rest is.

    Args:
        parts: k.
        predefined: the parts are the publisher's folds "0".."k-1", not our own.
        by_subject: keep the rows of a subject together.
        balanced: first draw as many rows of each class as the smallest class has.
        validation: the share of the other parts' rows that is drawn for validation; ``None`` gives up a part for it.
    """

    parts: int
    predefined: bool = False
    by_subject: bool = False
    balanced: bool = False
    validation: float | None = None

    @property
    def num_folds(self) -> int:
        """K."""
        return self.parts

    def _assign(self, cases: Cases, seed: int) -> Iterator[SplitArray]:
        used = balanced_sample(cases, seed) if self.balanced else np.arange(len(cases))
        part = np.full(len(cases), UNUSED)
        if self.predefined:
            part[used] = _numbered(cases.published, self.parts)[used]
        else:
            shares = [1 / self.parts] * self.parts
            part[used] = partition(cases.take(used), shares, by_subject=self.by_subject, seed=seed)
        for fold in range(self.parts):
            splits = np.where(part == UNUSED, UNUSED, TRAIN).astype(np.int8)
            splits[part == fold] = TEST
            if self.validation is None:
                splits[part == (fold + 1) % self.parts] = VALIDATION
            else:
                rest = np.flatnonzero(splits == TRAIN)
                shares = [1 - self.validation, self.validation]
                held = partition(cases.take(rest), shares, by_subject=self.by_subject, seed=seed + 1 + fold)
                splits[rest[held == 1]] = VALIDATION
            yield splits


@dataclass(frozen=True)
class OneSplit(Protocol):
    """A single division into train, validation and test.

    Args:
        shares: of train, validation and test; ``None`` takes the published splits of these names.
        by_subject: keep the rows of a subject together.
    """

    shares: tuple[float, float, float] | None = None
    by_subject: bool = False
    num_folds: ClassVar[int] = 1

    def _assign(self, cases: Cases, seed: int) -> Iterator[SplitArray]:
        if self.shares is not None:
            total = sum(self.shares)
            wanted = [share / total for share in self.shares]
            yield partition(cases, wanted, by_subject=self.by_subject, seed=seed).astype(np.int8)
            return
        unknown = next((name for name in cases.published if name not in SPLITS), SPLITS[0])
        if unknown not in SPLITS:
            raise InputError(f"a published split is {unknown!r}, expected {', '.join(SPLITS)}.")
        yield np.array([SPLITS.index(str(name)) for name in cases.published], dtype=np.int8)


@dataclass(frozen=True)
class Lists(Protocol):
    """Lists of file names by the data's authors: FOLDER/fold_I/train.json and val.json.

    Each file maps class names to file names, which are the ends of our ids. Rows whose published
    split is "test" are the test part.

    Args:
        parts: how many folds.
        folder: where the lists are; ``None`` says that they are yet to be named.
    """

    parts: int
    folder: Path | None = None
    by_subject: bool = True

    @property
    def num_folds(self) -> int:
        """How many lists there are."""
        return self.parts

    def _assign(self, cases: Cases, seed: int) -> Iterator[SplitArray]:
        if self.folder is None:
            raise InputError("this protocol needs its authors' lists; say where they are with `--option lists=FOLDER`.")
        row_of = {name.rsplit("/", 1)[-1]: row for row, name in enumerate(cases.ids)}
        test = np.array([split == "test" for split in cases.published])
        for fold in range(self.parts):
            splits = np.where(test, TEST, UNUSED).astype(np.int8)
            for code, file in ((TRAIN, "train.json"), (VALIDATION, "val.json")):
                path = self.folder / f"fold_{fold}" / file
                if not path.is_file():
                    raise InputError(f"{path}: there is no such list.")
                names = [name for listed in json.loads(path.read_text()).values() for name in listed]
                unknown = [name for name in names if name not in row_of]
                if unknown:
                    raise InputError(
                        f"{path}: {len(unknown):,} of {len(names):,} names are no prepared image, the first "
                        f"is {unknown[0]!r}."
                    )
                splits[[row_of[name] for name in names]] = code
            yield splits


def partition(cases: Cases, shares: Sequence[float], *, by_subject: bool = False, seed: int = 0) -> IntArray:
    """Divide rows into parts of given shares: stratified, groups kept whole, decided by hashes.

    Groups come in order of size, then of their hash; each goes to the part that lacks its classes
    most, of several such parts to the emptiest. With groups of one row every part gets every class to within one row.

    Args:
        cases: the rows.
        shares: of the parts; they sum to 1.
        by_subject: keep the rows of a subject together, not only those of equal content.
        seed: for another division.

    Example:
        >>> cases = Cases(list("abcdefghij"), np.array([0, 1] * 5), [None] * 10, [None] * 10, [None] * 10)
        >>> np.bincount(partition(cases, [0.5, 0.5])).tolist()
        [5, 5]
    """
    group = cases.groups(by_subject=by_subject)
    classes = int(cases.labels.max()) + 1
    members = np.zeros((int(group.max()) + 1, classes))
    np.add.at(members, (group, cases.labels), 1)
    key = [""] * len(members)
    for row in sorted(range(len(cases)), key=cases.ids.__getitem__, reverse=True):
        key[group[row]] = chance(seed, cases.ids[row])  # that of the first id in a group remains
    totals = np.maximum(members.sum(axis=0), 1)
    lacking = np.outer(shares, totals)
    part_of_group = np.empty(len(members), dtype=np.int64)
    sizes = members.sum(axis=1)
    for one in sorted(range(len(members)), key=lambda g: (-sizes[g], key[g])):
        want = lacking @ (members[one] / totals)
        level = np.flatnonzero(want >= want.max() - 1e-9)  # of these, the one with the fewest rows
        chosen = int(level[np.argmax(lacking[level].sum(axis=1))])
        part_of_group[one] = chosen
        lacking[chosen] -= members[one]
    return part_of_group[group]


def balanced_sample(cases: Cases, seed: int) -> npt.NDArray[np.intp]:
    """As many rows of each class as the smallest class has, drawn by hash, in the order of the rows.

    Example:
        >>> cases = Cases(list("abcde"), np.array([0, 0, 0, 1, 1]), [None] * 5, [None] * 5, [None] * 5)
        >>> balanced_sample(cases, seed=0).size
        4
    """
    classes = np.unique(cases.labels)
    fewest = min(int((cases.labels == k).sum()) for k in classes)
    drawn = []
    for k in classes:
        rows = np.flatnonzero(cases.labels == k).tolist()
        order = sorted(rows, key=lambda row: chance(seed, f"sample {cases.ids[row]}"))
        drawn += order[:fewest]
    return np.sort(np.array(drawn))


def chance(seed: int, name: str) -> str:
    """A text that stands for the throw of a die about ``name``; equal everywhere and always."""
    return sha256(f"{seed} {name}".encode()).hexdigest()


def joined(*columns: Sequence[str | None]) -> IntArray:
    """The group of each row, where rows that agree in any column are together; ``None`` never agrees.

    Example:
        >>> joined(["a", "a", "b", None], ["x", "y", "z", "z"]).tolist()
        [0, 0, 1, 1]
    """
    rows = len(columns[0])
    pairs: list[tuple[int, int]] = []
    for column in columns:
        first: dict[str, int] = {}
        for row, value in enumerate(column):
            if value is not None:
                pairs.append((row, first.setdefault(value, row)))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    links = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(rows, rows))
    groups: IntArray = connected_components(links, directed=False)[1].astype(np.int64)
    return groups


def _numbered(published: Sequence[Any], parts: int) -> IntArray:
    names = [str(k) for k in range(parts)]
    for row, name in enumerate(published):
        if name not in names:
            raise InputError(f"row {row}: the published fold is {name!r}, expected 0..{parts - 1}.")
    return np.array([int(name) for name in published])
