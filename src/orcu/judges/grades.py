"""What judges said of items and, where it is known, people: `Grades`, and the tables they are read from.

Nothing is guessed and nothing is dropped in silence: the scale is said by the user or stands in the columns' names, and
whatever cannot be read, or finds no partner, is counted in ``notes``.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray, normalised
from orcu.judges.replies import Reply, Unread
from orcu.judges.scale import Scale
from orcu.predictions.columns import listed, no_column, ordered_classes, value_columns
from orcu.predictions.labels import canonical, is_missing

PROBS, VOTES = "probs", "votes"
NO_PROBS = "If these are counts, say --votes; if they sum to 100, say --percent."
ONLY_JUDGE = "judge"  # what a judge is called that has no name


@dataclass(frozen=True)
class Grades:
    """Items with what each judge said of them, and the grades that people gave. A value: it never changes.

    Attributes:
        scale: the grades, lowest first.
        items: their names, all different, shape (n,).
        kind: what judges said: "probs" (distributions) or "votes" (counts of grades).
        said: by judge, shape (n, C); a row of NaN where the judge said nothing of the item.
        human: shares of the grades that people gave, shape (n, C); a row of NaN where nobody did.
        raters: how many grades of people each item has, shape (n,).
        group: of each item, or ``None``.
        cluster: of each item, such as its prompt: what belongs together; or ``None``.
        system: that made the item, or ``None``.
        has_means: whether some human grades are means of several, so that it is not known how far people differ.
        unread: what could not be read.
        notes: what there is to say about them.

    Example:
        >>> grades = Grades.of("1..3", {"gpt": [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]}, human=[3, None])
        >>> len(grades), grades.graded.tolist(), grades.expected("gpt").round(2).tolist()
        (2, [True, False], [2.6, 1.5])
    """

    scale: Scale
    items: ObjectArray
    kind: str
    said: dict[str, FloatArray]
    human: FloatArray
    raters: IntArray
    group: ObjectArray | None = None
    cluster: ObjectArray | None = None
    system: ObjectArray | None = None
    has_means: bool = False
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls,
        grades: str | Sequence[Any] | Scale,
        said: dict[str, Any],
        *,
        kind: str = PROBS,
        human: Any = None,
        items: Sequence[Any] | None = None,
        **columns: Any,
    ) -> "Grades":
        """From arrays.

        Args:
            grades: the scale, as for `Scale.of`.
            said: by judge, probabilities or votes, shape (n, C).
            kind: "probs" or "votes".
            human: a grade per item, ``None`` where nobody gave one; or shares of grades, shape (n, C).
            items: their names; 1, 2, ... if not given.
            columns: ``group``, ``cluster``, ``system``: one entry per item.

        Raises:
            InputError: if something cannot be used.
        """
        scale = Scale.of(grades)
        if not said:
            raise InputError("said: there is no judge; give at least one.")
        arrays = {str(judge): _checked(values, scale, kind, str(judge)) for judge, values in said.items()}
        rows = len(next(iter(arrays.values())))
        if any(len(values) != rows for values in arrays.values()):
            raise InputError("said: the judges have different numbers of rows; give NaN where one said nothing.")
        names = np.array([canonical(one) for one in (range(1, rows + 1) if items is None else items)], dtype=object)
        if len(names) != rows or len(set(names.tolist())) < rows:
            raise InputError(f"items: expected {rows} different names.")
        whole = cls(scale, names, kind, arrays, np.full((rows, len(scale)), np.nan), np.zeros(rows, dtype=np.int64))
        for name, column in columns.items():
            if name not in ("group", "cluster", "system"):
                raise InputError(f"{name}: expected group=, cluster= or system=.")
            if column is not None and len(column) != rows:
                raise InputError(f"{name}: expected one entry for each of {rows} items.")
        entries: dict[str, Any] = {
            name: None if column is None else np.array([canonical(one) for one in column], dtype=object)
            for name, column in columns.items()
        }
        whole = replace(whole, **entries)
        return whole if human is None else whole.with_humans(_human_rows(human, names, scale))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: Any) -> "Grades":
        """Some of the items: a mask or indices."""
        optional: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[rows]
            for name in ("group", "cluster", "system")
        }
        return replace(
            self,
            items=self.items[rows],
            said={judge: values[rows] for judge, values in self.said.items()},
            human=self.human[rows],
            raters=self.raters[rows],
            **optional,
        )

    @property
    def judges(self) -> list[str]:
        """Their names."""
        return list(self.said)

    @property
    def graded(self) -> npt.NDArray[np.bool_]:
        """Which items people have graded, shape (n,)."""
        return self.raters > 0

    def spoke(self, judge: str) -> npt.NDArray[np.bool_]:
        """Of which items a judge said something, shape (n,)."""
        return ~np.isnan(self.said[judge][:, 0])

    def expected(self, judge: str) -> FloatArray:
        """The expected grade as the judge says it, in the scale's values, shape (n,)."""
        said = self.said[judge]
        return (said @ self.scale.values) / said.sum(axis=1)

    @property
    def human_mean(self) -> FloatArray:
        """The mean of the grades that people gave, in the scale's values, shape (n,); NaN where nobody did."""
        return self.human @ self.scale.values

    def together(self) -> "Grades":
        """The same with all judges as one: the mean of their distributions, or the sum of their votes.

        Example:
            >>> said = {"gpt": [[0.8, 0.2]], "phi": [[0.2, 0.8]]}
            >>> Grades.of("0..1", said).together().said
            {'gpt and phi': array([[0.5, 0.5]])}
        """
        said = np.stack(list(self.said.values()))
        silent = np.isnan(said).all(axis=0)
        total = np.where(silent, np.nan, np.nansum(said, axis=0))
        if self.kind == PROBS:
            total = total / np.maximum((~np.isnan(said)).sum(axis=0), 1)
        few = self.judges if len(self.said) <= 3 else [f"{len(self.said)} judges"]
        return replace(self, said={" and ".join(few): total})

    def with_humans(self, human: "list[HumanGrade]") -> "Grades":
        """The same with the grades that people gave.

        Raises:
            InputError: if none of them is of an item that was judged, or two contradict each other.
        """
        place = {item: row for row, item in enumerate(self.items.tolist())}
        shares, counts = np.zeros(self.human.shape), np.zeros(len(self), dtype=np.int64)
        strangers = []
        for one in _agreed(human):
            row = place.get(one.item)
            if row is None:
                strangers.append(one.item)
                continue
            shares[row] += one.count * one.shares
            counts[row] += one.count
        if not counts.any():
            there = f"such as {strangers[0]!r}" if strangers else "none at all"
            raise InputError(
                f"no human grade is of an item that was judged: the humans' items are {there}, the judges' such as "
                f"{self.items[0]!r}. Is the column of items (--item) the same in both?"
            )
        notes = list(self.notes)
        if strangers:
            notes.append(f"{len(strangers):,} human grades are of items that were not judged, such as {strangers[0]!r}")
        if (counts == 0).any():
            notes.append(f"{int((counts == 0).sum()):,} of {len(self):,} items have no human grade")
        shares[counts == 0] = np.nan
        shares[counts > 0] /= counts[counts > 0, None]
        has_means = any(one.is_mean for one in human)
        return replace(self, human=shares, raters=counts, has_means=has_means, notes=tuple(notes))


@dataclass(frozen=True)
class HumanGrade:
    """What a person said of an item, or several as one: shares of grades, and of how many."""

    item: str
    shares: FloatArray
    count: int = 1
    rater: str | None = None
    where: str = ""
    is_mean: bool = False


def read(
    source: Any,
    *,
    grades: str | Sequence[Any] | Scale | None = None,
    probs: Any = None,
    votes: Any = None,
    grade: Any = None,
    item: str | None = None,
    judge: str | None = None,
    human: str | None = None,
    human_count: str | None = None,
    rater: str | None = None,
    humans: Any = None,
    group: str | None = None,
    cluster: str | None = None,
    system: str | None = None,
    pattern: str | None = None,
    words: bool = False,
    scorer: str | None = None,
    percent: bool = False,
) -> Grades:
    r"""What judges said, from a table, JSON lines of chat completions, or a log of Inspect.

    Args:
        source: a file (.csv, .parquet; .jsonl; .eval) or a frame. Of a table say which of these its columns are:
        probs: a column per grade with its probability, ``"p_*"`` (the star is the grade) or names.
        votes: a column per grade with how often it was given.
        grade: a column with one grade; several rows of an item and a judge are samples. Or several columns with commas
            between, one for each judge.
        grades: the scale, such as ``"1..5"``; what the columns are called, if they are one per grade.
        item: the column of items; rows are items if not given. Of completions: a key, ``"custom_id"`` by default.
        judge: the column of judges; one judge if not given. Of completions: a key, ``"model"`` by default.
        human: the column of the grade that people gave, empty where nobody did; in this table or in ``humans``.
        human_count: the column of how many people the grade is the mean of.
        rater: the column of who gave it; an item may then have several.
        humans: another table with the grades of people.
        group: a column of groups, one for each item.
        cluster: a column of what items belong to, such as a prompt.
        system: a column of the systems that made the items.
        pattern: of completions: where the grade stands, such as ``r"Score: (\d+)"``; the last number by default.
        words: of completions: "four" is 4.
        scorer: of a log of Inspect: whose scores.
        percent: whether probabilities run from 0 to 100.

    Raises:
        InputError: if it cannot be read; the text says which row, and what to do.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"item": ["a", "a", "b"], "score": [4, 5, 2], "person": [4, 4, None]})
        >>> grades = read(frame, grade="score", grades="1..5", item="item", human="person")
        >>> grades.said["judge"].tolist()
        [[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    if isinstance(source, str | os.PathLike) and Path(source).name.lower().endswith(
        (".jsonl", ".jsonl.gz", ".json", ".eval")
    ):
        if any(option is not None for option in (probs, votes, grade, group, cluster, system)):
            raise InputError(
                f"{Path(source).name}: a log has no columns; leave out probs, votes, grade, group, cluster and system. "
                "For these write it as a table first (orcu judge read) and add the columns there."
            )
        if human is not None and humans is None:
            raise InputError(
                f"{Path(source).name}: a log holds no human grades; name the table that has them: humans= (--humans)."
            )
        whole = _from_log(Path(source), _needed(grades), pattern, words, item, judge, scorer)
        own: list[HumanGrade] = []
    else:
        table = _Table.of(source)
        whole = _from_table(table, grades, probs, votes, grade, item, judge, (group, cluster, system), percent)
        own = _people(table, whole.scale, item, human, human_count, rater) if human and humans is None else []
    if humans is not None:
        if human is None or item is None:
            raise InputError("humans: name the columns of that table: item= and human= (--item, --human).")
        own = _people(_Table.of(humans), whole.scale, item, human, human_count, rater)
    return whole.with_humans(own) if human else whole


def _needed(grades: Any) -> Scale:
    if grades is None:
        raise InputError(
            "grades: say the scale, lowest grade first: 1..5, 0..3, 1..5:0.5 (in halves) or poor,fair,good (--grades)."
        )
    return Scale.of(grades)


def _from_log(
    path: Path, scale: Scale, pattern: str | None, words: bool, item: str | None, judge: str | None, scorer: str | None
) -> Grades:
    from orcu.judges.completions import read_completions
    from orcu.judges.inspect_logs import is_inspect_log, read_inspect

    if is_inspect_log(path):
        replies = read_inspect(path, scale, scorer=scorer)
    else:
        replies = read_completions(path, scale, pattern=pattern, words=words, item=item, judge=judge)
    return from_replies(scale, replies.replies, unread=replies.unread, notes=replies.notes)


def from_replies(
    scale: Scale, replies: Iterable[Reply], *, unread: Iterable[Unread] = (), notes: Iterable[str] = ()
) -> Grades:
    """Replies put together: several of an item and a judge are samples, whose distributions or grades are averaged.

    Raises:
        InputError: if there is none, or some have probabilities and others bare grades.
    """
    every = list(replies)
    if not every:
        raise InputError("there is no grade to be read.")
    kinds = {reply.probs is None for reply in every}
    if len(kinds) > 1:
        raise InputError("some replies have probabilities, others bare grades; read them apart.")
    eye = np.eye(len(scale))
    rows = [(r.item, r.judge, eye[r.grade] if r.probs is None else r.probs) for r in every]
    kind = VOTES if kinds == {True} else PROBS
    items, said, samples = _by_judge(rows, len(scale), kind)
    text = [f"{samples:,} items have several samples of a judge, which are taken together"] if samples else []
    lost = tuple(unread)
    whole = Grades(scale, items, kind, said, *_nobody(items, scale), unread=lost, notes=(*notes, *text))
    return replace(whole, notes=(*whole.notes, f"{len(lost):,} replies could not be read")) if lost else whole


def _nobody(items: ObjectArray, scale: Scale) -> tuple[FloatArray, IntArray]:
    return np.full((len(items), len(scale)), np.nan), np.zeros(len(items), dtype=np.int64)


def _by_judge(
    rows: Iterable[tuple[str, str, FloatArray]], size: int, kind: str
) -> tuple[ObjectArray, dict[str, FloatArray], int]:
    """Items in the order in which they first stand, and by judge the sum (votes) or the mean (probabilities)."""
    place: dict[str, int] = {}
    cells: dict[str, dict[int, list[FloatArray]]] = {}
    for item, judge, values in rows:
        row = place.setdefault(item, len(place))
        cells.setdefault(judge, {}).setdefault(row, []).append(values)
    said, samples = {}, 0
    for judge, by_row in cells.items():
        said[judge] = np.full((len(place), size), np.nan)
        for row, several in by_row.items():
            said[judge][row] = np.sum(several, axis=0) if kind == VOTES else np.mean(several, axis=0)
            samples += len(several) > 1
    return np.array(list(place), dtype=object), said, samples


def _checked(values: Any, scale: Scale, kind: str, judge: str) -> FloatArray:
    """What a judge said, checked: probabilities that sum to 1, or counts."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(scale):
        raise InputError(f"{judge}: expected shape (n, {len(scale)}) for the grades {scale}; got {array.shape}.")
    silent = np.isnan(array).all(axis=1)
    spoken = array[~silent]
    rows = np.flatnonzero(~silent)
    if not len(spoken):
        raise InputError(f"{judge}: said nothing of any item.")
    if kind == PROBS:
        array[~silent] = normalised(spoken, rounding=0.5e-4, name=judge, first_row=0)[0]
        return array
    if kind != VOTES:
        raise InputError(f"kind: expected 'probs' or 'votes', got {kind!r}.")
    bad = ~(np.isfinite(spoken) & (spoken >= 0)).all(axis=1) | (np.nansum(spoken, axis=1) == 0)
    if bad.any():
        row = int(rows[np.argmax(bad)])
        raise InputError(f"{judge}: row {row} has the votes {array[row].tolist()}; expected counts, at least one vote.")
    return array


def _human_rows(human: Any, items: ObjectArray, scale: Scale) -> list[HumanGrade]:
    """The grades of people from a list with gaps, or from shares of grades."""
    if np.ndim(human) == 2:
        shares = np.array(human, dtype=np.float64)
        if shares.shape != (len(items), len(scale)):
            raise InputError(f"human: expected shares of shape ({len(items)}, {len(scale)}); got {shares.shape}.")
        known = np.asarray(~np.isnan(shares).any(axis=1))
        shares[known] = normalised(shares[known], rounding=0.5e-4, name="human", first_row=0)[0]
        return [HumanGrade(item, row) for item, row, there in zip(items, shares, known.tolist(), strict=True) if there]
    if len(human) != len(items):
        raise InputError(f"human: expected a grade for each of {len(items)} items, got {len(human)}.")
    eye = np.eye(len(scale))
    return [
        HumanGrade(item, eye[_code(scale, value, f"human: row {row}")])
        for row, (item, value) in enumerate(zip(items, human, strict=True))
        if not is_missing(value)
    ]


def _code(scale: Scale, grade: Any, where: str) -> int:
    code = scale.code(grade)
    if code is None:
        raise InputError(f"{where}: {scale.refusal(grade)}")
    return code


# --- tables ---


@dataclass(frozen=True)
class _Table:
    """A table whose columns are asked for by name; rows are counted from 1 below the header."""

    name: str
    columns: dict[str, list[Any]]

    @classmethod
    def of(cls, source: Any) -> "_Table":
        import pyarrow

        from orcu.io.reading import read_table

        name = Path(source).name if isinstance(source, str | os.PathLike) else "frame"
        if isinstance(source, str | os.PathLike):
            table = read_table(source)
        else:
            table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
        if not table.num_rows:
            raise InputError(f"{name}: there is no row below the header.")
        return cls(name, {column: table.column(column).to_pylist() for column in table.column_names})

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str, role: str) -> list[Any]:
        if name not in self.columns:
            raise InputError(no_column(name, list(self.columns), self.name, role))
        return self.columns[name]

    def texts(self, name: str, role: str) -> list[str]:
        """A column in which every row has an entry."""
        cells = self.column(name, role)
        gap = next((row for row, cell in enumerate(cells, start=1) if is_missing(cell)), None)
        if gap is not None:
            raise InputError(f"{self.name}: row {gap} has no {name!r}; every row needs an entry there.")
        return [canonical(cell) for cell in cells]

    def numbers(self, name: str, role: str) -> list[float]:
        """A column of numbers, NaN where there is none."""
        numbers = []
        for row, cell in enumerate(self.column(name, role), start=1):
            try:
                numbers.append(float("nan") if is_missing(cell) else float(cell))
            except (TypeError, ValueError):
                raise InputError(f"{self.name}: row {row} has {cell!r} in {name!r}, expected a number.") from None
        return numbers


def _from_table(
    table: _Table,
    grades: Any,
    probs: Any,
    votes: Any,
    grade: Any,
    item: str | None,
    judge: str | None,
    carried: tuple[str | None, str | None, str | None],
    percent: bool,
) -> Grades:
    if sum(option is not None for option in (probs, votes, grade)) != 1:
        raise InputError(
            f"{table.name}: say what its columns are, as one of probs= (a probability per grade), votes= (a count per "
            f"grade) or grade= (one grade a row); on the command line --probs 'p_*', --votes 'n_*' or --grade COLUMN. "
            f"The columns are: {listed(list(table.columns))}."
        )
    items = table.texts(item, "items") if item else [str(row) for row in range(1, table.rows + 1)]
    judges = table.texts(judge, "judges") if judge else [ONLY_JUDGE] * table.rows
    if grade is not None:
        scale, kind = _needed(grades), VOTES
        rows = _single_grades(table, grade, scale, items, judges, named=judge is not None)
    else:
        scale, columns = _grade_columns(table, grades, probs if votes is None else votes)
        kind = PROBS if votes is None else VOTES
        values = np.array([table.numbers(column, "grades") for column in columns]).T
        rows = _distributions(table, values / 100 if percent else values, columns, kind, items, judges)
    names, said, samples = _by_judge(rows, len(scale), kind)
    entries: dict[str, Any] = {
        role: None if column is None else _of_items(table, column, role, items, names)
        for role, column in zip(("group", "cluster", "system"), carried, strict=True)
    }
    notes = [f"grades, lowest first: {scale}"]
    if samples:
        notes.append(f"{samples:,} items have several samples of a judge, which are taken together")
    for one, values in said.items():
        missing = int(np.isnan(values[:, 0]).sum())
        if missing:
            notes.append(f"{one} said nothing of {missing:,} of {len(names):,} items")
    return Grades(scale, names, kind, said, *_nobody(names, scale), **entries, notes=tuple(notes))


def _grade_columns(table: _Table, grades: Any, wanted: Any) -> tuple[Scale, list[str]]:
    columns, names = value_columns(wanted, list(table.columns), table.name)
    given = None if grades is None else Scale.of(grades).names
    if given is None and not Scale(tuple(map(canonical, names))).is_numeric:
        raise InputError(
            f"{table.name}: the columns are called {', '.join(names)}; say their order, lowest grade first: grades= "
            "(--grades poor,fair,good)."
        )
    if given is not None and len(given) != len(columns):
        raise InputError(
            f"{table.name}: {len(columns)} columns ({listed(columns)}) for the {len(given)} grades "
            f"{', '.join(given)}; there must be one column per grade."
        )
    try:
        ordered, columns = ordered_classes(given, names, columns, table.name)
    except InputError as error:
        raise InputError(str(error).replace("classes= (--classes", "grades= (--grades")) from None
    return Scale.of(list(ordered)), columns


def _distributions(
    table: _Table, values: FloatArray, columns: list[str], kind: str, items: list[str], judges: list[str]
) -> list[tuple[str, str, FloatArray]]:
    gap = np.isnan(values).any(axis=1)
    if gap.any():
        row = int(np.argmax(gap)) + 1
        raise InputError(
            f"{table.name}: row {row} (item {items[row - 1]!r}) lacks a grade's number; leave rows out in which the "
            "judge said nothing."
        )
    if kind == VOTES:
        bad = (values < 0).any(axis=1) | (values.sum(axis=1) == 0) | (values != np.rint(values)).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad)) + 1
            raise InputError(
                f"{table.name}: row {row} has the votes {values[row - 1].tolist()}; expected whole numbers of 0 or "
                "more, at least one vote. (Shares are probabilities: --probs.)"
            )
    else:
        values = normalised(values, rounding=0.5e-4, name=table.name, first_row=1, columns=columns, hint=NO_PROBS)[0]
    return list(zip(items, judges, values, strict=True))


def _single_grades(
    table: _Table, grade: Any, scale: Scale, items: list[str], judges: list[str], *, named: bool
) -> list[tuple[str, str, FloatArray]]:
    columns = [one.strip() for one in grade.split(",")] if isinstance(grade, str) else list(grade)
    if len(set(columns)) < len(columns):
        raise InputError(f"grade: a column stands twice in {', '.join(columns)}.")
    if len(columns) > 1 and named:
        raise InputError("judge: several columns of grades are judges themselves; name a column of judges, or these.")
    eye, rows = np.eye(len(scale)), []
    for column in columns:
        for row, cell in enumerate(table.column(column, "grades")):
            if is_missing(cell):
                continue
            code = _code(scale, cell, f"{table.name}: row {row + 1}, {column!r}")
            rows.append((items[row], column if len(columns) > 1 else judges[row], eye[code]))
    if not rows:
        raise InputError(f"{table.name}: no row has a grade in {', '.join(columns)}.")
    return rows


def _of_items(table: _Table, column: str, role: str, items: list[str], names: ObjectArray) -> ObjectArray:
    """A column of which all rows of an item say the same."""
    entry: dict[str, str] = {}
    for row, (item, text) in enumerate(zip(items, table.texts(column, role), strict=True), start=1):
        if entry.setdefault(item, text) != text:
            raise InputError(
                f"{table.name}: row {row}: item {item!r} has the {role} {text!r}, in an earlier row {entry[item]!r}; "
                f"an item belongs to one {role}."
            )
    return np.array([entry[name] for name in names.tolist()], dtype=object)


def _people(
    table: _Table, scale: Scale, item: str | None, human: str, human_count: str | None, rater: str | None
) -> list[HumanGrade]:
    """The grades of people in a table, a row for each that is not empty."""
    items = table.texts(item, "items") if item else [str(row) for row in range(1, table.rows + 1)]
    raters = table.texts(rater, "raters") if rater else [None] * table.rows
    if human_count is not None:
        shares = _means(table, scale, human, human_count)
    else:
        eye = np.eye(len(scale))
        shares = [
            None if is_missing(cell) else (eye[_code(scale, cell, f"{table.name}: row {row}, {human!r}")], 1)
            for row, cell in enumerate(table.column(human, "human grades"), start=1)
        ]
    people = [
        HumanGrade(one, *cell, rater=who, where=f"{table.name}: row {row}", is_mean=human_count is not None)
        for row, (one, cell, who) in enumerate(zip(items, shares, raters, strict=True), start=1)
        if cell is not None
    ]
    if not people:
        raise InputError(f"{table.name}: the column {human!r} holds no grade.")
    return people


def _means(table: _Table, scale: Scale, human: str, human_count: str) -> list[tuple[FloatArray, int] | None]:
    """Means of several grades: shared between the two grades next to it, which is the least spread that they can have.

    Raises:
        InputError: if grades are words, a mean lies outside the scale, or a count is no whole number above 0.
    """
    if not scale.is_numeric:
        raise InputError(f"human_count: a mean of the grades {scale} has no meaning; give the grades themselves.")
    cells: list[tuple[FloatArray, int] | None] = []
    pairs = zip(table.numbers(human, "human grades"), table.numbers(human_count, "how many people"), strict=True)
    for row, (mean, count) in enumerate(pairs, start=1):
        if np.isnan(mean):
            cells.append(None)
            continue
        if not scale.values[0] <= mean <= scale.values[-1]:
            raise InputError(f"{table.name}: row {row}: a mean of {mean:g} lies outside the grades {scale}.")
        if not count >= 1 or count != int(count):
            raise InputError(f"{table.name}: row {row} has {count:g} in {human_count!r}, expected a number of people.")
        upper = int(np.searchsorted(scale.values, mean))
        shares = np.zeros(len(scale))
        if scale.values[upper] == mean:
            shares[upper] = 1.0
        else:
            low, high = scale.values[upper - 1], scale.values[upper]
            shares[upper - 1], shares[upper] = (high - mean) / (high - low), (mean - low) / (high - low)
        cells.append((shares, int(count)))
    return cells


def _agreed(human: list[HumanGrade]) -> list[HumanGrade]:
    """One grade of a person for an item: the same that stands in several rows is one, two different ones are refused.

    Raises:
        InputError: if an item has two grades that differ, and nothing tells who gave them.
    """
    first: dict[tuple[str, str | None], HumanGrade] = {}
    for one in human:
        earlier = first.setdefault((one.item, one.rater), one)
        if not np.array_equal(earlier.shares, one.shares) or earlier.count != one.count:
            who = "without raters" if one.rater is None else f"by the rater {one.rater!r}"
            raise InputError(
                f"{one.where}: item {one.item!r} has two human grades that differ, {who}. Say who gave them with "
                "rater= (--rater COLUMN), or keep one of them."
            )
    return list(first.values())
