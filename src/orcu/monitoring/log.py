"""Monitoring log: a folder with one JSON file per day, which has the sums of the labelled rows of that day."""

import dataclasses
import json
import math
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.statistics import MAX_SUBGROUPS
from orcu.evaluation.tally import Tally
from orcu.inputs import BoolArray, FloatArray, IntArray, as_count
from orcu.io.dates import parse_date, parse_dates
from orcu.io.files import file_lock, read_json, write_json
from orcu.io.locations import RemotePath, as_location
from orcu.metrics.rows import Rows
from orcu.metrics.sums import WEIGHT, row_sums
from orcu.monitoring.bets import Bets, Contribution, check_cells
from orcu.predictions import Predictions, PredictionsSource, open_predictions
from orcu.predictions.predictions import check_unique_ids
from orcu.predictions.source import read_texts
from orcu.predictions.used_rows import UsedRows

STATE_VERSION = 2  # version 1 was written by orcu 0.2
HASH_DIGITS = 16  # hexadecimal digits of the SHA-256 of an id; a million ids collide once in tens of millions of days
MIN_DIGEST_ROWS = 10  # days with fewer different rows can be equal by chance
MAX_GAP_DAYS = 366  # between two days of a log
FIRST_DAY = date(1970, 1, 1)
READ_ATTEMPTS = 20  # a file can be moved by another process while the log is read
_PENDING, _STAGED = ".pending", ".pending.part"  # days of one `add`: complete, and not yet complete
_ADD_AGAIN = "add the day again with --overwrite"
_ANY_DAY = (
    "If the day is right, as when earlier days are added before the first check, set allow_any_day=True "
    "(--allow-any-day)."
)


def as_day(value: Any, *, name: str = "day", date_format: str | None = None) -> date:
    """Convert a date, or a text such as 2026-11-01 or 1.11.2026; 11/01/2026 is ambiguous and refused."""
    return parse_date(value, name=name, date_format=date_format)


@dataclass(frozen=True)
class Subgroup:
    """Sums of the rows of a subgroup."""

    rows: int  # number of labelled rows
    unlabelled: int  # number of rows without a label
    top: FloatArray  # weight, confidence and correct rows of each bin, shape (3, B)

    def merge(self, other: "Subgroup") -> "Subgroup":
        """Sums of the rows of both."""
        return Subgroup(self.rows + other.rows, self.unlabelled + other.unlabelled, self.top + other.top)


@dataclass(frozen=True)
class Day:
    """Sums of the rows of one day."""

    day: date  # of the predictions, not of their labels
    classes: tuple[str, ...]  # lowest first
    tally: Tally  # sums of the labelled rows
    unlabelled: int = 0  # number of rows without a label
    ids: frozenset[str] | None = field(default=None, repr=False)  # hashed ids of the rows in the tally
    unlabelled_ids: frozenset[str] | None = field(default=None, repr=False)  # hashed ids of the rows without a label
    sources: tuple[Mapping[str, str], ...] = ()  # name and SHA-256 of the files with the rows
    digests: frozenset[str] = field(
        default=frozenset(), repr=False
    )  # of the predictions, to detect the same rows under another day
    weighted: bool = False  # whether the rows have sample weights
    subgroups: Mapping[str, Subgroup] | None = field(default=None, repr=False)
    clusters: Mapping[str, tuple[int, ...]] | None = field(default=None, repr=False)  # occasions of each hashed cluster
    bets: Bets | None = field(default=None, repr=False)  # None: each row is one bet, and the tally has their sums
    squares: float = 0.0  # sum of squared weights of the clusters, or of the rows without clusters
    contribution: Contribution | None = field(default=None, repr=False)  # bets of new rows without occasions yet

    @classmethod
    def from_predictions(cls, day: Any, rows: Predictions, codes: IntArray, *, n_bins: int = 15) -> "Day":
        """Compute the sums of the rows of one day from the labels ``codes``, which are -1 where a label is missing."""
        is_labelled = codes >= 0
        tally = Tally(rows.num_classes, n_bins=n_bins)
        weighted = rows.sample_weight is not None
        subgroups, contribution, squares = None, None, float(is_labelled.sum())
        labelled = _labelled_rows(rows, codes, is_labelled)
        if is_labelled.any():
            tally.add(labelled)
        if weighted or rows.subgroup is not None or rows.cluster is not None:
            subgroup = None if rows.subgroup is None else np.asarray(rows.subgroup).astype(str)
            cluster = None if rows.cluster is None else _hash_texts(np.asarray(rows.cluster)[is_labelled].tolist())
            contribution = Contribution.from_rows(
                labelled,
                n_bins=n_bins,
                cluster=cluster,
                subgroup=None if subgroup is None else subgroup[is_labelled].tolist(),
            )
            squares = contribution.squares
            if subgroup is not None:
                subgroups = _subgroup_sums(labelled, subgroup, is_labelled, n_bins)
        ids, unlabelled_ids = None, None
        if rows.ids is not None:
            check_unique_ids(rows.ids)
            ids, unlabelled_ids = _hash_ids(rows, is_labelled), _hash_ids(rows, ~is_labelled)
        return cls(
            as_day(day),
            rows.classes,
            tally,
            int((~is_labelled).sum()),
            ids,
            unlabelled_ids,
            digests=_digests(rows.probs),
            weighted=weighted,
            subgroups=subgroups,
            clusters=None if rows.cluster is None else {},
            squares=squares,
            contribution=contribution,
        )

    @property
    def columns(self) -> str:
        """Roles of the columns that all days of a log have or do not have."""
        roles = {"--sample-weight": self.weighted, "--subgroup": self.subgroups is not None}
        roles["--cluster"] = self.clusters is not None
        return ", ".join(name for name, present in roles.items() if present)

    @property
    def effective_rows(self) -> float:
        """Number of independent rows with equal weights that have the same variance."""
        total = float(self.tally.sums().total) if self.tally.rows else 0.0
        return total**2 / self.squares if self.squares else 0.0

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
        contribution, bets, clusters = self.contribution or other.contribution, self.bets or other.bets, self.clusters
        squares = self.squares + other.squares
        if self.contribution is not None and other.contribution is not None:
            contribution = self.contribution.merge(other.contribution)
            squares = contribution.squares
        if self.bets is not None and other.bets is not None:
            bets = self.bets.merge(other.bets)
        if self.clusters is not None and other.clusters is not None:
            clusters = {
                name: (*self.clusters.get(name, ()), *other.clusters.get(name, ()))
                for name in {**self.clusters, **other.clusters}
            }
        return Day(
            self.day,
            self.classes,
            self.tally.merge(other.tally),
            unlabelled,
            ids,
            unlabelled_ids,
            (*self.sources, *(source for source in other.sources if source not in self.sources)),
            self.digests | other.digests,
            self.weighted,
            _merge_subgroups(self.subgroups, other.subgroups),
            clusters,
            bets,
            squares,
            contribution,
        )

    def with_occasions(self, used: dict[str, set[int]]) -> "Day":
        """The day with the bets of its new rows, whose occasions are added to those ``used`` by each cluster."""
        if self.contribution is None:
            return self
        bets, occasions = self.contribution.assign(used)
        clusters = None if occasions is None else {name: (number,) for name, number in occasions.items()}
        for name, numbers in (clusters or {}).items():
            used.setdefault(name, set()).update(numbers)
        return dataclasses.replace(self, bets=bets, clusters=clusters, contribution=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        if self.contribution is not None:
            return self.with_occasions({}).to_dict()
        subgroups = None
        if self.subgroups is not None:
            subgroups = {
                name: {"rows": part.rows, "unlabelled": part.unlabelled, "top": part.top.tolist()}
                for name, part in self.subgroups.items()
            }
        state = {
            "monitored_day": STATE_VERSION,
            "day": self.day.isoformat(),
            "classes": list(self.classes),
            "unlabelled": self.unlabelled,
            "ids": None if self.ids is None else sorted(self.ids),
            "unlabelled_ids": None if self.unlabelled_ids is None else sorted(self.unlabelled_ids),
            "sources": [dict(source) for source in self.sources],
            "digests": sorted(self.digests),
            "weighted": self.weighted,
            "subgroups": subgroups,
            "clusters": None if self.clusters is None else {name: [*self.clusters[name]] for name in self.clusters},
            "bets": None if self.bets is None else self.bets.to_dict(),
            "squares": self.squares,
            "tally": self.tally.to_dict(),
        }
        return state | {"sha256": _checksum(state)}

    @classmethod
    def from_dict(cls, state: Any) -> "Day":
        """Restore a day from the data of `to_dict`, also as written by orcu 0.2."""
        from orcu.io.schema import validate
        from orcu.monitoring.schemas import MonitoredDaySchema

        version = state.get("monitored_day") if isinstance(state, dict) else None
        if version is None:
            raise InputError("not a day of a monitoring log; `orcu monitor add` writes them.")
        if version not in (1, STATE_VERSION):
            raise InputError(f"monitored_day: expected version {STATE_VERSION}, got {version!r}; {_ADD_AGAIN}.")
        fields = validate(MonitoredDaySchema, state, "the day's data", fix=f"{_ADD_AGAIN.capitalize()}.")
        try:
            tally = Tally.from_dict(fields.tally)
            if tally.num_classes != len(fields.classes):
                raise InputError(f"{tally.num_classes} classes, but {len(fields.classes)} names")
            _check_tally(tally, fields.weighted)
        except InputError as error:
            raise InputError(f"damaged (tally: {error}); {_ADD_AGAIN}.") from None
        try:
            shape = tally.num_classes, tally.n_bins
            bets = None if fields.bets is None else Bets.from_dict(fields.bets, *shape)
            subgroups = None if fields.subgroups is None else _restore_subgroups(fields.subgroups, tally.n_bins)
            if bets is None and (fields.weighted or fields.clusters is not None or subgroups is not None):
                raise InputError("bets: missing")
            if version == STATE_VERSION and fields.sha256 != _checksum({**state}):
                raise InputError("sha256: the content has been changed")
            "".join([*fields.classes, *(subgroups or ())]).encode()
        except (InputError, UnicodeEncodeError) as error:
            raise InputError(f"damaged ({error}); {_ADD_AGAIN}.") from None
        clusters = fields.clusters
        return cls(
            as_day(fields.day),
            tuple(fields.classes),
            tally,
            fields.unlabelled,
            None if fields.ids is None else frozenset(fields.ids),
            None if fields.unlabelled_ids is None else frozenset(fields.unlabelled_ids),
            sources=tuple(fields.sources),
            digests=frozenset(fields.digests),
            weighted=fields.weighted,
            subgroups=subgroups,
            clusters=None if clusters is None else {name: tuple(numbers) for name, numbers in clusters.items()},
            bets=bets,
            squares=float(tally.rows) if fields.squares is None else fields.squares,
        )


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
        location = as_location(path)
        if isinstance(location, RemotePath):
            raise InputError(f"{location}: a log is a local folder; files to add to it may be remote.")
        self.path = location
        self._cache: dict[str, tuple[tuple[int, ...], Day]] = {}  # state of each file, and its content

    def __repr__(self) -> str:
        files = self._files()
        span = f", first={files[0].stem!r}, last={files[-1].stem!r}" if files else ""
        return f"Log({str(self.path)!r}, days={len(files)}{span})"

    def days(self) -> list[Day]:
        """All days in order; none if the folder does not exist.

        Raises:
            InputError: if a file is not a day, is damaged, is not a regular file, or has other classes, bins or kinds
                of columns than the first.
        """
        for _ in range(READ_ATTEMPTS):
            files = self._files()
            try:
                days = [self._read(file) for file in files]
            except FileNotFoundError:  # another process has moved it to its final place
                continue
            for file, day in zip(files, days, strict=True):
                if file.name != _file_name(day.day):
                    raise InputError(f"{file}: the content is of {day.day}; expected the name {_file_name(day.day)}.")
                check_compatible(days[0], day, where=f"{file}: ")
            return days
        raise InputError(f"{self.path}: the log is being changed by another process; try again.")

    def add(
        self,
        day: Any,
        predictions: Predictions,
        *,
        unlabelled: int = 0,
        n_bins: int = 15,
        overwrite: bool = False,
        append: bool = False,
        allow_duplicates: bool = False,
        allow_any_day: bool = False,
    ) -> Day:
        """Add the labelled rows of a day; subgroups, clusters and sample weights of the predictions are used.

        Args:
            day: day of the predictions: a date, or a text such as 2026-11-01.
            predictions: predictions with labels.
            unlabelled: number of rows of the day without a label.
            n_bins: number of bins; equal for all days of a log.
            overwrite: whether to replace an existing day.
            append: whether to add rows to an existing day.
            allow_duplicates: whether to add rows that are in the log under another day, such as cases that were
                predicted again and count again.
            allow_any_day: whether to accept a day before the first day of the log, a day in the future, or a day more
                than a year from the others, as when earlier days are added before the first check.

        Returns:
            The content of the log for this day.

        Raises:
            InputError: if the day exists and neither ``overwrite`` nor ``append`` is set, the rows are in the log
                already, the day is implausible, the rows do not fit the log, or the folder cannot be written. Nothing
                is written then.
        """
        rows = Day.from_predictions(day, predictions, predictions.labels, n_bins=n_bins)
        total = rows.unlabelled + as_count(unlabelled, name="unlabelled", minimum=0)
        new = [dataclasses.replace(rows, unlabelled=total)]
        allowed = {"allow_duplicates": allow_duplicates, "allow_any_day": allow_any_day}
        return self._write(new, overwrite=overwrite, append=append, **allowed)[0]

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        day: Any = None,
        date: str | None = None,
        date_format: str | None = None,
        n_bins: int = 15,
        overwrite: bool = False,
        append: bool = False,
        allow_duplicates: bool = False,
        allow_any_day: bool = False,
        source: Mapping[str, str] | None = None,
        **options: Any,
    ) -> list[Day]:
        """Add the rows of a file in batches; rows with an empty label are counted as unlabelled.

        Args:
            path: file or folder of predictions, as for `orcu.predictions.open_predictions`.
            day: day of all rows; give either ``day`` or ``date``.
            date: column with the day of each row.
            date_format: format of the days, such as ``"%d.%m.%Y"``; detected from all rows by default, see
                `orcu.io.dates.parse_dates`.
            n_bins: as for `add`.
            overwrite: as for `add`, for every day of the file.
            append: as for `add`, for every day of the file.
            allow_duplicates: as for `add`.
            allow_any_day: as for `add`.
            source: origin of the rows, stored with each day.
            options: column options of `orcu.predictions.open_predictions`: ``label="grade"``, ``probs="p_*"``,
                ``subgroup="site"``, ``cluster="patient"``, ``sample_weight="weight"`` ...

        Returns:
            The content of the log for each day of the file.

        Raises:
            InputError: if the file cannot be read, a row has no day, or as for `add`. Nothing is written then.
        """
        if (day is None) == (date is None):
            raise InputError("day, date: give exactly one: the day of all rows, or the column of days.")
        # The date column is read as the split of each row, which is not used otherwise.
        try:
            predictions = open_predictions(path, **options, **({} if date is None else {"split": date}))
        except InputError as error:
            raise InputError(str(error).replace(f"{date!r} (split)", f"{date!r} (date)")) from None
        if day is not None:
            as_days: Mapping[str, Any] | Any = as_day(day, date_format=date_format)
        else:
            as_days = _read_dates(predictions, str(date), date_format)
        days: dict[Any, Day] = {}
        for part in _read_days(predictions, as_days, n_bins):
            days[part.day] = days[part.day].merge(part) if part.day in days else part
        sources = () if source is None else (source,)
        complete = [dataclasses.replace(day, sources=sources) for _, day in sorted(days.items())]
        allowed = {"allow_duplicates": allow_duplicates, "allow_any_day": allow_any_day}
        return self._write(complete, overwrite=overwrite, append=append, **allowed)

    def _write(
        self, days: Sequence[Day], *, overwrite: bool, append: bool, allow_duplicates: bool, allow_any_day: bool
    ) -> list[Day]:
        if overwrite and append:
            raise InputError("overwrite, append: set only one of the two.")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: expected a folder, got a file.")
        lock = self.path / ".lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(lock):
                _check_regular(lock)
            with file_lock(lock, wait=True):
                self._finish_pending()
                merged = self._merge(days, overwrite, append, allow_duplicates, allow_any_day)
                self._store(merged)  # only if all days fit
        except OSError as error:
            raise InputError(f"{self.path}: the log cannot be written ({error.strerror or error}).") from None
        return merged

    def _merge(
        self, days: Sequence[Day], overwrite: bool, append: bool, allow_duplicates: bool, allow_any_day: bool
    ) -> list[Day]:
        """New content of the log for some days, checked against the other days of the log."""
        replaced = {_file_name(day.day) for day in days} if overwrite else set()
        files = self._files()
        existing = {day.day: day for file in files if file.name not in replaced for day in [self._read(file)]}
        for day in days:
            if existing:
                check_compatible(next(iter(existing.values())), day)
            if day.day in existing and not append:
                raise InputError(
                    f"{self.path / _file_name(day.day)}: the day exists, with {existing[day.day].tally.rows:,} "
                    "labelled rows. Replace it with overwrite=True (--overwrite), or add further rows with append=True "
                    "(--append)."
                )
        if not allow_any_day:
            _check_plausible([day.day for day in days], [file.stem for file in files])
        if not allow_duplicates:
            for position, day in enumerate(days):
                _check_new(day, [*existing.values(), *days[:position]])
        used: dict[str, set[int]] = {}
        for other in existing.values():
            for name, numbers in (other.clusters or {}).items():
                used.setdefault(name, set()).update(numbers)
        merged = []
        for day in days:
            new, old = day.with_occasions(used), existing.get(day.day)
            merged.append(new if old is None else _without_labelled(old, new).merge(new))
        return merged

    def _store(self, days: Sequence[Day]) -> None:
        """Write some days, all or none: the folder of pending days is renamed when it is complete."""
        if len(days) == 1:
            write_json(self.path / _file_name(days[0].day), days[0].to_dict())
            return
        staged = self.path / _STAGED
        try:
            staged.mkdir()
            for day in days:
                write_json(staged / _file_name(day.day), day.to_dict())
        except OSError:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        staged.rename(self.path / _PENDING)
        self._finish_pending()

    def _finish_pending(self) -> None:
        """Finish what a process that ended early has left: complete days are kept, incomplete ones are removed."""
        for leftover in self.path.glob(".*.part"):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        pending = self.path / _PENDING
        if _is_folder(pending):
            for file in sorted(pending.iterdir()):
                file.replace(self.path / file.name)
            pending.rmdir()

    def _files(self) -> list[Path]:
        """Files of the days in order; pending days replace those in the folder."""
        folders = [self.path, *([self.path / _PENDING] if _is_folder(self.path / _PENDING) else [])]
        files = {file.name: file for folder in folders for file in folder.glob("*.json")}
        return [files[name] for name in sorted(files)]

    def _read(self, file: Path) -> Day:
        """Content of a file of the log; it is parsed again only if the file has changed."""
        state = _check_regular(file)
        version = (state.st_ino, state.st_mtime_ns, state.st_size)
        if file.name not in self._cache or self._cache[file.name][0] != version:
            self._cache[file.name] = version, read_day(file)
        return self._cache[file.name][1]


def read_day(path: str | os.PathLike[str]) -> Day:
    """Read one file of a log; raise an InputError if it is not a day, or damaged."""
    try:
        return read_json(path, Day.from_dict)
    except InputError:
        raise
    except (ValueError, OverflowError, MemoryError) as error:  # such as an integer with thousands of digits
        raise InputError(f"{path}: damaged ({error}); {_ADD_AGAIN}.") from None


def check_compatible(first: Day, other: Day, *, where: str = "") -> None:
    """Raise an InputError that begins with ``where`` if classes, bins or kinds of columns of two days differ."""
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
    if first.columns != other.columns:
        raise InputError(
            f"{where}{other.day} has {_columns(other)}, but {first.day} has {_columns(first)}. Give the same columns "
            "for all days, or use a new log."
        )


def _columns(day: Day) -> str:
    return f"the columns {day.columns}" if day.columns else "no weights, subgroups or clusters"


def _check_plausible(days: Sequence[date], names: Sequence[str]) -> None:
    """Raise an InputError for new days that are probably wrong; ``names`` are the days of the log."""
    existing = sorted(as_day(name, name="name of a file in the log") for name in names)
    latest = date.today() + timedelta(days=1)  # the day may have begun in another time zone
    for day in days:
        if day > latest:
            raise InputError(f"{day}: is in the future. {_ANY_DAY}")
        if day < FIRST_DAY:
            raise InputError(f"{day}: is before {FIRST_DAY}. {_ANY_DAY}")
        if existing and day < existing[0]:
            raise InputError(
                f"{day}: is before {existing[0]}, the first day of the log. A new first day changes all e-values. "
                f"{_ANY_DAY}"
            )
    ordered = sorted({*existing, *days})
    for day, following in pairwise(ordered):
        if (following - day).days > MAX_GAP_DAYS and {day, following} & {*days}:
            raise InputError(
                f"{day} and {following}: there is no day between them, for more than {MAX_GAP_DAYS} days. Is one of "
                f"them wrong? {_ANY_DAY}"
            )


def _check_new(day: Day, others: Sequence[Day]) -> None:
    """Raise an InputError if rows of a day are in the log under another day, or, without ids, under the same day."""
    option = "set allow_duplicates=True (--allow-duplicates)"
    ids = (day.ids or frozenset()) | (day.unlabelled_ids or frozenset())
    for other in others:
        if other.day != day.day and ids:
            shared = len(ids & (other.ids or frozenset())) + len(ids & (other.unlabelled_ids or frozenset()))
            if shared:
                raise InputError(
                    f"{day.day}: {shared:,} of the {len(ids):,} rows are in the log already, by their ids, under "
                    f"{other.day}. An id must name one row: give the column of a patient as --cluster. If they are "
                    f"other rows, such as cases that were predicted again and count again, {option}."
                )
        if day.digests & other.digests and not (other.day == day.day and ids):
            raise InputError(
                f"{day.day}: the same predictions are in the log already, under {other.day}. If they are other rows, "
                f"{option}."
            )


def _without_labelled(existing: Day, new: Day) -> Day:
    """The existing day without the unlabelled rows that are labelled now.

    New labelled rows whose ids are not among the unlabelled ones are taken for unlabelled rows without an id.
    """
    ids = existing.unlabelled_ids or frozenset()
    new_rows = new.tally.rows - len(ids & (new.ids or frozenset()))
    without_id = existing.unlabelled - len(ids)
    return dataclasses.replace(existing, unlabelled=existing.unlabelled - min(without_id, new_rows))


def _labelled_rows(rows: Predictions, codes: IntArray, is_labelled: BoolArray) -> Rows:
    weight = None if rows.sample_weight is None else rows.sample_weight[is_labelled]
    y = codes[is_labelled].astype(np.int64)
    if rows.logits is None:
        return Rows(rows.probs[is_labelled], y, weight)
    return Rows.from_logits(rows.logits[is_labelled], y, weight)


def _subgroup_sums(labelled: Rows, subgroup: Any, is_labelled: BoolArray, n_bins: int) -> dict[str, Subgroup]:
    names, codes = np.unique(subgroup, return_inverse=True)
    codes = codes.reshape(-1)
    _check_subgroups(names.tolist())
    sums = {}
    for k, name in enumerate(names.tolist()):
        part = labelled[codes[is_labelled] == k]
        unlabelled = int((codes[~is_labelled] == k).sum())
        sums[name] = Subgroup(len(part), unlabelled, row_sums(part, n_bins).top)
    return sums


def _check_subgroups(names: Sequence[str]) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"subgroup: {name!r} is not valid text; rename this subgroup.") from None
        if not name:
            raise InputError("subgroup: a name is empty; expected a name in every row.")
    if len(names) > MAX_SUBGROUPS:
        raise InputError(
            f"subgroup: {len(names)} different subgroups, expected at most {MAX_SUBGROUPS}. Is it the right column? "
            "For a patient or image id use cluster= (--cluster)."
        )


def _merge_subgroups(
    ours: Mapping[str, Subgroup] | None, others: Mapping[str, Subgroup] | None
) -> dict[str, Subgroup] | None:
    if ours is None or others is None:
        return None
    merged = {**ours, **others} | {name: ours[name].merge(others[name]) for name in ours.keys() & others.keys()}
    _check_subgroups([*merged])
    return merged


def _restore_subgroups(states: Mapping[str, Any], n_bins: int) -> dict[str, Subgroup]:
    subgroups = {}
    for name, state in states.items():
        where = f"subgroups: {name!r}"
        try:
            top = np.array(state.top, dtype=np.float64)
        except ValueError:
            raise InputError(f"{where}: rows of different lengths") from None
        if top.shape != (3, n_bins):
            raise InputError(f"{where}: expected sums of {n_bins} bins")
        check_cells(top, np.arange(n_bins), n_bins, name=where)
        subgroups[name] = Subgroup(state.rows, state.unlabelled, top)
    return subgroups


def _check_tally(tally: Tally, weighted: bool) -> None:
    """Raise an InputError if the sums are those of no rows, or of weighted rows and the day has no weights."""
    sums = tally.sums()
    total, counts = float(sums.total), sums.top[WEIGHT]
    tables = np.concatenate([sums.top[None], sums.thresholds, sums.classes])
    if not weighted and (total != tally.rows or (counts % 1).any()):
        raise InputError(f"the weight of {tally.rows} rows is {total:g}")
    if (sums.confusion < 0).any() or not np.allclose(tables[:, WEIGHT].sum(-1), total, rtol=1e-9, atol=1e-9):
        raise InputError("sums that no rows have")
    check_cells(np.moveaxis(tables, 1, 0), np.arange(tally.n_bins), tally.n_bins, name="bins")
    if not math.isclose(float(np.trace(sums.confusion)), float(sums.top[2].sum()), rel_tol=1e-9, abs_tol=1e-6):
        raise InputError("sums that no rows have")


def _checksum(state: Mapping[str, Any]) -> str:
    """SHA-256 of the content of a file without its checksum."""
    content = {name: value for name, value in state.items() if name != "sha256"}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_regular(path: Path) -> os.stat_result:
    """State of a regular file; an InputError for links, devices and pipes, which could be outside or block."""
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(state.st_mode), "a device")
        raise InputError(f"{path}: expected a regular file in the log folder, got {kind}; remove it.")
    return state


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_dates(source: PredictionsSource, column: str, date_format: str | None) -> dict[str, date]:
    """Days of the texts in the date column, recognised from all rows."""
    cells: dict[str, int] = {}
    for fragment in source.fragments:
        first_row = 1
        for batch in fragment.open_batches([column]):
            if not batch.num_rows:
                continue
            with fragment.file_in_errors():
                texts = read_texts(batch.column(column), column, first_row)
            distinct, first = np.unique(texts.astype(str), return_index=True)
            for text, row in zip(distinct.tolist(), first.tolist(), strict=True):
                cells.setdefault(text, row + first_row)
            first_row += batch.num_rows
    return parse_dates(cells, date_format=date_format, name=f"{source.name}: column {column!r}")


def _read_days(source: PredictionsSource, days: Any, n_bins: int) -> Iterator[Day]:
    """Sums of the rows of a file, for each batch and each day in it; ``days`` is one day, or that of each text."""
    for rows, codes in source.partly_labelled_batches():
        for row_day, mask in _day_masks(rows, days):
            with source.file_in_errors():
                part = Day.from_predictions(row_day, rows[mask], codes[mask], n_bins=n_bins)
            yield part


def _day_masks(rows: Predictions, days: Any) -> Iterator[tuple[date, BoolArray]]:
    """Days of some rows, and the mask of the rows of each."""
    if isinstance(days, date):
        yield days, np.ones(len(rows), dtype=np.bool_)
        return
    texts, index = np.unique(np.asarray(rows.split).astype(str), return_inverse=True)
    ordinals = np.array([days[text].toordinal() for text in texts.tolist()])[index.reshape(-1)]
    for ordinal in np.unique(ordinals).tolist():
        yield date.fromordinal(ordinal), ordinals == ordinal


def _digests(probs: FloatArray) -> frozenset[str]:
    """Digest of the rows in any order; none if so few rows are different that two days can be equal by chance."""
    ordered = probs[np.lexsort(probs.T)]
    different = 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())
    if different < MIN_DIGEST_ROWS:
        return frozenset()
    return frozenset([sha256(np.ascontiguousarray(ordered).data).hexdigest()[:HASH_DIGITS]])


def _hash_ids(rows: Predictions, mask: BoolArray) -> frozenset[str]:
    """Hashed ids of some rows."""
    return frozenset(_hash_texts(UsedRows.from_values(rows.probs[mask], np.asarray(rows.ids)[mask]).ids or ()))


def _hash_texts(texts: Sequence[Any]) -> list[str]:
    """First digits of the SHA-256 of each text."""
    return [sha256(str(text).encode(errors="surrogatepass")).hexdigest()[:HASH_DIGITS] for text in texts]


def _file_name(day: date) -> str:
    return f"{day.isoformat()}.json"
