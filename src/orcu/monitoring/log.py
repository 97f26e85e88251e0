"""Monitoring log: a folder with one JSON file per day, which has the sums of the labelled rows of that day."""

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
from orcu.io.files import file_lock, read_json, write_json
from orcu.metrics.sums import WEIGHT
from orcu.predictions import Predictions, PredictionsSource, open_predictions
from orcu.predictions.predictions import check_unique_ids
from orcu.predictions.used_rows import UsedRows

STATE_VERSION = 1
HASH_DIGITS = 16  # hexadecimal digits of the SHA-256 of an id; a million ids collide once in tens of millions of days
_ADD_AGAIN = "add the day again with --overwrite"
_NO_WEIGHTS = "the e-values count rows, so weighted rows are not supported; remove the weights"


def as_day(value: Any, *, name: str = "day") -> date:
    """Convert a date, or a text such as 2026-11-01 with or without a time of day; 11/01/2026 is not guessed."""
    if isinstance(value, date):  # also a datetime
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
    """Sums of the rows of one day."""

    day: date  # of the predictions, not of their labels
    classes: tuple[str, ...]  # lowest first
    tally: Tally  # sums of the labelled rows
    unlabelled: int = 0  # number of rows without a label
    ids: frozenset[str] | None = None  # hashed ids of the rows in the tally
    unlabelled_ids: frozenset[str] | None = None  # hashed ids of the rows without a label
    sources: tuple[Mapping[str, str], ...] = ()  # name and SHA-256 of the files with the rows

    @classmethod
    def from_predictions(cls, day: Any, rows: Predictions, codes: IntArray, *, n_bins: int = 15) -> "Day":
        """Compute the sums of the rows of one day from the labels ``codes``, which are -1 where a label is missing."""
        if rows.sample_weight is not None:
            raise InputError(f"sample_weight: {_NO_WEIGHTS}.")
        is_labelled = codes >= 0
        tally = Tally(rows.num_classes, n_bins=n_bins)
        if is_labelled.any():
            values = rows.probs if rows.logits is None else rows.logits
            tally.update(**{rows.kind: values[is_labelled]}, y=codes[is_labelled])
        ids, unlabelled_ids = None, None
        if rows.ids is not None:
            check_unique_ids(rows.ids)
            ids, unlabelled_ids = _hash_ids(rows, is_labelled), _hash_ids(rows, ~is_labelled)
        return cls(as_day(day), rows.classes, tally, int((~is_labelled).sum()), ids, unlabelled_ids)

    def merge(self, other: "Day") -> "Day":
        """Sums of the rows of both; raise an InputError if classes or bins differ, or an id is in both."""
        check_compatible(self, other)
        ids, unlabelled_ids, unlabelled = None, None, self.unlabelled + other.unlabelled
        if (self.ids is None) != (other.ids is None):
            raise InputError(
                f"{self.day}: some rows have ids and some do not, so duplicates cannot be detected; give the id column "
                "(--id) for all rows or for none."
            )
        if self.ids is not None and other.ids is not None:
            duplicates = self.ids & (other.ids | (other.unlabelled_ids or set()))
            if duplicates:
                raise InputError(
                    f"{self.day}: {len(duplicates):,} of the {len(other.ids) + other.unlabelled:,} rows are in the log "
                    f"already, by their ids; remove them, or {_ADD_AGAIN}."
                )
            ids = self.ids | other.ids
            unlabelled_ids = ((self.unlabelled_ids or frozenset()) | (other.unlabelled_ids or frozenset())) - ids
            without_id = sum(day.unlabelled - len(day.unlabelled_ids or ()) for day in (self, other))
            unlabelled = len(unlabelled_ids) + without_id
        sources = (*self.sources, *(source for source in other.sources if source not in self.sources))
        return Day(self.day, self.classes, self.tally.merge(other.tally), unlabelled, ids, unlabelled_ids, sources)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "monitored_day": STATE_VERSION,
            "day": self.day.isoformat(),
            "classes": list(self.classes),
            "unlabelled": self.unlabelled,
            "ids": None if self.ids is None else sorted(self.ids),
            "unlabelled_ids": None if self.unlabelled_ids is None else sorted(self.unlabelled_ids),
            "sources": [dict(source) for source in self.sources],
            "tally": self.tally.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Any) -> "Day":
        """Restore a day from the data of `to_dict`, also as written by orcu 0.2."""
        from orcu.io.schema import validate
        from orcu.monitoring.schemas import MonitoredDaySchema

        version = state.get("monitored_day") if isinstance(state, dict) else None
        if version is None:
            raise InputError("not a day of a monitoring log; `orcu monitor add` writes them.")
        if version != STATE_VERSION:
            raise InputError(f"monitored_day: expected version {STATE_VERSION}, got {version!r}; {_ADD_AGAIN}.")
        fields = validate(MonitoredDaySchema, state, "the day's data", fix=f"{_ADD_AGAIN.capitalize()}.")
        try:
            tally = Tally.from_dict(fields.tally)
        except InputError as error:
            raise InputError(f"damaged (tally: {error}); {_ADD_AGAIN}.") from None
        if tally.num_classes != len(fields.classes):
            raise InputError(
                f"damaged (tally: {tally.num_classes} classes, but {len(fields.classes)} names); {_ADD_AGAIN}."
            )
        counts = tally.sums().top[WEIGHT]
        if counts.sum() != tally.rows or (counts % 1).any():
            raise InputError(f"tally: {_NO_WEIGHTS}, then {_ADD_AGAIN}.")
        ids, unlabelled_ids = (None if ids is None else frozenset(ids) for ids in (fields.ids, fields.unlabelled_ids))
        day, classes, sources = as_day(fields.day), tuple(fields.classes), tuple(fields.sources)
        return cls(day, classes, tally, fields.unlabelled, ids, unlabelled_ids, sources)


class Log:
    """Monitoring log: a folder with a file per day, such as ``2026-11-01.json``.

    Args:
        path: folder; it is created with the first day.

    Example:
        >>> import tempfile
        >>> log = Log(Path(tempfile.mkdtemp()) / "monitor")
        >>> _ = log.add("2026-11-01", Predictions(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1]))
        >>> [(str(day.day), day.tally.rows) for day in log.days()]
        [('2026-11-01', 2)]
        >>> repr(log).endswith("monitor', days=1, first='2026-11-01', last='2026-11-01')")
        True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        files = self._files()
        span = f", first={files[0].stem!r}, last={files[-1].stem!r}" if files else ""
        return f"Log({str(self.path)!r}, days={len(files)}{span})"

    def days(self) -> list[Day]:
        """All days in order; none if the folder does not exist.

        Raises:
            InputError: if a file is not a day, is damaged, or has other classes or bins than the first.
        """
        files = self._files()
        days = [read_day(file) for file in files]
        for file, day in zip(files, days, strict=True):
            if file.name != _file_name(day.day):
                raise InputError(f"{file}: the content is of {day.day}; expected the name {_file_name(day.day)}.")
            check_compatible(days[0], day, where=f"{file}: ")
        return days

    def add(
        self,
        day: Any,
        predictions: Predictions,
        *,
        unlabelled: int = 0,
        n_bins: int = 15,
        overwrite: bool = False,
        append: bool = False,
    ) -> Day:
        """Add the labelled rows of a day.

        Args:
            day: day of the predictions: a date, or a text such as 2026-11-01.
            predictions: predictions with labels.
            unlabelled: number of rows of the day without a label.
            n_bins: number of bins; equal for all days of a log.
            overwrite: whether to replace an existing day.
            append: whether to add rows to an existing day.

        Returns:
            The content of the log for this day.

        Raises:
            InputError: if the day exists and neither ``overwrite`` nor ``append`` is set, or the rows do not fit the
                log. Nothing is written then.
        """
        rows = Day.from_predictions(day, predictions, predictions.labels, n_bins=n_bins)
        total = rows.unlabelled + as_count(unlabelled, name="unlabelled", minimum=0)
        return self._write([dataclasses.replace(rows, unlabelled=total)], overwrite=overwrite, append=append)[0]

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        day: Any = None,
        date: str | None = None,
        n_bins: int = 15,
        overwrite: bool = False,
        append: bool = False,
        source: Mapping[str, str] | None = None,
        **options: Any,
    ) -> list[Day]:
        """Add the rows of a file in batches; rows with an empty label are counted as unlabelled.

        Args:
            path: file or folder of predictions, as for `orcu.predictions.open_predictions`.
            day: day of all rows; give either ``day`` or ``date``.
            date: column with the day of each row.
            n_bins: as for `add`.
            overwrite: as for `add`, for every day of the file.
            append: as for `add`, for every day of the file.
            source: origin of the rows, stored with each day.
            options: column options of `orcu.predictions.open_predictions`: ``label="grade"``, ``probs="p_*"`` ...

        Returns:
            The content of the log for each day of the file.

        Raises:
            InputError: if the file cannot be read, a row has no day, or as for `add`. Nothing is written then.
        """
        if (day is None) == (date is None):
            raise InputError("day, date: give exactly one: the day of all rows, or the column of days.")
        predictions = open_predictions(path, **options, subgroup=date)
        if predictions.columns.sample_weight is not None:
            raise InputError(f"{predictions.name}: column {predictions.columns.sample_weight!r}: {_NO_WEIGHTS}.")
        days: dict[Any, Day] = {}
        for part in _read_days(predictions, None if day is None else as_day(day), n_bins):
            days[part.day] = days[part.day].merge(part) if part.day in days else part
        sources = () if source is None else (source,)
        complete = [dataclasses.replace(day, sources=sources) for _, day in sorted(days.items())]
        return self._write(complete, overwrite=overwrite, append=append)

    def _write(self, days: Sequence[Day], *, overwrite: bool, append: bool) -> list[Day]:
        if overwrite and append:
            raise InputError("overwrite, append: set only one of the two.")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: expected a folder, got a file.")
        self.path.mkdir(parents=True, exist_ok=True)
        with file_lock(self.path / ".lock", wait=True):
            merged = [self._merge(day, overwrite=overwrite, append=append) for day in days]
            for day in merged:  # only if all days fit
                write_json(self.path / _file_name(day.day), day.to_dict())
        return merged

    def _merge(self, day: Day, *, overwrite: bool, append: bool) -> Day:
        """New content of the log for a day, checked against the first day of the log."""
        file = self.path / _file_name(day.day)
        others = [path for path in self._files() if not (overwrite and path == file)]
        if others:
            check_compatible(read_day(others[0]), day)
        if overwrite or not file.exists():
            return day
        existing = read_day(file)
        if not append:
            raise InputError(
                f"{file}: the day exists, with {existing.tally.rows:,} labelled rows. Replace it with overwrite=True "
                "(--overwrite), or add further rows with append=True (--append)."
            )
        # New labelled rows whose ids are not among the unlabelled ones are taken for unlabelled rows without an id.
        ids = existing.unlabelled_ids or frozenset()
        new_rows = day.tally.rows - len(ids & (day.ids or frozenset()))
        without_id = existing.unlabelled - len(ids)
        existing = dataclasses.replace(existing, unlabelled=existing.unlabelled - min(without_id, new_rows))
        return existing.merge(day)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.json"))


def read_day(path: str | os.PathLike[str]) -> Day:
    """Read one file of a log; raise an InputError if it is not a day, or damaged."""
    return read_json(path, Day.from_dict)


def check_compatible(first: Day, other: Day, *, where: str = "") -> None:
    """Raise an InputError that begins with ``where`` if the classes or numbers of bins of two days differ."""
    if first.classes != other.classes:
        raise InputError(
            f"{where}{other.day} has the classes {', '.join(other.classes)}, but {first.day} has "
            f"{', '.join(first.classes)}. A log is for one model: use a new log, or give --classes in the same order."
        )
    if first.tally.n_bins != other.tally.n_bins:
        raise InputError(
            f"{where}{other.day} has {other.tally.n_bins} bins, but {first.day} has {first.tally.n_bins}; set --n-bins "
            f"{first.tally.n_bins}, or use a new log."
        )


def _read_days(source: PredictionsSource, day: date | None, n_bins: int) -> Iterator[Day]:
    """Sums of the rows of a file, for each batch and each day in it."""
    first_row = 1
    for rows, codes in source.partly_labelled_batches():
        for row_day, mask in _day_masks(rows, day, first_row, source):
            with source.file_in_errors():
                part = Day.from_predictions(row_day, rows[mask], codes[mask], n_bins=n_bins)
            yield part
        first_row += len(rows)


def _day_masks(
    rows: Predictions, day: date | None, first_row: int, source: PredictionsSource
) -> Iterator[tuple[date, BoolArray]]:
    """Days of some rows, and the mask of the rows of each."""
    if day is not None:
        yield day, np.ones(len(rows), dtype=np.bool_)
        return
    texts = np.asarray(rows.subgroup)  # the date column is read as the subgroup
    cells, index = np.unique(texts.astype(str), return_inverse=True)
    days = []
    for cell in cells.tolist():
        row = int(np.argmax(texts == cell)) + first_row
        days.append(as_day(cell, name=f"{source.name}: column {source.columns.subgroup!r}, row {row}"))
    for row_day in sorted(set(days)):
        yield row_day, np.isin(index, [k for k, other in enumerate(days) if other == row_day])


def _hash_ids(rows: Predictions, mask: BoolArray) -> frozenset[str]:
    """First digits of the SHA-256 of the ids of some rows."""
    texts = UsedRows.from_values(rows.probs[mask], np.asarray(rows.ids)[mask]).ids or ()
    return frozenset(sha256(text.encode()).hexdigest()[:HASH_DIGITS] for text in texts)


def _file_name(day: date) -> str:
    return f"{day.isoformat()}.json"
