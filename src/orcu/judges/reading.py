"""Readers of `Grades`: tables, JSON records, replies of servers, and logs of evaluation tools.

The levels are never guessed: they come from the user or from column names. Skipped rows and replies are counted in
``notes``.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError, first_line
from orcu.inputs import FloatArray, ObjectArray, cell_text, normalise_probs
from orcu.io.locations import RemotePath, as_location
from orcu.io.reading import TableFile
from orcu.judges.completions import DEFAULT_JUDGE
from orcu.judges.entries import read_entries
from orcu.judges.grades import BLANK, PROBS, SUM_TOLERANCE, VOTES, Grades, HumanGrade, RatingRows, as_names, bias_column
from orcu.judges.levels import GradeLevels, parse_scale
from orcu.judges.logs import LOG_SUFFIXES, RECORDS, read_log, recognise
from orcu.judges.parsing import GradeParser
from orcu.judges.replies import AmbiguousReply, ParseFailure, ReplyError
from orcu.judges.scores import ScoreFormat, grade_of
from orcu.predictions.columns import join_names, missing_column_message, order_classes, select_value_columns
from orcu.predictions.labels import canonical_label, is_missing

MISSING_TEXTS = ("NA", "N/A", "n/a", "NULL", "#N/A")  # missing grades and numbers of other programs
MAX_VOTES = 1_000_000  # votes for a grade; more are a measurement in other units
PROBS_HINT = "For counts use --votes; for percentages use --percent."

_COMMA_NUMBER = re.compile(r"^(\s*[+-]?\d*),(\d+\s*)$")
_MARKDOWN = re.compile(r"(?m)^\s{0,3}(?:#{1,6} |[-*+] |\d+[.)] |\||```)|\*\*[^\s*]")  # heading, list, table, code, bold
_Row = tuple[int, str, str, FloatArray]  # row of the table from 0, item, judge, values


def read(
    source: Any,
    *,
    levels: str | Sequence[Any] | GradeLevels | None = None,
    probs: Any = None,
    votes: Any = None,
    grade: Any = None,
    item: str | None = None,
    judge: str | None = None,
    human: str | None = None,
    human_count: str | None = None,
    rater: str | None = None,
    human_file: Any = None,
    subgroup: str | None = None,
    cluster: str | None = None,
    system: str | None = None,
    bias: str | Sequence[str] | None = None,
    text: str | None = None,
    pattern: str | None = None,
    number_words: bool = False,
    scorer: str | None = None,
    scale: str | None = None,
    percent: bool = False,
) -> Grades:
    r"""Read grades of judges and people.

    A table, or JSON records, need one of ``probs``, ``votes`` and ``grade``. A log needs ``levels``; its format is
    recognised: chat completions and responses of OpenAI, messages of Anthropic, results of promptfoo, test runs of
    DeepEval, samples of lm-eval, traces of MLflow, logs of Inspect. The first note says what was recognised, and from
    which field the grades come.

    Args:
        source: file (.csv, .parquet, .jsonl, .json, .eval) or frame.
        levels: grade levels, such as ``"1..5"``; by default the class names in the columns of ``probs`` or ``votes``.
        probs: columns with the probability of each grade: ``"p_*"``, where the star is the grade, or a list of columns.
            Columns are matched to the levels by name. Columns with other names must be listed, lowest level first.
        votes: columns with the count of each grade.
        grade: column with one grade per row, where several rows of an item and a judge are samples; or several columns
            separated by commas, one per judge.
        item: column of item names, by default one item per row; in logs a key, by default that of the format. Names
            of items, judges, raters, subgroups, clusters and systems are texts: "01" is not "1", and "1.10" not "1.1".
        judge: column of judge names, by default one judge; in completions a key, by default ``"model"``.
        human: column of the human grade, empty where there is none; in ``human_file`` if it is given.
        human_count: column of the number of people whose mean the human grade is.
        rater: column of rater names, for items with several human grades.
        human_file: another table with the human grades.
        subgroup: column of subgroups, constant within an item.
        cluster: column of clusters, such as prompts, constant within an item.
        system: column of the systems that produced the items, constant within an item.
        bias: columns on which the error of a judge may depend, such as ``"language,position"``, for the audit. They may
            differ between the ratings of an item. For a log they are columns of ``human_file``.
        text: column of the graded texts, whose length and formatting are added to ``bias``.
        pattern: regular expression for the grade in a text, such as ``r"Score: (\d+)"``. In a table it makes the column
            ``grade`` one of texts.
        number_words: whether to read "four" in texts as 4.
        scorer: scorer in the log of an evaluation tool.
        scale: scale of numeric scores, such as ``"0..1"``; its ends are mapped to the lowest and the highest level,
            and a number between two levels is divided between them. By default scores must be levels.
        percent: whether probabilities range from 0 to 100.

    Raises:
        InputError: if the source cannot be read; the message names the row or the argument.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"item": ["a", "a", "b"], "score": [4, 5, 2], "person": [4, 4, None]})
        >>> grades = read(frame, grade="score", levels="1..5", item="item", human="person")
        >>> grades.ratings["judge"].tolist()
        [[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    item_columns = {"subgroup": subgroup, "cluster": cluster, "system": system}
    ends = None if scale is None else parse_scale(scale)
    is_log = isinstance(source, str | os.PathLike) and as_location(source).name.lower().endswith(LOG_SUFFIXES)
    if is_log and isinstance(as_location(source), RemotePath):
        raise InputError(f"{as_location(source)}: only tables are read from a URI; download the log or the records.")
    log_format = recognise(source) if is_log else RECORDS
    table: _Table | None = None
    if log_format != RECORDS:
        name = Path(source).name
        described = log_format.name if isinstance(log_format, ScoreFormat) else log_format
        if any(option is not None for option in (probs, votes, grade, *item_columns.values())):
            raise InputError(
                f"{name}: probs, votes, grade, subgroup, cluster and system are columns of a table, and this file is "
                f"{described}. Convert it to a table with `orcu judge read` and add the columns there."
            )
        if human is not None and human_file is None:
            raise InputError(
                f"{name}: this file is {described}; give the table of the human grades with human_file= (--human-file)."
            )
        levels = GradeLevels.parse(levels)
        options: dict[str, Any] = {"pattern": pattern, "number_words": number_words, "item": item, "judge": judge}
        grades = Grades.from_log(levels, read_log(source, levels, log_format, **options, scorer=scorer, scale=ends))
    else:
        table = _Table.read(source)
        if sum(option is not None for option in (probs, votes, grade)) != 1:
            raise InputError(
                f"{table.name}: expected exactly one of probs= (probability of each grade), votes= (count of each "
                "grade) and grade= (one grade per row); on the command line --probs 'p_*', --votes 'n_*' or --grade "
                f"COLUMN. The columns are: {join_names(list(table.columns))}."
            )
        if grade is None and not (pattern is None and scale is None and not number_words):
            raise InputError(f"{table.name}: pattern, number_words and scale apply to a column of grades (--grade).")
        if scorer is not None:
            raise InputError(
                f"scorer: {table.name} is a table and has no scorers; name the column with grade= (--grade)."
            )
        items = table.item_names(item)
        judges = table.strings(judge, "judges") if judge else [DEFAULT_JUDGE] * table.n_rows
        failures, ambiguous = list[ParseFailure](), list[AmbiguousReply]()
        if grade is not None:
            levels, kind = GradeLevels.parse(levels), VOTES if ends is None else PROBS
            order = str(levels)
            has_texts = pattern is not None or number_words
            parser = GradeParser(levels, pattern=pattern, number_words=number_words) if has_texts else None
            reader = _GradeReader(table, levels, parser, ends, failures, ambiguous)
            rows = reader.rows(grade, items, judges, has_judge_column=judge is not None)
        else:
            kind, wanted = (PROBS, probs) if votes is None else (VOTES, votes)
            other_columns = {item, judge, rater, human, human_count, *item_columns.values()}
            levels, columns = _level_columns(table, levels, kind, wanted, other_columns)
            order = ", ".join(f"{name} ({column})" for name, column in zip(levels.names, columns, strict=True))
            rows = _distributions(table, columns, kind, items, judges, percent=percent)
        if item is None and len(set(judges)) > 1:
            raise InputError(
                f"item: column {judge!r} has several judges, and without item= (--item) each row is another item, so "
                "that no two judges rate the same one. Name the column of items."
            )
        column_names = grade or probs or votes
        fields = column_names if isinstance(column_names, str) else ", ".join(column_names)
        notes = [f"{table.n_rows:,} {RECORDS}, grades in {fields}"] if is_log else []
        samples = ((name, who, values) for _, name, who, values in rows)
        grades = Grades.from_rows(levels, kind, samples, notes=[*notes, f"levels, lowest first: {order}"])
        columns_by_role: dict[str, Any] = {
            role: _item_column(table, column, role, items, grades.items)
            for role, column in item_columns.items()
            if column is not None
        }
        missing = {name: int((~grades.rated_mask(name)).sum()) for name in grades.judges}
        notes = [f"{name} did not rate {count:,} of {len(grades):,} items" for name, count in missing.items() if count]
        unrated = len(set(items)) - len(grades)
        notes += [f"{unrated:,} items have no grade of any judge and are left out"] if unrated else []
        notes += [f"{len(failures):,} replies could not be parsed"] if failures else []
        n_blank = int(np.sum(columns_by_role.get("subgroup") == BLANK)) if subgroup else 0
        notes += [f"{n_blank:,} items have no {subgroup!r}; they are the subgroup {BLANK}"] if n_blank else []
        columns_by_role |= {"failures": tuple(failures), "ambiguous": tuple(ambiguous)}
        bias_columns = _bias_columns(table, bias, text, subgroup)
        if bias_columns:
            source_rows = [row for row, _, _, _ in rows]
            columns_by_role["rating_rows"] = RatingRows(
                np.array([name for _, name, _, _ in rows], dtype=object),
                np.array([name for _, _, name, _ in rows], dtype=object),
                np.array([values @ levels.values / values.sum() for _, _, _, values in rows]),
                {name: column[source_rows] for name, column in bias_columns.items()},
            )
        grades = replace(grades, **columns_by_role, notes=(*grades.notes, *notes))
    if human_file is not None:
        if human is None or item is None:
            raise InputError("human_file: name its columns with item= and human= (--item, --human).")
        table = _Table.read(human_file)
        if log_format != RECORDS and (bias_columns := _bias_columns(table, bias, text, None)):
            grades = grades.with_bias_columns(table.item_names(item), bias_columns)
    elif log_format != RECORDS and (bias or text):
        raise InputError(f"bias: {Path(source).name} is a log; name the table of these columns with human_file=.")
    if not human or table is None:
        return grades
    return grades.with_human_grades(_read_human_grades(table, grades.levels, item, human, human_count, rater))


@dataclass(frozen=True)
class _Table:
    """A table with columns by name; rows count from 1 below the header.

    The cells of a CSV file are texts, as they are written: as numbers, the ids 01 and 1 would be equal.
    """

    name: str
    columns: dict[str, list[Any]]
    decimal: str = "."  # decimal sign of numbers written as text

    @classmethod
    def read(cls, source: Any) -> "_Table":
        import pyarrow

        from orcu.io.reading import open_table

        if isinstance(source, str | os.PathLike) and as_location(source).name.lower().endswith(LOG_SUFFIXES):
            return cls(Path(source).name, _record_columns(Path(source)))
        if isinstance(source, str | os.PathLike):
            file = open_table(source)
            name, decimal, batches = file.path.name, file.decimal, list(file.batches(file.names))
        else:
            try:
                table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
            except (pyarrow.ArrowException, TypeError, ValueError) as error:
                raise InputError(f"frame: cannot be read as a table ({first_line(error)}).") from None
            name, decimal, batches = "frame", ".", table.to_batches()
        if not sum(batch.num_rows for batch in batches):
            raise InputError(f"{name}: the table has no rows below the header.")
        names = batches[0].schema.names
        columns = {column: [cell for batch in batches for cell in batch.column(column).to_pylist()] for column in names}
        return cls(name, columns, decimal)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str, role: str) -> list[Any]:
        if name not in self.columns:
            raise InputError(missing_column_message(name, list(self.columns), self.name, role))
        return self.columns[name]

    def strings(self, name: str, role: str) -> list[str]:
        """Names in a column without missing entries, as texts."""
        return as_names(self.column(name, role), f"{self.name}: column {name!r}", first_row=1)

    def cells(self, name: str, role: str, levels: GradeLevels | None = None) -> list[Any]:
        """Grades or numbers of a column, with a decimal point; ``None`` where an entry is missing."""

        def is_empty(cell: Any) -> bool:
            is_level = levels is not None and levels.code(cell) is not None
            return is_missing(cell) or (str(cell).strip() in MISSING_TEXTS and not is_level)

        cells = self.column(name, role)
        if self.decimal == ",":
            cells = [_COMMA_NUMBER.sub(r"\1.\2", cell) if isinstance(cell, str) else cell for cell in cells]
        return [None if is_empty(cell) else cell for cell in cells]

    def numbers(self, name: str, role: str) -> list[float]:
        """Entries of a column of numbers; NaN where an entry is missing."""
        numbers = []
        for row, cell in enumerate(self.cells(name, role), start=1):
            try:
                numbers.append(math.nan if cell is None else float(cell))
                is_number = math.isfinite(numbers[-1]) or cell is None
            except (TypeError, ValueError, OverflowError):
                is_number = False
            has_two_signs = self.decimal == "," and cell is not None and "." in str(self.columns[name][row - 1])
            if has_two_signs and isinstance(cell, str):
                raise InputError(
                    f"{self.name}: row {row} has {cell!r} in {name!r} with a point, but the decimal sign is a comma. "
                    "Use one decimal sign and no thousands separators."
                )
            if not is_number or "_" in str(cell):  # Python reads 4_6 as 46
                raise InputError(f"{self.name}: row {row} has {cell!r} in {name!r}, expected a finite number.")
        return numbers

    def item_names(self, column: str | None) -> list[str]:
        """Item of each row; by default the row numbers."""
        return self.strings(column, "items") if column else [str(row) for row in range(1, self.n_rows + 1)]


def item_names(file: TableFile, item: str | None) -> list[str]:
    """Item of each row of a table; by default the row numbers."""
    return _Table.read(file.path).item_names(item)


def column_names(source: Any, columns: Mapping[str, str]) -> dict[str, list[str]]:
    """Names in some columns of a table or of JSON records, by role."""
    table = _Table.read(source)
    return {role: table.strings(column, role) for role, column in columns.items()}


def _level_columns(
    table: _Table, levels: Any, kind: str, wanted: Any, other_columns: set[str | None]
) -> tuple[GradeLevels, list[str]]:
    """Levels and their columns, lowest first: by name, or in the order of a list of columns."""
    is_pattern = isinstance(wanted, str) and "*" in wanted
    candidates = [column for column in table.columns if not (is_pattern and column in other_columns)]
    columns, names = select_value_columns(wanted, candidates, table.name)
    parsed = None if levels is None else GradeLevels.parse(levels)
    classes = None if parsed is None else parsed.names
    if classes is None and not GradeLevels(tuple(map(canonical_label, names))).is_numeric:
        raise InputError(
            f"{table.name}: the grades in the column names are words ({', '.join(names)}); give their order, lowest "
            "first, with levels= (--levels poor,fair,good)."
        )
    if classes is not None and len(classes) != len(columns):
        raise InputError(
            f"{table.name}: {len(columns)} columns ({join_names(columns)}) for the {len(classes)} levels "
            f"{', '.join(classes)}; expected one column per level."
        )
    if parsed is not None and classes is not None:
        codes = [parsed.code(name) for name in names]
        names = [name if code is None else classes[code] for name, code in zip(names, codes, strict=True)]
    if classes is not None and is_pattern and set(names) != set(classes):
        order = ", ".join(f"{name} = {column}" for name, column in zip(classes, columns, strict=True))
        raise InputError(
            f"{table.name}: the columns {wanted} have the names {', '.join(names)}, which are not the levels "
            f"{', '.join(classes)}. If they are in the order of the levels ({order}), list them: {kind}= "
            f"(--{kind} {','.join(columns)}). If not, list them from the lowest level to the highest."
        )
    try:
        ordered, columns = order_classes(classes, names, columns, table.name)
    except InputError as error:
        raise InputError(str(error).replace("classes=", "levels=").replace("--classes", "--levels")) from None
    return GradeLevels.parse(list(ordered)), columns


def _distributions(
    table: _Table, columns: list[str], kind: str, items: list[str], judges: list[str], *, percent: bool
) -> list[_Row]:
    """Rows of a table with one column per level."""
    values = np.array([table.numbers(column, "grades") for column in columns]).T
    values = values / 100 if percent else values
    missing = np.isnan(values).any(axis=1)
    if missing.any():
        row = int(np.argmax(missing)) + 1
        raise InputError(
            f"{table.name}: row {row} (item {items[row - 1]!r}) has a missing value in {join_names(columns)}; remove "
            "rows without a rating."
        )
    if kind == VOTES:
        is_count = (values >= 0) & (values <= MAX_VOTES) & (values == np.rint(values))
        invalid = ~is_count.all(axis=1) | (values.sum(axis=1) == 0)
        if invalid.any():
            row = int(np.argmax(invalid)) + 1
            raise InputError(
                f"{table.name}: row {row} has votes {values[row - 1].tolist()}; expected integers from 0 to "
                f"{MAX_VOTES:,} with a sum above 0. For shares use --probs."
            )
    else:
        values = normalise_probs(
            values, rounding=SUM_TOLERANCE, name=table.name, first_row=1, columns=columns, hint=PROBS_HINT
        )[0]
    return list(zip(range(len(items)), items, judges, values, strict=True))


def _record_columns(path: Path) -> dict[str, list[Any]]:
    """Columns of JSON records; keys of nested objects are joined by dots, and missing ones are ``None``."""
    rows = list[dict[str, Any]]()
    for where, entry in read_entries(path):
        if not isinstance(entry, dict):
            raise InputError(f"{where}: expected a JSON object, because the first entries are {RECORDS}.")
        rows.append(dict(_flatten(entry)))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _flatten(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@dataclass(frozen=True)
class _GradeReader:
    """Reader of a table with one grade per row, or one column of grades per judge."""

    table: _Table
    levels: GradeLevels
    parser: GradeParser | None  # for columns of texts
    scale: tuple[float, float] | None  # of numeric scores
    failures: list[ParseFailure]
    ambiguous: list[AmbiguousReply]

    def rows(self, grade: Any, items: list[str], judges: list[str], *, has_judge_column: bool) -> list[_Row]:
        """Rows with a grade; texts that cannot be parsed are added to ``failures``."""
        columns = [column.strip() for column in grade.split(",")] if isinstance(grade, str) else list(grade)
        if len(set(columns)) < len(columns):
            raise InputError(f"grade: duplicate column in {', '.join(columns)}.")
        if len(columns) > 1 and has_judge_column:
            raise InputError(
                "judge: with several grade columns each column is a judge; leave judge= out, or use one column."
            )
        rows = []
        for column in columns:
            for row, cell in enumerate(self.table.cells(column, "grades", self.levels)):
                values = None if cell is None else self._values(cell, row + 1, column, items[row])
                if values is not None:
                    rows.append((row, items[row], column if len(columns) > 1 else judges[row], values))
        if not rows:
            reason = f" The first one: {self.failures[0].reason}." if self.failures else ""
            raise InputError(f"{self.table.name}: no row has a grade in {', '.join(columns)}.{reason}")
        return rows

    def _values(self, cell: Any, row: int, column: str, item: str) -> FloatArray | None:
        """Distribution of a cell, or ``None`` if it is a text without a grade."""
        where, eye = f"{self.table.name}: row {row}, {column!r}", np.eye(len(self.levels))
        if self.parser is None and self.scale is None:
            return np.asarray(eye[self.levels.require_code(cell, where)])
        if self.parser is None:
            try:
                return grade_of(cell, self.levels, self.scale)[0]
            except ReplyError as error:
                raise InputError(f"{where}: {error}.") from None
        try:
            match = self.parser.find(str(cell))
        except ReplyError as error:
            self.failures.append(ParseFailure(where, item, str(error)))
            return None
        if match.others:
            self.ambiguous.append(AmbiguousReply(where, item, self.levels.names[match.grade], match.others))
        return np.asarray(eye[match.grade])


def _bias_columns(
    table: _Table, bias: str | Sequence[str] | None, text: str | None, subgroup: str | None
) -> dict[str, FloatArray | ObjectArray]:
    """Columns of the bias audit by name, the length and the formatting of the graded texts, and the subgroups."""
    names = [] if bias is None else [name.strip() for name in (bias.split(",") if isinstance(bias, str) else bias)]
    if len(set(names)) < len(names):
        raise InputError(f"bias: duplicate column in {', '.join(names)}.")
    columns: dict[str, FloatArray | ObjectArray] = {}
    for name in names:
        cells = table.column(name, "bias columns")
        if table.decimal == ",":
            cells = [_COMMA_NUMBER.sub(r"\1.\2", cell) if isinstance(cell, str) else cell for cell in cells]
        columns[name] = bias_column(cells, name)
    if text is not None:
        texts = ["" if is_missing(cell) else str(cell).strip() for cell in table.column(text, "texts")]
        columns[f"log2 length of {text}"] = np.log2([1 + len(entry) for entry in texts])
        marks = ["Markdown" if _MARKDOWN.search(entry) else "plain" for entry in texts]
        columns[f"formatting of {text}"] = np.array(marks, dtype=object)
    if subgroup is not None:
        cells = table.column(subgroup, "subgroups")
        columns[subgroup] = np.array([BLANK if is_missing(cell) else cell_text(cell) for cell in cells], dtype=object)
    return columns


def _item_column(table: _Table, column: str, role: str, items: list[str], names: ObjectArray) -> ObjectArray:
    """Entries of a column that is constant within each item; items without a subgroup are the subgroup ``BLANK``."""
    entry: dict[str, str] = {}
    cells = table.column(column, role)
    if role == "subgroup":
        cells = [BLANK if is_missing(cell) else cell for cell in cells]
    texts = as_names(cells, f"{table.name}: column {column!r}", first_row=1)
    for row, (item, text) in enumerate(zip(items, texts, strict=True), start=1):
        if entry.setdefault(item, text) != text:
            raise InputError(
                f"{table.name}: row {row}: item {item!r} has {role} {text!r}, but {entry[item]!r} in an earlier row; "
                f"expected one {role} per item."
            )
    return np.array([entry[name] for name in names.tolist()], dtype=object)


def _read_human_grades(
    table: _Table, levels: GradeLevels, item: str | None, human: str, human_count: str | None, rater: str | None
) -> list[HumanGrade]:
    """Human grades of a table, one per row with a grade."""
    items = table.item_names(item)
    raters = table.strings(rater, "raters") if rater else [None] * table.n_rows
    if human_count is not None:
        shares = _mean_shares(table, levels, human, human_count)
    else:
        eye = np.eye(len(levels))
        shares = [
            None if cell is None else (eye[levels.require_code(cell, f"{table.name}: row {row}, {human!r}")], 1)
            for row, cell in enumerate(table.cells(human, "human grades", levels), start=1)
        ]
    grades = [
        HumanGrade(name, *cell, rater=who, where=f"{table.name}: row {row}", is_mean=human_count is not None)
        for row, (name, cell, who) in enumerate(zip(items, shares, raters, strict=True), start=1)
        if cell is not None
    ]
    if not grades:
        raise InputError(f"{table.name}: column {human!r} has no grades.")
    return grades


def _mean_shares(
    table: _Table, levels: GradeLevels, human: str, human_count: str
) -> list[tuple[FloatArray, int] | None]:
    """Shares of the two levels next to each mean grade, which is the smallest spread it can have, and the count."""
    if not levels.is_numeric:
        raise InputError(f"human_count: the levels {levels} are words and have no mean; give the grades themselves.")
    cells: list[tuple[FloatArray, int] | None] = []
    pairs = zip(table.numbers(human, "human grades"), table.numbers(human_count, "numbers of people"), strict=True)
    for row, (mean, count) in enumerate(pairs, start=1):
        if np.isnan(mean):
            cells.append(None)
            continue
        if not levels.values[0] <= mean <= levels.values[-1]:
            raise InputError(f"{table.name}: row {row}: the mean {mean:g} is outside the levels {levels}.")
        if not 1 <= count <= MAX_VOTES or count != int(count):
            raise InputError(
                f"{table.name}: row {row} has {count:g} in {human_count!r}, expected an integer from 1 to "
                f"{MAX_VOTES:,}."
            )
        cells.append((levels.shares(mean), int(count)))
    return cells
