"""The log of a monitor: a folder with one file per day, which holds the sums of that day's labelled rows."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.tally import Tally
from orcu.inputs import BoolArray, IntArray, as_count
from orcu.io.files import locked, read_json, write_json
from orcu.metrics.sums import WEIGHT
from orcu.predictions.predictions import Predictions, PredictionsSource, check_unique, open_predictions
from orcu.predictions.used_rows import UsedRows

STATE_VERSION = 1
DIGITS = 16  # of an id's SHA-256: two of a million ids share them once in tens of millions of days


def as_day(value: Any, *, name: str = "day") -> date:
    """A day from a date, or a text such as 2026-11-01, with a time of day or without.

    Raises:
        InputError: if it is anything else; 11/01/2026 may be of January or of November, and is not guessed.

    Example:
        >>> as_day("2026-11-01T23:59:00"), as_day(date(2026, 11, 1))
        (datetime.date(2026, 11, 1), datetime.date(2026, 11, 1))
    """
    if isinstance(value, date):  # a datetime is one too
        return date(value.year, value.month, value.day)
    text = str(value).strip()
    if re.match(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return datetime.fromisoformat(text).date()
        except ValueError:
            pass
    raise InputError(f"{name}: expected a day such as 2026-11-01, got {text!r}.")


@dataclass(frozen=True)
class Day:
    """What is known of one day.

    Attributes:
        day: of the predictions, not of their labels.
        classes: names of the classes, lowest first.
        tally: the sums of the rows that have a label.
        waiting: how many rows have none yet.
        ids: of the rows in the tally, hashed; ``None`` if they have none.
        waiting_ids: of the rows without a label, hashed.
        sources: the files that the rows came from: name and SHA-256.
    """

    day: date
    classes: tuple[str, ...]
    tally: Tally
    waiting: int = 0
    ids: frozenset[str] | None = None
    waiting_ids: frozenset[str] | None = None
    sources: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(cls, day: Any, rows: Predictions, codes: IntArray, *, bins: int = 15) -> "Day":
        """The rows of one day.

        Args:
            day: their day.
            rows: the predictions; their own labels are not read.
            codes: labels 0..C-1, and -1 where one has not come yet, shape (n,).
            bins: of the tally.

        Raises:
            InputError: if the rows have weights, or an id stands twice.

        Example:
            >>> rows = Predictions(probs=[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
            >>> day = Day.of("2026-11-01", rows, np.array([0, 1, -1]))
            >>> day.tally.rows, day.waiting
            (2, 1)
        """
        if rows.weight is not None:
            raise InputError(
                "weight: evidence is counted in rows, so they have no weights here; leave the weights out."
            )
        come = codes >= 0
        tally = Tally(rows.num_classes, bins=bins)
        if come.any():
            values = rows.probs if rows.logits is None else rows.logits
            tally.update(**{rows.kind: values[come]}, y=codes[come])
        ids, waiting_ids = None, None
        if rows.ids is not None:
            check_unique(rows.ids, "id:")
            ids, waiting_ids = _hashed(rows, come), _hashed(rows, ~come)
        return cls(as_day(day), rows.classes, tally, int((~come).sum()), ids, waiting_ids)

    def joined(self, other: "Day") -> "Day":
        """The rows of both.

        Raises:
            InputError: if they are of other classes or bins, or have a row in common, as far as ids tell.
        """
        need_alike(self, other)
        if self.ids is None or other.ids is None:
            if (self.ids is None) != (other.ids is None):
                raise InputError(
                    f"{self.day}: some of its rows have ids and some have none, so doubles cannot be seen; name the "
                    "column of ids (--id) for all of them, or for none."
                )
            ids, waiting_ids, waiting = None, None, self.waiting + other.waiting
        else:
            doubles = self.ids & (other.ids | (other.waiting_ids or set()))
            if doubles:
                raise InputError(
                    f"{self.day}: {len(doubles):,} of the {len(other.ids) + other.waiting:,} rows are there already, "
                    "by their ids; take them out, or put the whole day anew (--replace)."
                )
            ids = self.ids | other.ids
            waiting_ids = ((self.waiting_ids or frozenset()) | (other.waiting_ids or frozenset())) - ids
            nameless = sum(day.waiting - len(day.waiting_ids or ()) for day in (self, other))
            waiting = len(waiting_ids) + nameless
        sources = (*self.sources, *(source for source in other.sources if source not in self.sources))
        return Day(self.day, self.classes, self.tally.merge(other.tally), waiting, ids, waiting_ids, sources)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON."""
        return {
            "monitored_day": STATE_VERSION,
            "day": self.day.isoformat(),
            "classes": list(self.classes),
            "waiting": self.waiting,
            "ids": None if self.ids is None else sorted(self.ids),
            "waiting_ids": None if self.waiting_ids is None else sorted(self.waiting_ids),
            "sources": [dict(source) for source in self.sources],
            "tally": self.tally.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Any) -> "Day":
        """The day that `to_dict` gave.

        Raises:
            InputError: if the state is damaged, of another version, or of rows with weights.
        """
        from pydantic import ValidationError

        from orcu.predictions.schemas import MonitoredDay, fault

        version = state.get("monitored_day") if isinstance(state, dict) else None
        if version is None:
            raise InputError("not a day of a log; `orcu monitor add` writes them.")
        if version != STATE_VERSION:
            raise InputError(f"a day of version {version!r}, this orcu reads {STATE_VERSION}; add the day anew.")
        try:
            known = MonitoredDay.model_validate(state)
        except ValidationError as error:
            raise InputError(f"damaged ({fault(error)}); add the day anew.") from None
        if len({len(limb) for limb in known.tally.limbs}) > 1:
            raise InputError("damaged (tally.limbs: of different lengths); add the day anew.")
        tally = Tally.from_dict(state["tally"])
        if tally.num_classes != len(known.classes):
            raise InputError(
                f"a tally of {tally.num_classes} classes, but {len(known.classes)} names; add the day anew."
            )
        need_counts(tally)
        return cls(
            as_day(known.day),
            tuple(known.classes),
            tally,
            known.waiting,
            None if known.ids is None else frozenset(known.ids),
            None if known.waiting_ids is None else frozenset(known.waiting_ids),
            tuple(known.sources),
        )


class Log:
    """A folder with a file for each day, such as ``2026-11-01.json``.

    Args:
        path: of the folder; it is made when the first day is added.

    Example:
        >>> import tempfile
        >>> log = Log(Path(tempfile.mkdtemp()) / "monitor")
        >>> _ = log.add("2026-11-01", Predictions(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1]))
        >>> [(str(one.day), one.tally.rows) for one in log.days()]
        [('2026-11-01', 2)]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def days(self) -> list[Day]:
        """All days in order; none if the folder is not there.

        Raises:
            InputError: if a file is no day, damaged, or of other classes or bins than the first.
        """
        files = self._files()
        days = [read_day(file) for file in files]
        for file, one in zip(files, days, strict=True):
            if file.name != _name(one.day):
                raise InputError(f"{file}: holds the day {one.day}, so it should be called {_name(one.day)}.")
            try:
                need_alike(days[0], one)
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
        return days

    def add(
        self,
        day: Any,
        predictions: Predictions,
        *,
        waiting: int = 0,
        bins: int = 15,
        replace: bool = False,
        more: bool = False,
    ) -> Day:
        """Add a day's labelled rows; what the log then holds of the day.

        Args:
            day: of the predictions: a date, or a text such as 2026-11-01.
            predictions: with labels.
            waiting: how many rows of the day have no label yet.
            bins: of what is said; the same for all days.
            replace: the day is there already and is put anew.
            more: the day is there already and gets further rows.

        Raises:
            InputError: if the day is there already and neither is said, or the rows do not fit the log; then nothing
                is written.
        """
        one = Day.of(day, predictions, predictions.labels, bins=bins)
        late = one.waiting + as_count(waiting, name="waiting", minimum=0)
        return self._put([dataclasses.replace(one, waiting=late)], anew=replace, more=more)[0]

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        day: Any = None,
        dates: str | None = None,
        bins: int = 15,
        replace: bool = False,
        more: bool = False,
        source: Mapping[str, str] | None = None,
        **options: Any,
    ) -> list[Day]:
        """Add the rows of a file, a batch at a time; those whose label is empty are counted as waiting.

        Args:
            path: of a file or folder of predictions, as for `orcu.predictions.predictions.open_predictions`.
            day: of all its rows, or:
            dates: the column that holds the day of each.
            bins: as for `add`.
            replace: as for `add`, of every day in the file.
            more: as for `add`.
            source: where the rows come from, to be noted in each day.
            options: how the file is read: ``label="grade"``, ``probs="p_*"`` and so on.

        Returns:
            What the log then holds of each day that the file has rows of.

        Raises:
            InputError: if the file cannot be read, a row has no day, or as for `add`; then nothing is written.
        """
        if (day is None) == (dates is None):
            raise InputError(
                "day, dates: say of which day the rows are (--day 2026-11-01), or which column tells (--date)."
            )
        opened = open_predictions(path, **options, group=dates)
        if opened.columns.weight is not None:
            raise InputError(
                f"{opened.name}: has weights in the column {opened.columns.weight!r}, and evidence is counted in rows; "
                "write the file without them."
            )
        days: dict[date, Day] = {}
        for one in _pieces(opened, None if day is None else as_day(day), bins):
            days[one.day] = days[one.day].joined(one) if one.day in days else one
        noted = () if source is None else (source,)
        return self._put(
            [dataclasses.replace(one, sources=noted) for _, one in sorted(days.items())], anew=replace, more=more
        )

    def _put(self, days: Sequence[Day], *, anew: bool, more: bool) -> list[Day]:
        if anew and more:
            raise InputError("replace, more: give only one of the two.")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; a log is a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / ".lock", wait=True):
            merged = [self._merged(one, anew=anew, more=more) for one in days]
            for one in merged:  # all of them fit
                write_json(self.path / _name(one.day), one.to_dict())
        return merged

    def _merged(self, one: Day, *, anew: bool, more: bool) -> Day:
        """What the log will hold of a day, and whether it fits the log's first."""
        file = self.path / _name(one.day)
        others = [path for path in self._files() if not (anew and path == file)]
        if others:
            need_alike(read_day(others[0]), one)
        if anew or not file.exists():
            return one
        known = read_day(file)
        if not more:
            raise InputError(
                f"{file}: the day is there already, with {known.tally.rows:,} labelled rows. Put the whole day anew "
                "(--replace), or add rows that are not in it yet (--more)."
            )
        # further rows that were not waiting by their ids are taken for some of those that wait without one
        named = known.waiting_ids or frozenset()
        strangers = one.tally.rows - len(named & (one.ids or frozenset()))
        nameless = known.waiting - len(named)
        known = dataclasses.replace(known, waiting=known.waiting - min(nameless, strangers))
        return known.joined(one)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.json"))


def read_day(path: str | os.PathLike[str]) -> Day:
    """One file of a log.

    Raises:
        InputError: if it is no day, or damaged.
    """
    return read_json(path, Day.from_dict)


def need_alike(first: Day, other: Day) -> None:
    """Refuse days whose sums cannot be added.

    Raises:
        InputError: if their classes or their bins differ.
    """
    if first.classes != other.classes:
        raise InputError(
            f"{other.day} has the classes {', '.join(other.classes)}, but {first.day} has {', '.join(first.classes)}; "
            "a log is of one model. Begin another log, or say --classes in the same order."
        )
    if first.tally.bins != other.tally.bins:
        raise InputError(
            f"{other.day} has {other.tally.bins} bins, but {first.day} has {first.tally.bins}; say --bins "
            f"{first.tally.bins}, or begin another log."
        )


def need_counts(tally: Tally) -> None:
    """Refuse a tally of weighted rows: evidence is counted in rows.

    Raises:
        InputError: if its sums of weights are no counts of its rows.
    """
    counts = tally.tables().top[WEIGHT]
    if counts.sum() != tally.rows or (counts % 1).any():
        raise InputError("its rows have weights, and evidence is counted in rows; add the day anew without them.")


def _pieces(source: PredictionsSource, day: date | None, bins: int) -> Iterator[Day]:
    """The rows of a file, batch by batch and in each batch day by day."""
    first_row = 1
    for rows, codes in source.late_parts():
        for when, here in _by_day(rows, day, first_row, source):
            try:
                yield Day.of(when, rows[here], codes[here], bins=bins)
            except InputError as error:
                raise InputError(f"{source.name}: {error}") from None
        first_row += len(rows)


def _by_day(
    rows: Predictions, day: date | None, first_row: int, source: PredictionsSource
) -> Iterator[tuple[date, BoolArray]]:
    """The days of some rows, and which rows each has."""
    if day is not None:
        yield day, np.ones(len(rows), dtype=np.bool_)
        return
    texts = np.asarray(rows.group)
    cells, index = np.unique(texts.astype(str), return_inverse=True)
    days = []
    for cell in cells.tolist():
        row = int(np.argmax(texts == cell)) + first_row
        days.append(as_day(cell, name=f"{source.name}: column {source.columns.group!r}, row {row}"))
    for when in sorted(set(days)):
        yield when, np.isin(index, [k for k, other in enumerate(days) if other == when])


def _hashed(rows: Predictions, which: BoolArray) -> frozenset[str]:
    """The ids of some rows as the beginnings of their SHA-256."""
    texts = UsedRows.of(rows.probs[which], np.asarray(rows.ids)[which]).ids or ()
    return frozenset(sha256(text.encode()).hexdigest()[:DIGITS] for text in texts)


def _name(day: date) -> str:
    return f"{day.isoformat()}.json"
