"""Grades of several raters in files: columns of raters, columns of label shares, or a long table of grades."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import BoolArray, FloatArray, IntArray, ObjectArray, cell_text
from orcu.io.reading import open_table
from orcu.predictions.columns import missing_column_message
from orcu.predictions.labels import canonical_label, is_missing, is_null, label_codes
from orcu.raters.votes import NOT_RATED, Ratings


@dataclass(frozen=True)
class LongRatings:
    """Grades of a long table, found by case."""

    ratings: Ratings
    position: dict[str, int]  # of each case in the ratings

    @classmethod
    def from_columns(
        cls,
        cases: Sequence[Any],
        raters: Sequence[Any],
        grades: Sequence[Any],
        classes: tuple[str, ...],
        *,
        explicit_order: bool,
        names: tuple[str, str, str] = ("case", "rater", "label"),
    ) -> "LongRatings":
        """Grades from three columns; rows without a grade are left out. Rows are counted from 1 in messages."""
        for name, column in (("case", cases), ("rater", raters)):
            empty = next((row for row, value in enumerate(column, start=1) if is_missing(value)), None)
            if empty is not None:
                raise InputError(f"column {names[0 if name == 'case' else 1]!r}: row {empty} has no {name}.")
        codes = codes_with_gaps(grades, classes, explicit_order=explicit_order, first_row=1, name=names[2])
        graded = np.flatnonzero(codes >= 0).tolist()
        if not graded:
            raise InputError(f"column {names[2]!r}: no row has a grade.")
        texts = [cell_text(value) for value in cases]
        chosen = [texts[row] for row in graded]
        ratings, first = Ratings.from_long(
            np.array(chosen, dtype=object),
            np.array([cell_text(raters[row]) for row in graded], dtype=object),
            codes[graded],
            len(classes),
        )
        return cls(ratings, {chosen[row]: position for position, row in enumerate(first.tolist())})

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        classes: tuple[str, ...],
        *,
        case: str,
        rater: str,
        label: str,
        explicit_order: bool,
    ) -> "LongRatings":
        """Grades of a .csv or .parquet file."""
        table = open_table(path)
        for column, role in ((case, "case"), (rater, "rater"), (label, "label")):
            if column not in table.names:
                raise InputError(missing_column_message(column, list(table.names), table.path.name, role))
        columns: list[list[Any]] = [[], [], []]
        for batch in table.batches([case, rater, label]):
            for cells, name in zip(columns, (case, rater, label), strict=True):
                cells += batch.column(batch.schema.names.index(name)).to_pylist()
        try:
            return cls.from_columns(
                columns[0], columns[1], columns[2], classes, explicit_order=explicit_order, names=(case, rater, label)
            )
        except InputError as error:
            raise InputError(f"{table.path.name}: {error}") from None

    def codes_of(self, ids: ObjectArray) -> IntArray:
        """Grades of the cases with these ids, -1 where there is none, shape (n, R)."""
        codes = np.full((len(ids), len(self.ratings.raters)), NOT_RATED)
        positions = [self.position.get(cell_text(value), -1) for value in ids.tolist()]
        graded = np.array(positions) >= 0
        codes[graded] = self.ratings.codes[[position for position in positions if position >= 0]]
        return codes


def codes_with_gaps(
    cells: Sequence[Any], classes: tuple[str, ...], *, explicit_order: bool, first_row: int, name: str
) -> IntArray:
    """Class index of each cell, -1 where it is empty, shape (n,).

    Example:
        >>> codes_with_gaps(
        ...     ["low", "", None, "high"], ("low", "high"), explicit_order=True, first_row=1, name="r_1"
        ... )
        array([ 0, -1, -1,  1])
    """
    empty = np.array([is_null(v) or (is_missing(v) and canonical_label(v) not in classes) for v in cells], dtype=bool)
    codes = np.full(len(cells), NOT_RATED)
    if empty.all():
        return codes
    # An empty cell gets a grade of the column, so that rows keep their numbers in messages; it is removed below.
    some = cells[int(np.argmin(empty))]
    filled = np.array([some if gap else value for value, gap in zip(cells, empty, strict=True)], dtype=object)
    filled_codes, _ = label_codes(filled, classes, explicit_order=explicit_order, first_row=first_row, name=name)
    return np.where(empty, NOT_RATED, filled_codes)


def read_rater_columns(
    batch: Any, columns: Sequence[str], classes: tuple[str, ...], *, explicit_order: bool, first_row: int
) -> IntArray:
    """Grades in the columns of a record batch, one per rater, -1 where a cell is empty, shape (n, R)."""
    codes = [
        codes_with_gaps(
            batch.column(column).to_pylist(), classes, explicit_order=explicit_order, first_row=first_row, name=column
        )
        for column in columns
    ]
    return np.stack(codes, axis=1)


def read_share_columns(
    batch: Any, columns: Sequence[str], read_numbers: Callable[[Any, str, int], FloatArray], first_row: int
) -> FloatArray:
    """Counts or shares of votes in the columns of a record batch, shape (n, C); rows of empty cells are all 0."""
    cells = [batch.column(column).to_pylist() for column in columns]
    empty = np.array([[is_missing(value) for value in column] for column in cells], dtype=bool)
    partly = empty.any(axis=0) & ~empty.all(axis=0)
    if partly.any():
        row = int(np.argmax(partly))
        column = columns[int(np.argmax(empty[:, row]))]
        raise InputError(
            f"column {column!r}: row {row + first_row} is empty, but other classes of the row have votes; write 0 for "
            "no votes."
        )
    unvoted: BoolArray = np.asarray(empty.all(axis=0))
    votes = np.zeros((len(unvoted), len(columns)))
    if not unvoted.all():
        import pyarrow

        voted = batch.filter(pyarrow.array(~unvoted)) if unvoted.any() else batch
        votes[~unvoted] = np.stack([read_numbers(voted, column, first_row) for column in columns], axis=1)
    return votes


def join_ratings(
    ids: ObjectArray | None, classes: tuple[str, ...], table: Any, *, case: str, rater: str, label: str
) -> tuple[Ratings, int]:
    """Ratings of the cases with these ids from a long table, and the number of its other cases."""
    if ids is None:
        raise InputError("ids: the predictions have no ids, with which the cases of the ratings are matched.")
    options: dict[str, Any] = {"explicit_order": True}
    if isinstance(table, (str, os.PathLike)):
        long = LongRatings.read(table, classes, case=case, rater=rater, label=label, **options)
    else:
        import pyarrow

        frame = table if isinstance(table, pyarrow.Table) else pyarrow.table(table)
        for column, role in ((case, "case"), (rater, "rater"), (label, "label")):
            if column not in frame.column_names:
                raise InputError(missing_column_message(column, frame.column_names, "ratings", role))
        cases, raters, grades = (frame.column(name).to_pylist() for name in (case, rater, label))
        long = LongRatings.from_columns(cases, raters, grades, classes, names=(case, rater, label), **options)
    codes = long.codes_of(ids)
    ungraded = (codes == NOT_RATED).all(axis=1)
    if ungraded.any():
        row = int(np.argmax(ungraded))
        raise InputError(
            f"ratings: the case {ids[row]!s} (row {row}) has no grade ({int(ungraded.sum()):,} of "
            f"{len(codes):,} cases have none). Leave such cases out of the predictions."
        )
    return Ratings(codes, long.ratings.raters, len(classes)), len(long.position) - len(codes)
