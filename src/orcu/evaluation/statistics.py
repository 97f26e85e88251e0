"""Sufficient statistics of a model's predictions, collected in memory or from a stream."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.evaluation.equal_counts import BinAssigner, CountingPass, Counts, StreamedBins
from orcu.evaluation.intervals import unit_sums
from orcu.evaluation.tally import Tally
from orcu.inputs import BoolArray, FloatArray, IntArray
from orcu.launchers import Launcher
from orcu.launchers.local import Local
from orcu.metrics.base import all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import rps_per_row
from orcu.metrics.sums import Sums
from orcu.predictions import Predictions, PredictionsSource
from orcu.predictions.source import RawBatch, ReadSummary
from orcu.raters.votes import NOT_RATED, raters_are_resampled
from orcu.resampling import MAX_UNITS, N_BLOCKS, random_blocks, resampled_sums, resampling_units, small_sample_factor
from orcu.threads import map_ordered

IN_MEMORY_CELLS = 16_000_000  # rows times classes; larger files are streamed
SUBSAMPLE_ROWS = 200_000  # rows for ranks and simulations
CACHED_BYTES = 400_000_000  # batches of a stream that are cached for the next pass
PART_ROWS = 1 << 17  # rows that are summed at once; the last bits depend on it
MAX_UNIT_CELLS = 8_000_000  # units times sums of a dense matrix (64 MB); larger ones are sparse
MAX_SUBGROUPS = 100
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class SufficientStatistics:
    """Sums over all rows and per resampling unit, and the rows themselves or a sample of them.

    A case with votes of several raters is one row here; its sums are means over its votes.
    """

    layout: Layout  # positions of the sums in the vector
    rows: int
    clusters: int | None  # number of clusters, if known
    vector: FloatArray  # sums over all rows, shape (size,)
    sample: Predictions  # all rows, or a sample of a streamed file
    sample_bins: IntArray | None  # equal-count bins of the sample, shape (C, rows of the sample)
    sample_unit: npt.NDArray[np.intp]  # resampling unit of each row of the sample
    units: int  # number of resampling units
    rule: Any = "argmax"
    dense_sums: FloatArray | None = None  # sums of each unit, shape (units, size), if there are many rows

    @property
    def sampled(self) -> bool:
        """Whether ``sample`` contains only a part of the rows."""
        return len(self.sample) < self.rows

    @property
    def totals(self) -> Sums:
        """Sums over all rows."""
        return self.layout.sums(self.vector)

    @cached_property
    def unit_sums(self) -> Any:
        """Sums of each resampling unit, shape (units, size)."""
        if self.dense_sums is not None:
            return self.dense_sums
        rows = self.sample_rows()
        return unit_sums(self.layout, rows, rows.spread(self.sample_unit), self.units)

    @cached_property
    def cluster_weights(self) -> FloatArray | None:
        """Weight of each cluster, or block of clusters, without those of weight 0; None if there are no clusters."""
        if self.sample.cluster is None:
            return None
        weights = np.asarray(self.unit_sums[:, self.layout.slices["confusion"]].sum(axis=1)).ravel()
        return weights[weights > 0]

    @property
    def small_sample_factor(self) -> float:
        """Factor that widens the intervals of few clusters; 1 without clusters."""
        return 1.0 if self.cluster_weights is None else small_sample_factor(self.cluster_weights)

    def resampled(self, n_resamples: int, random_state: int) -> Sums:
        """Sums of all bootstrap resamples; the same seed draws the same units for another model on the same rows.

        Named raters are resampled too if there are enough, so that the intervals hold for new cases and new raters. The
        deviations of both kinds of resamples are added. Both contain the noise of single votes, so it is removed from
        the deviations of the raters: variances add up as cases + raters - votes (Owen, 2007).
        """
        sums = resampled_sums(self.unit_sums, n_resamples, random_state)
        rows, rater = self._rater_rows()
        if rater is None:
            return self.layout.sums(sums)
        weights = np.bincount(rater, weights=rows.weights).astype(np.float64)
        # Deviations from a rater with average grades: the number of grades of a rater does not matter.
        by_rater = unit_sums(self.layout, rows, rater, len(weights)).toarray()
        by_rater -= np.outer(weights, self.vector / rows.total)
        deviations = resampled_sums(by_rater, n_resamples, random_state + 1) - by_rater.sum(axis=0)
        factor = small_sample_factor(weights) * np.sqrt(_variance_of_raters(rows, rater))
        return self.layout.sums(sums + factor * deviations)

    def _rater_rows(self) -> tuple[Rows, IntArray | None]:
        """A row for each grade of a named rater, and the rater; None for few or unnamed raters.

        Each case has its weight, divided equally among its raters.
        """
        ratings, sample = self.sample.ratings, self.sample
        if ratings is None or self.sampled or not raters_are_resampled(ratings):
            return self.sample_rows(), None
        case, rater = np.nonzero(ratings.codes != NOT_RATED)
        weight = (1 / ratings.counts.sum(axis=1))[case]
        optional = {
            "sample_weight": weight if sample.sample_weight is None else weight * sample.sample_weight[case],
            "logits": None if sample.logits is None else sample.logits[case],
            "uncertainty": None if sample.uncertainty is None else sample.uncertainty[case],
            "adaptive_bins": None if self.sample_bins is None else self.sample_bins[:, case],
        }
        return Rows(sample.probs[case], ratings.codes[case, rater], rule=self.rule, **optional), rater

    def sample_rows(self) -> Rows:
        """Rows of the sample; not cached, since their derived arrays take memory."""
        return Rows.from_predictions(self.sample, self.rule, self.sample_bins)

    def subsample(self, size: int) -> tuple[Rows, npt.NDArray[np.intp]]:
        """About ``size`` evenly spread rows of the sample, or all if there are fewer, and their resampling units."""
        rows, count = self.sample_rows(), len(self.sample)
        unit = rows.spread(self.sample_unit)
        if count <= size:
            return rows, unit
        chosen = subsample_index(count, size)
        if rows.case is not None:  # all votes of the chosen cases
            chosen = np.flatnonzero(np.isin(rows.case, chosen))
        return rows[chosen], unit[chosen]


def collect(
    source: Predictions | PredictionsSource,
    *,
    n_bins: int,
    rule: Any = "argmax",
    progress: Progress | None = None,
    launcher: Launcher | None = None,
) -> tuple[SufficientStatistics, dict[str, SufficientStatistics]]:
    """Statistics of all rows and of each subgroup; arguments as in `orcu.evaluate`."""
    progress = progress or ignore_progress
    if isinstance(source, PredictionsSource):
        if isinstance(launcher, Local) and launcher.jobs == 1:
            launcher = None
        max_bytes = 0 if launcher is not None else CACHED_BYTES // len(source.fragments)
        readers = [_Reader(fragment, max_bytes=max_bytes) for fragment in source.fragments]
        loaded = _load_if_small(source, readers, progress)
        if loaded is None:
            if launcher is not None:  # open files cannot be sent to another process
                readers = [_Reader(fragment) for fragment in source.fragments]
            return _collect_stream(source, readers, n_bins, rule, progress, launcher)
        source = loaded
    check_two_classes(source.class_counts, source.classes)
    progress("counting", len(source))
    subgroups = {}
    if source.subgroup is not None:
        masks = _subgroup_masks(source.subgroup)
        subgroups = {name: _collect_in_memory(source[mask], n_bins, rule) for name, mask in masks}
    return _collect_in_memory(source, n_bins, rule), _check_weights(subgroups)


def metric_values(rows: Rows, *, n_bins: int = 15) -> dict[str, float]:
    """All metrics of some rows, in plain float64 sums: fast, for the curves of a training run.

    Example:
        >>> rows = Rows(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
        >>> metric_values(rows)["ece"]
        0.45
    """
    layout = Layout(rows.num_classes, n_bins)
    sums = layout.sums(plain_sums(layout, rows.with_adaptive_bins(n_bins)))
    return {metric.name: float(metric(sums)) for metric in all_metrics()}


def plain_sums(layout: Layout, rows: Rows) -> FloatArray:
    """Sums of some rows, shape (size,), in plain float64: faster than a tally, the last bits depend on the order."""
    vector = np.zeros(layout.size)
    for start, width, column, value in layout.terms(rows):
        vector[start : start + width] += np.bincount(column, weights=value, minlength=width)
    return vector


def ignore_progress(stage: str, rows: int) -> None:
    """A `Progress` that does nothing."""


class _Reader:
    """Batches of a file that can be read repeatedly; cached in memory as long as they fit."""

    def __init__(self, source: PredictionsSource, *, max_bytes: int = 0) -> None:
        self._source, self._room = source, max_bytes
        self._cache: list[RawBatch] | None = []  # None: they do not fit
        self._unread: Iterator[RawBatch] | None = None

    def batches(self) -> Iterator[RawBatch]:
        if self._cache is None:
            yield from self._source.raw_batches()
            return
        yield from list(self._cache)
        if self._unread is None:
            self._unread = self._source.raw_batches()
        for batch in self._unread:
            if self._cache is not None:
                self._cache.append(batch)
                self._room -= batch.nbytes
                if self._room < 0:
                    self._cache = None
            yield batch


def _load_if_small(source: PredictionsSource, readers: list[_Reader], progress: Progress) -> Predictions | None:
    if source.rows is not None and source.rows * source.num_classes > IN_MEMORY_CELLS:
        return None
    batches, summary = list[Predictions](), ReadSummary()
    for reader in readers:
        for batch in map_ordered(RawBatch.parse, reader.batches()):
            batch.labels_or_votes  # noqa: B018 - raises if labels are missing
            batches.append(batch)
            summary += ReadSummary.from_batch(batch)
            progress("reading", summary.rows)
            if summary.rows * source.num_classes > IN_MEMORY_CELLS:
                return None
    source.check(summary)
    return source.combine(batches)


def _collect_in_memory(source: Predictions, n_bins: int, rule: Any) -> SufficientStatistics:
    rows, layout = Rows.from_predictions(source, rule), Layout(source.num_classes, n_bins)
    rows = rows.with_adaptive_bins(n_bins) if len(rows) <= PART_ROWS else _with_adaptive_bins(rows, n_bins)
    unit, units = resampling_units(len(source), source.cluster)
    dense = len(rows) > MAX_UNITS and units * layout.size <= MAX_UNIT_CELLS
    tally, sums = _tally_parts(layout, rows, rows.spread(unit), units if dense else 0)
    bins = rows.adaptive_bins
    return SufficientStatistics(
        layout=layout,
        rows=len(source),
        clusters=None if source.cluster is None else len(np.unique(source.cluster.astype(str))),
        vector=tally.vector(),
        sample=source,
        sample_bins=bins if bins is None or rows.case is None else bins[:, rows.first_rows],
        sample_unit=unit,
        units=units,
        rule=rule,
        dense_sums=sums.T if dense else None,
    )


def _with_adaptive_bins(rows: Rows, n_bins: int) -> Rows:
    """`Rows.with_adaptive_bins` in parts, as for a stream: no column is sorted."""
    columns = rows.columns if rows.case is None else rows.columns[:, rows.first_rows]
    parts = [slice(start, start + PART_ROWS) for start in range(0, rows.cases, PART_ROWS)]

    def count(counting_pass: CountingPass) -> Iterator[Counts]:
        return map_ordered(lambda part: counting_pass.counts(columns[:, part]), parts)

    bins = StreamedBins(rows.num_classes, n_bins=n_bins, count=count)
    index = map_ordered(lambda k: bins.assigner(k).assign(columns[:, parts[k]]), range(len(parts)))
    return rows.with_case_bins(np.concatenate(list(index), axis=1))


def _variance_of_raters(rows: Rows, rater: IntArray) -> float:
    """Share of the variance between raters that is not noise of single votes, from 0 to 1.

    The largest of the shares for the grades, the errors of the decisions and the scores. One share for all sums keeps
    their relations, such as that of a confusion matrix and its total.
    """
    offset = np.abs(rows.decision - rows.y)
    scores = [rows.y, offset == 0, offset, rps_per_row(rows.probs, rows.y), rows.likelihood]
    values = np.stack(scores, axis=1).astype(np.float64)
    values = rows.weights[:, None] * (values - rows.weights @ values / rows.total)
    by_rater = np.stack([np.bincount(rater, weights=column) for column in values.T], axis=1)
    between, noise = (by_rater**2).sum(axis=0), (values**2).sum(axis=0)
    shares = 1 - np.divide(noise, between, out=np.ones_like(noise), where=between > noise)
    return float(shares.max())


def _tally_parts(layout: Layout, rows: Rows, unit: IntArray, units: int) -> tuple[Tally, FloatArray]:
    """Tally of many rows, and the sums of each unit, shape (size, units); summed in parts of a fixed size.

    The result does not depend on the number of threads: the tally is exact, and the parts are added in their order.
    """
    parts = [slice(start, start + PART_ROWS) for start in range(0, len(rows), PART_ROWS)]
    tallies = map_ordered(
        lambda part: _tally_units(layout, rows[part], unit[part], units), parts, threads=1 if len(parts) == 1 else None
    )
    total, total_sums = next(tallies)
    for tally, sums in tallies:
        total = total.merge(tally)
        total_sums += sums
    return total, total_sums


def _tally_units(layout: Layout, rows: Rows, unit: IntArray, units: int) -> tuple[Tally, FloatArray]:
    tally, sums = Tally(layout.num_classes, n_bins=layout.n_bins), np.zeros((layout.size, units))
    tally.add(rows, unit=unit if units else None, sums=sums)
    return tally, sums


def _subgroup_masks(subgroup: npt.NDArray[Any]) -> Iterator[tuple[str, BoolArray]]:
    """Names of the subgroups in sorted order, each with the mask of its rows."""
    numbers: dict[str, int] = {}
    codes = (numbers.setdefault(str(name), len(numbers)) for name in subgroup.tolist())
    index = np.fromiter(codes, np.int64, len(subgroup))
    _check_subgroup_count(numbers)
    for name in sorted(numbers):
        yield name, index == numbers[name]


def _check_subgroup_count(names: Collection[Any]) -> None:
    if len(names) > MAX_SUBGROUPS:
        raise InputError(
            f"subgroup: {len(names)} different subgroups, expected at most {MAX_SUBGROUPS}. Is it the right column? "
            "For a patient or image id use cluster= (--cluster)."
        )


def _check_weights(subgroups: dict[str, SufficientStatistics]) -> dict[str, SufficientStatistics]:
    """Return the subgroups if each has a row with a positive weight."""
    for name, statistics in subgroups.items():
        if not statistics.totals.total > 0:
            raise InputError(f"subgroup: all sample weights of {name!r} are 0; leave its rows out.")
    return subgroups


@dataclass
class _StreamPart:
    """Sums and sample of a population, all rows or one subgroup, in a part of a stream."""

    summary: ReadSummary
    tally: Tally
    unit_sums: FloatArray  # (size, N_BLOCKS)
    sample: list[tuple[Predictions, Any, IntArray]]  # rows, their bins (C, n) and units

    @classmethod
    def from_batch(
        cls, layout: Layout, batch: Predictions, rows: Rows, row_unit: IntArray, unit: IntArray, chosen: BoolArray
    ) -> "_StreamPart":
        if not chosen.any():  # a small subgroup of a long stream needs at least one row in its sample
            chosen = np.arange(len(batch)) == 0
        bins = rows[rows.first_rows].adaptive_bins
        sample = [(batch[chosen], None if bins is None else bins[:, chosen], unit[chosen])]
        return cls(ReadSummary.from_batch(batch), *_tally_units(layout, rows, row_unit, N_BLOCKS), sample)

    def merge(self, other: "_StreamPart") -> None:
        """Add the next part. Sums are added by part and by file, so that the bits do not depend on the reader."""
        self.summary += other.summary
        self.tally = self.tally.merge(other.tally)
        self.unit_sums = self.unit_sums + other.unit_sums  # Ray returns read-only arrays
        self.sample += other.sample

    def statistics(
        self, source: PredictionsSource, layout: Layout, summary: ReadSummary, rule: Any
    ) -> SufficientStatistics:
        batches, bins, units = zip(*self.sample, strict=True)
        sample, unit, sums = source.combine(list(batches), summary), np.concatenate(units), self.unit_sums.T
        if sample.cluster is not None:  # few clusters fill few blocks: empty ones are not resampled
            filled = sums.any(axis=1)
            unit, sums = np.cumsum(filled)[unit] - 1, sums[filled]
        return SufficientStatistics(
            layout=layout,
            rows=self.tally.rows,
            clusters=None,
            vector=self.tally.vector(),
            sample=sample,
            sample_bins=np.concatenate(bins, axis=1),
            sample_unit=unit,
            units=len(sums),
            rule=rule,
            dense_sums=sums,
        )


_Populations = dict[str | None, _StreamPart]  # all rows (None), and each subgroup by name


def _merge(total: _Populations, other: _Populations) -> None:
    for name, part in other.items():
        if name in total:
            total[name].merge(part)
        else:
            total[name] = part
    _check_subgroup_count(total.keys() - {None})


def _collect_stream(
    source: PredictionsSource,
    readers: list[_Reader],
    n_bins: int,
    rule: Any,
    progress: Progress,
    launcher: Launcher | None,
) -> tuple[SufficientStatistics, dict[str, SufficientStatistics]]:
    """Statistics of files that do not fit into memory: a pass or two for the equal-count bins, one for the sums."""
    workers = launcher or Local(jobs=1)
    # Another process cannot report its progress, and uses one thread.
    options: dict[str, Any] = {"progress": progress, "threads": None} if launcher is None else {"threads": 1}
    batch_rows: list[list[int]] = []  # of each batch of each file

    def count(counting_pass: CountingPass) -> Iterator[Counts]:
        batch_rows.clear()
        for batches in workers.map_ordered(partial(_count_file, counting_pass=counting_pass, **options), readers):
            batch_rows.append([rows for _, rows in batches])
            progress("sorting", sum(map(sum, batch_rows)))
            yield from (counts for counts, _ in batches)

    bins = StreamedBins(source.num_classes, n_bins=n_bins, count=count)
    share = IN_MEMORY_CELLS / (4 * bins.rows * source.num_classes)
    tasks, batch, first_row = [], 0, 0
    for reader, rows in zip(readers, batch_rows, strict=True):
        starts = (first_row + np.cumsum([0, *rows])).tolist()
        tasks.append((reader, [bins.assigner(batch + k) for k in range(len(rows))], starts[:-1]))
        batch, first_row = batch + len(rows), starts[-1]
    layout, total = Layout(source.num_classes, n_bins), _Populations()
    for file_sums in workers.map_ordered(partial(_sum_file, layout=layout, rule=rule, share=share, **options), tasks):
        _merge(total, file_sums)
        progress("counting", total[None].summary.rows)
    summary = total[None].summary
    source.check(summary)
    statistics = total.pop(None).statistics(source, layout, summary, rule)
    check_two_classes(statistics.totals.confusion.sum(-1), source.classes)
    return statistics, _check_weights(
        {str(name): total[name].statistics(source, layout, summary, rule) for name in sorted(total, key=str)}
    )


def _count_file(
    reader: _Reader, *, counting_pass: CountingPass, threads: int | None, progress: Progress = ignore_progress
) -> list[tuple[Counts, int]]:
    """A pass over one file: the counts of each batch, and its number of rows."""

    def count(batch: RawBatch) -> tuple[Counts, int]:
        columns = np.ascontiguousarray(batch.parse().probs.T)  # one column per case, also with several raters
        return counting_pass.counts(columns), columns.shape[1]

    batches, total = [], 0
    for counts, rows in map_ordered(count, reader.batches(), threads=threads):
        batches.append((counts, rows))
        total += rows
        progress("sorting", total)
    return batches


def _sum_file(
    task: tuple[_Reader, list[BinAssigner], list[int]],
    *,
    layout: Layout,
    rule: Any,
    share: float,
    threads: int | None,
    progress: Progress = ignore_progress,
) -> _Populations:
    """Sums of one file, from the assigner of each batch and the number of its first row in the stream."""

    def sum_batch(item: tuple[RawBatch, BinAssigner, int]) -> _Populations:
        raw, assigner, first_row = item
        batch = raw.parse()
        number = np.arange(first_row, first_row + len(batch))
        unit = random_blocks(number if batch.cluster is None else _hash_names(batch.cluster))
        chosen = _golden_sequence(number) < share
        rows = Rows.from_predictions(batch, rule)
        # The equal-count bins of a subgroup are those of the whole stream here.
        rows = rows.with_case_bins(assigner.assign(rows.columns[:, rows.first_rows]))
        row_unit = rows.spread(unit)
        parts: _Populations = {None: _StreamPart.from_batch(layout, batch, rows, row_unit, unit, chosen)}
        for name, mask in () if batch.subgroup is None else _subgroup_masks(batch.subgroup):
            row_mask = rows.spread(mask)
            parts[name] = _StreamPart.from_batch(
                layout, batch[mask], rows[row_mask], row_unit[row_mask], unit[mask], chosen[mask]
            )
        return parts

    total, (reader, assigners, first_rows) = _Populations(), task
    for parts in map_ordered(sum_batch, zip(reader.batches(), assigners, first_rows, strict=True), threads=threads):
        _merge(total, parts)
        progress("counting", first_rows[0] + total[None].summary.rows)
    return total


def subsample_index(count: int, size: int) -> IntArray:
    """Indices of about ``size`` of ``count`` rows, evenly spread but not periodic.

    Example:
        >>> subsample_index(10, 4).tolist(), subsample_index(3, 4).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.flatnonzero(_golden_sequence(np.arange(count)) < size / count)


def _hash_names(names: npt.NDArray[Any]) -> IntArray:
    unique, index = np.unique(names.astype(str), return_inverse=True)
    numbers = [int.from_bytes(blake2b(name.encode(), digest_size=7).digest()) for name in unique]
    return np.array(numbers, dtype=np.int64)[index]


def _golden_sequence(number: IntArray) -> FloatArray:
    """Number in [0, 1) for each row number, evenly distributed (multiples of the golden ratio)."""
    return np.mod(number * 0.6180339887498949, 1.0)


def check_two_classes(counts: npt.NDArray[Any], classes: tuple[str, ...]) -> None:
    """Raise `InputError` if only one class occurs."""
    if (counts > 0).sum() < 2:
        raise InputError(
            f"label: all rows have the class {classes[int(np.argmax(counts))]!r}; an evaluation needs rows of at least "
            f"two of the classes ({', '.join(classes)})."
        )


def exact_metrics(predictions: Predictions, *, n_bins: int = 15) -> dict[str, float]:
    """All metrics of labelled predictions, from exact sums: the same bits on every machine.

    Example:
        >>> exact_metrics(Predictions(probs=[[0.9, 0.1], [0.8, 0.2]], y=[0, 1]))["ece"]
        0.45
    """
    tally = Tally(predictions.num_classes, n_bins=n_bins)
    tally.add(Rows.from_predictions(predictions).with_adaptive_bins(n_bins))
    return tally.compute()
