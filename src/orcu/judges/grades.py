"""Grades of judges and people for the same items, as one immutable value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_codes, cell_text, normalise_probs
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import AmbiguousReply, ParsedLog, ParseFailure
from orcu.predictions.labels import is_missing
from orcu.raters.votes import label_shares

PROBS, VOTES = "probs", "votes"
BLANK = "(blank)"  # subgroup, or entry of a bias column, of items whose cell is empty
SUM_TOLERANCE = 0.5e-4  # rounding error of a printed probability


@dataclass(frozen=True)
class HumanGrade:
    """A human grade of an item, or the mean of several."""

    item: str
    shares: FloatArray  # of the grades, shape (C,)
    count: int = 1  # number of people
    rater: str | None = None
    where: str = ""  # location in the table, for messages
    is_mean: bool = False


@dataclass(frozen=True)
class RatingRows:
    """Single ratings, and the columns on which the error of a judge may depend. Items are names, so it is not sliced.

    A column has numbers (NaN where there is none) or texts. It may differ between the ratings of an item, as the
    position of an answer does.
    """

    item: ObjectArray  # shape (m,)
    judge: ObjectArray  # shape (m,)
    expected: FloatArray  # expected grade of the rating, shape (m,)
    columns: Mapping[str, FloatArray | ObjectArray]  # each of shape (m,)


@dataclass(frozen=True, repr=False)
class Grades:
    """Ratings of judges and grades of people for the same items. Immutable.

    Attributes:
        levels: grade levels.
        items: unique item names, shape (n,).
        kind: content of the ratings: "probs" (distributions) or "votes" (counts of grades).
        ratings: ratings by judge, each of shape (n, C); a row of NaN if the judge did not rate the item.
        human: shares of the grades given by people, shape (n, C); a row of NaN if there is none.
        n_raters: number of human grades of each item, shape (n,).
        subgroup: subgroup of each item, or ``None``.
        cluster: cluster of each item, such as its prompt, or ``None``.
        system: system that produced each item, or ``None``.
        has_mean_grades: whether some human grades are means, so that the spread among people is unknown.
        rating_rows: single ratings with the columns of the bias audit, or ``None`` without such columns.
        failures: replies that could not be parsed.
        ambiguous: replies in which other candidates than the grade used may be the grade.
        notes: remarks about the data.

    Example:
        >>> grades = Grades.from_arrays("1..3", {"gpt": [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]}, human=[3, None])
        >>> grades
        Grades(items=2, judges=['gpt'], levels='1, 2, 3', kind='probs', items_with_human_grade=1)
        >>> grades.human_mask.tolist(), grades.expected_grade("gpt").round(2).tolist()
        ([True, False], [2.6, 1.5])
    """

    levels: GradeLevels
    items: ObjectArray
    kind: str
    ratings: dict[str, FloatArray]
    human: FloatArray
    n_raters: IntArray
    subgroup: ObjectArray | None = None
    cluster: ObjectArray | None = None
    system: ObjectArray | None = None
    has_mean_grades: bool = False
    rating_rows: RatingRows | None = None
    failures: tuple[ParseFailure, ...] = ()
    ambiguous: tuple[AmbiguousReply, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        levels: str | Sequence[Any] | GradeLevels,
        ratings: dict[str, Any],
        *,
        kind: str = PROBS,
        human: Any = None,
        items: Sequence[Any] | None = None,
        subgroup: Sequence[Any] | None = None,
        cluster: Sequence[Any] | None = None,
        system: Sequence[Any] | None = None,
        bias: Mapping[str, Sequence[Any]] | None = None,
    ) -> "Grades":
        """Create grades from arrays.

        Args:
            levels: grade levels, as for `GradeLevels.parse`.
            ratings: probabilities or votes by judge, each of shape (n, C).
            kind: "probs" or "votes".
            human: one grade per item, ``None`` for items without one; or shares of grades, shape (n, C).
            items: item names; by default 1, 2, ...
            subgroup: subgroup of each item.
            cluster: cluster of each item.
            system: system of each item.
            bias: columns on which the error of a judge may depend, with numbers or texts for each item. ``audit``
                tests them.

        Raises:
            InputError: if shapes, probabilities, votes or grades are invalid.
        """
        levels = GradeLevels.parse(levels)
        if not ratings:
            raise InputError("ratings: expected at least one judge.")
        arrays = {str(judge): _check_ratings(values, levels, kind, str(judge)) for judge, values in ratings.items()}
        if len(arrays) < len(ratings):
            raise InputError(f"ratings: two judges have the same name as text; got {', '.join(map(repr, ratings))}.")
        rows = len(next(iter(arrays.values())))
        if any(len(values) != rows for values in arrays.values()):
            raise InputError("ratings: the judges have different numbers of rows; use NaN for items without a rating.")
        names = np.array(as_names(range(1, rows + 1) if items is None else items, "items"), dtype=object)
        if len(names) != rows or len(set(names.tolist())) < rows:
            raise InputError(f"items: expected {rows} unique names.")
        columns: dict[str, Any] = {"subgroup": subgroup, "cluster": cluster, "system": system}
        for name, column in columns.items():
            if column is not None and len(column) != rows:
                raise InputError(f"{name}: expected one entry for each of {rows} items, got {len(column)}.")
            columns[name] = None if column is None else np.array(as_names(column, name), dtype=object)
        grades = cls.from_ratings(levels, names, kind, arrays, **columns)
        if bias:
            grades = grades.with_bias_columns(names.tolist(), {name: bias_column(bias[name], name) for name in bias})
        return grades if human is None else grades.with_human_grades(_human_grades(human, names, levels))

    @classmethod
    def from_ratings(
        cls, levels: GradeLevels, items: ObjectArray, kind: str, ratings: dict[str, FloatArray], **fields: Any
    ) -> "Grades":
        """Create grades without human grades from validated arrays."""
        human, n_raters = np.full((len(items), len(levels)), np.nan), np.zeros(len(items), dtype=np.int64)
        return cls(levels, items, kind, ratings, human, n_raters, **fields)

    @classmethod
    def from_log(cls, levels: GradeLevels, log: ParsedLog) -> "Grades":
        """Create grades from parsed replies; several replies of a judge about an item are averaged or counted."""
        kinds = {PROBS if reply.probs is not None else VOTES for reply in log.replies}
        if len(kinds) != 1:
            raise InputError("replies: expected one or more, either all with probabilities or all without.")
        eye, (kind,) = np.eye(len(levels)), kinds
        rows = ((r.item, r.judge, eye[r.grade] if r.probs is None else r.probs) for r in log.replies)
        grades = cls.from_rows(levels, kind, rows, [*([log.source] if log.source else []), *log.notes])
        unparsed = [f"{len(log.failures):,} replies could not be parsed"] if log.failures else []
        notes = (*grades.notes, *unparsed)
        grades = replace(grades, failures=tuple(log.failures), ambiguous=tuple(log.ambiguous), notes=notes)
        human = [
            HumanGrade(reply.item, shares, rater=reply.judge, where="the log", is_mean=bool(shares.max() < 1))
            for reply in log.human
            for shares in [eye[reply.grade] if reply.probs is None else reply.probs]
        ]
        return grades.with_human_grades(human) if human else grades

    @classmethod
    def from_rows(
        cls, levels: GradeLevels, kind: str, rows: Iterable[tuple[str, str, FloatArray]], notes: Iterable[str]
    ) -> "Grades":
        """Create grades from items, judges and values; votes of an item and a judge are summed, probs averaged."""
        row_of: dict[str, int] = {}
        cells: dict[str, dict[int, list[FloatArray]]] = {}
        for item, judge, values in rows:
            row = row_of.setdefault(item, len(row_of))
            cells.setdefault(judge, {}).setdefault(row, []).append(values)
        ratings, repeated = {}, 0
        for judge, by_row in cells.items():
            ratings[judge] = np.full((len(row_of), len(levels)), np.nan)
            for row, samples in by_row.items():
                ratings[judge][row] = np.sum(samples, axis=0) if kind == VOTES else np.mean(samples, axis=0)
                repeated += len(samples) > 1
        combined = f"{repeated:,} items have several samples of the same judge; they are combined"
        notes = (*notes, combined) if repeated else tuple(notes)
        return cls.from_ratings(levels, np.array(list(row_of), dtype=object), kind, ratings, notes=notes)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return (
            f"Grades(items={len(self)}, judges={self.judges}, levels='{self.levels}', kind={self.kind!r}, "
            f"items_with_human_grade={int(self.human_mask.sum())})"
        )

    def __getitem__(self, rows: Any) -> "Grades":
        """Select items by a mask or by indices."""
        selected: dict[str, Any] = {"ratings": {judge: values[rows] for judge, values in self.ratings.items()}}
        for name in ("items", "human", "n_raters", "subgroup", "cluster", "system"):
            column = getattr(self, name)
            selected[name] = None if column is None else column[rows]
        return replace(self, **selected)

    @property
    def judges(self) -> list[str]:
        """Names of the judges."""
        return list(self.ratings)

    @property
    def human_mask(self) -> npt.NDArray[np.bool_]:
        """Mask of the items with a human grade, shape (n,)."""
        return self.n_raters > 0

    def rated_mask(self, judge: str) -> npt.NDArray[np.bool_]:
        """Mask of the items that a judge rated, shape (n,)."""
        return ~np.isnan(self.ratings[judge][:, 0])

    def any_rated(self, judges: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Mask of the items that at least one of the judges rated, shape (n,)."""
        return np.asarray(np.any([self.rated_mask(judge) for judge in judges], axis=0))

    def all_rated(self, judges: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Mask of the items that all of the judges rated, shape (n,)."""
        return np.asarray(np.all([self.rated_mask(judge) for judge in judges], axis=0))

    def shares(self, judge: str) -> FloatArray:
        """Ratings of a judge as distributions: probabilities, or relative frequencies of votes, shape (n, C)."""
        ratings = self.ratings[judge]
        return label_shares(ratings)

    def expected_grade(self, judge: str) -> FloatArray:
        """Expected grade by a judge's ratings, in the values of the levels, shape (n,)."""
        ratings = self.ratings[judge]
        return (ratings @ self.levels.values) / ratings.sum(axis=1)

    def cluster_codes(self) -> IntArray:
        """Cluster index of each item, shape (n,); without clusters every item is its own cluster."""
        return np.arange(len(self)) if self.cluster is None else as_codes(self.cluster, rows=len(self), name="cluster")

    @property
    def human_mean(self) -> FloatArray:
        """Mean human grade in the values of the levels, shape (n,); NaN for items without one."""
        return self.human @ self.levels.values

    def correlation_with_people(self, judge: str) -> tuple[float, int]:
        """Correlation of a judge's expected grades with the mean human grades, and the number of clusters in it.

        It is 0 if one of the two is constant.

        Example:
            >>> grades = Grades.from_arrays("0..1", {"gpt": [[1, 0], [0, 1], [0.5, 0.5]]}, human=[1, 0, None])
            >>> correlation, n_clusters = grades.correlation_with_people("gpt")
            >>> round(correlation, 9), n_clusters
            (-1.0, 2)
        """
        used = self[self.human_mask & self.rated_mask(judge)]
        expected, human = used.expected_grade(judge), used.human_mean
        if len(used) < 2 or min(np.ptp(expected), np.ptp(human)) < 1e-9:
            return 0.0, len(used)
        return float(np.corrcoef(expected, human)[0, 1]), len(set(used.cluster_codes().tolist()))

    def average_judges(self) -> "Grades":
        """Combine all judges into one: the mean of their distributions, or the sum of their votes.

        Example:
            >>> ratings = {"gpt": [[0.8, 0.2]], "phi": [[0.2, 0.8]]}
            >>> Grades.from_arrays("0..1", ratings).average_judges().ratings
            {'gpt and phi': array([[0.5, 0.5]])}
        """
        ratings = np.stack(list(self.ratings.values()))
        total = np.where(np.isnan(ratings).all(axis=0), np.nan, np.nansum(ratings, axis=0))
        if self.kind == PROBS:
            total = total / np.maximum((~np.isnan(ratings)).sum(axis=0), 1)
        names = self.judges if len(self.ratings) <= 3 else [f"{len(self.ratings)} judges"]
        return replace(self, ratings={" and ".join(names): total})

    def with_bias_columns(self, items: Sequence[str], columns: Mapping[str, FloatArray | ObjectArray]) -> "Grades":
        """Add columns on which the error of a judge may depend, one entry for each of the items.

        Raises:
            InputError: if a column has another number of entries, or an item occurs twice.
        """
        for name, column in columns.items():
            if len(column) != len(items):
                raise InputError(f"{name}: expected one entry for each of {len(items)} items, got {len(column)}.")
        row_of = {item: row for row, item in enumerate(items)}
        if len(row_of) < len(items):
            raise InputError("bias: an item has several rows; expected one row for each item.")
        used = [
            (row, judge, row_of[item])
            for judge in self.judges
            for row, item in enumerate(self.items.tolist())
            if item in row_of and self.rated_mask(judge)[row]
        ]
        rows = np.array([source for _, _, source in used], dtype=np.intp)
        expected = {judge: self.expected_grade(judge) for judge in self.judges}
        rating_rows = RatingRows(
            np.array([self.items[row] for row, _, _ in used], dtype=object),
            np.array([judge for _, judge, _ in used], dtype=object),
            np.array([expected[judge][row] for row, judge, _ in used]),
            {name: column[rows] for name, column in columns.items()},
        )
        return replace(self, rating_rows=rating_rows)

    def with_human_grades(self, human: list[HumanGrade]) -> "Grades":
        """Add human grades; grades of items that no judge rated are counted in the notes.

        Raises:
            InputError: if no grade is of a rated item, or two grades of the same person differ.
        """
        row_of = {item: row for row, item in enumerate(self.items.tolist())}
        shares, counts = np.zeros(self.human.shape), np.zeros(len(self), dtype=np.int64)
        unmatched = []
        for grade in _deduplicate(human):
            row = row_of.get(grade.item)
            if row is None:
                unmatched.append(grade.item)
                continue
            shares[row] += grade.count * grade.shares
            counts[row] += grade.count
        if not counts.any():
            example = repr(unmatched[0]) if unmatched else "none"
            raise InputError(
                f"item: no human grade is of a rated item. First item with a human grade: {example}; first rated item: "
                f"{self.items[0]!r}. Use the same item column (--item) in both tables."
            )
        notes = list(self.notes)
        if unmatched:
            notes.append(f"{len(unmatched):,} human grades are of items without a rating, such as {unmatched[0]!r}")
        if (counts == 0).any():
            notes.append(f"{int((counts == 0).sum()):,} of {len(self):,} items have no human grade")
        shares[counts == 0] = np.nan
        shares[counts > 0] /= counts[counts > 0, None]
        has_mean_grades = any(grade.is_mean for grade in human)
        return replace(self, human=shares, n_raters=counts, has_mean_grades=has_mean_grades, notes=tuple(notes))


def as_names(values: Iterable[Any], where: str, *, first_row: int = 0) -> list[str]:
    """Names of items, judges, systems, subgroups or clusters as texts without surrounding blanks.

    A text is unchanged, so that "01" is not "1" and "1.10" not "1.1".

    Raises:
        InputError: if a name is missing, or a float too large to be an exact integer.
    """
    names = []
    for row, value in enumerate(values, start=first_row):
        if is_missing(value):
            raise InputError(f"{where}: row {row} is empty; every row needs a name.")
        if isinstance(value, list | tuple | dict | bytes):
            raise InputError(f"{where}: row {row} has {value!r}, expected a text or a number.")
        if isinstance(value, float) and abs(value) >= 2**53:
            raise InputError(
                f"{where}: row {row} has {value!r}, a float that has lost digits. Read this column as text."
            )
        names.append(cell_text(value))
    return names


def bias_column(values: Sequence[Any], name: str) -> FloatArray | ObjectArray:
    """Entries of a column as numbers if all are numbers or missing, and otherwise as texts.

    Raises:
        InputError: if a number is not finite.

    Example:
        >>> bias_column(["3", None, 4.5], "words"), bias_column(["en", None], "language")
        (array([3. , nan, 4.5]), array(['en', '(blank)'], dtype=object))
    """
    cells = [None if is_missing(value) else value for value in values]
    try:
        if any(isinstance(cell, bool | np.bool_) or "_" in str(cell) for cell in cells):  # Python reads 4_6 as 46
            raise ValueError
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
    except (TypeError, ValueError):
        return np.array([BLANK if cell is None else cell_text(cell) for cell in cells], dtype=object)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(f"{name}: row {row} has {values[row]!r}, expected a finite number.")
    return numbers


def _check_ratings(values: Any, levels: GradeLevels, kind: str, judge: str) -> FloatArray:
    """Ratings of a judge with validated rows: probabilities that sum to 1, or counts."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(levels):
        raise InputError(f"{judge}: expected shape (n, {len(levels)}) for the levels {levels}; got {array.shape}.")
    is_rated = ~np.isnan(array).all(axis=1)
    rated = array[is_rated]
    if not len(rated):
        raise InputError(f"{judge}: no item has a rating; leave this judge out.")
    if kind == PROBS:
        array[is_rated] = normalise_probs(rated, rounding=SUM_TOLERANCE, name=judge, first_row=0)[0]
    elif kind != VOTES:
        raise InputError(f"kind: expected 'probs' or 'votes', got {kind!r}.")
    else:
        invalid = ~(np.isfinite(rated) & (rated >= 0)).all(axis=1) | (np.nansum(rated, axis=1) == 0)
        if invalid.any():
            row = int(np.flatnonzero(is_rated)[np.argmax(invalid)])
            raise InputError(f"{judge}: row {row} has votes {array[row].tolist()}; expected counts with a sum above 0.")
    return array


def _human_grades(human: Any, items: ObjectArray, levels: GradeLevels) -> list[HumanGrade]:
    """Human grades from a list with missing entries, or from shares of grades."""
    if np.ndim(human) == 2:
        shares = np.array(human, dtype=np.float64)
        if shares.shape != (len(items), len(levels)):
            raise InputError(f"human: expected shares of shape ({len(items)}, {len(levels)}); got {shares.shape}.")
        has_grade = np.asarray(~np.isnan(shares).any(axis=1))
        shares[has_grade] = normalise_probs(shares[has_grade], rounding=SUM_TOLERANCE, name="human", first_row=0)[0]
        return [HumanGrade(items[row], shares[row]) for row in np.flatnonzero(has_grade)]
    if len(human) != len(items):
        raise InputError(f"human: expected a grade for each of {len(items)} items, got {len(human)}.")
    eye = np.eye(len(levels))
    return [
        HumanGrade(item, eye[levels.require_code(value, f"human: row {row}")])
        for row, (item, value) in enumerate(zip(items, human, strict=True))
        if not is_missing(value)
    ]


def _deduplicate(human: list[HumanGrade]) -> list[HumanGrade]:
    """One grade per item and person; equal grades in several rows count once, different ones are an error."""
    first: dict[tuple[str, str | None], HumanGrade] = {}
    for grade in human:
        earlier = first.setdefault((grade.item, grade.rater), grade)
        if not np.array_equal(earlier.shares, grade.shares) or earlier.count != grade.count:
            rater = "" if grade.rater is None else f" by rater {grade.rater!r}"
            raise InputError(
                f"{grade.where}: item {grade.item!r} has two different human grades{rater}. Name the column of raters "
                "with rater= (--rater), or remove one of the grades."
            )
    return list(first.values())
