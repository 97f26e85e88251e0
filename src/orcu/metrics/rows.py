"""Checked predictions and the quantities that follow from each row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from orcu import geometry
from orcu.decisions.rules import decide_checked
from orcu.inputs import BoolArray, FloatArray, IntArray, as_labels, as_probs, as_sample_weight
from orcu.metrics.binning import equal_count_bins
from orcu.raters.votes import as_votes, expand_votes, is_votes

if TYPE_CHECKING:
    from orcu.predictions import Predictions

_CHUNK = 1 << 14  # rows transposed at once, so that they stay in the cache


@dataclass(frozen=True)
class Rows:
    """Checked predictions with their labels.

    A case with votes of several raters has one row for each grade that it received, weighted by its share of the votes
    (``case`` is its index), so a mean over rows is the expectation over a random vote.
    """

    probs: FloatArray  # class probabilities, shape (n, C)
    y: IntArray  # labels, shape (n,)
    sample_weight: FloatArray | None = None  # shape (n,)
    logits: FloatArray | None = None  # shape (n, C); log-likelihoods are computed from them if present
    rule: Any = "argmax"  # decision rule, see orcu.decide
    uncertainty: FloatArray | None = None  # scores of the referral curve, shape (n,); None for the confidence
    adaptive_bins: IntArray | None = None  # equal-count bin of each class's probability, shape (C, n)
    case: IntArray | None = None  # index of each row's case, shape (n,), non-decreasing; None: a row per case

    @classmethod
    def from_predictions(
        cls, predictions: "Predictions", rule: Any = "argmax", adaptive_bins: IntArray | None = None
    ) -> "Rows":
        """Rows of labelled predictions, decided by a rule; ``adaptive_bins`` has an entry per case, shape (C, cases).

        Example:
            >>> from orcu import Predictions
            >>> rows = Rows.from_predictions(Predictions(probs=[[0.4, 0.25, 0.35]], y=[1]), rule="median")
            >>> rows.pred.tolist(), rows.decision.tolist()
            ([0], [1])
        """
        optional = predictions.sample_weight, predictions.logits, rule, predictions.uncertainty, adaptive_bins
        if predictions.votes is not None:
            return cls.from_votes(predictions.probs, predictions.votes, *optional)
        return cls(predictions.probs, predictions.labels, *optional)

    @classmethod
    def from_votes(
        cls,
        probs: FloatArray,
        votes: FloatArray,
        sample_weight: FloatArray | None = None,
        logits: FloatArray | None = None,
        rule: Any = "argmax",
        uncertainty: FloatArray | None = None,
        adaptive_bins: IntArray | None = None,
    ) -> "Rows":
        """Rows of checked cases with votes, shape (n, C).

        Example:
            >>> rows = Rows.from_votes(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[3.0, 1.0], [0.0, 2.0]]))
            >>> rows.y.tolist(), rows.weights.tolist(), rows.cases
            ([0, 1, 1], [0.75, 0.25, 1.0], 2)
        """
        case, label, share = expand_votes(votes)
        return cls(
            probs[case],
            label,
            share if sample_weight is None else sample_weight[case] * share,
            None if logits is None else logits[case],
            rule,
            None if uncertainty is None else uncertainty[case],
            None if adaptive_bins is None else adaptive_bins[:, case],
            case,
        )

    @classmethod
    def from_logits(cls, logits: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> "Rows":
        """Rows of checked logits."""
        return cls(geometry.probs(logits), y, sample_weight, logits)

    def __len__(self) -> int:
        return len(self.probs)

    def __getitem__(self, rows: Any) -> "Rows":
        optional = {
            name: None if (array := getattr(self, name)) is None else array[rows]
            for name in ("sample_weight", "logits", "uncertainty", "case")
        }
        bins = None if self.adaptive_bins is None else self.adaptive_bins[:, rows]
        part = Rows(self.probs[rows], self.y[rows], rule=self.rule, adaptive_bins=bins, **optional)
        if isinstance(rows, slice) and "columns" in self.__dict__:  # a view of the cached transpose
            part.__dict__["columns"] = self.columns[:, rows]
        return part

    def with_adaptive_bins(
        self, n_bins: int, assign: Callable[[FloatArray, int], IntArray] = equal_count_bins
    ) -> "Rows":
        """The same rows with the equal-count bin of each class's probability, which the ACE needs.

        The bins have equal numbers of cases.
        """
        probs = self.probs if self.case is None else self.probs[self.first_rows]
        bins = np.stack([assign(probs[:, k], n_bins) for k in range(self.num_classes)])
        return self.with_case_bins(bins)

    def with_case_bins(self, bins: IntArray) -> "Rows":
        """The same rows with the bins of the cases, shape (C, cases)."""
        return replace(self, adaptive_bins=bins if self.case is None else bins[:, self.case])

    @property
    def first_rows(self) -> Any:
        """Index of the first row of each case, shape (cases,), or a slice of all rows."""
        return slice(None) if self.case is None else np.flatnonzero(np.diff(self.case, prepend=-1))

    @property
    def cases(self) -> int:
        """Number of cases: the rows, unless cases have votes of several raters."""
        return len(self) if self.case is None else len(self.first_rows)

    def spread(self, values: Any) -> Any:
        """Values of the rows, shape (n,), from one value per case, shape (cases,)."""
        return values if self.case is None else values[self.case]

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return int(self.probs.shape[1])

    @property
    def total(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @property
    def weights(self) -> FloatArray:
        """Row weights, all 1 if there are none."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight

    @cached_property
    def columns(self) -> FloatArray:
        """Probabilities by class, shape (C, n), contiguous."""
        return np.ascontiguousarray(self.probs.T)

    @cached_property
    def cumulative(self) -> FloatArray:
        """F(k) = P(Y <= k) for the thresholds k = 0..C-2, shape (C-1, n)."""
        cumulative = self.columns[:-1].copy()
        for k in range(1, len(cumulative)):  # the same bits as numpy.cumsum, ten times as fast
            cumulative[k] += cumulative[k - 1]
        return cumulative

    def threshold_squares(self) -> Iterator[FloatArray]:
        """(F(k) - 1[y <= k])^2 of each row, one threshold at a time."""
        columns = self.__dict__.get("columns", self.probs.T)
        below = columns[0].copy()  # F(k), updated in place: whole matrices would take most of the time
        for k in range(self.num_classes - 1):
            difference = below - (self.y <= k)
            difference *= difference
            yield difference
            below += columns[k + 1]

    @cached_property
    def pred(self) -> IntArray:
        """First argmax of each row."""
        return self._top[0]

    @cached_property
    def decision(self) -> IntArray:
        """Class decided by the rule for each row."""
        if isinstance(self.rule, str) and self.rule == "argmax":
            return self.pred
        return decide_checked(self.probs, self.rule)

    @cached_property
    def confidence(self) -> FloatArray:
        """Largest probability of each row."""
        return self._top[1]

    @cached_property
    def _top(self) -> tuple[IntArray, FloatArray]:
        """First argmax and largest probability, by columns: several times as fast as numpy along rows."""
        pred, confidence = np.zeros(len(self), dtype=np.int64), np.empty(len(self))
        for start in range(0, len(self), _CHUNK):
            part = slice(start, start + _CHUNK)
            columns = self.__dict__["columns"][:, part] if "columns" in self.__dict__ else self.probs[part].T.copy()
            top = np.max(columns, axis=0, out=confidence[part])
            for k in reversed(range(self.num_classes)):
                np.copyto(pred[part], k, where=columns[k] == top)
        return pred, confidence

    @cached_property
    def correct(self) -> BoolArray:
        """Whether the first argmax is the label."""
        return self.pred == self.y

    @property
    def likelihood(self) -> FloatArray:
        """p_y of each row."""
        return _take_columns(self.probs, self.y)

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """Log p_y of each row, -inf where p_y is 0; from logits if present."""
        if self.logits is not None:
            return _take_columns(geometry.log_probs(self.logits), self.y)
        with np.errstate(divide="ignore"):
            return np.log(self.likelihood)


def _take_columns(matrix: FloatArray, column: IntArray) -> FloatArray:
    """Entry of each row in its column; flat indices are faster than pairs."""
    return matrix.take(column + np.arange(0, matrix.size, matrix.shape[1]))


def checked_rows(probs: Any, y: Any, *, sample_weight: Any = None) -> Rows:
    """Rows from probabilities, labels or votes, and weights of equal length; raises `InputError`."""
    return rows_of(as_probs(probs), y, sample_weight)


def rows_of(probs: FloatArray, y: Any, sample_weight: Any = None, logits: FloatArray | None = None) -> Rows:
    """Rows from checked probabilities or logits, and labels (n,) or votes (n, C), which are checked."""
    weight = checked_weight(sample_weight, len(probs))
    if is_votes(y):
        return Rows.from_votes(probs, as_votes(y, probs.shape[1], rows=len(probs)), weight, logits)
    return Rows(probs, as_labels(y, probs.shape[1], rows=len(probs)), weight, logits)


def checked_weight(sample_weight: Any, rows: int) -> FloatArray | None:
    """Row weights as float64, or ``None``; raises `InputError`."""
    return None if sample_weight is None else as_sample_weight(sample_weight, rows=rows)


def confusion_counts(pred: IntArray, y: IntArray, num_classes: int, sample_weight: Any = None) -> FloatArray:
    """Weighted counts of (label, prediction) in checked arrays, shape (C, C)."""
    counts = np.bincount(confusion_cells(pred, y, num_classes), weights=sample_weight, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes).astype(np.float64)


def confusion_cells(pred: IntArray, y: IntArray, num_classes: int) -> IntArray:
    """Flat index of each row in the (C, C) matrix of (label, prediction)."""
    return y * num_classes + pred
