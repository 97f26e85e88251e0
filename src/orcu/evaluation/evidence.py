"""Everything that the numbers of one model are computed from, gathered in memory or from a stream."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.evaluation.equal_counts import Counts, Dealer, Pass, StreamGroups
from orcu.evaluation.intervals import BLOCKS, blocks_of, unit_numbers, unit_sums
from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.launchers import Launcher
from orcu.launchers.local import Local
from orcu.metrics.base import all_metrics
from orcu.metrics.binning import even_groups
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.predictions.predictions import Predictions
from orcu.predictions.source import PredictionsSource, Seen

IN_MEMORY_CELLS = 16_000_000  # rows times classes; larger files are streamed
MOST_GROUPS = 100
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Evidence:
    """Sums over all rows and per unit of resampling, and the rows themselves or an even sample.

    What needs ranks (AUC, the referral curve), simulated outcomes or single rows is computed from
    ``sample``, which is all rows unless ``sampled``.
    """

    layout: Layout
    rows: int
    subjects: int | None
    vector: FloatArray  # (size,)
    sums: Any  # (units, size)
    sample: Predictions
    sample_groups: IntArray  # (C, rows of the sample)
    sample_unit: npt.NDArray[np.intp]

    @property
    def sampled(self) -> bool:
        """Whether ``sample`` is a part of the rows only."""
        return len(self.sample) < self.rows


def gather(
    source: Predictions | PredictionsSource,
    *,
    bins: int,
    progress: Progress | None = None,
    launcher: Launcher | None = None,
) -> tuple[Evidence, dict[str, Evidence]]:
    """The evidence of all rows and of each group.

    Args:
        source: the rows.
        bins: B.
        progress: called with a stage and the rows done.
        launcher: what reads the files of a large folder, within its context; this process by default.

    Raises:
        InputError: if there are no labels, only one class occurs, or a row cannot be used.
    """
    told = progress or _silent
    if isinstance(source, PredictionsSource):
        loaded = _load_if_small(source, told)
        if loaded is None:
            return _stream(source, bins, told, launcher)
        source = loaded
    whole = _from_memory(source, bins, told)
    return whole, _groups_in_memory(source, bins)


def values_of(rows: Rows, *, bins: int = 15) -> dict[str, float]:
    """Every metric of some rows at once, for the curves of a training: quick, in plain float64 sums.

    Example:
        >>> rows = Rows.of(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]), None, is_logits=False)
        >>> values_of(rows)["ece"]
        0.45
    """
    layout = Layout(rows.num_classes, bins)
    groups = np.array([even_groups(values, bins) for values in rows.columns])
    sums = np.zeros(layout.size)
    for start, width, column, weight in layout.entries(rows, groups):
        sums[start : start + width] += np.bincount(column, weights=weight, minlength=width)
    tables = layout.tables(sums)
    return {metric.name: float(metric(tables)) for metric in all_metrics()}


def _silent(stage: str, rows: int) -> None:
    pass


def _load_if_small(source: PredictionsSource, progress: Progress) -> Predictions | None:
    parts, rows = [], 0
    for part in source.batches():
        part.rows()  # refuses rows without labels at once
        parts.append(part)
        rows += len(part)
        progress("reading", rows)
        if rows * source.num_classes > IN_MEMORY_CELLS:
            return None
    return source.joined(parts)


def _from_memory(source: Predictions, bins: int, progress: Progress) -> Evidence:
    rows = source.rows()
    _need_two_classes(np.bincount(rows.y, minlength=source.num_classes), source.classes)
    progress("counting", len(rows))
    return _evidence(source, bins)


def _evidence(source: Predictions, bins: int) -> Evidence:
    rows = source.rows()
    layout = Layout(source.num_classes, bins)
    groups = np.array([even_groups(values, bins) for values in rows.columns])
    tally = Tally(source.num_classes, bins=bins)
    tally.add(rows, groups)
    subject = source.extras.get("subject")
    unit, units = unit_numbers(len(rows), subject)
    sums = unit_sums(layout, rows, groups, unit, units)
    subjects = None if subject is None else len(np.unique(subject.astype(str)))
    return Evidence(layout, len(rows), subjects, tally.vector(), sums, source, groups, unit)


def _groups_in_memory(source: Predictions, bins: int) -> dict[str, Evidence]:
    column = source.extras.get("group")
    if column is None:
        return {}
    names = _group_names({str(name) for name in column.tolist()})
    texts = column.astype(str)
    return {name: _evidence(source[texts == name], bins) for name in names}


def _group_names(found: set[str]) -> list[str]:
    if len(found) > MOST_GROUPS:
        raise InputError(
            f"group: {len(found)} different groups, at most {MOST_GROUPS} can be shown side by side. "
            "Is it the right column? A patient or image id is given as the subject (--cluster)."
        )
    return sorted(found)


class _Stream:
    """Sums of a stream, of all its rows or of one group."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.tally = Tally(layout.num_classes, bins=layout.bins)
        self.sums = np.zeros((BLOCKS, layout.size))
        self.kept: list[tuple[Predictions, IntArray, IntArray]] = []

    def add(self, part: Predictions, groups: IntArray, unit: IntArray, keep: Any) -> None:
        rows = part.rows()
        self.tally.add(rows, groups)
        self.sums += unit_sums(self.layout, rows, groups, unit, BLOCKS)
        if keep.any():
            self.kept.append((part[keep], groups[:, keep], unit[keep]))

    def merge(self, other: "_Stream") -> None:
        """Take in the stream that follows. Sums are added file by file, whoever has read them."""
        self.tally = self.tally.merge(other.tally)
        self.sums += other.sums
        self.kept += other.kept

    def evidence(self, source: PredictionsSource) -> Evidence:
        parts, groups, units = zip(*self.kept, strict=True)
        return Evidence(
            self.layout,
            self.tally.rows,
            None,
            self.tally.vector(),
            self.sums,
            source.joined(list(parts)),
            np.concatenate(groups, axis=1),
            np.concatenate(units),
        )


@dataclass(frozen=True)
class _Task:
    """A file to be added up, what deals its rows to groups of equal count, and where it starts."""

    fragment: PredictionsSource
    dealer: Dealer
    first_row: int
    share: float  # of the rows that is kept as a sample


def _stream(
    source: PredictionsSource, bins: int, progress: Progress, launcher: Launcher | None
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

    dealt = StreamGroups(source.num_classes, groups=bins, count=count)
    share = IN_MEMORY_CELLS / (4 * dealt.rows * source.num_classes)
    tasks = [_Task(fragment, dealt.dealer(k), sum(rows[:k]), share) for k, fragment in enumerate(fragments)]
    whole, by_group, seen = _Stream(Layout(source.num_classes, bins)), dict[str, _Stream](), Seen()
    for part, groups, met in over.in_order(partial(_added, bins=bins, progress=inner), tasks):
        whole.merge(part)
        for name in _group_names({*by_group, *groups}):
            if name in groups:
                by_group.setdefault(name, _Stream(whole.layout)).merge(groups[name])
        seen += met
        progress("counting", whole.tally.rows)
    source.finish(seen)
    evidence = whole.evidence(source)
    counts = whole.layout.tables(evidence.vector).confusion.sum(-1)
    _need_two_classes(counts, source.classes)
    return evidence, {name: by_group[name].evidence(source) for name in sorted(by_group)}


def _counted(fragment: PredictionsSource, *, one_pass: Pass, progress: Progress | None) -> tuple[Counts, int]:
    """A pass over one file, and its number of rows."""

    def columns() -> Iterator[FloatArray]:
        for part in fragment.parts():
            if progress is not None:
                progress("sorting", fragment.seen.rows)
            yield part.rows().columns

    counts = one_pass.counts(columns())
    return counts, fragment.seen.rows


def _added(task: _Task, *, bins: int, progress: Progress | None) -> tuple[_Stream, dict[str, _Stream], Seen]:
    """The sums of one file, of all its rows and of each group."""
    fragment, rows = task.fragment, task.first_row
    layout = Layout(fragment.num_classes, bins)
    whole, by_group = _Stream(layout), dict[str, _Stream]()
    for part in fragment.parts():
        number = np.arange(rows, rows + len(part))
        subject = part.extras.get("subject")
        unit = blocks_of(number if subject is None else _hashes(subject))
        keep = _hashed_share(number) < task.share
        groups = task.dealer.assign(part.rows().columns)
        whole.add(part, groups, unit, keep)
        if "group" in part.extras:
            texts = part.extras["group"].astype(str)
            for name in _group_names({*by_group, *texts.tolist()}):
                mine = texts == name
                if mine.any():
                    stream = by_group.setdefault(name, _Stream(layout))
                    # Groups of equal count are those of the whole stream here.
                    stream.add(part[mine], groups[:, mine], unit[mine], keep[mine])
        rows += len(part)
        if progress is not None:
            progress("counting", rows)
    return whole, by_group, fragment.seen


def _hashes(subject: npt.NDArray[Any]) -> IntArray:
    names, index = np.unique(subject.astype(str), return_inverse=True)
    numbers = [int.from_bytes(blake2b(name.encode(), digest_size=7).digest()) for name in names]
    return np.array(numbers, dtype=np.int64)[index]


def _hashed_share(number: IntArray) -> FloatArray:
    """A number in [0, 1) for each row number, spread evenly (multiples of the golden ratio)."""
    return np.mod(number * 0.6180339887498949, 1.0)


def _need_two_classes(counts: npt.NDArray[Any], classes: tuple[str, ...]) -> None:
    if (counts > 0).sum() < 2:
        only = classes[int(np.argmax(counts))]
        raise InputError(
            f"label: every row has the class {only!r}; at least two of the classes "
            f"({', '.join(classes)}) must occur to judge a model."
        )
