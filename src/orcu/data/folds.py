"""Evaluation protocols: which rows of a data set train, validate and test in each fold.

Every random choice is the SHA-256 of a seed and the row's id instead of a random generator, so the same ids give the
same folds on every machine and with every version of numpy.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from orcu.errors import InputError
from orcu.inputs import IntArray

SPLITS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
UNUSED = -1
SplitArray = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Samples:
    """Properties of the rows that protocols use.

    Args:
        ids: row ids.
        labels: class indices 0..C-1.
        contents: hash of each row's content, equal for duplicates; ``None`` if unknown.
        clusters: cluster of each row, such as a patient; ``None`` if unknown.
        published: the publisher's split or fold of each row; ``None`` if there is none.
    """

    ids: Sequence[str]
    labels: IntArray
    contents: Sequence[str | None]
    clusters: Sequence[str | None]
    published: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.ids)

    def groups(self, *, by_cluster: bool) -> IntArray:
        """Group number of each row: duplicates share a group, and with ``by_cluster`` also the rows of a cluster."""
        return connected_groups(self.contents, self.clusters) if by_cluster else connected_groups(self.contents)

    def take(self, rows: npt.NDArray[np.intp]) -> "Samples":
        """The samples at the given row numbers."""
        columns = (self.ids, self.contents, self.clusters, self.published)
        ids, contents, clusters, published = ([column[row] for row in rows] for column in columns)
        return Samples(ids, self.labels[rows], contents, clusters, published)


class Protocol(ABC):
    """A rule that divides rows into train, validation and test, once for each fold.

    Attributes:
        n_splits: number of folds.
        by_cluster: whether the rows of a cluster stay in one split.
        balanced: whether all classes are undersampled to the size of the smallest one first.
    """

    n_splits: int
    by_cluster: bool
    balanced: bool = False

    @abstractmethod
    def _assign(self, samples: Samples, seed: int) -> Iterator[SplitArray]:
        """For each fold the split of each row: 0 train, 1 validation, 2 test, -1 unused."""

    def split(self, samples: Samples, seed: int = 0) -> tuple[list[SplitArray], int]:
        """For each fold the split of each row, and the number of rows dropped as duplicates.

        Duplicates never are in two splits. Where a published split has them in two, the copy in test is kept before
        the one in validation, and that one before the one in train.
        """
        groups = samples.groups(by_cluster=False)
        folds, dropped = [], 0
        for splits in self._assign(samples, seed):
            last_split = np.full(groups.max() + 1, UNUSED, dtype=np.int8)
            np.maximum.at(last_split, groups, splits)
            leaking = (splits != UNUSED) & (splits < last_split[groups])
            dropped += int(leaking.sum())
            folds.append(np.where(leaking, np.int8(UNUSED), splits))
        return folds, dropped

    def _used_rows(self, samples: Samples, seed: int) -> npt.NDArray[np.intp]:
        return balanced_sample(samples, seed) if self.balanced else np.arange(len(samples))


@dataclass(frozen=True)
class FixedTestKFold(Protocol):
    """K-fold cross-validation with a fixed test set: fold i validates on part i and trains on the others.

    ``test_size`` is the share of rows in the test set; ``None`` takes the rows whose published split is "test".
    """

    n_splits: int
    test_size: float | None = None
    by_cluster: bool = False
    balanced: bool = False

    def _assign(self, samples: Samples, seed: int) -> Iterator[SplitArray]:
        used = self._used_rows(samples, seed)
        part = np.full(len(samples), UNUSED)  # 0 is the test set, 1..K are the parts
        if self.test_size is None:
            is_test = np.array([samples.published[row] == "test" for row in used])
            if not is_test.any():
                raise InputError("split: this protocol needs rows whose published split is 'test', and there are none.")
            part[used[is_test]] = 0
            rest, shares, first = used[~is_test], [1 / self.n_splits] * self.n_splits, 1
        else:
            rest, first = used, 0
            shares = [self.test_size] + [(1 - self.test_size) / self.n_splits] * self.n_splits
        part[rest] = first + partition(samples.take(rest), shares, by_cluster=self.by_cluster, seed=seed)
        for fold in range(self.n_splits):
            splits = np.where(part == UNUSED, UNUSED, TRAIN).astype(np.int8)
            splits[part == 0] = TEST
            splits[part == fold + 1] = VALIDATION
            yield splits


@dataclass(frozen=True)
class RotatingKFold(Protocol):
    """K-fold cross-validation: fold i tests on part i and validates on part i + 1 (mod K) or on a share of the rest.

    With ``predefined`` the parts are the publisher's folds "0".."K-1". ``validation_size`` is the share of the rows
    outside the test part that validates; ``None`` uses a whole part.
    """

    n_splits: int
    predefined: bool = False
    by_cluster: bool = False
    balanced: bool = False
    validation_size: float | None = None

    def _assign(self, samples: Samples, seed: int) -> Iterator[SplitArray]:
        used = self._used_rows(samples, seed)
        part = np.full(len(samples), UNUSED)
        if self.predefined:
            part[used] = _published_folds(samples.published, self.n_splits)[used]
        else:
            shares = [1 / self.n_splits] * self.n_splits
            part[used] = partition(samples.take(used), shares, by_cluster=self.by_cluster, seed=seed)
        for fold in range(self.n_splits):
            splits = np.where(part == UNUSED, UNUSED, TRAIN).astype(np.int8)
            splits[part == fold] = TEST
            if self.validation_size is None:
                splits[part == (fold + 1) % self.n_splits] = VALIDATION
            else:
                rest = np.flatnonzero(splits == TRAIN)
                shares = [1 - self.validation_size, self.validation_size]
                halves = partition(samples.take(rest), shares, by_cluster=self.by_cluster, seed=seed + 1 + fold)
                splits[rest[halves == 1]] = VALIDATION
            yield splits


@dataclass(frozen=True)
class HoldoutSplit(Protocol):
    """A single division into train, validation and test.

    ``sizes`` are their relative sizes; ``None`` takes the published splits of these names.
    """

    sizes: tuple[float, float, float] | None = None
    by_cluster: bool = False
    n_splits: int = field(default=1, init=False)

    def _assign(self, samples: Samples, seed: int) -> Iterator[SplitArray]:
        if self.sizes is not None:
            total = sum(self.sizes)
            shares = [size / total for size in self.sizes]
            yield partition(samples, shares, by_cluster=self.by_cluster, seed=seed).astype(np.int8)
            return
        unknown = next((name for name in samples.published if name not in SPLITS), SPLITS[0])
        if unknown not in SPLITS:
            raise InputError(f"split: a published split is {unknown!r}, expected {', '.join(SPLITS)}.")
        yield np.array([SPLITS.index(str(name)) for name in samples.published], dtype=np.int8)


@dataclass(frozen=True)
class ListedFolds(Protocol):
    """Folds listed in JSON files by the authors of the data: FOLDER/fold_I/train.json and val.json.

    Each file maps class names to lists of file names. A file name is the last part of a row id. Rows whose published
    split is "test" are the test set.
    """

    n_splits: int
    folder: Path | None = None
    by_cluster: bool = True

    def _assign(self, samples: Samples, seed: int) -> Iterator[SplitArray]:
        if self.folder is None:
            raise InputError("lists: this protocol needs the lists of its authors; give their folder with lists=DIR.")
        row_of = {name.rsplit("/", 1)[-1]: row for row, name in enumerate(samples.ids)}
        is_test = np.array([split == "test" for split in samples.published])
        for fold in range(self.n_splits):
            splits = np.where(is_test, TEST, UNUSED).astype(np.int8)
            for code, file in ((TRAIN, "train.json"), (VALIDATION, "val.json")):
                path = self.folder / f"fold_{fold}" / file
                if not path.is_file():
                    raise InputError(f"{path}: this file of the fold lists does not exist.")
                names = [name for listed in json.loads(path.read_text()).values() for name in listed]
                unknown = [name for name in names if name not in row_of]
                if unknown:
                    raise InputError(
                        f"{path}: {len(unknown):,} of {len(names):,} names are not prepared images, "
                        f"for example {unknown[0]!r}."
                    )
                splits[[row_of[name] for name in names]] = code
            yield splits


def partition(samples: Samples, shares: Sequence[float], *, by_cluster: bool = False, seed: int = 0) -> IntArray:
    """Divide rows into stratified parts of given shares; returns the part of each row.

    Groups of rows (duplicates, and with ``by_cluster`` the rows of a cluster) are placed as a whole: the largest group
    first, groups of equal size in the order of their hash. Each group goes to the part that lacks its classes most,
    and among several such parts to the emptiest. With groups of one row, class counts of the parts differ from the
    shares, which sum to 1, by less than one row.

    Example:
        >>> samples = Samples(list("abcdefghij"), np.array([0, 1] * 5), [None] * 10, [None] * 10, [None] * 10)
        >>> np.bincount(partition(samples, [0.5, 0.5])).tolist()
        [5, 5]
    """
    group = samples.groups(by_cluster=by_cluster)
    num_classes = int(samples.labels.max()) + 1
    counts = np.zeros((int(group.max()) + 1, num_classes))
    np.add.at(counts, (group, samples.labels), 1)
    key = [""] * len(counts)
    for row in sorted(range(len(samples)), key=samples.ids.__getitem__, reverse=True):
        key[group[row]] = hash_key(seed, samples.ids[row])  # the last write, of the group's first id, counts
    totals = np.maximum(counts.sum(axis=0), 1)
    lacking = np.outer(shares, totals)
    part_of_group = np.empty(len(counts), dtype=np.int64)
    sizes = counts.sum(axis=1)
    for number in sorted(range(len(counts)), key=lambda g: (-sizes[g], key[g])):
        need = lacking @ (counts[number] / totals)
        tied = np.flatnonzero(need >= need.max() - 1e-9)
        part = int(tied[np.argmax(lacking[tied].sum(axis=1))])
        part_of_group[number] = part
        lacking[part] -= counts[number]
    return part_of_group[group]


def balanced_sample(samples: Samples, seed: int) -> npt.NDArray[np.intp]:
    """Row numbers of a sample with as many rows of each class as the smallest class has, in ascending order.

    Example:
        >>> samples = Samples(list("abcde"), np.array([0, 0, 0, 1, 1]), [None] * 5, [None] * 5, [None] * 5)
        >>> balanced_sample(samples, seed=0).size
        4
    """
    labels = np.unique(samples.labels)
    smallest = min(int((samples.labels == label).sum()) for label in labels)
    drawn = []
    for label in labels:
        rows = np.flatnonzero(samples.labels == label).tolist()
        drawn += sorted(rows, key=lambda row: hash_key(seed, f"sample {samples.ids[row]}"))[:smallest]
    return np.sort(np.array(drawn))


def hash_key(seed: int, name: str) -> str:
    """A seeded hash of a name, as a sort key for a reproducible random order."""
    return sha256(f"{seed} {name}".encode()).hexdigest()


def connected_groups(*columns: Sequence[str | None]) -> IntArray:
    """Group number of each row, where rows with an equal value in any column share a group; ``None`` equals nothing.

    Example:
        >>> connected_groups(["a", "a", "b", None], ["x", "y", "z", "z"]).tolist()
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


def _published_folds(published: Sequence[Any], n_splits: int) -> IntArray:
    names = [str(k) for k in range(n_splits)]
    for row, name in enumerate(published):
        if name not in names:
            raise InputError(f"row {row}: the published fold is {name!r}, expected 0..{n_splits - 1}.")
    return np.array([int(name) for name in published])
