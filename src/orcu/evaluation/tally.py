"""Mergeable state of all metrics, exact to the last bit for any split and order of the rows."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_count, as_logits, as_n_bins, as_probs, dense_outputs, is_dense
from orcu.metrics.base import Metric, all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows, rows_of
from orcu.metrics.sums import Sums, Term

STATE_VERSION = 2  # version 1 was written by orcu 0.2
_REPEAT = "create the tally again from its rows"
# Each value is split into whole multiples of these units, 26 bits each, and the multiples are summed as integers:
# integer addition does not depend on the order. 2^52 .. 2^-78 covers all products of a weight and a score; the
# remainder below 2^-78 is dropped row by row, so the same is dropped for any split.
_UNITS = [2.0**26, 1.0, 2.0**-26, 2.0**-52, 2.0**-78]
# Sums of up to 2^20 multiples below 2^27 are exact in float64, in which bincount adds; fewer rows stay in the cache.
_CHUNK = 1 << 17
State = npt.NDArray[np.int64]


class Tally:
    """Counts and sums of predictions: `update` with rows, `merge` with another tally, `compute` at any time.

    The memory is constant (a few thousand integers). The sums are fixed-point integers with a unit of 2^-78, so they
    do not depend on the order or the split of the rows: partial states of several processes or machines give the same
    bits as a single pass.

    A tally computes the metrics that were registered when it was created. The adaptive calibration error (ACE) is NaN,
    because it needs all rows in sorted order; `orcu.evaluate` computes it.

    Args:
        num_classes: number of classes C.
        n_bins: number of bins of the binned errors; the paper does not state it, 15 is usual.

    Attributes:
        metrics: names of the metrics.
        rows: number of rows added; a case with votes of several raters is one row.

    Example:
        >>> a, b = Tally(num_classes=2), Tally(num_classes=2)
        >>> a.update([[0.9, 0.1]], [0])
        >>> b.update([[0.8, 0.2]], [1])
        >>> a.merge(b)
        Tally(num_classes=2, n_bins=15, rows=2, 17 metrics)
        >>> a.merge(b).compute()["ece"]
        0.45
    """

    def __init__(self, num_classes: int, *, n_bins: int = 15) -> None:
        layout = Layout(as_count(num_classes, name="num_classes", minimum=2), as_n_bins(n_bins))
        self._set(layout, all_metrics(), 0, fixed_point_zeros(layout.size))

    def _set(self, layout: Layout, metrics: Iterable[Metric], rows: int, state: State) -> None:
        self.num_classes, self.n_bins, self._layout = layout.num_classes, layout.n_bins, layout
        self.metrics, self.rows, self._state = tuple(metric.name for metric in metrics), rows, state

    def _with(self, rows: int, state: State) -> "Tally":
        """Tally of the same metrics with another state."""
        other = copy.copy(self)
        other.rows, other._state = rows, state
        return other

    def __repr__(self) -> str:
        counts = f"num_classes={self.num_classes}, n_bins={self.n_bins}, rows={self.rows}"
        return f"Tally({counts}, {len(self.metrics)} metrics)"

    def update(
        self, probs: Any = None, y: Any = None, *, logits: Any = None, sample_weight: Any = None, mask: Any = None
    ) -> None:
        """Add rows, or all positions of dense outputs.

        Args:
            probs: class probabilities, shape (n, C) or (n, C, d1, ...), or ``None`` if ``logits`` is given.
            y: labels 0..C-1, shape (n,) or (n, d1, ...), or votes of several raters, shape (n, C).
            logits: logits, instead of probs.
            sample_weight: non-negative weights, in the shape of the labels.
            mask: booleans in the shape of the labels, true where a position counts; other positions are ignored.

        Raises:
            InputError: if an argument is invalid, or the number of classes is not the tally's. Nothing is added then.
        """
        if (probs is None) == (logits is None):
            raise InputError("probs, logits: pass exactly one of the two.")
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        if mask is not None or is_dense(values):
            part = self._with(0, np.zeros_like(self._state))
            for rows, columns in dense_outputs(values, {"y": y, "sample_weight": sample_weight}, mask=mask, name=kind):
                part.update(**{kind: rows}, **columns)
            self.rows, self._state = self.rows + part.rows, self._state + part._state
            return
        values = as_probs(probs) if logits is None else as_logits(logits)
        if values.shape[1] != self.num_classes:
            raise InputError(f"{kind}: expected {self.num_classes} columns, one per class, got {values.shape[1]}.")
        if logits is None:
            self.add(rows_of(values, y, sample_weight))
        else:
            self.add(rows_of(geometry.probs(values), y, sample_weight, values))

    def add(self, rows: Rows, *, unit: IntArray | None = None, sums: FloatArray | None = None) -> None:
        """Add checked rows. Rows with ``adaptive_bins`` contribute to the ACE.

        Args:
            rows: checked rows.
            unit: resampling unit of each row, shape (n,), if the sums of each unit are wanted too.
            sums: array of shape (size, units) to which the sums of each unit are added, in float64.
        """
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            terms = self._layout.terms(rows[chunk])
            for term in terms if unit is None or sums is None else _add_to_units(terms, sums, unit[chunk]):
                add_term(self._state, term)
        self.rows += rows.cases

    def merge(self, other: "Tally") -> "Tally":
        """Tally of the rows of both; neither is changed.

        Raises:
            InputError: if the two differ in classes, bins or metrics.
        """
        if (self.num_classes, self.n_bins) != (other.num_classes, other.n_bins):
            raise InputError(
                f"merge: cannot merge a tally of {self.num_classes} classes and {self.n_bins} bins with one of "
                f"{other.num_classes} classes and {other.n_bins} bins."
            )
        ours, others = ([*tally.metrics, *tally._layout.row_scores] for tally in (self, other))
        if ours != others:
            only_ours = ", ".join(name for name in ours if name not in others) or "none"
            only_others = ", ".join(name for name in others if name not in ours) or "none"
            raise InputError(
                "merge: the tallies have different metrics or row scores, or in a different order; only in the first: "
                f"{only_ours}; only in the second: {only_others}. Register all metrics before creating a Tally."
            )
        return self._with(self.rows + other.rows, self._state + other._state)

    @property
    def state(self) -> State:
        """The sums as integers, shape (units, size): together with ``rows``, the complete state. A copy."""
        return self._state.copy()

    @classmethod
    def from_state(cls, num_classes: int, state: State, *, rows: int, n_bins: int = 15) -> "Tally":
        """Tally with this `state`, which may be the sum of the states of several tallies.

        Raises:
            InputError: if it is not an integer array of the shape of the tally's state.

        Example:
            >>> a = Tally(num_classes=2)
            >>> a.update([[0.9, 0.1]], [0])
            >>> Tally.from_state(2, a.state + a.state, rows=2).compute()["accuracy"]
            1.0
        """
        tally = cls(num_classes, n_bins=n_bins)
        return tally._with(int(rows), _checked_state(state, tally._layout))

    def vector(self) -> FloatArray:
        """The sums as float64, in the order of the layout."""
        return to_float(self._state)

    def sums(self) -> Sums:
        """The sums from which the metrics are computed."""
        return self._layout.sums(self.vector())

    def compute(self) -> dict[str, float]:
        """All metrics by name, as fractions.

        Raises:
            InputError: if no row was added.
        """
        if not self.rows:
            raise InputError("the tally is empty; call update(probs, y) first.")
        sums = self.sums()
        return {metric.name: float(metric(sums)) for metric in all_metrics(self.metrics)}

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data for JSON."""
        return {
            "state_version": STATE_VERSION,
            "num_classes": self.num_classes,
            "n_bins": self.n_bins,
            "rows": self.rows,
            "metrics": list(self.metrics),
            "row_scores": self._layout.row_scores,
            "state": self._state.tolist(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Tally":
        """Tally from the plain data of `to_dict`, also as written by orcu 0.2.

        Raises:
            InputError: if the data are damaged, have another version, or need metrics that are not registered.
        """
        from pydantic import ValidationError

        from orcu.evaluation.schemas import TallySchema
        from orcu.io.schema import first_fault

        version = state.get("state_version") if isinstance(state, Mapping) else None
        if version not in (1, STATE_VERSION):
            raise InputError(f"state_version: expected {STATE_VERSION}, got {version!r}; {_REPEAT}.")
        try:
            checked = TallySchema.model_validate(state)
        except ValidationError as error:
            raise InputError(f"{first_fault(error)}; {_REPEAT}.") from None
        layout = Layout(checked.num_classes, checked.n_bins, None if version == 1 else checked.row_scores)
        if layout.row_scores != checked.row_scores:
            raise InputError(
                f"row_scores: the state has {', '.join(checked.row_scores)}, but {', '.join(layout.row_scores)} are "
                f"registered; {_REPEAT}."
            )
        tally = cls.__new__(cls)
        sums = _checked_state(checked.state, layout)
        tally._set(layout, all_metrics(checked.metrics), checked.rows, sums)
        return tally


def fixed_point_zeros(size: int) -> State:
    """Fixed-point integers of this many sums, shape (units, size), all 0."""
    return np.zeros((len(_UNITS), size), np.int64)


def add_term(state: State, term: Term) -> None:
    """Add the contribution of up to 2^20 rows to fixed-point sums."""
    start, width, column, value = term
    where = slice(start, start + width)
    if value is None or value.dtype == np.bool_:
        state[1, where] += np.bincount(column if value is None else column[value], minlength=width)
        return
    for unit, multiples in _split(value):
        if width == 1:  # a sum of whole numbers below 2^53 is exact in any order
            state[unit, start] += int(multiples.sum())
        else:
            sums = np.bincount(column, weights=multiples, minlength=width)
            state[unit, where] += sums.astype(np.int64)


def to_float(state: State) -> FloatArray:
    """Fixed-point sums as float64, correctly rounded: equal integers give equal floats."""
    filled = state.any(axis=0)
    multiples = state[:, filled].astype(object)
    units = [int(unit / _UNITS[-1]) for unit in _UNITS]
    totals = sum(part * unit for part, unit in zip(multiples, units, strict=True))
    vector = np.zeros(state.shape[1])
    vector[filled] = np.array([total / units[0] for total in totals], dtype=np.float64) * _UNITS[0]
    return vector


def _checked_state(state: Any, layout: Layout) -> State:
    """Copy of the integer sums if they have the shape of the layout."""
    try:
        sums = np.array(state)
    except ValueError:
        raise InputError(f"state: its rows have different lengths; {_REPEAT}.") from None
    if sums.shape != (len(_UNITS), layout.size) or sums.dtype != np.int64:
        raise InputError(
            f"state: expected int64 of shape {(len(_UNITS), layout.size)} for {layout.num_classes} classes and "
            f"{layout.n_bins} bins, got {sums.dtype} of shape {sums.shape}; {_REPEAT}."
        )
    return sums


def _add_to_units(terms: Iterable[Term], sums: FloatArray, unit: IntArray) -> Iterator[Term]:
    """Add the contribution of each resampling unit to sums of shape (size, units), and pass the terms on."""
    units, last_column, last_cell = sums.shape[1], unit, unit
    for start, width, column, value in terms:
        if width > 1 and column is not last_column:  # consecutive terms have the same columns
            last_column, last_cell = column, column * units + unit
        cell, counted = last_cell if width > 1 else unit, value
        if value is not None and value.dtype == np.bool_:
            cell, counted = cell[value], None
        cells = np.bincount(cell, weights=counted, minlength=width * units)
        sums[start : start + width] += cells.reshape(width, units)
        yield start, width, column, value


def _split(values: FloatArray) -> list[tuple[int, FloatArray]]:
    """Whole multiples of each unit, largest unit first, that add up to the values; units of zeros are omitted."""
    pieces: list[tuple[int, FloatArray]] = []
    if not values.size:
        return pieces
    rest, largest = values, max(values.max(), -values.min())
    for index, unit in enumerate(_UNITS):
        if largest < unit and index < len(_UNITS) - 1:  # all multiples are 0
            continue
        multiples = rest * (1 / unit)  # a power of two: exact, and faster than a division
        np.trunc(multiples, out=multiples)
        pieces.append((index, multiples))
        taken = multiples * unit
        rest = np.subtract(rest, taken, out=taken)
        if not rest.any():
            break
    return pieces
