"""Votes: how many raters gave each grade to each case, or which share of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import SUM_TOLERANCE, FloatArray, IntArray, as_array, as_codes, as_matrix, read_only

Targets = npt.NDArray[Any]  # checked labels of shape (n,), or checked votes of shape (n, C)
_TIE_TOLERANCE = 1e-9  # shares are rounded: numbers of votes that differ by less are equal
MIN_MULTILABEL_CASES = 20
_NOT_MULTILABEL = "A 0/1 matrix of labels of which several can hold for a row (multilabel) is not votes."
MIN_RATERS = 5  # with fewer, raters are not resampled: the intervals hold for these raters
NOT_RATED = -1  # entry of `Ratings.codes` where a rater did not grade a case


def is_votes(y: Any) -> bool:
    """Return whether labels are votes of shape (n, C), not one label per row.

    Example:
        >>> is_votes([[3, 0, 1]]), is_votes([0, 2])
        (True, False)
    """
    if y is None:
        return False
    if hasattr(y, "ndim"):
        return bool(y.ndim == 2)
    return as_array(y, "y").ndim == 2


def as_votes(y: Any, num_classes: int, *, rows: int | None = None, name: str = "y") -> FloatArray:
    """Convert votes to a checked float64 array of shape (n, C).

    Whole numbers are counts of votes. Other rows are shares, which must sum to 1 (within 1e-3) and are normalised. The
    two are not mixed, because the number of raters behind a share is unknown.

    Raises:
        InputError: if the shape is wrong, an entry is negative, not finite or a boolean, a case has no vote, or shares
            do not sum to 1.

    Example:
        >>> as_votes([[3, 0, 1], [0, 2, 0]], 3).tolist()
        [[3.0, 0.0, 1.0], [0.0, 2.0, 0.0]]
    """
    if as_array(y, name).dtype == np.bool_:
        raise InputError(
            f"{name}: booleans are not votes; expected counts or shares. Labels of which several can hold for a row "
            "(multilabel) are not supported; of one-hot columns pass the column of labels."
        )
    votes = as_matrix(y, name=name)
    if votes.shape[1] != num_classes:
        raise InputError(f"{name}: votes have {votes.shape[1]} columns, expected {num_classes}, one per class.")
    if rows is not None and len(votes) != rows:
        raise InputError(f"{name}: votes of {len(votes)} cases for {rows} rows; expected one row of votes per case.")
    if votes.min() < 0:
        row, column = (int(i) for i in np.argwhere(votes < 0)[0])
        raise InputError(f"{name}: row {row} has {votes[row, column]:g} votes for class {column}, expected 0 or more.")
    totals = votes.sum(axis=1)
    if not totals.all():
        row = int(np.argmin(totals))
        hint = f" {_NOT_MULTILABEL}" if votes.max() <= 1 else ""
        raise InputError(
            f"{name}: row {row} has no vote; expected at least one vote per case. Leave such cases out.{hint}"
        )
    check_votes(votes, name=name)
    return read_only(votes if is_counts(votes) else votes / totals[:, None])


def multilabel_warning(votes: FloatArray) -> str:
    """Return a warning if checked votes look like a 0/1 matrix of labels of which several can hold; else "".

    One such row cannot be told from the votes of raters who disagree. But raters sometimes agree, so the warning is
    given if there are 20 cases or more with several votes, and no two votes agree in any of them.

    Example:
        >>> multilabel_warning(np.array([[1.0, 1.0, 0.0]] * 20))[:58]
        'no two votes agree in any of the 20 cases with several vot'
        >>> multilabel_warning(np.array([[1.0, 1.0, 0.0]] * 20 + [[2.0, 0.0, 0.0]]))
        ''
    """
    several = int((votes.sum(axis=1) > 1.5).sum())  # shares sum to 1
    if several < MIN_MULTILABEL_CASES or votes.max() > 1:
        return ""
    return f"no two votes agree in any of the {several:,} cases with several votes. {_NOT_MULTILABEL}"


def check_votes(votes: FloatArray, *, name: str = "y") -> None:
    """Raise `InputError` unless all rows are whole counts, or all are shares that sum to 1 (within 1e-3)."""
    totals = votes.sum(axis=1)
    off = np.abs(totals - 1) > SUM_TOLERANCE
    if off.any() and not is_counts(votes):
        row = int(np.argmax(off))
        raise InputError(
            f"{name}: row {row} sums to {totals[row]:.6g}, expected shares that sum to 1 in every row, or whole counts "
            "of votes in every row."
        )


def is_counts(votes: FloatArray) -> bool:
    """Return whether checked votes are counts, so that the number of raters of each case is known."""
    return bool((votes == np.rint(votes)).all())


def label_shares(votes: FloatArray) -> FloatArray:
    """Share of each grade among the votes of a case, shape (n, C).

    Example:
        >>> label_shares(np.array([[3.0, 0.0, 1.0]]))
        array([[0.75, 0.  , 0.25]])
    """
    return votes / votes.sum(axis=1, keepdims=True)


class ExpandedVotes(NamedTuple):
    """One row for each grade that a case received."""

    case: IntArray  # index of the case, shape (m,)
    label: IntArray  # grade, shape (m,)
    weight: FloatArray  # share of the votes of the case, shape (m,); the shares of a case sum to 1


def expand_votes(votes: FloatArray) -> ExpandedVotes:
    """Expand votes to weighted rows: a mean over them is a mean over cases of the expectation over a random vote.

    Example:
        >>> expand_votes(np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0]]))
        ExpandedVotes(case=array([0, 0, 1]), label=array([0, 2, 1]), weight=array([0.75, 0.25, 1.  ]))
    """
    case, label = np.nonzero(votes)
    return ExpandedVotes(case, label, label_shares(votes)[case, label])


def median_votes(votes: FloatArray) -> IntArray:
    """Class of the median vote of each case, the lower one of two, shape (n,).

    Example:
        >>> median_votes(np.array([[1.0, 0.0, 2.0], [0.5, 0.5, 0.0]])).tolist()
        [2, 0]
    """
    cumulative = votes.cumsum(axis=1)
    half = cumulative[:, -1:] / 2
    return (cumulative < half * (1 - _TIE_TOLERANCE)).sum(axis=1)  # shares of 1/2 may be off by rounding


def majority_grade(votes: FloatArray) -> IntArray:
    """Grade with the most votes of each case, shape (n,).

    Of tied grades it is the one nearest to the lower median of the votes, and the lower of two that are equally near.

    Example:
        >>> majority_grade(np.array([[1.0, 3.0, 0.0], [2.0, 0.0, 2.0], [1.0, 1.0, 1.0]])).tolist()
        [1, 0, 1]
    """
    median = (np.cumsum(label_shares(votes), axis=1) < 0.5 - _TIE_TOLERANCE).sum(axis=1)
    is_top = votes >= votes.max(axis=1, keepdims=True) * (1 - _TIE_TOLERANCE)
    distance = np.abs(np.arange(votes.shape[1]) - median[:, None])
    grades: IntArray = np.where(is_top, distance, votes.shape[1]).argmin(axis=1)
    return grades


def grades(y: Targets) -> IntArray:
    """One grade per case, shape (n,): checked labels as they are, the majority grade of votes; to stratify folds."""
    return y if y.ndim == 1 else majority_grade(y)


class WeightedRows(NamedTuple):
    """Rows whose weighted mean is the mean over cases: those of labels, or the expanded rows of votes."""

    case: Any  # rows of the cases: indices of shape (m,), or all as a slice
    label: IntArray  # shape (m,)
    weight: Any  # shape (m,); ``None`` if all are 1


def weighted_rows(y: Targets, sample_weight: FloatArray | None = None) -> WeightedRows:
    """Rows to fit or score on: labels of shape (n,) stay one row each, votes of shape (n, C) are expanded.

    Example:
        >>> weighted_rows(np.array([0, 2]))
        WeightedRows(case=slice(None, None, None), label=array([0, 2]), weight=None)
        >>> weighted_rows(np.array([[0.75, 0.0, 0.25]]), np.array([2.0]))
        WeightedRows(case=array([0, 0]), label=array([0, 2]), weight=array([1.5, 0.5]))
    """
    if y.ndim == 1:
        return WeightedRows(slice(None), y, sample_weight)
    case, label, share = expand_votes(y.astype(np.float64))
    return WeightedRows(case, label, share if sample_weight is None else share * sample_weight[case])


def loss_targets(y: Targets) -> Targets:
    """Labels as they are; votes as label distributions in float32, the type of the logits of a network.

    Example:
        >>> loss_targets(np.array([[3.0, 1.0]])).tolist()
        [[0.75, 0.25]]
    """
    return y if y.ndim == 1 else label_shares(y).astype(np.float32)


@dataclass(frozen=True)
class Ratings:
    """The grade of each rater for each case.

    Attributes:
        codes: class index that rater r gave to case i, -1 where there is none, shape (n, R).
        raters: names of the raters, R in number.
        num_classes: number of classes, C.

    Example:
        >>> ratings = Ratings(np.array([[0, 1], [2, -1]]), ("ann", "bob"), 3)
        >>> ratings.counts.tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    codes: IntArray
    raters: tuple[str, ...]
    num_classes: int

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        if codes.ndim != 2 or codes.shape[1] != len(self.raters) or not np.issubdtype(codes.dtype, np.integer):
            raise InputError(
                f"codes: expected integers of shape (n, {len(self.raters)}), one column per rater, got {codes.dtype} "
                f"of shape {codes.shape}."
            )
        if len(set(self.raters)) < len(self.raters):
            raise InputError("raters: expected a different name for each rater, got a name twice.")
        outside = (codes < NOT_RATED) | (codes >= self.num_classes)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            raise InputError(
                f"codes: case {row}, rater {self.raters[column]!r} has {codes[row, column]}, expected a class from 0 "
                f"to {self.num_classes - 1}, or {NOT_RATED} where there is no grade."
            )

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, cases: Any) -> "Ratings":
        return Ratings(self.codes[cases], self.raters, self.num_classes)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of votes for each class, shape (n, C)."""
        case, rater = np.nonzero(self.codes != NOT_RATED)
        cells = case * self.num_classes + self.codes[case, rater]
        counts = np.bincount(cells, minlength=len(self) * self.num_classes)
        return counts.reshape(len(self), self.num_classes).astype(np.float64)

    @classmethod
    def from_long(cls, case: Any, rater: Any, codes: Any, num_classes: int) -> tuple["Ratings", IntArray]:
        """Ratings from a long table with one row per grade.

        Returns the ratings, whose cases are in order of first appearance, and the first row of each case.

        Args:
            case: case of each row, shape (m,).
            rater: rater of each row, shape (m,).
            codes: class index of each row, shape (m,).
            num_classes: number of classes, C.

        Raises:
            InputError: if a rater graded a case twice, or a value is missing.

        Example:
            >>> ratings, first = Ratings.from_long(["a", "b", "a"], ["ann", "ann", "bob"], [0, 2, 1], 3)
            >>> ratings.codes.tolist(), ratings.raters, first.tolist()
            ([[0, 1], [2, -1]], ('ann', 'bob'), [0, 1])
        """
        codes = np.asarray(codes, dtype=np.int64)
        case_index = as_codes(case, rows=len(codes), name="case")
        rater_index = as_codes(rater, rows=len(codes), name="rater")
        raters, first_of_rater = np.unique(rater_index, return_index=True)
        first = np.unique(case_index, return_index=True)[1]
        cells = case_index * len(raters) + rater_index
        if len(np.unique(cells)) < len(cells):
            order = np.argsort(cells, kind="stable")
            again = int(order[1:][np.diff(cells[order]) == 0].min())
            earlier = int(np.flatnonzero(cells == cells[again])[0])
            raise InputError(
                f"rater: {as_array(rater, 'rater')[again]!s} graded the case {as_array(case, 'case')[again]!s} in rows "
                f"{earlier} and {again}; expected one grade of a rater per case. Remove one of them, or name them as "
                "different raters if they are separate opinions."
            )
        matrix = np.full((len(first), len(raters)), NOT_RATED)
        matrix[case_index, rater_index] = codes
        names = as_array(rater, "rater")[first_of_rater]
        return cls(matrix, tuple(str(name) for name in names), num_classes), first


def raters_are_resampled(ratings: Ratings) -> bool:
    """Return whether there are enough raters, each with several cases, for intervals that hold for new raters too."""
    cases = (ratings.codes != NOT_RATED).sum(axis=0)
    return len(ratings.raters) >= MIN_RATERS and bool((cases >= 2).sum() >= MIN_RATERS)
