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
from orcu.raters.votes import Ratings, as_votes, check_votes, is_counts, is_votes, median_votes, multilabel_warning

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
        y: labels: class names, or integers 0..C-1; or votes of several raters, shape (n, C), as counts or shares of
            each class; ``None`` for new cases.
        codes: labels as class indices 0..C-1, whatever the class names are; replaces ``y``.
        ratings: grades of named raters (`orcu.raters.Ratings`); replaces ``y``.
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
    votes: FloatArray | None = None  # counts or shares of the raters' votes, (n, C), instead of y
    rating_codes: IntArray | None = None  # grade of each rater, -1 where there is none, (n, R)
    raters: tuple[str, ...] = ()  # names of the raters
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
        ratings: Ratings | None = None,
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
        if sum(labels is not None for labels in (y, codes, ratings)) > 1:
            raise InputError("y, codes, ratings: pass only one of them.")
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        if classes is None:
            check_column_order(values, kind)
        scores = check_scores(kind, values, half_ulp(values), kind)
        rows, num_classes = scores["probs"].shape
        names = class_names(classes, num_classes)
        mapping, votes = NO_LABELS, None
        if ratings is not None:
            votes, mapping = check_ratings(ratings, rows, num_classes), BY_VALUE
        elif is_votes(y):
            _check_frames(values, y, classes, names)
            _check_vote_columns(y, names)
            votes, mapping = as_votes(y, num_classes, rows=rows), BY_VALUE
        elif codes is not None:
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
            votes=votes,
            rating_codes=None if ratings is None else read_only(ratings.codes),
            raters=() if ratings is None else ratings.raters,
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
        if not changes.keys() & {"y", "codes", "ratings"}:
            labels = {"y": self.votes} if self.ratings is None else {"ratings": self.ratings}
            arguments |= {"codes": self.y} if self.votes is None else labels
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
        if self.votes is not None:
            labels = f"with {self.vote_summary}"
        return f"Predictions({len(self)} rows, {self.kind} of {', '.join(self.classes)}; {labels})"

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card

        columns = [name for name in OPTIONAL_COLUMNS if getattr(self, name) is not None]
        mean = self.probs.mean(axis=0) if len(self) else np.zeros(self.num_classes)
        rows = [[name, f"{share:.1%}"] for name, share in zip(self.classes, mean, strict=True)]
        if self.has_labels:
            rows = [[*row, f"{count:,.4g}"] for row, count in zip(rows, self.class_counts, strict=True)]
        kind = "probabilities" if self.logits is None else "logits"
        return card(
            "Predictions",
            about=f"{len(self):,} rows, {kind} of {self.num_classes} classes, {self.label_mapping}",
            facts={"columns": ", ".join(columns)} if columns else {},
            headings=["class, lowest first", "mean probability", "labels"][: 2 + self.has_labels],
            rows=rows,
            note="; ".join([*self.notes, *leakage_warnings(self.history)]),
        )

    def __getitem__(self, rows: Any) -> "Predictions":
        """Return some of the rows, selected by a slice, a mask, or indices."""
        return self._with(**{name: values[rows] for name, values in self._row_arrays().items()})

    def _row_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays with one entry per row by name."""
        names = ("probs", "logits", "y", "votes", "rating_codes", *OPTIONAL_COLUMNS)
        arrays = {name: getattr(self, name) for name in names}
        return {name: array for name, array in arrays.items() if array is not None}

    @property
    def labels(self) -> IntArray:
        """Class indices of the labels, shape (n,).

        Raises:
            InputError: if there are no labels, or the cases have votes of several raters.
        """
        if self.votes is not None:
            raise InputError(
                "y: the cases have votes of several raters, but one label per row is needed here. Pass "
                "predictions.with_median_labels() to use the median vote of each case."
            )
        if self.y is None:
            raise InputError(
                "y: the predictions have no labels, which are needed here. Pass y=..., or --label COLUMN on the "
                "command line."
            )
        return self.y

    @property
    def has_labels(self) -> bool:
        """Whether the rows have labels or votes."""
        return self.y is not None or self.votes is not None

    @property
    def labels_or_votes(self) -> npt.NDArray[Any]:
        """Class indices of the labels, shape (n,), or votes of several raters, shape (n, C)."""
        return self.labels if self.votes is None else self.votes

    @property
    def class_counts(self) -> FloatArray:
        """Number of labels, or of votes, of each class, shape (C,); the sum of the shares if votes are shares."""
        if self.votes is not None:
            return self.votes.sum(axis=0)
        return np.bincount(self.labels, minlength=self.num_classes).astype(np.float64)

    @property
    def ratings(self) -> Ratings | None:
        """Grades of named raters, or ``None`` if raters are not named."""
        return None if self.rating_codes is None else Ratings(self.rating_codes, self.raters, self.num_classes)

    @property
    def vote_summary(self) -> str:
        """Number of votes, and of raters if they are named, in words."""
        if self.votes is None:
            return "no votes"
        if not is_counts(self.votes):
            return "shares of votes"
        totals = self.votes.sum(axis=1)
        few, many = int(totals.min()), int(totals.max())
        raters = f" of {len(self.raters)} raters" if self.raters else ""
        return f"{int(totals.sum()):,} votes{raters}, {few if few == many else f'{few} to {many}'} per case"

    def with_median_labels(self) -> "Predictions":
        """Return the predictions with the median vote of each case as its label; of two medians the lower one.

        Example:
            >>> predictions = Predictions(probs=[[0.2, 0.5, 0.3]], y=[[1, 0, 2]])
            >>> predictions.with_median_labels().y.tolist()
            [2]
        """
        if self.votes is None:
            return self
        return self._with(y=median_votes(self.votes), votes=None, rating_codes=None, raters=())

    def with_ratings(self, table: Any, *, case: str, rater: str, label: str) -> "Predictions":
        """Return the predictions with the grades of a long table, which has one row per case and rater.

        Args:
            table: frame, pyarrow table, or path of a .csv or .parquet file. Cases without predictions are ignored, and
                counted in ``notes``.
            case: column of the cases, which are matched with ``ids``.
            rater: column of the raters.
            label: column of the grades.

        Raises:
            InputError: if the predictions have no ids, a case has no grade, or a rater graded a case twice.

        Example:
            >>> import pyarrow
            >>> table = pyarrow.table({"case": ["a", "a"], "who": ["ann", "bob"], "grade": [1, 0]})
            >>> predictions = Predictions(probs=[[0.3, 0.7]], ids=["a"])
            >>> predictions.with_ratings(table, case="case", rater="who", label="grade").votes.tolist()
            [[1.0, 1.0]]
        """
        from orcu.predictions.ratings import join_ratings

        ratings, ignored = join_ratings(self.ids, self.classes, table, case=case, rater=rater, label=label)
        notes = [f"grades of {ignored:,} cases without predictions are ignored"] if ignored else []
        return self.replace(ratings=ratings, notes=(*self.notes, *notes))

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
            y=self.labels_or_votes,
            sample_weight=self.sample_weight,
            groups=self.cluster,
            ids=self.ids,
        )
        return calibrator

    def write(self, path: str | os.PathLike[str], *, escape_formulas: bool = False) -> None:
        """Write a .parquet, .csv or .csv.gz file; an existing file is replaced only when writing succeeds.

        The columns are id, label, logit_NAME or prob_NAME, sample_weight, uncertainty, subgroup, cluster, split, fold.
        Instead of a label, cases with several raters have rating_RATER for named raters, else votes_NAME. A Parquet
        file also has the class names, the history and a schema version, so it is read without options.

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
        columns |= self._vote_columns()
        metadata = {
            "schema_version": SCHEMA_VERSION,
            "kind": kind,
            "classes": list(self.classes),
            "history": self.history,
        }
        if self.votes is not None:  # a reader needs the roles of their columns
            written = [name for name, column in columns.items() if column is not None]
            roles: dict[str, Any] = {name: name for name in ("id", *NUMERIC_COLUMNS, *TEXT_COLUMNS) if name in written}
            roles[kind] = [f"{VALUE_PREFIX[kind]}_{name}" for name in self.classes]
            roles["label_shares" if self.rating_codes is None else "rater"] = list(self._vote_columns())
            metadata["columns"] = roles
        arrays = {name: pyarrow.array(column) for name, column in columns.items() if column is not None}
        return pyarrow.table(arrays, metadata={"orcu": json.dumps(metadata)})

    def _vote_columns(self) -> dict[str, Any]:
        """Return the columns of the votes for a file: the grade of each rater, or the votes for each class."""
        if self.votes is None:
            return {}
        if self.rating_codes is None:
            return {f"votes_{name}": self.votes[:, k] for k, name in enumerate(self.classes)}
        names = np.array([*self.classes, None], dtype=object)  # the code -1 selects None
        return {f"rating_{rater}": names[self.rating_codes[:, r]] for r, rater in enumerate(self.raters)}

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
        """Return notes about normalised rows, logits that look like probabilities, and votes that look like labels."""
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
        if self.votes is not None and self.rating_codes is None and (warning := multilabel_warning(self.votes)):
            notes.append(f"WARNING: {warning}")
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


def check_ratings(ratings: Ratings, rows: int, num_classes: int) -> FloatArray:
    """Return the votes of checked ratings: one row per case, every case with a grade; raises `InputError`."""
    if len(ratings) != rows or ratings.num_classes != num_classes:
        raise InputError(
            f"ratings: {len(ratings)} cases of {ratings.num_classes} classes, expected {rows} cases of {num_classes} "
            "classes, as in the predictions."
        )
    return as_votes(ratings.counts, num_classes, rows=rows, name="ratings")


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
    joined = first._with(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    if joined.votes is not None:
        check_votes(joined.votes)  # each part has counts or shares, but all together must have one of the two
    return joined


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


def _check_vote_columns(y: Any, names: tuple[str, ...]) -> None:
    """Raise if the columns of a frame of votes are not the classes in their order."""
    columns = [str(name) for name in getattr(y, "columns", [])]
    if columns and tuple(canonical_label(name) for name in strip_common_prefix(columns)) != names:
        raise InputError(
            f"y: the columns of the votes are {', '.join(columns)}, expected the classes in their order, "
            f"{', '.join(names)}. Reorder or rename them, or pass y.to_numpy() if the order is right."
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
