"""Predictions of any model: in memory as one value, or read batch by batch from files and frames.

`Predictions` holds what a model said about some rows and, where it is known, what came true. The training half writes
it, everything that judges reads only it. Every guess about a file is announced in ``notes``, every bad row is named.
"""

import copy
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import (
    FloatArray,
    IntArray,
    ObjectArray,
    as_array,
    as_doubt,
    as_labels,
    as_matrix,
    as_weight,
    check_numbered_columns,
    entry_text,
    half_unit,
    normalised,
    read_only,
)
from orcu.io.card import card
from orcu.io.reading import BATCH_ROWS, TableFile, as_numbers, as_numpy, open_table
from orcu.io.writing import write_table
from orcu.predictions.columns import (
    Columns,
    check_positions,
    columns_of,
    listed,
    no_column,
    ordered_classes,
    value_columns,
    without_common_prefix,
)
from orcu.predictions.labels import (
    BY_VALUE,
    POSITIONS,
    Coded,
    canonical,
    class_names,
    is_missing,
    is_null,
    label_codes,
    need_position_zero,
)
from orcu.predictions.used_rows import UsedRows

SCHEMA_VERSION = 1
NUMBERS = ("weight", "doubt")  # optional columns of numbers
CARRIED = ("group", "subject", "split", "fold")  # optional columns that are carried along
KINDS = {"probs": "probabilities", "logits": "logits"}
NO_LABELS = "no labels"
ALL_DIGITS = 9  # numbers with as many digits after the point are not rounded, as far as we care


class FittedCalibrator(Protocol):
    """What a calibrator has to have to move predictions."""

    name: ClassVar[str]

    @property
    def fitted_on_(self) -> UsedRows:
        """The rows that fitted it."""

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        weight: Any = None,
        ids: Any = None,
        subject: Any = None,
    ) -> Any:
        """Learn from labelled rows."""

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """The moved logits."""


CalibratorT = TypeVar("CalibratorT", bound=FittedCalibrator)


@dataclass(frozen=True)
class Origin:
    """Where a part of a larger table comes from, so that messages name the file's own rows and columns.

    What only all rows can tell (whether ids are unique, where labels start) is left to who reads them.

    Attributes:
        name: of the file.
        first_row: the number of the part's first row.
        values: names of the columns of logits or probabilities.
        label: name of the column of labels.
        weight: name of the column of weights.
        doubt: name of the column of scores by which rows are referred.
        rounding: how far each probability may be off: half a unit of its last printed digit or bit.
        classes_named: whether the caller has named the classes, or they were read off the columns.
    """

    name: str
    first_row: int
    values: Sequence[str]
    label: str | None
    weight: str | None
    doubt: str | None
    rounding: float
    classes_named: bool


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Predictions:
    """Predictions of one model: ids, labels, logits or probabilities, class names in order. A value: it never changes.

    Args:
        probs: class probabilities, shape (n, C). Rows that miss 1 by at most 1e-3 (half types: by
            their rounding) are normalised and counted in ``notes``.
        logits: logits, shape (n, C); exactly one of the two is given.
        y: labels: class names, or integers 0..C-1; ``None`` for new cases.
        codes: labels as positions 0..C-1 whatever the classes are called, in place of ``y``.
        classes: names of the classes in their order; "0".."C-1" if not given.
        ids: one id per row, all different.
        weight: one non-negative weight per row.
        doubt: a score per row by which rows are referred to a human, the highest first, in place of confidence.
        group: a group per row, such as a hospital, to be judged side by side.
        subject: a subject per row, such as a patient, to be resampled as a whole.
        split: a split name per row.
        fold: a fold per row.
        notes: what there is to say about them, such as what was recognised in their file.
        history: what was done to them, and with which rows.
        origin: the part of a file that they are; for who reads files.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> predictions = Predictions(
        ...     probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], y=["none", "mild"], classes=["none", "mild", "severe"]
        ... )
        >>> len(predictions), predictions.num_classes, predictions.y.tolist()
        (2, 3, [0, 1])
    """

    probs: FloatArray
    logits: FloatArray | None
    y: IntArray | None
    classes: tuple[str, ...]
    ids: ObjectArray | None
    weight: FloatArray | None
    doubt: FloatArray | None
    group: ObjectArray | None
    subject: ObjectArray | None
    split: ObjectArray | None
    fold: ObjectArray | None
    mapping: str  # how labels were matched to classes
    notes: tuple[str, ...]
    history: tuple[Mapping[str, Any], ...]
    off_rows: int  # that missed a sum of 1 and were normalised
    worst_miss: float  # among them

    def __init__(
        self,
        *,
        probs: Any = None,
        logits: Any = None,
        y: Any = None,
        codes: Any = None,
        classes: Sequence[Any] | None = None,
        ids: Any = None,
        weight: Any = None,
        doubt: Any = None,
        group: Any = None,
        subject: Any = None,
        split: Any = None,
        fold: Any = None,
        notes: Iterable[str] = (),
        history: Iterable[Mapping[str, Any]] = (),
        origin: Origin | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise InputError("probs, logits: give exactly one of the two; it is never guessed.")
        kind, given = ("probs", probs) if logits is None else ("logits", logits)
        first_row, columns = (0, None) if origin is None else (origin.first_row, origin.values)
        name = kind if origin is None else origin.name
        if classes is None:
            check_numbered_columns(given, kind)
        values = read_only(as_matrix(given, name=name, first_row=first_row, columns=columns))
        missed = np.zeros(0)
        if kind == "probs":
            rounding = half_unit(probs) if origin is None else origin.rounding
            values, missed = normalised(values, rounding=rounding, name=name, first_row=first_row, columns=columns)
        rows, num_classes = values.shape
        names = class_names(classes, num_classes)
        mapping = NO_LABELS
        if y is not None and codes is not None:
            raise InputError("y, codes: give only one of the two.")
        if codes is not None:
            codes, mapping = as_labels(codes, num_classes, rows=rows, name="codes"), BY_VALUE
        elif y is not None:
            _check_frames(given, y, classes, names)
            named = classes is not None if origin is None else origin.classes_named
            what = "y" if origin is None else str(origin.label)
            codes, mapping = label_codes(y, names, given=named, rows=rows, first_row=first_row, name=what)
            if mapping == POSITIONS and origin is None:
                need_position_zero(int(codes.min()), "y")
        if weight is not None:
            what = "weight" if origin is None else f"column {origin.weight!r}"
            weight = as_weight(weight, rows=rows, name=what, first_row=first_row)
        if doubt is not None:
            what = "doubt" if origin is None else f"column {origin.doubt!r}"
            doubt = as_doubt(doubt, rows=rows, name=what, first_row=first_row)
        carried = {"ids": ids, "group": group, "subject": subject, "split": split, "fold": fold}
        if origin is None:
            carried = {role: _column(column, rows, role) for role, column in carried.items()}
            if carried["ids"] is not None:
                check_unique(carried["ids"])
        worst = float(missed.max(initial=0.0))
        self._set(
            probs=values if kind == "probs" else geometry.probs(values),
            logits=None if kind == "probs" else values,
            y=codes,
            classes=names,
            weight=weight,
            doubt=doubt,
            mapping=mapping,
            notes=(*notes, *(_notes(kind, values, len(missed), worst) if origin is None else ())),
            history=tuple(history),
            off_rows=len(missed),
            worst_miss=worst,
            **carried,
        )

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _with(self, **fields: Any) -> "Predictions":
        """The same but for some fields, which have been checked."""
        other = copy.copy(self)
        other._set(**fields)
        return other

    def replace(self, **changes: Any) -> "Predictions":
        """The same but for some arguments of the constructor, which checks them.

        Example:
            >>> predictions = Predictions(probs=[[0.7, 0.3]], y=[0])
            >>> predictions.replace(classes=["low", "high"]).label_names().tolist()
            ['low']
        """
        if not changes.keys() - {"notes", "history"}:
            return self._with(**{name: tuple(value) for name, value in changes.items()})
        mine: dict[str, Any] = {name: getattr(self, name) for name in ("classes", "ids", *NUMBERS, *CARRIED)}
        if not changes.keys() & {"probs", "logits"}:
            mine[self.kind] = self.probs if self.logits is None else self.logits
        if not changes.keys() & {"y", "codes"}:
            mine["codes"] = self.y
        return Predictions(**{**mine, "notes": self.notes, "history": self.history, **changes})

    @property
    def kind(self) -> str:
        """What was given: "logits" or "probs"."""
        return "probs" if self.logits is None else "logits"

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.probs)

    def __repr__(self) -> str:
        labels = "without labels" if self.y is None else "with labels"
        return f"Predictions({len(self)} rows, {self.kind} of {', '.join(self.classes)}; {labels})"

    def _repr_html_(self) -> str:
        carried = [name for name in ("ids", *NUMBERS, *CARRIED) if getattr(self, name) is not None]
        facts = {"with": ", ".join(carried)} if carried else {}
        mean = self.probs.mean(axis=0) if len(self) else np.zeros(self.num_classes)
        rows = [[name, f"{share:.1%}"] for name, share in zip(self.classes, mean, strict=True)]
        if self.y is not None:
            counts = np.bincount(self.y, minlength=self.num_classes)
            rows = [[*row, f"{count:,}"] for row, count in zip(rows, counts, strict=True)]
        return card(
            "Predictions",
            about=f"{len(self):,} rows, {KINDS[self.kind]} of {self.num_classes} classes, {self.mapping}",
            facts=facts,
            headings=["class, lowest first", "mean probability", "labels"][: 2 + (self.y is not None)],
            rows=rows,
            note="; ".join([*self.notes, *reuse_notes(self.history)]),
        )

    def __getitem__(self, rows: Any) -> "Predictions":
        """Some of the rows: a slice, a mask, or indices."""
        return self._with(**{name: values[rows] for name, values in self._columns().items()})

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """What has an entry for each row."""
        names = ("probs", "logits", "y", "ids", *NUMBERS, *CARRIED)
        columns = {name: getattr(self, name) for name in names}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def labels(self) -> IntArray:
        """The labels 0..C-1, shape (n,).

        Raises:
            InputError: if there are none.
        """
        if self.y is None:
            raise InputError(
                "the predictions have no labels; what comes true is needed to judge them. "
                "Give y=..., or --label COLUMN on the command line."
            )
        return self.y

    def label_names(self) -> ObjectArray:
        """The class name of each row's label.

        Raises:
            InputError: if there are no labels.
        """
        return np.array(self.classes, dtype=object)[self.labels]

    def as_logits(self) -> tuple[FloatArray, int]:
        """Logits, and how many zero probabilities had to be replaced for them.

        From probabilities these are their logarithms; zeros become half the smallest positive value.

        Example:
            >>> logits, replaced = Predictions(probs=[[0.5, 0.5, 0.0]]).as_logits()
            >>> logits.round(3).tolist(), replaced
            ([[-0.693, -0.693, -1.386]], 1)
        """
        if self.logits is not None:
            return self.logits, 0
        zero = self.probs == 0
        floor = max(self.probs[~zero].min() / 2, np.finfo(np.float64).tiny)  # half of a denormal may be 0
        return np.log(np.where(zero, floor, self.probs)), int(zero.sum())

    def calibrated(self, calibrator: FittedCalibrator) -> "Predictions":
        """These predictions moved by a fitted calibrator; ``history`` tells how many rows had fitted it.

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes.

        Example:
            >>> from orcu.calibrators import TemperatureScaling
            >>> predictions = Predictions(logits=[[2.0, 0.0]] * 5, y=[0, 1, 0, 0, 0], ids=range(5))
            >>> fitted = TemperatureScaling().fit(predictions.logits, predictions.y, ids=predictions.ids)
            >>> predictions[3:].calibrated(fitted).history[-1]["shared"]
            2
        """
        values: dict[str, Any] = {self.kind: self.probs if self.logits is None else self.logits}
        if getattr(calibrator, "by_group", False):
            values["group"] = self.group
        logits = calibrator.predict_logits(**values)
        shared = calibrator.fitted_on_.shared_with(UsedRows.of(self.as_logits()[0], self.ids))
        step = {"step": "calibrate", "method": calibrator.name, "rows": len(self), "shared": shared}
        return self._with(logits=logits, probs=geometry.probs(logits), history=(*self.history, step))

    def calibrated_on(self, held: "Predictions", calibrator: FittedCalibrator) -> "Predictions":
        """These predictions moved by a calibrator that is fitted on other, labelled ones.

        Args:
            held: rows that the model was not trained on, and that are not judged afterwards.
            calibrator: it is fitted in place.

        Raises:
            InputError: if the held rows have no labels, or other classes.

        Example:
            >>> from orcu.calibrators import TemperatureScaling
            >>> held = Predictions(logits=[[2.0, 0.0]] * 5, y=[0, 1, 0, 0, 0])
            >>> new = Predictions(logits=[[4.0, 0.0]])
            >>> new.calibrated_on(held, TemperatureScaling()).probs.round(2)
            array([[0.94, 0.06]])
        """
        if held.classes != self.classes:
            raise InputError(
                f"held: its classes are {', '.join(held.classes)}, these predictions' {', '.join(self.classes)}."
            )
        held.fit_calibrator(calibrator)
        return self.calibrated(calibrator)

    def fit_calibrator(self, calibrator: CalibratorT) -> CalibratorT:
        """The calibrator, fitted on these predictions, as logits or as probabilities, whichever they are.

        One that has a map for each group (`orcu.calibrators.GroupedCalibration`) gets the groups too.

        Raises:
            InputError: if there are no labels.
        """
        values: dict[str, Any] = {self.kind: self.probs if self.logits is None else self.logits}
        if getattr(calibrator, "by_group", False):
            values["group"] = self.group
        calibrator.fit(**values, y=self.labels, weight=self.weight, ids=self.ids, subject=self.subject)
        return calibrator

    def write(self, path: str | os.PathLike[str], *, no_formulas: bool = False) -> None:
        """Write to .parquet, .csv or .csv.gz; the file appears whole or not at all.

        Parquet keeps everything, with a schema version, and needs no options to be read again. The
        columns are id, label, logit_NAME or prob_NAME, weight, doubt, group, subject, split, fold.

        Args:
            path: where.
            no_formulas: in CSV, put a ' before texts that a spreadsheet would run.

        Raises:
            InputError: if the ending is another.
        """
        write_table(self.to_arrow(), path, no_formulas=no_formulas)

    def to_arrow(self) -> Any:
        """A pyarrow table of the columns that `write` names."""
        import pyarrow

        columns: dict[str, Any] = {}
        if self.ids is not None:
            columns["id"] = self.ids
        if self.y is not None:
            columns["label"] = self.label_names()
        prefix, values = ("prob", self.probs) if self.logits is None else ("logit", self.logits)
        for k, name in enumerate(self.classes):
            columns[f"{prefix}_{name}"] = values[:, k]
        for name in (*NUMBERS, *CARRIED):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        about = {
            "schema_version": SCHEMA_VERSION,
            "kind": self.kind,
            "classes": list(self.classes),
            "history": self.history,
        }
        arrays = {name: pyarrow.array(column) for name, column in columns.items()}
        return pyarrow.table(arrays, metadata={"orcu": json.dumps(about)})

    @staticmethod
    def read(path: str | os.PathLike[str], **options: Any) -> "Predictions":
        r"""Read a whole .parquet, .csv or .csv.gz file; options as for `open_predictions`.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
            >>> _ = path.write_text("grade,p_low,p_high\nlow,0.9,0.1\nhigh,0.4,0.6\n")
            >>> Predictions.read(path, label="grade", probs="p_*").y.tolist()
            [0, 1]
        """
        return open_predictions(path, **options).load()

    @staticmethod
    def from_frame(frame: Any, **options: Any) -> "Predictions":
        """From a pandas or polars frame or a pyarrow table; options as for a file.

        Example:
            >>> import pyarrow
            >>> table = pyarrow.table({"y": [0, 1], "p_0": [0.9, 0.4], "p_1": [0.1, 0.6]})
            >>> Predictions.from_frame(table, label="y", probs="p_*").probs.tolist()
            [[0.9, 0.1], [0.4, 0.6]]
        """
        return _from_frame(frame, columns_of(options)).load()


@dataclass(frozen=True)
class RowsRead:
    """What some rows of a file were like: how many, how many of them were normalised, how labels were matched."""

    rows: int = 0
    off_rows: int = 0
    worst_miss: float = 0.0
    lowest_label: int | None = None
    mappings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, part: Predictions) -> "RowsRead":
        """Of one batch."""
        lowest = None if part.y is None else int(part.y.min())
        return cls(len(part), part.off_rows, part.worst_miss, lowest, frozenset([part.mapping]))

    def __add__(self, other: "RowsRead") -> "RowsRead":
        lowest = [label for label in (self.lowest_label, other.lowest_label) if label is not None]
        return RowsRead(
            self.rows + other.rows,
            self.off_rows + other.off_rows,
            max(self.worst_miss, other.worst_miss),
            min(lowest, default=None),
            self.mappings | other.mappings,
        )


@dataclass(frozen=True)
class PredictionsSource:
    """Predictions that are read batch by batch, as often as needed.

    Iterate `batches`, or `load` all rows at once. ``notes`` tells what was recognised. A folder's `fragments` are its
    files, which can be read side by side.
    """

    name: str
    columns: Columns
    kind: str
    value_columns: list[str]
    classes: tuple[str, ...]
    notes: list[str]
    open_batches: Callable[[list[str]], Iterator[Any]]  # of pyarrow record batches, with the columns that are needed
    decimal: str = "."
    history: list[dict[str, Any]] = field(default_factory=list)
    files: list["PredictionsSource"] = field(default_factory=list)  # of a folder
    rows: int | None = None  # if that is known before they are read

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    @property
    def fragments(self) -> list["PredictionsSource"]:
        """The files, or this source itself."""
        return self.files or [self]

    def batches(self) -> Iterator[Predictions]:
        """The rows in order, some hundred thousand at a time.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        read = RowsRead()
        for fragment in self.fragments:
            for part in fragment.parts():
                read += RowsRead.of(part)
                yield part
        self.check(read)

    def parts(self) -> Iterator[Predictions]:
        """The rows of one file, without the checks that need all rows.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        return (part.checked() for part in self.unchecked_parts())

    def unchecked_parts(self) -> Iterator["UncheckedPart"]:
        """The rows of one file as they come from the disk; each part may be checked anywhere, and in any order.

        Raises:
            InputError: if they cannot be read.
        """
        rows, digits = 0, 0 if self.kind == "probs" else ALL_DIGITS
        for batch in self.open_batches(self._needed()):
            if not batch.num_rows:
                continue
            values = None
            if digits < ALL_DIGITS:  # what earlier rows print tells how far later ones may be off
                with self._naming_the_file():
                    values = self._values(batch, rows + 1)
                digits = max(digits, printed_decimals(values))
            yield UncheckedPart(self, batch, rows + 1, digits, values)
            rows += batch.num_rows

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:  # which of several files was it?
            text = str(error)
            raise InputError(text if text.startswith(self.name) else f"{self.name}: {text}") from None

    def late_parts(self) -> Iterator[tuple[Predictions, IntArray]]:
        r"""The rows in order, without labels, and the class of each one's label: -1 where it has not come yet.

        A label has not come where its cell is empty. Rows without one are checked like the others.

        Raises:
            InputError: if a row cannot be used, or no column of labels is named.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
            >>> _ = path.write_text("grade,p_low,p_high\nhigh,0.2,0.8\n,0.4,0.6\n")
            >>> [codes.tolist() for _, codes in open_predictions(path, label="grade", probs="p_*").late_parts()]
            [[1, -1]]
        """
        if self.columns.label is None:
            raise InputError(f"{self.name}: say which column holds the labels, as label= (--label grade).")
        read, waiting = RowsRead(), 0
        for fragment in self.fragments:
            unlabelled = replace(fragment, columns=replace(fragment.columns, label=None))
            for part in fragment.unchecked_parts():
                rows = unlabelled.checked(part)
                with fragment._naming_the_file():
                    codes, mapping = fragment._late_codes(part)
                come = codes >= 0
                waiting += int((~come).sum())
                if come.any():
                    read += RowsRead.of(rows[come]._with(y=codes[come], mapping=mapping))
                yield rows, codes
        if read.rows or not waiting:
            self.check(read)

    def _late_codes(self, part: "UncheckedPart") -> tuple[IntArray, str]:
        """The class of each label, -1 where the cell is empty, and how labels were matched."""
        name = str(self.columns.label)
        coded = _coded(part.batch.column(name), name)
        empty = [is_null(v) or (is_missing(v) and canonical(v) not in self.classes) for v in coded.values]
        values = [value for value, gap in zip(coded.values, empty, strict=True) if not gap]
        if not values:
            return np.full(len(coded.index), -1), NO_LABELS
        place = np.where(empty, -1, np.cumsum(np.logical_not(empty)) - 1)[coded.index]
        named = self.columns.classes is not None
        # An index of -1 takes some class or other, which is put right below; errors name the rows of the file.
        codes, mapping = label_codes(
            Coded(values, place), self.classes, given=named, first_row=part.first_row, name=name
        )
        return np.where(place < 0, -1, codes), mapping

    def check(self, read: RowsRead) -> None:
        """Check what only all rows can tell.

        Raises:
            InputError: if there are no rows, or labels are matched now one way, now another.
        """
        if not read.rows:
            raise InputError(f"{self.name}: there is no row below the header.")
        if len(read.mappings) > 1:
            raise InputError(
                f"{self.columns.label}: in some rows the labels are names of classes, in others positions "
                "0, 1, ...; write them in one way."
            )
        if POSITIONS in read.mappings and read.lowest_label is not None:
            need_position_zero(read.lowest_label, str(self.columns.label))

    def load(self) -> Predictions:
        """All rows in memory.

        Raises:
            InputError: if a row cannot be used, or an id stands twice.
        """
        return self.joined(list(self.batches()))

    def joined(self, parts: list[Predictions], read: RowsRead | None = None) -> Predictions:
        """One `Predictions` of batches that came from here, or of a sample of all rows that were ``read``.

        Raises:
            InputError: if an id stands twice.
        """
        read = sum(map(RowsRead.of, parts), RowsRead()) if read is None else read
        whole = concatenated(parts)
        values = whole.probs if whole.logits is None else whole.logits
        notes = (*self.notes, *_notes(self.kind, values, read.off_rows, read.worst_miss))
        whole = whole.replace(notes=notes, history=self.history)
        if whole.ids is not None:
            check_unique(whole.ids, f"{self.name}: the id", first_row=1)
        return whole

    def _needed(self) -> list[str]:
        columns = [getattr(self.columns, role) for role in ROLES]
        return list(dict.fromkeys([*self.value_columns, *(column for column in columns if column)]))

    def _values(self, batch: Any, first_row: int) -> FloatArray:
        """The logits or probabilities of a batch, shape (n, C)."""
        columns = [
            as_numbers(batch.column(name), name, first_row=first_row, decimal=self.decimal)
            for name in self.value_columns
        ]
        values: FloatArray = np.stack(columns, axis=1)
        return values / 100 if self.columns.percent else values

    def checked(self, part: "UncheckedPart") -> Predictions:
        """The rows of a part of this file.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        with self._naming_the_file():
            values = self._values(part.batch, part.first_row) if part.values is None else part.values
            return self._part(part.batch, values, part.first_row, part.digits)

    def _part(self, batch: Any, values: FloatArray, first_row: int, digits: int) -> Predictions:
        columns = self.columns
        half = any(str(batch.schema.field(name).type) == "halffloat" for name in self.value_columns)
        rounding = max(0.5 * 10.0**-digits, half_unit(np.float16(0)) if half else 0.0)
        numbers = {
            role: as_numbers(batch.column(name), name, first_row=first_row, decimal=self.decimal)
            for role in NUMBERS
            if (name := getattr(columns, role)) is not None
        }
        carried = {
            role: _texts(batch.column(getattr(columns, role)), getattr(columns, role), first_row)
            for role in CARRIED
            if getattr(columns, role) is not None
        }
        return Predictions(
            **{self.kind: values},
            classes=self.classes,
            y=None if columns.label is None else _coded(batch.column(columns.label), columns.label),
            ids=None if columns.id is None else np.asarray(batch.column(columns.id).to_pylist(), dtype=object),
            history=self.history,
            origin=Origin(
                self.name,
                first_row,
                self.value_columns,
                columns.label,
                columns.weight,
                columns.doubt,
                rounding,
                classes_named=columns.classes is not None,
            ),
            **numbers,
            **carried,
        )


@dataclass(frozen=True)
class UncheckedPart:
    """Some rows of a file as they come from the disk.

    Attributes:
        source: the file.
        batch: the pyarrow record batch.
        first_row: the number of its first row in the file.
        digits: after the point, as far as the file has been read.
        values: the logits or probabilities, if they were needed already.
    """

    source: PredictionsSource
    batch: Any
    first_row: int
    digits: int
    values: FloatArray | None

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return int(self.batch.nbytes) + (0 if self.values is None else self.values.nbytes)

    def checked(self) -> Predictions:
        """The rows.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        return self.source.checked(self)


ROLES = ("label", "id", *NUMBERS, *CARRIED)


def open_predictions(
    path: str | os.PathLike[str], *, sep: str | None = None, decimal: str | None = None, **columns: Any
) -> PredictionsSource:
    r"""Open a .parquet, .csv or .csv.gz file of predictions, or a folder of Parquet files.

    Args:
        path: the file, or a folder whose Parquet files, in the order of their names, hold the rows. A
            Parquet file that orcu wrote needs no further options.
        sep: the separator of a CSV file; recognised from its first rows if not given.
        decimal: "." or ","; recognised likewise.
        columns: as in `Columns`: ``label="grade"``, ``probs="p_*"`` or ``logits="z_*"`` (a pattern
            whose star is the class name, or a list of columns), ``classes`` in order, and ``id``,
            ``weight``, ``doubt``, ``group``, ``subject``, ``split``, ``fold``, ``percent``.

    Raises:
        InputError: if the file cannot be read or a column is missing; the text says which exist.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
        >>> _ = path.write_text("grade;p_low;p_high\nlow;0,9;0,1\n")
        >>> source = open_predictions(path, label="grade", probs="p_*")
        >>> source.classes, source.notes[0]
        (('low', 'high'), 'preds.csv: separator semicolon, decimal comma (recognised)')
    """
    path, wanted = Path(path), columns_of(columns)
    if path.is_dir():
        return _open_folder(path, wanted)
    return _from_file(open_table(path, sep=sep, decimal=decimal), wanted)


def _from_file(file: TableFile, columns: Columns) -> PredictionsSource:
    name, notes, history = file.path.name, file.notes, list[dict[str, Any]]()
    named = columns.probs is not None or columns.logits is not None
    if "orcu" in file.metadata:
        from orcu.predictions.schemas import Metadata

        try:
            about = Metadata.parse(file.metadata["orcu"], schema_version=SCHEMA_VERSION)
            history = about.history
            columns = columns if named else _own_columns(about.kind, about.classes, file.names, columns)
        except InputError as error:
            if not named:
                raise InputError(f"{name}: {error} Name its columns: --label, --probs or --logits.") from None
            notes = [*notes, f"{name}: what orcu wrote about the file is left aside: {error}"]
    absolute = replace(file, path=file.path.absolute())  # other processes may read it, in other folders
    source = _source(name, columns, list(file.names), notes, absolute.batches)
    return replace(source, decimal=file.decimal, history=history, rows=file.rows)


def _from_frame(frame: Any, columns: Columns) -> PredictionsSource:
    """Predictions in a pandas or polars frame or a pyarrow table."""
    import pyarrow

    table = frame if isinstance(frame, pyarrow.Table) else pyarrow.table(frame)
    return _source("frame", columns, table.column_names, [], partial(_frame_batches, table))


def _frame_batches(table: Any, columns: list[str]) -> Iterator[Any]:
    return iter(table.select(columns).combine_chunks().to_batches(max_chunksize=BATCH_ROWS))


def _open_folder(folder: Path, columns: Columns) -> PredictionsSource:
    """The Parquet files of a folder, as Spark, Dask or Ray write them; hidden and empty ones are skipped."""
    every = _files_below(folder)
    paths = [path for path in every if path.name.endswith(".parquet")]
    if not paths:
        raise InputError(f"{folder}: there is no .parquet file in this folder.")
    files: list[PredictionsSource] = []
    history: list[dict[str, Any]] = []
    for path in paths:
        source = _from_file(open_table(path), columns)  # also of those without rows: they may be damaged
        if source.rows:
            files.append(replace(source, name=f"{folder.name}/{path.relative_to(folder).as_posix()}"))
            history += [step for step in source.history if step not in history]
    if not files:
        raise InputError(f"{folder}: its {len(paths)} Parquet files hold no rows.")
    first = files[0]
    for other in files[1:]:
        if (other.kind, other.classes) != (first.kind, first.classes):
            raise InputError(
                f"{folder}: {first.name} has {first.kind} of {', '.join(first.classes)}, {other.name} has "
                f"{other.kind} of {', '.join(other.classes)}; the files of a folder must be alike."
            )
    inner = sum(path.parent != folder for path in paths)
    count = f"{len(files)} Parquet files" + (f", {inner} of them in subfolders" if inner else "")
    skipped = {"without rows": len(paths) - len(files), "of other kinds": len(every) - len(paths)}
    left_out = ", ".join(f"{number} {what}" for what, number in skipped.items() if number > 0)
    notes = [count + (f"; left out: {left_out}" if left_out else ""), *first.notes]
    rows = sum(file.rows or 0 for file in files)
    return replace(first, name=folder.name, files=files, notes=notes, history=history, rows=rows)


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders in the order of their names, but for hidden ones.

    Raises:
        InputError: if a subfolder cannot be read: its rows would be missing without a word.
    """

    def unreadable(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); no row may be missing.")

    below = os.walk(folder, onerror=unreadable, followlinks=True)
    paths = [Path(where) / name for where, _, names in below for name in names]
    return sorted(path for path in paths if not path.name.startswith((".", "_")))


def _own_columns(kind: str, classes: list[str], names: Sequence[str], columns: Columns) -> Columns:
    """The columns of a file that `Predictions.write` has written."""
    prefix = "prob" if kind == "probs" else "logit"
    values = [f"{prefix}_{name}" for name in classes]
    there = {role: role for role in ROLES if role in names}
    wanted = {role: getattr(columns, role) for role in ROLES if getattr(columns, role) is not None}
    return Columns(**{**there, **wanted, kind: values, "classes": columns.classes or classes})


def _source(
    name: str, columns: Columns, names: list[str], notes: list[str], batches: Callable[[list[str]], Iterator[Any]]
) -> PredictionsSource:
    if (columns.probs is None) == (columns.logits is None):
        raise InputError(
            f"{name}: say where the predictions are, as probs= or logits= (--probs 'p_*' or --logits 'z_*'); "
            f"the columns are: {listed(names)}."
        )
    kind, wanted = ("probs", columns.probs) if columns.logits is None else ("logits", columns.logits)
    for role in ROLES:
        column = getattr(columns, role)
        if column is not None and column not in names:
            raise InputError(no_column(column, names, name, role))
    named = {getattr(columns, role) for role in ROLES}  # a star takes what has no other job
    values, class_texts = value_columns(wanted, [one for one in names if one not in named], name)
    classes, values = ordered_classes(columns.classes, class_texts, values, name)
    if columns.percent and kind == "logits":
        raise InputError("percent: logits are not percentages; say probs= (--probs).")
    pairs = zip(classes, values, strict=True)
    order = ", ".join(f"{k} = {class_name} ({column})" for k, (class_name, column) in enumerate(pairs))
    return PredictionsSource(name, columns, kind, values, classes, [*notes, f"classes, lowest first: {order}"], batches)


def concatenated(parts: Sequence[Predictions]) -> Predictions:
    """The rows of several predictions of one model below each other, which have the same columns.

    Example:
        >>> part = Predictions(probs=[[0.5, 0.5]], y=[1])
        >>> concatenated([part, part]).y.tolist()
        [1, 1]
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    names = first._columns()
    return first._with(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def reuse_notes(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """A warning for every calibrator that was fitted on rows it then moved.

    Example:
        >>> reuse_notes([{"step": "calibrate", "method": "gap", "rows": 9, "shared": 5}])[0][:50]
        'WARNING: 5 of 9 rows have fitted the gap calibrato'
    """
    return [
        f"WARNING: {step['shared']:,} of {step['rows']:,} rows have fitted the {step['method']} calibrator "
        "that moved them; judging it on them flatters it"
        for step in history
        if step.get("shared")
    ]


def printed_decimals(values: FloatArray) -> int:
    """Digits after the point that write all the values, up to 9.

    Example:
        >>> printed_decimals(np.array([0.25, 0.5]))
        2
    """

    def written(part: FloatArray, digits: int) -> bool:
        scaled = part * 10.0**digits
        with np.errstate(invalid="ignore"):  # values that are not finite are named later
            return bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6)

    few = values[:64]  # most files show it at once
    return next((d for d in range(1, ALL_DIGITS) if written(few, d) and written(values, d)), ALL_DIGITS)


def check_unique(ids: ObjectArray, name: str = "ids:", first_row: int = 0) -> None:
    """Refuse an id that stands twice.

    Raises:
        InputError: which names the id and its rows.
    """
    rows: dict[str, int] = {}
    for row, entry in enumerate(ids.tolist(), start=first_row):
        earlier = rows.setdefault(str(entry), row)
        if earlier != row:
            raise InputError(f"{name} {str(entry)!r} stands in rows {earlier} and {row}; every id must be unique.")


def _notes(kind: str, values: FloatArray, off_rows: int, worst_miss: float) -> list[str]:
    """What there is to say of all rows: how many were normalised, and whether logits look like probabilities."""
    notes = []
    if off_rows:
        notes.append(f"{off_rows:,} rows missed a sum of 1 by up to {worst_miss:.2g} and were normalised")
    if kind == "logits" and values.min() >= 0 and (np.abs(values.sum(axis=1) - 1) < 1e-3).all():
        notes.append(
            "WARNING: every row of the logits lies in [0, 1] and sums to 1: are these probabilities? Then say probs= "
            "(--probs)"
        )
    return notes


def _check_frames(values: Any, y: Any, given: Any, classes: tuple[str, ...]) -> None:
    """Refuse frames whose own names or index say that they do not fit together."""
    names = [str(name) for name in getattr(values, "columns", [])]
    if given is not None and names:
        order = [canonical(name) for name in without_common_prefix(names)]
        if set(order) != set(classes):
            check_positions(order, classes, "probs")
        elif tuple(order) != classes:
            raise InputError(
                f"probs: the columns stand in the order {', '.join(order)}, the classes are "
                f"{', '.join(classes)}; put the columns in that order."
            )
    mine: Any = getattr(values, "index", None)
    theirs: Any = getattr(y, "index", None)
    if hasattr(mine, "equals") and hasattr(theirs, "equals") and not mine.equals(theirs):
        raise InputError(
            "y: its index is not that of the predictions; align them, or pass y.to_numpy() if the rows do "
            "stand in the same order."
        )


def _column(values: Any, rows: int, name: str) -> ObjectArray | None:
    if values is None:
        return None
    column = as_array(values, name)
    if column.shape != (rows,):
        raise InputError(f"{name}: expected one entry per row, shape ({rows},); got {column.shape}.")
    if column.dtype == object or column.dtype.kind == "f":
        values = column.tolist()
        strange = next((row for row, value in enumerate(values) if isinstance(value, (list, dict, set))), None)
        if strange is not None:
            raise InputError(f"{name}: row {strange} holds {values[strange]!r}, expected a text or a number.")
        if any(is_missing(value) for value in set(values)):
            row = next(row for row, value in enumerate(values) if is_missing(value))
            raise InputError(f"{name}: row {row} is empty; every row needs an entry there.")
    return column


def _encoded(column: Any, name: str) -> Any:
    """A pyarrow column as its different cells and an index of them.

    Raises:
        InputError: if its cells are lists or the like.
    """
    import pyarrow

    if pyarrow.types.is_nested(column.type):
        raise InputError(f"column {name!r}: expected one value in a cell, got {column.type}.")
    encoded = column.dictionary_encode()
    return encoded.cast(pyarrow.dictionary(pyarrow.int32(), encoded.type.value_type))


def _coded(column: Any, name: str) -> Coded:
    """A pyarrow column of labels as its different cells, ``None`` for missing ones, and an index of them."""
    encoded = _encoded(column, name)
    values = encoded.dictionary.to_pylist()
    if column.null_count:
        values = [*values, None]
    index = as_numpy(encoded.indices.fill_null(len(values) - 1), np.int32)
    return Coded(values, index.astype(np.intp))


def _texts(column: Any, name: str, first_row: int) -> ObjectArray:
    """A pyarrow column as texts.

    Raises:
        InputError: if a cell is empty; the text names the row.
    """
    encoded = _encoded(column, name)
    values = [*encoded.dictionary.to_pylist(), None]
    index = as_numpy(encoded.indices.fill_null(len(values) - 1), np.int32).astype(np.intp)
    empty = np.isin(index, [k for k, value in enumerate(values) if is_missing(value)])
    if empty.any():
        raise InputError(
            f"column {name!r}: row {int(np.argmax(empty)) + first_row} is empty; every row needs an entry there."
        )
    return np.array([entry_text(value) for value in values], dtype=object)[index]
