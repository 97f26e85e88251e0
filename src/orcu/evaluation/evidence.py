"""Everything that the numbers of one model are computed from, gathered in memory or from a stream."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.evaluation.equal_counts import Counts, Dealer, Pass, StreamGroups
from orcu.evaluation.intervals import BLOCKS, MOST_UNITS, blocks_of, resampled_sums, unit_numbers, unit_sums
from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.launchers import Launcher
from orcu.launchers.local import Local
from orcu.metrics.base import all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Sums
from orcu.predictions.predictions import Predictions, PredictionsSource, RowsRead, UncheckedPart
from orcu.threads import map_ordered

IN_MEMORY_CELLS = 16_000_000  # rows times classes; larger files are streamed
DRAWN_ROWS = 200_000  # enough for everything that is drawn
KEPT_BYTES = 400_000_000  # of a stream, as read: it is not read from the disk again
PART_ROWS = 1 << 17  # added up at once; part of what the last bits depend on
MOST_UNIT_CELLS = 8_000_000  # units times sums: 64 MB; more are kept where they are not 0 only
MOST_GROUPS = 100
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Evidence:
    """Sums over all rows and per unit of resampling, and the rows themselves or an even sample.

    What needs single rows is computed from ``sample``, which is all rows unless ``sampled``; what needs ranks (AUC, the
    referral curve) or simulated outcomes from `drawn`, at most 200,000 of them.
    """

    layout: Layout
    rows: int
    subjects: int | None
    vector: FloatArray  # (size,)
    sample: Predictions
    sample_groups: IntArray | None  # (C, rows of the sample)
    sample_unit: npt.NDArray[np.intp]
    units: int
    decide: Any = "argmax"  # the rule of the decisions, see orcu.decide
    dense_sums: FloatArray | None = None  # (units, size), of many rows

    @property
    def sampled(self) -> bool:
        """Whether ``sample`` is a part of the rows only."""
        return len(self.sample) < self.rows

    @property
    def totals(self) -> Sums:
        """The sums over all rows."""
        return self.layout.sums(self.vector)

    @cached_property
    def unit_sums(self) -> Any:
        """What each unit of resampling adds to the sums, shape (units, size)."""
        if self.dense_sums is not None:
            return self.dense_sums
        return unit_sums(self.layout, self.sample_rows(), self.sample_unit, self.units)

    def resampled(self, resamples: int, seed: int) -> Sums:
        """The sums of every bootstrap resample; the same seed draws the same units of another model's evidence."""
        return self.layout.sums(resampled_sums(self.unit_sums, resamples, seed))

    def sample_rows(self) -> Rows:
        """The rows of the sample, decided by the rule; made anew, since what follows from them takes memory."""
        return Rows.of(self.sample, self.decide, self.sample_groups)

    def drawn(self, most: int = DRAWN_ROWS) -> tuple[Rows, npt.NDArray[np.intp]]:
        """Rows of the sample, spread evenly, and their units: all of them unless they are very many."""
        rows, count = self.sample_rows(), len(self.sample)
        if count <= most:
            return rows, self.sample_unit
        keep = spread(count, most)
        return rows[keep], self.sample_unit[keep]


def gather(
    source: Predictions | PredictionsSource,
    *,
    bins: int,
    decide: Any = "argmax",
    progress: Progress | None = None,
    launcher: Launcher | None = None,
) -> tuple[Evidence, dict[str, Evidence]]:
    """The evidence of all rows and of each group.

    Args:
        source: the rows.
        bins: B.
        decide: how decisions are made, as for `orcu.decide`.
        progress: called with a stage and the rows done.
        launcher: what reads the files of a large folder, within its context; this process by default.

    Raises:
        InputError: if there are no labels, only one class occurs, or a row cannot be used.
    """
    progress = progress or silent
    if isinstance(source, PredictionsSource):
        if isinstance(launcher, Local) and launcher.jobs == 1:
            launcher = None
        room = 0 if launcher is not None else KEPT_BYTES // len(source.fragments)
        readers = [_Reader(fragment, most_bytes=room) for fragment in source.fragments]
        loaded = _load_if_small(source, readers, progress)
        if loaded is None:
            if launcher is not None:  # what has been opened here cannot be sent elsewhere
                readers = [_Reader(fragment) for fragment in source.fragments]
            return _stream(source, readers, bins, decide, progress, launcher)
        source = loaded
    need_two_classes(np.bincount(source.labels, minlength=source.num_classes), source.classes)
    progress("counting", len(source))
    return _evidence(source, bins, decide), _groups_in_memory(source, bins, decide)


def values_of(rows: Rows, *, bins: int = 15) -> dict[str, float]:
    """Every metric of some rows at once, for the curves of a training: quick, in plain float64 sums.

    Example:
        >>> rows = Rows(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
        >>> values_of(rows)["ece"]
        0.45
    """
    layout = Layout(rows.num_classes, bins)
    sums = layout.sums(plain_sums(layout, rows.grouped(bins)))
    return {metric.name: float(metric(sums)) for metric in all_metrics()}


def plain_sums(layout: Layout, rows: Rows) -> FloatArray:
    """The sums of some rows, shape (size,), in plain float64: quicker than a tally, the last bits by the order."""
    vector = np.zeros(layout.size)
    for start, width, column, value in layout.terms(rows):
        vector[start : start + width] += np.bincount(column, weights=value, minlength=width)
    return vector


def silent(stage: str, rows: int) -> None:
    """A `Progress` that tells nobody."""


class _Reader:
    """The parts of a file, as often as they are asked for; kept in memory while they fit."""

    def __init__(self, source: PredictionsSource, *, most_bytes: int = 0) -> None:
        self._source, self._room = source, most_bytes
        self._kept: list[UncheckedPart] | None = []  # None: they do not fit
        self._rest: Iterator[UncheckedPart] | None = None

    def parts(self) -> Iterator[UncheckedPart]:
        if self._kept is None:
            yield from self._source.unchecked_parts()
            return
        yield from list(self._kept)
        if self._rest is None:
            self._rest = self._source.unchecked_parts()
        for part in self._rest:
            if self._kept is not None:
                self._kept.append(part)
                self._room -= part.nbytes
                if self._room < 0:
                    self._kept = None
            yield part


def _load_if_small(source: PredictionsSource, readers: list[_Reader], progress: Progress) -> Predictions | None:
    if source.rows is not None and source.rows * source.num_classes > IN_MEMORY_CELLS:
        return None
    parts, read = list[Predictions](), RowsRead()
    for reader in readers:
        for part in map_ordered(UncheckedPart.checked, reader.parts()):
            part.labels  # noqa: B018 - refuses rows without labels at once
            parts.append(part)
            read += RowsRead.of(part)
            progress("reading", read.rows)
            if read.rows * source.num_classes > IN_MEMORY_CELLS:
                return None
    source.check(read)
    return source.joined(parts)


def _evidence(source: Predictions, bins: int, decide: Any) -> Evidence:
    rows, layout = Rows.of(source, decide), Layout(source.num_classes, bins)
    rows = rows.grouped(bins) if len(rows) <= PART_ROWS else _grouped(rows, bins)
    subject = source.subject
    unit, units = unit_numbers(len(rows), subject)
    dense = len(rows) > MOST_UNITS and units * layout.size <= MOST_UNIT_CELLS
    tally, sums = _summed(layout, rows, unit, units if dense else 0)
    return Evidence(
        layout=layout,
        rows=len(rows),
        subjects=None if subject is None else len(np.unique(subject.astype(str))),
        vector=tally.vector(),
        sample=source,
        sample_groups=rows.groups,
        sample_unit=unit,
        units=units,
        decide=decide,
        dense_sums=sums.T if dense else None,
    )


def _grouped(rows: Rows, bins: int) -> Rows:
    """As `Rows.grouped`, part by part as a stream: no column is sorted."""
    parts = [slice(start, start + PART_ROWS) for start in range(0, len(rows), PART_ROWS)]
    columns = rows.columns

    def count(one_pass: Pass) -> Iterator[Counts]:
        return map_ordered(lambda part: one_pass.counts(columns[:, part]), parts)

    even = StreamGroups(rows.num_classes, groups=bins, count=count)
    groups = map_ordered(lambda k: even.dealer(k).assign(columns[:, parts[k]]), range(len(parts)))
    return replace(rows, groups=np.concatenate(list(groups), axis=1))


def _summed(layout: Layout, rows: Rows, unit: IntArray, units: int) -> tuple[Tally, FloatArray]:
    """The tally of many rows, and what each unit adds, shape (size, units); added up in parts of a fixed size.

    The number of threads changes nothing: the tally is exact, and the parts' sums are added in their order.
    """

    def of_part(start: int) -> tuple[Tally, FloatArray]:
        part = slice(start, start + PART_ROWS)
        tally, sums = Tally(layout.num_classes, bins=layout.bins), np.zeros((layout.size, units))
        if units:
            tally.add(rows[part], unit=unit[part], sums=sums)
        else:
            tally.add(rows[part])
        return tally, sums

    whole, total = Tally(layout.num_classes, bins=layout.bins), np.zeros((layout.size, units))
    for tally, sums in map_ordered(
        of_part, range(0, len(rows), PART_ROWS), threads=1 if len(rows) <= PART_ROWS else None
    ):
        whole = whole.merge(tally)
        total += sums
    return whole, total


def _groups_in_memory(source: Predictions, bins: int, decide: Any) -> dict[str, Evidence]:
    if source.group is None:
        return {}
    names, index = _numbered(source.group)
    parts = {name: _evidence(source[index == names[name]], bins, decide) for name in _group_names(set(names))}
    return _that_count(parts)


def _numbered(group: npt.NDArray[Any]) -> tuple[dict[str, int], IntArray]:
    """A number for each name, and that of each row."""
    numbers: dict[str, int] = {}
    index = np.fromiter((numbers.setdefault(str(name), len(numbers)) for name in group.tolist()), np.int64, len(group))
    return numbers, index


def _that_count(groups: dict[str, Evidence]) -> dict[str, Evidence]:
    """The groups, if each has a row that counts."""
    for name, evidence in groups.items():
        if not evidence.totals.total > 0:
            raise InputError(f"group: no row of {name!r} counts, as all their weights are 0; leave these rows out.")
    return groups


def _group_names(names: set[str]) -> list[str]:
    if len(names) > MOST_GROUPS:
        raise InputError(
            f"group: {len(names)} different groups, at most {MOST_GROUPS} can be shown side by side. "
            "Is it the right column? A patient or image id is given as the subject (--cluster)."
        )
    return sorted(names)


class _Stream:
    """Sums of a stream, of all its rows or of one group."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.tally = Tally(layout.num_classes, bins=layout.bins)
        self.sums = np.zeros((layout.size, BLOCKS))
        self.kept: list[tuple[Predictions, Any, IntArray]] = []  # rows, their groups (C, n) and units

    def add(self, part: Predictions, rows: Rows, unit: IntArray, keep: Any) -> None:
        self.tally.add(rows, unit=unit, sums=self.sums)
        if not self.kept and not keep.any():  # a group of few rows among very many needs one that stands for it
            keep = np.arange(len(part)) == 0
        if keep.any():
            self.kept.append((part[keep], rows[keep].groups, unit[keep]))

    def merge(self, other: "_Stream") -> None:
        """Take in the stream that follows. Sums are added part by part and file by file, whoever has read them."""
        self.tally = self.tally.merge(other.tally)
        self.sums += other.sums
        self.kept += other.kept

    def evidence(self, source: PredictionsSource, read: RowsRead, decide: Any) -> Evidence:
        parts, groups, unit = zip(*self.kept, strict=True)
        return Evidence(
            layout=self.layout,
            rows=self.tally.rows,
            subjects=None,
            vector=self.tally.vector(),
            sample=source.joined(list(parts), read),
            sample_groups=np.concatenate(groups, axis=1),
            sample_unit=np.concatenate(unit),
            units=BLOCKS,
            decide=decide,
            dense_sums=self.sums.T,
        )


@dataclass
class _Summary:
    """What is kept of a stream, or of a part of it: the sums of all rows and of each group, and what was read."""

    whole: _Stream
    groups: dict[str, _Stream]
    read: RowsRead

    @classmethod
    def empty(cls, layout: Layout) -> "_Summary":
        return cls(_Stream(layout), {}, RowsRead())

    def merge(self, other: "_Summary") -> None:
        self.whole.merge(other.whole)
        for name in _group_names({*self.groups, *other.groups}):
            if name in other.groups:
                self.groups.setdefault(name, _Stream(self.whole.layout)).merge(other.groups[name])
        self.read += other.read


@dataclass(frozen=True)
class _Task:
    """A file to be added up."""

    reader: _Reader
    dealers: list[Dealer]  # of each part
    first_row: list[int]  # of each part, in the whole stream
    share: float  # of the rows that is kept as a sample


def _stream(
    source: PredictionsSource,
    readers: list[_Reader],
    bins: int,
    decide: Any,
    progress: Progress,
    launcher: Launcher | None,
) -> tuple[Evidence, dict[str, Evidence]]:
    """The same sums from files that do not fit: a pass or two for the groups of equal count, one for the rest."""
    over = launcher or Local(jobs=1)
    # Another process cannot tell its progress, and has one thread.
    here: dict[str, Any] = {"progress": progress, "threads": None} if launcher is None else {"threads": 1}
    rows: list[list[int]] = []  # of each part of each file

    def count(one_pass: Pass) -> Iterator[Counts]:
        rows.clear()
        for parts in over.map_ordered(partial(_counted, one_pass=one_pass, **here), readers):
            rows.append([number for _, number in parts])
            progress("sorting", sum(map(sum, rows)))
            yield from (counts for counts, _ in parts)

    even = StreamGroups(source.num_classes, groups=bins, count=count)
    share = IN_MEMORY_CELLS / (4 * even.rows * source.num_classes)
    tasks, part, first = [], 0, 0
    for reader, numbers in zip(readers, rows, strict=True):
        starts = (first + np.cumsum([0, *numbers])).tolist()
        dealers = [even.dealer(part + k) for k in range(len(numbers))]
        tasks.append(_Task(reader, dealers, starts[:-1], share))
        part, first = part + len(numbers), starts[-1]
    all_files = _Summary.empty(Layout(source.num_classes, bins))
    for of_file in over.map_ordered(partial(_added, layout=all_files.whole.layout, decide=decide, **here), tasks):
        all_files.merge(of_file)
        progress("counting", all_files.read.rows)
    source.check(all_files.read)
    evidence = all_files.whole.evidence(source, all_files.read, decide)
    need_two_classes(evidence.totals.confusion.sum(-1), source.classes)
    groups = {name: part.evidence(source, all_files.read, decide) for name, part in sorted(all_files.groups.items())}
    return evidence, _that_count(groups)


def _counted(
    reader: _Reader, *, one_pass: Pass, threads: int | None, progress: Progress | None = None
) -> list[tuple[Counts, int]]:
    """A pass over one file: the counts of each part, and its number of rows."""

    def count(part: UncheckedPart) -> tuple[Counts, int]:
        columns = Rows.of(part.checked()).columns
        return one_pass.counts(columns), columns.shape[1]

    parts, rows = [], 0
    for counted in map_ordered(count, reader.parts(), threads=threads):
        parts.append(counted)
        rows += counted[1]
        if progress is not None:
            progress("sorting", rows)
    return parts


def _added(
    task: _Task, *, layout: Layout, decide: Any, threads: int | None, progress: Progress | None = None
) -> _Summary:
    """The sums of one file, of all its rows and of each group."""

    def add(item: tuple[UncheckedPart, Dealer, int]) -> _Summary:
        unchecked, dealer, first = item
        part, summary = unchecked.checked(), _Summary.empty(layout)
        summary.read = RowsRead.of(part)
        number = np.arange(first, first + len(part))
        unit = blocks_of(number if part.subject is None else _hashes(part.subject))
        keep = _hashed_share(number) < task.share
        rows = Rows.of(part, decide)
        rows = replace(rows, groups=dealer.assign(rows.columns))
        summary.whole.add(part, rows, unit, keep)
        if part.group is not None:
            names, index = _numbered(part.group)
            for name in _group_names(set(names)):
                mine = index == names[name]
                # Groups of equal count are those of the whole stream here.
                summary.groups[name] = _Stream(layout)
                summary.groups[name].add(part[mine], rows[mine], unit[mine], keep[mine])
        return summary

    whole = _Summary.empty(layout)
    for part in map_ordered(add, zip(task.reader.parts(), task.dealers, task.first_row, strict=True), threads=threads):
        whole.merge(part)
        if progress is not None:
            progress("counting", task.first_row[0] + whole.read.rows)
    return whole


def spread(count: int, most: int) -> IntArray:
    """Numbers of about ``most`` of so many rows, spread evenly but in no step that rows may repeat in.

    Example:
        >>> spread(10, 4).tolist(), spread(3, 4).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.flatnonzero(_hashed_share(np.arange(count)) < most / count)


def _hashes(subject: npt.NDArray[Any]) -> IntArray:
    names, index = np.unique(subject.astype(str), return_inverse=True)
    numbers = [int.from_bytes(blake2b(name.encode(), digest_size=7).digest()) for name in names]
    return np.array(numbers, dtype=np.int64)[index]


def _hashed_share(number: IntArray) -> FloatArray:
    """A number in [0, 1) for each row number, spread evenly (multiples of the golden ratio)."""
    return np.mod(number * 0.6180339887498949, 1.0)


def need_two_classes(counts: npt.NDArray[Any], classes: tuple[str, ...]) -> None:
    """Refuse rows of one class only.

    Raises:
        InputError: which names it.
    """
    if (counts > 0).sum() < 2:
        only = classes[int(np.argmax(counts))]
        raise InputError(
            f"label: every row has the class {only!r}; at least two of the classes "
            f"({', '.join(classes)}) must occur to judge a model."
        )
