"""`Predictions`: the predictions of a model for some rows, with labels if they are known."""

import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import (
    FloatArray,
    IntArray,
    ObjectArray,
    as_array,
    as_labels,
    as_matrix,
    as_sample_weight,
    as_uncertainty,
    check_column_order,
    half_ulp,
    missing_entry_message,
    normalise_probs,
    read_only,
)
from orcu.io.writing import write_table
from orcu.predictions.calibration import CalibratorT, SupportsCalibration, leakage_warnings, subgroup_option
from orcu.predictions.columns import check_column_names, strip_common_prefix
from orcu.predictions.labels import (
    BY_VALUE,
    POSITIONS,
    canonical_label,
    check_zero_based,
    class_names,
    is_broken_text,
    is_missing,
    label_codes,
)
from orcu.predictions.used_rows import UsedRows

SCHEMA_VERSION = 2  # of Parquet files; version 1 (orcu 0.2) has other names for some columns
NUMERIC_COLUMNS = ("sample_weight", "uncertainty")
TEXT_COLUMNS = ("subgroup", "cluster", "split", "fold")
OPTIONAL_COLUMNS = ("ids", *NUMERIC_COLUMNS, *TEXT_COLUMNS)
NO_LABELS = "no labels"
MAX_PLAUSIBLE_LOGIT = 1e6  # exp(-745) is 0, so a difference of 1,000 already means certainty


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Predictions:
    """Predictions of one model: logits or probabilities, class names in order, labels and ids. Immutable.

    Args:
        probs: class probabilities, shape (n, C). Rows whose sum differs from 1 by at most 1e-3 (half types: by their
            rounding) are normalised and counted in ``notes``.
        logits: logits, shape (n, C); pass either probs or logits.
        y: labels: class names, or integers 0..C-1; ``None`` for new cases.
        codes: labels as class indices 0..C-1, whatever the class names are; replaces ``y``.
        classes: class names in order; "0".."C-1" by default.
        ids: unique row ids.
        sample_weight: non-negative sample weights.
        uncertainty: scores for referral to a human, highest first; the confidence by default.
        subgroup: subpopulation of each row, such as a hospital; subgroups are evaluated separately.
        cluster: cluster of each row, such as a patient; the bootstrap resamples whole clusters.
        split: name of each row's data split.
        fold: fold of each row.
        notes: remarks about the predictions, such as the detected format of their file.
        history: processing steps, with the number of rows of each.

    Raises:
        InputError: if an argument is invalid; the message names the row.

    Example:
        >>> predictions = Predictions(
        ...     probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], y=["none", "mild"], classes=["none", "mild", "severe"]
        ... )
        >>> len(predictions), predictions.num_classes, predictions.y.tolist()
        (2, 3, [0, 1])
    """

    probs: FloatArray
    classes: tuple[str, ...]
    logits: FloatArray | None = None
    y: IntArray | None = None
    ids: ObjectArray | None = None
    sample_weight: FloatArray | None = None
    uncertainty: FloatArray | None = None
    subgroup: ObjectArray | None = None
    cluster: ObjectArray | None = None
    split: ObjectArray | None = None
    fold: ObjectArray | None = None
    label_mapping: str = NO_LABELS  # how labels were matched to classes
    notes: tuple[str, ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()
    normalised_rows: int = 0  # rows that were normalised because their sum was not 1
    max_sum_error: float = 0.0  # largest difference of their sums from 1
    unlabelled_rows: int = 0  # rows of the file that were skipped because their label is missing

    def __init__(
        self,
        *,
        probs: Any = None,
        logits: Any = None,
        y: Any = None,
        codes: Any = None,
        classes: Sequence[Any] | None = None,
        ids: Any = None,
        sample_weight: Any = None,
        uncertainty: Any = None,
        subgroup: Any = None,
        cluster: Any = None,
        split: Any = None,
        fold: Any = None,
        notes: Iterable[str] = (),
        history: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        if (probs is None) == (logits is None):
            raise InputError("probs, logits: pass exactly one of the two.")
        if y is not None and codes is not None:
            raise InputError("y, codes: pass only one of the two.")
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        if classes is None:
            check_column_order(values, kind)
        scores = check_scores(kind, values, half_ulp(values), kind)
        rows, num_classes = scores["probs"].shape
        names = class_names(classes, num_classes)
        mapping = NO_LABELS
        if codes is not None:
            codes, mapping = as_labels(codes, num_classes, rows=rows, name="codes"), BY_VALUE
        elif y is not None:
            _check_frames(values, y, classes, names)
            codes, mapping = label_codes(y, names, explicit_order=classes is not None, rows=rows)
            if mapping == POSITIONS:
                check_zero_based(int(codes.min()), "y")
        texts = {"ids": ids, "subgroup": subgroup, "cluster": cluster, "split": split, "fold": fold}
        columns = {name: _as_column(column, rows, name) for name, column in texts.items()}
        if columns["ids"] is not None:
            check_unique_ids(columns["ids"])
        self._set(
            **scores,
            y=codes,
            classes=names,
            sample_weight=None if sample_weight is None else as_sample_weight(sample_weight, rows=rows),
            uncertainty=None if uncertainty is None else as_uncertainty(uncertainty, rows=rows),
            label_mapping=mapping,
            history=tuple(history),
            **columns,
        )
        self._set(notes=(*notes, *self._value_notes(self.normalised_rows, self.max_sum_error)))

    @classmethod
    def _from_fields(cls, **fields: Any) -> "Predictions":
        """Make predictions from fields that have been checked."""
        predictions = cls.__new__(cls)
        predictions._set(**fields)
        return predictions

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _with(self, **fields: Any) -> "Predictions":
        """Return a copy with other values of some fields, which have been checked."""
        predictions = copy.copy(self)
        predictions._set(**fields)
        return predictions

    def replace(self, **changes: Any) -> "Predictions":
        """Return a copy with other values for some arguments of the constructor.

        Example:
            >>> predictions = Predictions(probs=[[0.7, 0.3]], y=[0])
            >>> predictions.replace(classes=["low", "high"]).label_names().tolist()
            ['low']
        """
        if not changes.keys() - {"notes", "history"}:
            return self._with(**{name: tuple(value) for name, value in changes.items()})
        arguments: dict[str, Any] = {name: getattr(self, name) for name in ("classes", *OPTIONAL_COLUMNS)}
        if not changes.keys() & {"probs", "logits"}:
            arguments |= self.scores
        if not changes.keys() & {"y", "codes"}:
            arguments["codes"] = self.y
        return Predictions(**{**arguments, "notes": self.notes, "history": self.history, **changes})

    @property
    def kind(self) -> str:
        """Kind of the values: "logits" or "probs"."""
        return "probs" if self.logits is None else "logits"

    @property
    def scores(self) -> dict[str, FloatArray]:
        """The values as a keyword argument: {"logits": ...} or {"probs": ...}."""
        return {"probs": self.probs} if self.logits is None else {"logits": self.logits}

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.probs)

    def __repr__(self) -> str:
        labels = "without labels" if self.y is None else "with labels"
        return f"Predictions({len(self)} rows, {self.kind} of {', '.join(self.classes)}; {labels})"

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card

        columns = [name for name in OPTIONAL_COLUMNS if getattr(self, name) is not None]
        mean = self.probs.mean(axis=0) if len(self) else np.zeros(self.num_classes)
        rows = [[name, f"{share:.1%}"] for name, share in zip(self.classes, mean, strict=True)]
        if self.y is not None:
            counts = np.bincount(self.y, minlength=self.num_classes)
            rows = [[*row, f"{count:,}"] for row, count in zip(rows, counts, strict=True)]
        kind = "probabilities" if self.logits is None else "logits"
        return card(
            "Predictions",
            about=f"{len(self):,} rows, {kind} of {self.num_classes} classes, {self.label_mapping}",
            facts={"columns": ", ".join(columns)} if columns else {},
            headings=["class, lowest first", "mean probability", "labels"][: 2 + (self.y is not None)],
            rows=rows,
            note="; ".join([*self.notes, *leakage_warnings(self.history)]),
        )

    def __getitem__(self, rows: Any) -> "Predictions":
        """Return some of the rows, selected by a slice, a mask, or indices."""
        return self._with(**{name: values[rows] for name, values in self._row_arrays().items()})

    def _row_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays with one entry per row by name."""
        arrays = {name: getattr(self, name) for name in ("probs", "logits", "y", *OPTIONAL_COLUMNS)}
        return {name: array for name, array in arrays.items() if array is not None}

    @property
    def labels(self) -> IntArray:
        """Class indices of the labels, shape (n,).

        Raises:
            InputError: if there are no labels.
        """
        if self.y is None:
            raise InputError(
                "y: the predictions have no labels, which are needed here. Pass y=..., or --label COLUMN on the "
                "command line."
            )
        return self.y

    def label_names(self) -> ObjectArray:
        """Return the class name of each row's label."""
        return np.array(self.classes, dtype=object)[self.labels]

    def as_logits(self) -> tuple[FloatArray, int]:
        """Return logits, and the number of zero probabilities that were replaced to compute them.

        Logits of probabilities are their logarithms; zeros are replaced by half the smallest positive value.

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

    def calibrated(self, calibrator: SupportsCalibration) -> "Predictions":
        """Return the predictions transformed by a fitted calibrator.

        The new entry of ``history`` has the number of rows that the calibrator was fitted on ("shared").

        Raises:
            InputError: if the calibrator is not fitted, or was fitted for another number of classes.

        Example:
            >>> from orcu.calibrators import TemperatureScaling
            >>> predictions = Predictions(logits=[[2.0, 0.0]] * 5, y=[0, 1, 0, 0, 0], ids=range(5))
            >>> fitted = TemperatureScaling().fit(predictions.logits, predictions.y, ids=predictions.ids)
            >>> predictions[3:].calibrated(fitted).history[-1]["shared"]
            2
        """
        logits = calibrator.predict_logits(**self.scores, **subgroup_option(calibrator, self.subgroup))
        shared = calibrator.fitted_on_.count_shared(UsedRows.from_values(self.as_logits()[0], self.ids))
        step = {"step": "calibrate", "method": calibrator.name, "rows": len(self), "shared": shared}
        return self._with(logits=logits, probs=geometry.probs(logits), history=(*self.history, step))

    def calibrated_on(self, calibration: "Predictions", calibrator: SupportsCalibration) -> "Predictions":
        """Fit a calibrator on other, labelled predictions, and return these predictions transformed by it.

        Args:
            calibration: labelled rows that are used neither for training nor for evaluation.
            calibrator: calibrator, which is fitted in place.

        Raises:
            InputError: if the calibration rows have no labels, or other classes.

        Example:
            >>> from orcu.calibrators import TemperatureScaling
            >>> calibration = Predictions(logits=[[2.0, 0.0]] * 5, y=[0, 1, 0, 0, 0])
            >>> new = Predictions(logits=[[4.0, 0.0]])
            >>> new.calibrated_on(calibration, TemperatureScaling()).probs.round(2)
            array([[0.94, 0.06]])
        """
        if calibration.classes != self.classes:
            raise InputError(
                f"calibration: has the classes {', '.join(calibration.classes)}, expected {', '.join(self.classes)}."
            )
        calibration.fit_calibrator(calibrator)
        return self.calibrated(calibrator)

    def fit_calibrator(self, calibrator: CalibratorT) -> CalibratorT:
        """Fit a calibrator on these predictions and return it.

        Raises:
            InputError: if there are no labels.
        """
        calibrator.fit(
            **self.scores,
            **subgroup_option(calibrator, self.subgroup),
            y=self.labels,
            sample_weight=self.sample_weight,
            groups=self.cluster,
            ids=self.ids,
        )
        return calibrator

    def write(self, path: str | os.PathLike[str], *, escape_formulas: bool = False) -> None:
        """Write a .parquet, .csv or .csv.gz file; an existing file is replaced only when writing succeeds.

        The columns are id, label, logit_NAME or prob_NAME, sample_weight, uncertainty, subgroup, cluster, split, fold.
        A Parquet file also has the class names, the history and a schema version, so it is read without options.

        Args:
            path: file to write.
            escape_formulas: whether to put a ' before texts in CSV that a spreadsheet would run as formulas.

        Raises:
            InputError: if the name has another ending.
        """
        write_table(self.to_arrow(), path, escape_formulas=escape_formulas)

    def to_arrow(self) -> Any:
        """Return a pyarrow table with the columns that `write` lists."""
        import pyarrow

        ((kind, values),) = self.scores.items()
        columns: dict[str, Any] = {
            "id": self.ids,
            "label": None if self.y is None else self.label_names(),
            **{f"{VALUE_PREFIX[kind]}_{name}": values[:, k] for k, name in enumerate(self.classes)},
            **{name: getattr(self, name) for name in (*NUMERIC_COLUMNS, *TEXT_COLUMNS)},
        }
        metadata = {
            "schema_version": SCHEMA_VERSION,
            "kind": kind,
            "classes": list(self.classes),
            "history": self.history,
        }
        arrays = {name: pyarrow.array(column) for name, column in columns.items() if column is not None}
        return pyarrow.table(arrays, metadata={"orcu": json.dumps(metadata)})

    @staticmethod
    def read(path: str | os.PathLike[str], **options: Any) -> "Predictions":
        r"""Read all rows of a .parquet, .csv or .csv.gz file; options as for `open_predictions`.

        Example:
            >>> import tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
            >>> _ = path.write_text("grade,p_low,p_high\nlow,0.9,0.1\nhigh,0.4,0.6\n")
            >>> Predictions.read(path, label="grade", probs="p_*").y.tolist()
            [0, 1]
        """
        from orcu.predictions.source import open_predictions

        return open_predictions(path, **options).load()

    @staticmethod
    def from_frame(frame: Any, **options: Any) -> "Predictions":
        """Read a pandas or polars frame or a pyarrow table; options as for a file.

        Example:
            >>> import pyarrow
            >>> table = pyarrow.table({"y": [0, 1], "p_0": [0.9, 0.4], "p_1": [0.1, 0.6]})
            >>> Predictions.from_frame(table, label="y", probs="p_*").probs.tolist()
            [[0.9, 0.1], [0.4, 0.6]]
        """
        from orcu.predictions.source import open_frame

        return open_frame(frame, **options).load()

    def _value_notes(self, normalised_rows: int, max_sum_error: float) -> list[str]:
        """Return notes about the number of normalised rows, and about logits that look like probabilities."""
        notes = []
        if normalised_rows:
            notes.append(
                f"{normalised_rows:,} rows were normalised; their sums differed from 1 by up to {max_sum_error:.2g}"
            )
        if self.logits is not None and self.logits.min() >= 0 and (np.abs(self.logits.sum(axis=1) - 1) < 1e-3).all():
            notes.append(
                "WARNING: every row of the logits is in [0, 1] and sums to 1. If these are probabilities, pass them "
                "as probs= (--probs)"
            )
        if self.logits is not None and (largest := float(np.abs(self.logits).max())) > MAX_PLAUSIBLE_LOGIT:
            row = int(np.abs(self.logits).max(axis=1).argmax())
            notes.append(
                f"WARNING: a logit has the size {largest:.3g} (row {row + 1}), which makes its row certain. Is it a "
                "placeholder for a missing value?"
            )
        return notes


VALUE_PREFIX = {"probs": "prob", "logits": "logit"}  # prefixes of the columns that `Predictions.write` writes


def check_scores(
    kind: str, values: Any, rounding: float, name: str, first_row: int = 0, columns: Sequence[str] | None = None
) -> dict[str, Any]:
    """Check logits or probabilities (arguments as in `orcu.inputs`), and return the fields that they determine."""
    matrix = read_only(as_matrix(values, name=name, first_row=first_row, columns=columns))
    if kind == "logits":
        return {"logits": matrix, "probs": geometry.probs(matrix)}
    probs, errors = normalise_probs(matrix, rounding=rounding, name=name, first_row=first_row, columns=columns)
    return {"probs": probs, "normalised_rows": len(errors), "max_sum_error": float(errors.max(initial=0.0))}


def concatenate(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the rows of several predictions of one model, which have the same columns.

    Example:
        >>> part = Predictions(probs=[[0.5, 0.5]], y=[1])
        >>> concatenate([part, part]).y.tolist()
        [1, 1]
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    names = first._row_arrays()
    return first._with(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def check_unique_ids(ids: ObjectArray, name: str = "ids", first_row: int = 0) -> None:
    """Raise `InputError` if an id occurs twice; the message names the id and its rows."""
    rows: dict[str, int] = {}
    for row, entry in enumerate(ids.tolist(), start=first_row):
        earlier = rows.setdefault(str(entry), row)
        if earlier != row:
            raise InputError(f"{name}: duplicate id {str(entry)!r} in rows {earlier} and {row}; ids must be unique.")


def _check_frames(values: Any, y: Any, classes: Any, names: tuple[str, ...]) -> None:
    """Raise if the column names or the index of frames show that they do not belong together."""
    columns = [str(name) for name in getattr(values, "columns", [])]
    if classes is not None and columns:
        order = [canonical_label(name) for name in strip_common_prefix(columns)]
        if set(order) != set(names):
            check_column_names(order, names, "probs")
        elif tuple(order) != names:
            raise InputError(
                f"probs: the columns are in the order {', '.join(order)}, expected the order of the classes, "
                f"{', '.join(names)}. Reorder the columns."
            )
    indexes: list[Any] = [getattr(frame, "index", None) for frame in (values, y)]
    if all(hasattr(index, "equals") for index in indexes) and not indexes[0].equals(indexes[1]):
        raise InputError(
            "y: its index differs from the index of the predictions. Align them, or pass y.to_numpy() if the rows are "
            "in the same order."
        )


def _as_column(values: Any, rows: int, name: str) -> ObjectArray | None:
    """Check a column of texts or numbers without missing values."""
    if values is None:
        return None
    column = as_array(values, name)
    if column.shape != (rows,):
        raise InputError(f"{name}: expected one entry per row, shape ({rows},); got {column.shape}.")
    if column.dtype == object or column.dtype.kind in "fU":
        entries = column.tolist()
        for row, entry in enumerate(entries):
            if is_broken_text(entry):
                raise InputError(f"{name}: row {row} has {entry!r}, which is not valid Unicode; correct its encoding.")
            if isinstance(entry, (list, dict, set)):
                raise InputError(f"{name}: row {row} holds {entry!r}, expected a text or a number.")
        if any(is_missing(entry) for entry in set(entries)):
            raise InputError(missing_entry_message(name, next(row for row, e in enumerate(entries) if is_missing(e))))
    return column
