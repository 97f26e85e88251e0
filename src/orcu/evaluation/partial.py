"""Mergeable state of an evaluation with intervals, for rows that are spread over processes and machines."""

import io
import json
import zlib
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.evaluation.evaluate import evaluate_merged
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.statistics import SufficientStatistics, check_two_classes
from orcu.evaluation.tally import Tally, add_term, fixed_point_zeros, to_float
from orcu.inputs import IntArray, as_count, as_n_bins
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.predictions import Predictions, PredictionsSource, concatenate
from orcu.predictions.labels import POSITIONS, check_zero_based
from orcu.predictions.source import ReadSummary, open_frame

N_BLOCKS = 256  # resampling units: more give steadier intervals and a larger state
SAMPLE_ROWS = 50_000
STATE_VERSION = 1
_CHUNK = 1 << 17  # rows that are summed at once; sums of a chunk are exact in float64
_ARRAYS = ("probs", "logits", "y", "ids", "sample_weight", "uncertainty", "cluster")  # of the sample
_TEXTS = ("ids", "cluster")
_UINT64 = npt.NDArray[np.uint64]


class PartialEvaluation:
    """Evaluation of a part of the rows: `update` with rows, `merge` with other parts, `evaluate` at the end.

    It does not matter how the rows are divided into parts and in which order the parts are merged: the numbers are
    the same to the last bit. The state has a constant size (megabytes):

    - the sums of a `Tally`, exact, for each of 256 blocks of rows. A hash of the row id chooses the block, so all
      machines choose the same one. With ``cluster`` it is a hash of the cluster, whose rows share a block. The
      bootstrap resamples blocks.
    - a sample of 50,000 rows: those whose ids have the smallest hashes. Curves, AUC and the reference of a calibrated
      model are computed from it, as for streamed files.

    The adaptive calibration error (ACE) is NaN, because its bins need all rows in sorted order. Subgroups are evaluated
    with one state each. Votes of several raters and comparisons of models are not supported. Duplicate ids are not
    detected.

    Args:
        n_bins: number of bins of the binned errors.
        rule: decision rule, as in `orcu.evaluate`.

    Attributes:
        rows: number of rows.
        classes: class names in order; empty before the first rows.

    Example:
        >>> rows = {
        ...     "y": [0, 1, 1, 0],
        ...     "probs": [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]],
        ...     "ids": list("abcd"),
        ... }
        >>> parts = [PartialEvaluation(), PartialEvaluation()]
        >>> for part, where in zip(parts, (slice(0, 3), slice(3, 4))):
        ...     part.update(Predictions(**{name: values[where] for name, values in rows.items()}))
        >>> parts[0].merge(parts[1]).evaluate(n_resamples=0)["accuracy"].value
        0.75
    """

    def __init__(self, *, n_bins: int = 15, rule: Any = "argmax") -> None:
        self.n_bins = as_n_bins(n_bins)
        self.rule = rule if isinstance(rule, str) else np.asarray(rule, dtype=np.float64)
        self.rows, self.classes = 0, tuple[str, ...]()
        self._layout: Layout | None = None
        self._state = np.zeros((0, 0), dtype=np.int64)  # (units, size * N_BLOCKS)
        self._summary = ReadSummary()
        self._history = frozenset[str]()
        self._hashes: _UINT64 = np.zeros(0, dtype=np.uint64)  # of the ids of the sample
        self._sample: Predictions | None = None

    def __repr__(self) -> str:
        return f"PartialEvaluation({self.rows:,} rows, classes={', '.join(self.classes) or None}, n_bins={self.n_bins})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartialEvaluation.from_bytes, (self.to_bytes(),)

    @classmethod
    def from_batches(
        cls, batches: Iterable[Any], *, n_bins: int = 15, rule: Any = "argmax", **columns: Any
    ) -> "PartialEvaluation":
        """Evaluate batches of rows, as engines pass them to functions.

        Args:
            batches: pyarrow tables or record batches, pandas or polars frames; empty ones are allowed.
            n_bins: as for the class.
            rule: as for the class.
            columns: as for `orcu.predictions.open_predictions`; ``id`` is required. Pass ``classes`` in order unless
                the columns of the probabilities are.

        Raises:
            InputError: if a column is missing or invalid.

        Example:
            >>> import pyarrow as pa
            >>> batch = pa.table(
            ...     {"id": ["a", "b"], "y": ["low", "high"], "p_low": [0.9, 0.6], "p_high": [0.1, 0.4]}
            ... )
            >>> PartialEvaluation.from_batches([batch], label="y", probs="p_*", id="id")
            PartialEvaluation(2 rows, classes=low, high, n_bins=15)
        """
        part = cls(n_bins=n_bins, rule=rule)
        for batch in batches:
            part.update(open_frame(batch, **columns))
        return part

    def update(self, rows: Predictions | PredictionsSource) -> None:
        """Add labelled predictions with ids, or those of an opened file or folder.

        Raises:
            InputError: if ids or labels are missing, or the classes or columns differ from those of earlier rows.
        """
        if isinstance(rows, PredictionsSource):
            for fragment in rows.fragments:
                for raw in fragment.raw_batches():
                    self.update(raw.parse())
            return
        if not len(rows):
            self._summary += ReadSummary.from_batch(rows)
            return
        if rows.ids is None:
            raise InputError("ids: the rows have no ids, whose hashes choose blocks and sample; pass id= (ids=).")
        if rows.votes is not None or rows.subgroup is not None:
            raise InputError(
                "votes, subgroup: votes of several raters are not supported, and subgroups need a PartialEvaluation "
                "each. Leave out these columns."
            )
        labels = rows.labels  # raises if there are none
        layout = self._prepare(rows.classes)
        hashes = _hash_texts(rows.ids)
        unit = _mix(hashes if rows.cluster is None else _hash_texts(rows.cluster)) % np.uint64(N_BLOCKS)
        checked, block = Rows(rows.probs, labels, rows.sample_weight, rows.logits, self.rule), unit.astype(np.intp)
        for start in range(0, len(checked), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            last_column, cell = block, block
            for first, width, column, value in layout.terms(checked[chunk]):
                if column is not last_column:  # consecutive terms have the same columns
                    last_column, cell = column, column * N_BLOCKS + block[chunk]
                add_term(self._state, (first * N_BLOCKS, width * N_BLOCKS, cell, value))
        self.rows += len(rows)
        self._summary += ReadSummary.from_batch(rows)
        self._history |= {json.dumps(step, sort_keys=True) for step in rows.history}
        names = {name: values for name in _ARRAYS if (values := getattr(rows, name)) is not None}
        self._add_to_sample(hashes, Predictions._from_fields(**names, classes=rows.classes))

    def merge(self, other: "PartialEvaluation") -> "PartialEvaluation":
        """Evaluation of the rows of both; neither is changed.

        Raises:
            InputError: if the two differ in classes, bins, rule, metrics or columns.
        """
        if self.n_bins != other.n_bins or not np.array_equal(self.rule, other.rule):
            raise InputError("merge: the two evaluations have different n_bins or rules; use the same for all parts.")
        merged = PartialEvaluation(n_bins=self.n_bins, rule=self.rule)
        merged.rows, merged._summary = self.rows + other.rows, self._summary + other._summary
        merged._history = self._history | other._history
        for part in (self, other):
            if part._layout is None or part._sample is None:
                continue
            layout = merged._prepare(part.classes)
            if layout.row_scores != part._layout.row_scores:
                raise InputError("merge: the two evaluations have different metrics; register all before the first.")
            merged._state += part._state
            merged._add_to_sample(part._hashes, part._sample)
        return merged

    @staticmethod
    def merge_all(parts: "Iterable[PartialEvaluation | bytes]") -> "PartialEvaluation":
        """Merge all parts, also in the form of `to_bytes`.

        Raises:
            InputError: if there are none, or as for `merge`.
        """
        states = (PartialEvaluation.from_bytes(part) if isinstance(part, bytes) else part for part in parts)
        first = next(states, None)
        if first is None:
            raise InputError("parts: there are none to merge; did the engine read any rows?")
        return reduce(PartialEvaluation.merge, states, first)

    @property
    def tally(self) -> Tally:
        """Exact sums of all rows.

        Raises:
            InputError: if no row was added.
        """
        layout = self._filled()[0]
        state = self._state.reshape(len(self._state), layout.size, N_BLOCKS).sum(axis=-1)
        return Tally.from_state(layout.num_classes, state, rows=self.rows, n_bins=self.n_bins)

    def evaluate(self, *, name: str = "model", n_resamples: int | None = None, random_state: int = 0) -> Evaluation:
        """Compute all metrics with intervals and references; arguments as for `orcu.evaluate`.

        Raises:
            InputError: if there are no rows, or they cannot be evaluated: with labels of one class, for example.
        """
        if n_resamples is not None:
            n_resamples = as_count(n_resamples, name="n_resamples", minimum=0)
        statistics = self.statistics()
        check_two_classes(statistics.totals.confusion.sum(-1), self.classes)
        return evaluate_merged(statistics, name=name, n_resamples=n_resamples, random_state=random_state)

    def statistics(self) -> SufficientStatistics:
        """Sums of all rows and of each block, and the sample.

        Raises:
            InputError: if there are no rows, all weights are 0, or labels of two kinds.
        """
        layout, sample = self._filled()
        summary = self._summary
        if len(summary.mappings) > 1:
            raise InputError("label: some labels are class names, others are positions 0, 1, ...; use only one kind.")
        if POSITIONS in summary.mappings and summary.lowest_label is not None:
            check_zero_based(summary.lowest_label, "label")
        if not summary.has_weight:
            raise InputError("sample_weight: all weights are 0.")
        sums = to_float(self._state).reshape(layout.size, N_BLOCKS).T
        unit = self._sample_blocks(sample)
        if sample.cluster is not None:  # few clusters fill few blocks: empty ones are not resampled
            filled = sums.any(axis=1)
            unit, sums = np.cumsum(filled)[unit] - 1, sums[filled]
        notes = sample._value_notes(summary.normalised_rows, summary.max_sum_error)
        history = [json.loads(step) for step in sorted(self._history)]
        [mapping] = summary.mappings
        return SufficientStatistics(
            layout=layout,
            rows=self.rows,
            clusters=None,
            vector=self.tally.vector(),
            sample=sample._with(label_mapping=mapping, notes=tuple(notes), history=tuple(history)),
            sample_bins=None,
            sample_unit=unit,
            units=len(sums),
            rule=self.rule,
            dense_sums=np.ascontiguousarray(sums),
        )

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for an engine or a file; `from_bytes` restores it."""
        filled = self._state.any(axis=1)
        about = {
            "version": STATE_VERSION,
            "n_bins": self.n_bins,
            "rule": self.rule if isinstance(self.rule, str) else self.rule.tolist(),
            "rows": self.rows,
            "classes": self.classes,
            "row_scores": None if self._layout is None else self._layout.row_scores,
            "summary": {**vars(self._summary), "mappings": sorted(self._summary.mappings)},
            "history": sorted(self._history),
            "texts": {
                name: list(map(str, v)) for name in _TEXTS if (v := getattr(self._sample, name, None)) is not None
            },
        }
        arrays = {
            name: v for name in _ARRAYS if name not in _TEXTS and (v := getattr(self._sample, name, None)) is not None
        }
        arrays |= {"about": np.frombuffer(json.dumps(about).encode(), np.uint8), "hashes": self._hashes}
        stream = io.BytesIO()
        np.savez(stream, units=np.flatnonzero(filled), state=self._state[filled], **arrays)
        return zlib.compress(stream.getvalue(), level=1)

    @classmethod
    def from_bytes(cls, content: bytes) -> "PartialEvaluation":
        """Restore a state from `to_bytes`.

        Raises:
            InputError: if it is damaged, has another version, or needs metrics that are not registered.
        """
        try:
            with np.load(io.BytesIO(zlib.decompress(content)), allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(arrays.pop("about").tobytes())
            if about["version"] != STATE_VERSION:
                raise InputError(f"version: expected {STATE_VERSION}, got {about['version']!r}.")
            part = cls(n_bins=about["n_bins"], rule=about["rule"])
            part.rows, part._hashes, part._history = about["rows"], arrays.pop("hashes"), frozenset(about["history"])
            part._summary = ReadSummary(**about["summary"] | {"mappings": frozenset(about["summary"]["mappings"])})
            units, state = arrays.pop("units"), arrays.pop("state")
            if about["row_scores"] is not None:
                layout = part._prepare(tuple(about["classes"]))
                if layout.row_scores != about["row_scores"]:
                    raise InputError(f"other metrics are registered than {', '.join(about['row_scores'])}.")
                part._state[units] = state
                texts = {name: np.array(values, dtype=object) for name, values in about["texts"].items()}
                part._sample = Predictions._from_fields(**arrays, **texts, classes=part.classes)
        except InputError as error:
            raise InputError(f"PartialEvaluation.from_bytes: {error} Evaluate the rows again.") from None
        except (zlib.error, ValueError, KeyError, TypeError, IndexError, OSError) as error:
            raise InputError(f"PartialEvaluation.from_bytes: damaged ({error}). Evaluate the rows again.") from None
        return part

    def _prepare(self, classes: tuple[str, ...]) -> Layout:
        """Return the layout; the first rows determine the classes."""
        if self._layout is None:
            self._layout, self.classes = Layout(len(classes), self.n_bins), classes
            self._state = fixed_point_zeros(self._layout.size * N_BLOCKS)
        if classes != self.classes:
            raise InputError(f"classes: expected {', '.join(self.classes)}, got {', '.join(classes)}.")
        return self._layout

    def _filled(self) -> tuple[Layout, Predictions]:
        if self._layout is None or self._sample is None:
            raise InputError("there are no rows; call update(predictions) first.")
        return self._layout, self._sample[np.arange(min(len(self._sample), SAMPLE_ROWS))]

    @staticmethod
    def _sample_blocks(sample: Predictions) -> IntArray:
        name: Any = sample.ids if sample.cluster is None else sample.cluster
        return (_mix(_hash_texts(name)) % np.uint64(N_BLOCKS)).astype(np.intp)

    def _add_to_sample(self, hashes: _UINT64, rows: Predictions) -> None:
        """Keep the rows with the smallest hashes, in their order."""
        if self._sample is not None:
            if rows._row_arrays().keys() != self._sample._row_arrays().keys():
                raise InputError("columns: some rows have weights, uncertainty, clusters or logits, and others do not.")
            if len(self._hashes) >= SAMPLE_ROWS:
                chosen = hashes <= self._hashes[-1]
                if not chosen.any():
                    return
                hashes, rows = hashes[chosen], rows[chosen]
            hashes, rows = np.concatenate([self._hashes, hashes]), concatenate([self._sample, rows])
        order = _order(hashes, rows)[:SAMPLE_ROWS]
        self._hashes, self._sample = hashes[order], rows[order]


def _order(hashes: _UINT64, rows: Predictions) -> IntArray:
    """Order by hash; duplicate ids by their content, so that no order depends on the parts."""
    order = np.argsort(hashes, kind="stable")
    if (np.diff(hashes[order]) == 0).any():
        keys = [values for name, values in rows._row_arrays().items() if name not in _TEXTS]
        columns = [column for values in keys for column in np.atleast_2d(values.T)]
        order = np.lexsort((*columns, hashes))
    return order


def _hash_texts(texts: npt.NDArray[Any]) -> _UINT64:
    """64-bit hash of each text, the same on all machines; numbers are hashed as their decimal text.

    Example:
        >>> [hex(value) for value in _hash_texts(np.array(["a", "patient-12"], dtype=object))]
        ['0x2e291a69a5eb399b', '0xab5768d653f58227']
        >>> _hash_texts(np.array([7])) == _hash_texts(np.array(["7"]))
        array([ True])
    """
    import pyarrow as pa

    column = pa.array(list(map(str, texts.tolist())), pa.large_string())
    ends = np.frombuffer(column.buffers()[1], dtype=np.int64, count=len(column) + 1)
    start, length = ends[:-1], np.diff(ends)
    data = np.zeros(int(ends[-1]) + 8, dtype=np.uint8)
    data[:-8] = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8, count=int(ends[-1]))
    words: _UINT64 = np.ndarray(len(data) - 7, dtype="<u8", buffer=data, strides=(1,))  # eight bytes from each byte on
    hashes = _mix(length.astype(np.uint64))
    rows = np.arange(len(length))
    for position in range(0, int(length.max(initial=0)), 8):
        rows = rows[length[rows] > position]
        unused = 8 * np.maximum(8 - (length[rows] - position), 0).astype(np.uint64)
        hashes[rows] = _mix(hashes[rows] ^ words[start[rows] + position] << unused)
    return hashes


def _mix(values: _UINT64) -> _UINT64:
    """Mix the bits of each number (the finaliser of splitmix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)
