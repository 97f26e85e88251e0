"""The waist: predictions of any model, in memory.

`Predictions` holds what a model said about some rows and, where it is known, what came true. The
training half writes it, everything that judges reads only it. Files are read by `orcu.predictions.opening`.
"""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import SUM_TOLERANCE, FloatArray, IntArray, as_logits, as_matrix, as_weight, half_unit
from orcu.metrics.rows import Rows
from orcu.predictions.columns import without_common_prefix
from orcu.predictions.labels import POSITIONS, canonical, class_names, is_missing, label_codes, need_position_zero
from orcu.predictions.used_rows import UsedRows
from orcu.tables.writing import write_table

if TYPE_CHECKING:
    from orcu.calibrators.base import Calibrator

SCHEMA_VERSION = 1
EXTRAS = ("group", "subject", "split", "fold")  # optional columns that are carried along
ObjectArray = npt.NDArray[Any]
_FLOAT_NOISE = 1e-6  # sums this close to 1 are rounding of the floating-point type, and stay


class Predictions:
    """Predictions of one model: ids, labels, logits or probabilities, class names in order.

    Args:
        probs: class probabilities, shape (n, C). Rows that miss 1 by at most 1e-3 (half types: by
            their rounding) are normalised and counted in ``notes``.
        logits: logits, shape (n, C); exactly one of the two is given.
        y: labels: class names, or integers 0..C-1; ``None`` for new cases.
        classes: names of the classes in their order; "0".."C-1" if not given.
        ids: one id per row, all different.
        weight: one non-negative weight per row.
        group: a group per row, such as a hospital, to be judged side by side.
        subject: a subject per row, such as a patient, to be resampled as a whole.
        split: a split name per row.
        fold: a fold per row.

    Raises:
        InputError: if an argument cannot be used; the text names the row.

    Example:
        >>> told = Predictions(
        ...     probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], y=["none", "mild"], classes=["none", "mild", "severe"]
        ... )
        >>> len(told), told.num_classes, told.y.tolist()
        (2, 3, [0, 1])
    """

    def __init__(
        self,
        *,
        probs: Any = None,
        logits: Any = None,
        y: Any = None,
        classes: Sequence[Any] | None = None,
        ids: Any = None,
        weight: Any = None,
        group: Any = None,
        subject: Any = None,
        split: Any = None,
        fold: Any = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise InputError("probs, logits: give exactly one of the two; it is never guessed.")
        self.notes: list[str] = []
        self.history: list[dict[str, Any]] = []  # what was done to these predictions, and with which rows
        self.rule: Any = "argmax"  # how `rows` decides, see orcu.decide
        self.logits: FloatArray | None = None
        if logits is not None:
            self.logits = as_logits(logits)
            rows, num_classes = self.logits.shape
        else:
            checked, missed = distributions(as_matrix(probs, name="probs"), rounding=half_unit(probs))
            self.__dict__["probs"] = checked
            rows, num_classes = checked.shape
            self.notes += normalisation_note(len(missed), float(missed.max(initial=0.0)))
        self.classes = class_names(classes, num_classes)
        self.y: IntArray | None = None
        if y is not None:
            _check_frames(probs if logits is None else logits, y, classes, self.classes)
            self.y, self.mapping = label_codes(y, self.classes, given=classes is not None, rows=rows)
            if self.mapping == POSITIONS:
                need_position_zero(int(self.y.min()), "y")
        else:
            self.mapping = "no labels"
        self.ids = _column(ids, rows, "ids")
        if self.ids is not None:
            _check_unique(self.ids)
        self.weight = None if weight is None else as_weight(weight, rows=rows)
        given = dict(zip(EXTRAS, (group, subject, split, fold), strict=True))
        self.extras: dict[str, ObjectArray] = {}
        for name, values in given.items():
            column = _column(values, rows, name)
            if column is not None:
                self.extras[name] = column

    @property
    def kind(self) -> str:
        """What was given: "logits" or "probs"."""
        return "probs" if self.logits is None else "logits"

    @cached_property
    def probs(self) -> FloatArray:
        """Class probabilities, shape (n, C), float64."""
        assert self.logits is not None  # noqa: S101 - else the constructor has set it
        return geometry.probs(self.logits)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.probs if self.logits is None else self.logits)

    def __repr__(self) -> str:
        labels = "without labels" if self.y is None else "with labels"
        return f"Predictions({len(self)} rows, {self.kind} of {', '.join(self.classes)}; {labels})"

    def __getattr__(self, name: str) -> Any:
        if name in EXTRAS:
            return self.__dict__.get("extras", {}).get(name)
        raise AttributeError(f"'Predictions' has no attribute {name!r}")

    def __getitem__(self, rows: Any) -> "Predictions":
        """Some of the rows: a slice, a mask, or indices."""
        part = object.__new__(Predictions)
        part.__dict__.update(self.__dict__)
        part.notes = list(self.notes)
        for name in ("probs", "logits", "y", "ids", "weight"):
            values = self.__dict__.get(name)
            if values is not None:
                part.__dict__[name] = values[rows]
        part.extras = {name: values[rows] for name, values in self.extras.items()}
        return part

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

    def rows(self) -> Rows:
        """The checked rows that metrics are computed from.

        Raises:
            InputError: if there are no labels.
        """
        return Rows(self.probs, self.labels, self.weight, logits=self.logits, rule=self.rule)

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

    def calibrated(self, calibrator: "Calibrator") -> "Predictions":
        """These predictions moved by a fitted calibrator; ``history`` tells how many rows had fitted it.

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes.

        Example:
            >>> from orcu.calibrators import TemperatureScaling
            >>> told = Predictions(logits=[[2.0, 0.0]] * 5, y=[0, 1, 0, 0, 0], ids=range(5))
            >>> fitted = TemperatureScaling().fit(told.logits, told.y, ids=told.ids)
            >>> told[3:].calibrated(fitted).history[-1]["shared"]
            2
        """
        values, _ = self.as_logits()
        moved = object.__new__(Predictions)
        moved.__dict__.update(self.__dict__)
        moved.__dict__.pop("probs", None)
        moved.logits = calibrator.predict_logits(values)
        shared = calibrator.fitted_on_.shared_with(UsedRows.of(values, self.ids))
        step = {"step": "calibrate", "method": calibrator.name, "rows": len(self), "shared": shared}
        moved.notes, moved.history = list(self.notes), [*self.history, step]
        return moved

    def calibrated_on(self, held: "Predictions", calibrator: "Calibrator") -> "Predictions":
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
        calibrator.fit(held.as_logits()[0], held.labels, weight=held.weight, ids=held.ids)
        return self.calibrated(calibrator)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write to .parquet, .csv or .csv.gz; the file appears whole or not at all.

        Parquet keeps everything, with a schema version, and needs no options to be read again. The
        columns are id, label, logit_NAME or prob_NAME, weight, group, subject, split, fold.

        Raises:
            InputError: if the ending is another.
        """
        write_table(self.to_arrow(), path)

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
        if self.weight is not None:
            columns["weight"] = self.weight
        columns |= self.extras
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
        r"""Read a whole .parquet, .csv or .csv.gz file; options as for `orcu.predictions.opening.open_predictions`.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
            >>> _ = path.write_text("grade,p_low,p_high\nlow,0.9,0.1\nhigh,0.4,0.6\n")
            >>> Predictions.read(path, label="grade", probs="p_*").y.tolist()
            [0, 1]
        """
        from orcu.predictions.opening import open_predictions

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
        from orcu.predictions.opening import frame_predictions

        return frame_predictions(frame, **options).load()


def distributions(
    probs: FloatArray, *, rounding: float, name: str = "probs", first_row: int = 0, columns: Sequence[Any] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Probability rows that sum to 1, and by how much those missed it that had to be normalised.

    A row may miss 1 by the rounding of its C values, and by 1e-3 in any case.

    Args:
        probs: finite values, shape (n, C).
        rounding: how far each value may be off: half a unit of its last printed digit or bit.
        name: what the values are called in messages.
        first_row: the number of the first row in messages.
        columns: what the columns are called in messages, if not by number.

    Raises:
        InputError: if a value is outside [0, 1] or a row misses 1 by more.

    Example:
        >>> rows, missed = distributions(np.array([[0.33, 0.33, 0.33]]), rounding=0.005)
        >>> rows.round(4).tolist(), missed.round(4).tolist()
        ([[0.3333, 0.3333, 0.3333]], [0.01])
    """
    outside = (probs < 0) | (probs > 1)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        named = column if columns is None else repr(columns[column])
        raise InputError(
            f"{name}: row {row + first_row} has {probs[row, column]:.6g} in column {named}, expected "
            "values in [0, 1]. If these are logits, say logits= (--logits); if they are percentages, "
            "say --percent or divide by 100."
        )
    sums = probs @ np.ones(probs.shape[1])
    miss = np.abs(sums - 1)
    tolerance = max(SUM_TOLERANCE, probs.shape[1] * rounding)
    if miss.max() > tolerance * (1 + 1e-9):
        row = int(np.argmax(miss > tolerance * (1 + 1e-9)))
        raise InputError(
            f"{name}: row {row + first_row} sums to {sums[row]:.6g}, expected 1 ± {tolerance:g}"
            f"{'' if columns is None else ' over ' + ', '.join(map(str, columns))}. If these are logits, say "
            "logits= (--logits); --percent is for values that sum to 100."
        )
    off = miss > _FLOAT_NOISE
    if not off.any():
        return probs, miss[off]
    return np.where(off[:, None], probs / sums[:, None], probs), miss[off]


def reuse_notes(history: Sequence[dict[str, Any]]) -> list[str]:
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


def normalisation_note(rows: int, worst: float) -> list[str]:
    """What to tell about rows that were normalised; nothing if there were none."""
    if rows == 0:
        return []
    return [f"{rows:,} rows missed a sum of 1 by up to {worst:.2g} and were normalised"]


def printed_decimals(values: FloatArray) -> int:
    """Digits after the point that write all the values, up to 9.

    Example:
        >>> printed_decimals(np.array([0.25, 0.5]))
        2
    """

    def written(part: FloatArray, digits: int) -> bool:
        scaled = part * 10.0**digits
        return bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6)

    few = values[:64]  # most files show it at once
    return next((d for d in range(1, 9) if written(few, d) and written(values, d)), 9)


def _check_frames(values: Any, y: Any, given: Any, classes: tuple[str, ...]) -> None:
    """Refuse frames whose own names or index say that they do not fit together."""
    names = [str(name) for name in getattr(values, "columns", [])]
    if given is not None and names:
        found = [canonical(name) for name in without_common_prefix(names)]
        if set(found) == set(classes) and tuple(found) != classes:
            raise InputError(
                f"probs: the columns stand in the order {', '.join(found)}, the classes are "
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
    column = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if column.shape != (rows,):
        raise InputError(f"{name}: expected one entry per row, shape ({rows},); got {column.shape}.")
    if column.dtype == object or column.dtype.kind == "f":
        empty = [row for row, value in enumerate(column.tolist()) if is_missing(value)]
        if empty:
            raise InputError(f"{name}: row {empty[0]} is empty; every row needs an entry there.")
    return column


def _check_unique(ids: ObjectArray) -> None:
    found, counts = np.unique(ids.astype(str), return_counts=True)
    if len(found) < len(ids):
        twice = str(found[counts > 1][0])
        rows = np.flatnonzero(ids.astype(str) == twice)[:2].tolist()
        raise InputError(f"ids: {twice!r} stands in rows {rows[0]} and {rows[1]}; every id must be unique.")
