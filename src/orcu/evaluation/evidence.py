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
from orcu.evaluation.intervals import BLOCKS, blocks_of, resampled_sums, unit_numbers, unit_sums
from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.launchers import Launcher
from orcu.launchers.local import Local
from orcu.metrics.base import all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Sums
from orcu.predictions.predictions import Predictions, PredictionsSource, RowsRead

IN_MEMORY_CELLS = 16_000_000  # rows times classes; larger files are streamed
DRAWN_ROWS = 200_000  # enough for everything that is drawn
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
    stream_sums: FloatArray | None = None  # (units, size), of a stream

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
        if self.stream_sums is not None:
            return self.stream_sums
        return unit_sums(self.layout, self.sample_rows(), self.sample_unit, self.units)

    def resampled(self, resamples: int, seed: int) -> Sums:
        """The sums of every bootstrap resample; the same seed draws the same units of another model's evidence."""
        return self.layout.sums(resampled_sums(self.unit_sums, resamples, seed))

    def sample_rows(self) -> Rows:
        """The rows of the sample, decided by the rule; made anew, since what follows from them takes memory."""
        return Rows.of(self.sample, self.decide, self.sample_groups)

    def drawn(self) -> tuple[Rows, npt.NDArray[np.intp]]:
        """Rows of the sample, spread evenly, and their units: all of them unless they are very many."""
        rows, count = self.sample_rows(), len(self.sample)
        if count <= DRAWN_ROWS:
            return rows, self.sample_unit
        keep = np.flatnonzero(_hashed_share(np.arange(count)) < DRAWN_ROWS / count)
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
    progress = progress or _silent
    if isinstance(source, PredictionsSource):
        loaded = _load_if_small(source, progress)
        if loaded is None:
            return _stream(source, bins, decide, progress, launcher)
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
    vector = np.zeros(layout.size)
    for start, width, column, value in layout.terms(rows.grouped(bins)):
        vector[start : start + width] += np.bincount(column, weights=value, minlength=width)
    sums = layout.sums(vector)
    return {metric.name: float(metric(sums)) for metric in all_metrics()}


def _silent(stage: str, rows: int) -> None:
    pass


def _load_if_small(source: PredictionsSource, progress: Progress) -> Predictions | None:
    parts, rows = [], 0
    for part in source.batches():
        parts.append(part)
        rows += len(part.labels)  # refuses rows without labels at once
        progress("reading", rows)
        if rows * source.num_classes > IN_MEMORY_CELLS:
            return None
    return source.joined(parts)


def _evidence(source: Predictions, bins: int, decide: Any) -> Evidence:
    rows = Rows.of(source, decide).grouped(bins)
    tally = Tally(source.num_classes, bins=bins)
    tally.add(rows)
    subject = source.subject
    unit, units = unit_numbers(len(rows), subject)
    return Evidence(
        layout=Layout(source.num_classes, bins),
        rows=len(rows),
        subjects=None if subject is None else len(np.unique(subject.astype(str))),
        vector=tally.vector(),
        sample=source,
        sample_groups=rows.groups,
        sample_unit=unit,
        units=units,
        decide=decide,
    )


def _groups_in_memory(source: Predictions, bins: int, decide: Any) -> dict[str, Evidence]:
    if source.group is None:
        return {}
    names = source.group.astype(str)
    parts = {name: _evidence(source[names == name], bins, decide) for name in _group_names(set(names.tolist()))}
    return _that_count(parts)


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
        self.sums = np.zeros((BLOCKS, layout.size))
        self.kept: list[tuple[Predictions, Any, IntArray]] = []  # rows, their groups (C, n) and units

    def add(self, part: Predictions, rows: Rows, unit: IntArray, keep: Any) -> None:
        self.tally.add(rows)
        self.sums += unit_sums(self.layout, rows, unit, BLOCKS)
        if not self.kept and not keep.any():  # a group of few rows among very many needs one that stands for it
            keep = np.arange(len(part)) == 0
        if keep.any():
            self.kept.append((part[keep], rows[keep].groups, unit[keep]))

    def merge(self, other: "_Stream") -> None:
        """Take in the stream that follows. Sums are added file by file, whoever has read them."""
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
            stream_sums=self.sums,
        )


@dataclass(frozen=True)
class _Task:
    """A file to be added up, what deals its rows to groups of equal count, and where it starts."""

    fragment: PredictionsSource
    dealer: Dealer
    first_row: int
    share: float  # of the rows that is kept as a sample


def _stream(
    source: PredictionsSource, bins: int, decide: Any, progress: Progress, launcher: Launcher | None
) -> tuple[Evidence, dict[str, Evidence]]:
    """The same sums from files that do not fit: four passes for the groups, one for the rest."""
    away = launcher is not None
    over = Local(jobs=1) if launcher is None else launcher
    inner = None if away else progress  # another process cannot tell its progress
    fragments, rows = source.fragments, [0] * len(source.fragments)

    def count(one_pass: Pass) -> Iterator[Counts]:
        for k, part in enumerate(over.in_order(partial(_counted, one_pass=one_pass, progress=inner), fragments)):
            counts, rows[k] = part
            progress("sorting", sum(rows[: k + 1]))
            yield counts

    even = StreamGroups(source.num_classes, groups=bins, count=count)
    share = IN_MEMORY_CELLS / (4 * even.rows * source.num_classes)
    tasks = [_Task(fragment, even.dealer(k), sum(rows[:k]), share) for k, fragment in enumerate(fragments)]
    whole, by_group, read = _Stream(Layout(source.num_classes, bins)), dict[str, _Stream](), RowsRead()
    for part, groups, of_file in over.in_order(partial(_added, bins=bins, decide=decide, progress=inner), tasks):
        whole.merge(part)
        for name in _group_names({*by_group, *groups}):
            if name in groups:
                by_group.setdefault(name, _Stream(whole.layout)).merge(groups[name])
        read += of_file
        progress("counting", whole.tally.rows)
    source.check(read)
    evidence = whole.evidence(source, read, decide)
    need_two_classes(evidence.totals.confusion.sum(-1), source.classes)
    return evidence, _that_count({name: by_group[name].evidence(source, read, decide) for name in sorted(by_group)})


def _counted(fragment: PredictionsSource, *, one_pass: Pass, progress: Progress | None) -> tuple[Counts, int]:
    """A pass over one file, and its number of rows."""
    rows = 0

    def columns() -> Iterator[FloatArray]:
        nonlocal rows
        for part in fragment.parts():
            rows += len(part)
            if progress is not None:
                progress("sorting", rows)
            yield Rows.of(part).columns

    counts = one_pass.counts(columns())
    return counts, rows


def _added(
    task: _Task, *, bins: int, decide: Any, progress: Progress | None
) -> tuple[_Stream, dict[str, _Stream], RowsRead]:
    """The sums of one file, of all its rows and of each group."""
    fragment, first = task.fragment, task.first_row
    layout = Layout(fragment.num_classes, bins)
    whole, by_group, read = _Stream(layout), dict[str, _Stream](), RowsRead()
    for part in fragment.parts():
        read += RowsRead.of(part)
        number = np.arange(first, first + len(part))
        unit = blocks_of(number if part.subject is None else _hashes(part.subject))
        keep = _hashed_share(number) < task.share
        rows = Rows.of(part, decide)
        rows = replace(rows, groups=task.dealer.assign(rows.columns))
        whole.add(part, rows, unit, keep)
        if part.group is not None:
            names = part.group.astype(str)
            for name in _group_names({*by_group, *names.tolist()}):
                mine = names == name
                if mine.any():
                    stream = by_group.setdefault(name, _Stream(layout))
                    # Groups of equal count are those of the whole stream here.
                    stream.add(part[mine], rows[mine], unit[mine], keep[mine])
        first += len(part)
        if progress is not None:
            progress("counting", first)
    return whole, by_group, read


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
