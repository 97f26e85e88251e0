"""A mergeable state of all metrics, exact to the last bit however the rows are split or ordered."""

from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import (
    FloatArray,
    IntArray,
    as_bins,
    as_count,
    as_labels,
    as_logits,
    as_probs,
    as_weight,
    dense_outputs,
    is_dense,
)
from orcu.metrics.base import all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Sums, Term

STATE_VERSION = 1
_LIMB = 2.0**26
# Each value is cut into whole multiples of these units, 26 bits apiece, and the multiples are summed
# as integers: addition of integers does not depend on order. 2^52 .. 2^-78 holds every product of a
# weight and a score; what lies below 2^-78 is dropped, row by row, so it is dropped alike everywhere.
_UNITS = [2.0**26, 1.0, 2.0**-26, 2.0**-52, 2.0**-78]
# Sums of up to 2^20 multiples below 2^27 are exact in float64, in which bincount adds; fewer stay in the cache.
_CHUNK = 1 << 17


class Tally:
    """Counts and sums of predictions; `update` with rows, `merge` with another, `compute` at any time.

    Constant memory (a few thousand integers). The sums are integers in fixed point with a unit of
    2^-78, so the numbers do not depend on the order of the rows or on how they were split: partial
    states from several processes or machines give bit for bit what one pass gives.

    The adaptive calibration error needs the sorted order of all rows; it is NaN here, and
    `orcu.evaluate` has it.

    Args:
        num_classes: how many classes, C.
        bins: B of the binned errors; the paper does not say, 15 is usual.

    Example:
        >>> a, b = Tally(num_classes=2), Tally(num_classes=2)
        >>> a.update([[0.9, 0.1]], [0])
        >>> b.update([[0.8, 0.2]], [1])
        >>> a.merge(b).compute()["ece"]
        0.45
    """

    def __init__(self, num_classes: int, *, bins: int = 15) -> None:
        self.num_classes = as_count(num_classes, name="num_classes", minimum=2)
        self.bins = as_bins(bins)
        self.rows = 0
        self._layout = Layout(self.num_classes, self.bins)
        self._limbs: npt.NDArray[np.int64] = np.zeros((len(_UNITS), self._layout.size), np.int64)

    def update(
        self, probs: Any = None, y: Any = None, *, logits: Any = None, weight: Any = None, mask: Any = None
    ) -> None:
        """Add rows, or every position of dense outputs, one output at a time.

        Args:
            probs: class probabilities, shape (n, C) or (n, C, d1, ...), or ``None`` if ``logits`` is given.
            y: labels 0..C-1, shape (n,) or (n, d1, ...).
            logits: logits, in place of probs.
            weight: non-negative weights, of the shape of the labels.
            mask: booleans of the shape of the labels, true where a position counts; what stands elsewhere is not
                looked at.

        Raises:
            InputError: if an argument cannot be used, or the classes are not as many as the tally's; then nothing is
                added.
        """
        if (probs is None) == (logits is None):
            raise InputError("probs, logits: give exactly one of the two.")
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        if mask is not None or is_dense(values):
            part = Tally(self.num_classes, bins=self.bins)
            for rows, columns in dense_outputs(values, {"y": y, "weight": weight}, mask=mask, name=kind):
                part.update(**{kind: rows}, **columns)
            self.rows, self._limbs = self.rows + part.rows, self._limbs + part._limbs
            return
        values = as_probs(probs) if logits is None else as_logits(logits)
        if values.shape[1] != self.num_classes:
            raise InputError(f"the tally is for {self.num_classes} classes, got {values.shape[1]}.")
        y = as_labels(y, self.num_classes, rows=len(values))
        weight = None if weight is None else as_weight(weight, rows=len(values))
        self.add(Rows(values, y, weight) if logits is None else Rows.of_logits(values, y, weight))

    def add(self, rows: Rows, *, unit: IntArray | None = None, sums: FloatArray | None = None) -> None:
        """Add checked rows; with their ``groups`` of even count they have an ACE.

        Args:
            rows: the rows.
            unit: the unit of resampling of each, if what every unit adds is wanted too:
            sums: it is added here, in plain float64, shape (size, units).
        """
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            by_unit = None if unit is None or sums is None else _ByUnit(sums, unit[chunk])
            for term in self._layout.terms(rows[chunk]):
                self._add(term)
                if by_unit is not None:
                    by_unit.add(term)
        self.rows += len(rows)

    def _add(self, term: Term) -> None:
        start, width, column, value = term
        where = slice(start, start + width)
        if value is None or value.dtype == np.bool_:
            self._limbs[1, where] += np.bincount(column if value is None else column[value], minlength=width)
            return
        for limb, multiples in _split(value):
            if width == 1:  # a sum of whole numbers below 2^53 is exact in any order
                self._limbs[limb, start] += int(multiples.sum())
            else:
                sums = np.bincount(column, weights=multiples, minlength=width)
                self._limbs[limb, where] += sums.astype(np.int64)

    def merge(self, other: "Tally") -> "Tally":
        """The tally of both sets of rows; neither is changed.

        Raises:
            InputError: if the two differ in classes or bins.
        """
        if (self.num_classes, self.bins) != (other.num_classes, other.bins):
            raise InputError(
                f"merge: a tally of {self.num_classes} classes and {self.bins} bins cannot take in "
                f"one of {other.num_classes} classes and {other.bins} bins."
            )
        merged = Tally(self.num_classes, bins=self.bins)
        merged.rows = self.rows + other.rows
        merged._limbs = self._limbs + other._limbs
        return merged

    @property
    def limbs(self) -> npt.NDArray[np.int64]:
        """The sums as integers, shape (units, size): with ``rows``, the whole state. A copy."""
        return self._limbs.copy()

    @classmethod
    def of_limbs(cls, num_classes: int, limbs: npt.NDArray[np.int64], *, rows: int, bins: int = 15) -> "Tally":
        """The tally with these `limbs`, which may be sums of those of several tallies.

        Raises:
            InputError: if they are no integers or not of the shape of this tally's.

        Example:
            >>> a = Tally(num_classes=2)
            >>> a.update([[0.9, 0.1]], [0])
            >>> Tally.of_limbs(2, a.limbs + a.limbs, rows=2).compute()["accuracy"]
            1.0
        """
        tally = cls(num_classes, bins=bins)
        if limbs.shape != tally._limbs.shape or limbs.dtype != np.int64:
            raise InputError(
                f"limbs: expected int64 of shape {tally._limbs.shape} for {tally.num_classes} classes and "
                f"{tally.bins} bins, got {limbs.dtype} of shape {limbs.shape}."
            )
        tally.rows, tally._limbs = int(rows), limbs.copy()
        return tally

    def vector(self) -> FloatArray:
        """The sums as float64, in the order of the layout."""
        filled = self._limbs.any(axis=0)
        limbs = self._limbs[:, filled].astype(object)
        units = [int(unit / _UNITS[-1]) for unit in _UNITS]
        totals = sum(limb * unit for limb, unit in zip(limbs, units, strict=True))
        vector = np.zeros(self._layout.size)
        # Python integers divide with correct rounding, so equal integers give equal floats.
        vector[filled] = np.array([total / units[0] for total in totals], dtype=np.float64) * _UNITS[0]
        return vector

    def tables(self) -> Sums:
        """The sums as tables, from which every metric follows."""
        return self._layout.sums(self.vector())

    def compute(self) -> dict[str, float]:
        """Every metric by name, as fractions.

        Raises:
            InputError: if no row was added.
        """
        if not self.rows:
            raise InputError("the tally is empty; call update(probs, y) first.")
        sums = self.tables()
        return {metric.name: float(metric(sums)) for metric in all_metrics()}

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data, fit for JSON."""
        return {
            "state_version": STATE_VERSION,
            "num_classes": self.num_classes,
            "bins": self.bins,
            "rows": self.rows,
            "scores": self._layout.scores,
            "limbs": self._limbs.tolist(),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Tally":
        """The tally that `to_dict` gave.

        Raises:
            InputError: if the state is of another version or does not fit.
        """
        if state.get("state_version") != STATE_VERSION:
            raise InputError(
                f"state_version: expected {STATE_VERSION}, got {state.get('state_version')!r}; "
                "make the state anew with this version of orcu."
            )
        tally = cls(state["num_classes"], bins=state["bins"])
        limbs = np.array(state["limbs"], dtype=np.int64)
        if limbs.shape != tally._limbs.shape or state["scores"] != tally._layout.scores:
            raise InputError("the state does not fit this version's metrics; make it anew.")
        tally.rows, tally._limbs = int(state["rows"]), limbs
        return tally


class _ByUnit:
    """What each unit of some rows adds, to sums of shape (size, units)."""

    def __init__(self, sums: FloatArray, unit: IntArray) -> None:
        self._sums, self._unit = sums, unit
        self._column, self._place = unit, unit

    def add(self, term: Term) -> None:
        start, width, column, value = term
        units = self._sums.shape[1]
        if width == 1:
            place = self._unit
        else:
            if column is not self._column:  # one table after the other has the same
                self._column, self._place = column, column * units + self._unit
            place = self._place
        if value is not None and value.dtype == np.bool_:
            place, value = place[value], None
        cells = np.bincount(place, weights=value, minlength=width * units)
        self._sums[start : start + width] += cells.reshape(width, units)


def _split(values: FloatArray) -> list[tuple[int, FloatArray]]:
    """Whole multiples of each unit, largest first, that add up to the values; zeros left out."""
    pieces: list[tuple[int, FloatArray]] = []
    if not values.size:
        return pieces
    rest, largest = values, max(values.max(), -values.min())
    for limb, unit in enumerate(_UNITS):
        if largest < unit and limb < len(_UNITS) - 1:  # not even one of the value
            continue
        multiples = rest * (1 / unit)  # a power of two: exact, and quicker than to divide
        np.trunc(multiples, out=multiples)
        pieces.append((limb, multiples))
        taken = multiples * unit
        rest = np.subtract(rest, taken, out=taken)
        if not rest.any():
            break
    return pieces
