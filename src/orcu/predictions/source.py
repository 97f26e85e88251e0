"""Predictions in files, folders and frames, read batch by batch.

Formats are detected where they are not given, and ``notes`` lists what was detected. All functions raise `InputError`,
which names the file and the row.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import (
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    as_sample_weight,
    as_uncertainty,
    cell_text,
    half_ulp,
    missing_entry_message,
    zero_weights_message,
)
from orcu.io.locations import Location, as_location, data_files, partition_values
from orcu.io.reading import BATCH_ROWS, TableFile, open_table, to_float64, to_numpy
from orcu.predictions.columns import (
    Columns,
    join_names,
    match_share_columns,
    missing_column_message,
    order_classes,
    select_rater_columns,
    select_value_columns,
)
from orcu.predictions.labels import (
    BY_VALUE,
    POSITIONS,
    EncodedLabels,
    canonical_label,
    check_zero_based,
    is_missing,
    is_null,
    label_codes,
)
from orcu.predictions.predictions import (
    NO_LABELS,
    NUMERIC_COLUMNS,
    TEXT_COLUMNS,
    VALUE_PREFIX,
    Predictions,
    check_scores,
    check_unique_ids,
    concatenate,
)
from orcu.predictions.ratings import LongRatings, read_rater_columns, read_share_columns
from orcu.raters.votes import Ratings, as_votes

ROLES = ("label", "id", *NUMERIC_COLUMNS, *TEXT_COLUMNS)
# Column names in files of schema version 1, which orcu 0.2 wrote.
VERSION_1_NAMES = {"sample_weight": "weight", "uncertainty": "doubt", "subgroup": "group", "cluster": "subject"}
CALIBRATED_BY = "calibrated_by"  # column of a text file with the calibrators that were applied
METHOD_SEPARATOR = " then "
MAX_DIGITS = 9  # numbers with this many decimal digits are treated as not rounded


@dataclass(frozen=True)
class ReadSummary:
    """Totals over batches of a file: rows by treatment, and the ways in which labels were matched."""

    rows: int = 0
    normalised_rows: int = 0
    max_sum_error: float = 0.0
    lowest_label: int | None = None
    mappings: frozenset[str] = frozenset()
    unlabelled_rows: int = 0  # skipped, and not among the rows
    has_weight: bool = False  # whether a row has a weight above 0

    @classmethod
    def from_batch(cls, batch: Predictions) -> "ReadSummary":
        """Summarise one batch."""
        if not len(batch):
            return cls(unlabelled_rows=batch.unlabelled_rows)
        lowest = None if batch.y is None else int(batch.y.min())
        mappings = frozenset([batch.label_mapping])
        has_weight = batch.sample_weight is None or bool(batch.sample_weight.any())
        return cls(
            len(batch), batch.normalised_rows, batch.max_sum_error, lowest, mappings, batch.unlabelled_rows, has_weight
        )

    def __add__(self, other: "ReadSummary") -> "ReadSummary":
        lowest = [label for label in (self.lowest_label, other.lowest_label) if label is not None]
        return ReadSummary(
            self.rows + other.rows,
            self.normalised_rows + other.normalised_rows,
            max(self.max_sum_error, other.max_sum_error),
            min(lowest, default=None),
            self.mappings | other.mappings,
            self.unlabelled_rows + other.unlabelled_rows,
            self.has_weight or other.has_weight,
        )


@dataclass(frozen=True)
class PredictionsSource:
    """Predictions that can be read repeatedly, in `batches` or all at once with `load`."""

    name: str  # of the file or folder
    columns: Columns
    kind: str  # "probs" or "logits"
    value_columns: list[str]  # in the order of the classes
    classes: tuple[str, ...]
    notes: list[str]  # what was detected
    open_batches: Callable[[list[str]], Iterator[Any]]  # from column names to pyarrow record batches
    decimal: str = "."  # decimal sign of numbers written as text
    history: list[dict[str, Any]] = field(default_factory=list)  # processing steps recorded in the file
    files: list["PredictionsSource"] = field(default_factory=list)  # of a folder
    rows: int | None = None  # if the number is known before reading
    table: TableFile | None = None  # the file; None for a folder or a frame
    rater_columns: list[str] = field(default_factory=list)  # grades of each rater
    raters: tuple[str, ...] = ()  # names of the raters
    share_columns: list[str] = field(default_factory=list)  # votes for each class, in the order of the classes
    long_ratings: LongRatings | None = None  # grades in another file

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return len(self.classes)

    @property
    def own_columns(self) -> dict[str, str]:
        """Columns of the file by role; the label of a long table of ratings is in another file."""
        return _own_columns(self.columns)

    @property
    def table_columns(self) -> list[str]:
        """Names of all columns of the file."""
        table = self.fragments[0].table
        return [] if table is None else list(table.names)

    @property
    def fragments(self) -> list["PredictionsSource"]:
        """The files of a folder, which can be read in parallel, or this source itself."""
        return self.files or [self]

    def batches(self) -> Iterator[Predictions]:
        """Iterate over the rows in order, in batches of up to 262,144 rows."""
        summary = ReadSummary()
        for fragment in self.fragments:
            for raw in fragment.raw_batches():
                batch = raw.parse()
                summary += ReadSummary.from_batch(batch)
                yield batch
        self.check(summary)

    def raw_batches(self) -> Iterator["RawBatch"]:
        """Iterate over the unparsed rows of one file; batches may be parsed in any order and in any thread."""
        rows, digits = 0, 0 if self.kind == "probs" else MAX_DIGITS
        roles = self.own_columns.values()
        needed = list(dict.fromkeys([*self.value_columns, *roles, *self.rater_columns, *self.share_columns]))
        for batch in self.open_batches(needed):
            if not batch.num_rows:
                continue
            values = None
            if digits < MAX_DIGITS:  # the digits of earlier rows determine the tolerance of later ones
                with self.file_in_errors():
                    values = self.read_values(batch, rows + 1)
                digits = max(digits, count_decimals(values))
            yield RawBatch(self, batch, rows + 1, digits, values)
            rows += batch.num_rows

    def partly_labelled_batches(self) -> Iterator[tuple[Predictions, IntArray]]:
        r"""Iterate over batches of a file in which labels may be missing.

        Returns:
            The rows without labels, and the class index of each label, -1 where its cell is empty.

        Example:
            >>> import pathlib, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
            >>> _ = path.write_text("grade,p_low,p_high\nhigh,0.2,0.8\n,0.4,0.6\n")
            >>> source = open_predictions(path, label="grade", probs="p_*")
            >>> [codes.tolist() for _, codes in source.partly_labelled_batches()]
            [[1, -1]]
        """
        if self.columns.label_column is None:
            hint = " Cases with several raters are not supported here." if self.columns.has_votes else ""
            raise InputError(f"{self.name}: pass the column of the labels as label= (--label grade).{hint}")
        summary, any_unlabelled = ReadSummary(), False
        for fragment in self.fragments:
            for raw in fragment.raw_batches():
                batch = raw.parse(with_labels=False)
                with fragment.file_in_errors():
                    codes, mapping = raw.label_codes()
                labelled = codes >= 0
                any_unlabelled |= not labelled.all()
                if labelled.any():
                    part = batch[labelled]._with(y=codes[labelled], label_mapping=mapping)
                    summary += ReadSummary.from_batch(part)
                yield batch, codes
        if summary.rows or not any_unlabelled:
            self.check(summary)

    def check(self, summary: ReadSummary) -> None:
        """Check all rows together: there must be some, with labels of one kind."""
        if not summary.rows and summary.unlabelled_rows:
            place = "a vote" if self.columns.has_votes else f"a label in the column {self.columns.label!r}"
            raise InputError(f"{self.name}: none of the {summary.unlabelled_rows:,} rows has {place}.")
        if not summary.rows:
            raise InputError(f"{self.name}: there are no rows below the header.")
        if len(summary.mappings) > 1:
            raise InputError(
                f"{self.columns.label}: some labels are class names, others are positions 0, 1, ...; use only one kind."
            )
        if not summary.has_weight:
            raise InputError(f"{self.name}: {zero_weights_message(f'column {self.columns.sample_weight!r}')}")
        if POSITIONS in summary.mappings and summary.lowest_label is not None:
            check_zero_based(summary.lowest_label, str(self.columns.label))

    def load(self) -> Predictions:
        """Read all rows into memory."""
        return self.combine(list(self.batches()))

    def load_all_rows(self) -> tuple[Predictions, IntArray | None]:
        """Read all rows, also those without a label; labels are optional.

        Returns:
            The rows without labels, and the class index of each label, -1 where its cell is empty, or ``None`` if the
            file has no column of labels.
        """
        if self.columns.has_votes:
            parts = [raw.parse(with_labels=False) for part in self.fragments for raw in part.raw_batches()]
            self.check(sum(map(ReadSummary.from_batch, parts), ReadSummary()))
            return self.combine(parts), None
        if self.columns.label is None:
            return self.load(), None
        batches, codes = zip(*self.partly_labelled_batches(), strict=True)
        return self.combine(list(batches)), np.concatenate(codes)

    def combine(self, batches: list[Predictions], summary: ReadSummary | None = None) -> Predictions:
        """Concatenate batches of this source; ``summary`` counts all rows if the batches are a sample of them."""
        summary = sum(map(ReadSummary.from_batch, batches), ReadSummary()) if summary is None else summary
        predictions = concatenate(batches)
        notes = predictions._value_notes(summary.normalised_rows, summary.max_sum_error)
        if predictions.ids is not None:
            check_unique_ids(predictions.ids, self.name, first_row=1)
        if summary.unlabelled_rows:
            count, total = summary.unlabelled_rows, summary.rows + summary.unlabelled_rows
            missing = "vote" if self.columns.has_votes else "label"
            notes = [f"{count:,} of {total:,} rows have no {missing} and are skipped", *notes]
        return predictions.replace(notes=(*self.notes, *notes), history=self.history)

    def read_values(self, batch: Any, first_row: int) -> FloatArray:
        """Convert the probabilities or logits of a record batch to an array of shape (n, C)."""
        values: FloatArray = np.stack(
            [self.read_numbers(batch, name, first_row) for name in self.value_columns], axis=1
        )
        return values / 100 if self.columns.percent else values

    def read_numbers(self, batch: Any, column: str, first_row: int) -> FloatArray:
        """Convert a column of a record batch to float64."""
        return to_float64(batch.column(column), column, first_row=first_row, decimal=self.decimal)

    @contextmanager
    def file_in_errors(self) -> Iterator[None]:
        """Prefix error messages with the name of the file."""
        try:
            yield
        except InputError as error:
            text = str(error)
            raise InputError(text if text.startswith(self.name) else f"{self.name}: {text}") from None


@dataclass(frozen=True)
class RawBatch:
    """Unparsed rows of a file."""

    source: PredictionsSource
    batch: Any  # pyarrow record batch
    first_row: int  # number of the first row in the file
    digits: int  # largest number of decimal digits in the file so far
    values: FloatArray | None  # logits or probabilities, if they have been parsed already

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return int(self.batch.nbytes) + (0 if self.values is None else self.values.nbytes)

    def parse(self, *, with_labels: bool = True) -> Predictions:
        """Parse and check the rows."""
        source, batch, first_row = self.source, self.batch, self.first_row
        columns = source.columns
        with source.file_in_errors():
            values = source.read_values(batch, first_row) if self.values is None else self.values
            half = any(str(batch.schema.field(name).type) == "halffloat" for name in source.value_columns)
            rounding = max(0.5 * 10.0**-self.digits, half_ulp(np.float16(0)) if half else 0.0)
            fields = check_scores(source.kind, values, rounding, source.name, first_row, source.value_columns)
            codes = None
            if columns.has_votes:
                pass  # read below: those of a long table are found by id
            elif with_labels and columns.label is not None and columns.unlabelled == "skip":
                codes, mapping = self.label_codes()
            elif with_labels and columns.label is not None:
                encoded = _encode(batch.column(columns.label), columns.label)
                fields["y"], fields["label_mapping"] = self._match_labels(encoded)
            checks: dict[str, Callable[..., FloatArray]] = {
                "sample_weight": partial(as_sample_weight, is_part=True),
                "uncertainty": as_uncertainty,
            }
            for role, check in checks.items():
                if (column := getattr(columns, role)) is not None:
                    numbers = source.read_numbers(batch, column, first_row)
                    fields[role] = check(numbers, rows=len(values), name=f"column {column!r}", first_row=first_row)
            for role in TEXT_COLUMNS:
                if (column := getattr(columns, role)) is not None:
                    fields[role] = read_texts(batch.column(column), column, first_row)
            if columns.id is not None:
                fields["ids"] = _read_ids(batch.column(columns.id), columns.id, first_row)
            predictions = Predictions._from_fields(**fields, classes=source.classes, history=tuple(source.history))
            if with_labels and columns.has_votes:
                return self._with_votes(predictions)
            if codes is None:
                return predictions
            labelled = codes >= 0
            return predictions[labelled]._with(
                y=codes[labelled], label_mapping=mapping, unlabelled_rows=int((~labelled).sum())
            )

    def _with_votes(self, predictions: Predictions) -> Predictions:
        """Return the rows with their votes; rows without a vote are skipped or an error."""
        source, first_row = self.source, self.first_row
        rating_codes = None
        if source.share_columns:
            votes = read_share_columns(self.batch, source.share_columns, source.read_numbers, first_row)
        else:
            if source.long_ratings is not None and predictions.ids is not None:
                rating_codes = source.long_ratings.codes_of(predictions.ids)
            else:
                rating_codes = read_rater_columns(
                    self.batch,
                    source.rater_columns,
                    source.classes,
                    explicit_order=source.columns.classes is not None,
                    first_row=first_row,
                )
            votes = Ratings(rating_codes, source.raters, source.num_classes).counts
        voted: BoolArray = np.asarray(votes.any(axis=1))
        if not voted.all() and source.columns.unlabelled != "skip":
            row, count = int(np.argmin(voted)) + first_row, f"{int((~voted).sum()):,} of {len(voted):,} rows"
            raise InputError(
                f"row {row} has no vote ({count} have none). Leave them out with "
                'unlabelled="skip" (--unlabelled skip), or pass no labels at all for new cases.'
            )
        kept = predictions if voted.all() else predictions[voted]
        return kept._with(
            votes=as_votes(votes[voted], source.num_classes, name="votes") if voted.any() else votes[voted],
            rating_codes=None if rating_codes is None else rating_codes[voted],
            raters=source.raters,
            label_mapping=BY_VALUE,
            unlabelled_rows=int((~voted).sum()),
        )

    def label_codes(self) -> tuple[IntArray, str]:
        """Return the class index of each label, -1 where its cell is empty, and how labels were matched."""
        name = str(self.source.columns.label)
        labels = _encode(self.batch.column(name), name)
        classes = self.source.classes
        empty = [is_null(v) or (is_missing(v) and canonical_label(v) not in classes) for v in labels.values]
        values = [value for value, is_empty in zip(labels.values, empty, strict=True) if not is_empty]
        if not values:
            return np.full(len(labels.index), -1), NO_LABELS
        index = np.where(empty, -1, np.cumsum(np.logical_not(empty)) - 1)[labels.index]
        # An index of -1 selects an arbitrary class, which is replaced below.
        codes, mapping = self._match_labels(EncodedLabels(values, index))
        return np.where(index < 0, -1, codes), mapping

    def _match_labels(self, labels: EncodedLabels) -> tuple[IntArray, str]:
        columns = self.source.columns
        return label_codes(
            labels,
            self.source.classes,
            explicit_order=columns.classes is not None,
            first_row=self.first_row,
            name=str(columns.label),
        )


def open_predictions(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    **columns: Any,
) -> PredictionsSource:
    r"""Open a .parquet, .csv or .csv.gz file of predictions, or a folder of such files, local or at a URI.

    Args:
        path: path or URI (such as s3://bucket/folder) of a file, or of a folder whose files hold the rows, in the order
            of their names: the Parquet files, or the CSV files if there are none. Subfolders such as ``site=north``
            add a text column ``site``. A Parquet file written by orcu needs no further options.
        sep: separator of a CSV file; detected by default.
        decimal: decimal sign of a CSV file, "." or ","; detected by default.
        encoding: encoding of a CSV file, such as "cp1252"; UTF-8 by default.
        columns: fields of `Columns`: ``label="grade"``, ``probs="p_*"`` or ``logits="z_*"`` (a pattern whose star is
            the class name, or a list of columns), ``classes`` in order, the columns ``id``, ``sample_weight``,
            ``uncertainty``, ``subgroup``, ``cluster``, ``split`` and ``fold``, ``percent=True`` for percentages, and
            ``unlabelled="skip"`` to leave out rows without a label, which are an error otherwise. Several raters per
            case replace the label: ``rater="r_*"`` (a column with the grades of each rater), ``label_shares="y_*"``
            (a column with the votes for each class), or ``ratings="grades.csv"``, a long table with one row per case
            and rater, whose columns are named by ``id``, ``rater`` and ``label``.

    Raises:
        InputError: if the file cannot be read or a column is missing; the message lists the columns.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
        >>> _ = path.write_text("grade;p_low;p_high\nlow;0,9;0,1\n")
        >>> source = open_predictions(path, label="grade", probs="p_*")
        >>> source.classes, source.notes[0]
        (('low', 'high'), 'preds.csv: separator semicolon, decimal comma (detected)')
    """
    location, selection = as_location(path), Columns.from_options(columns)
    open_file = partial(open_table, sep=sep, decimal=decimal, encoding=encoding)
    if location.is_dir():
        return _open_folder(location, selection, open_file)
    return _open_file(open_file(location), selection)


def open_frame(frame: Any, **columns: Any) -> PredictionsSource:
    """Open predictions in a pandas or polars frame or a pyarrow table; columns as for `open_predictions`."""
    import pyarrow

    table = frame if isinstance(frame, pyarrow.Table) else pyarrow.table(frame)
    batches = partial(_table_batches, table)
    return _make_source("frame", Columns.from_options(columns), table.column_names, [], batches)


def _table_batches(table: Any, columns: list[str]) -> Iterator[Any]:
    return iter(table.select(columns).combine_chunks().to_batches(max_chunksize=BATCH_ROWS))


def _open_file(file: TableFile, columns: Columns) -> PredictionsSource:
    name, notes, history = file.path.name, file.notes, list[dict[str, Any]]()
    selected = columns.probs is not None or columns.logits is not None
    if "orcu" in file.metadata:
        from orcu.predictions.metadata import Metadata  # imports pydantic

        try:
            metadata = Metadata.parse(file.metadata["orcu"])
            history = metadata.history
            columns = columns if selected else _written_columns(metadata, file.names, columns)
        except InputError as error:
            if not selected:
                raise InputError(f"{name}: {error} Name its columns: --label, --probs or --logits.") from None
            notes = [*notes, f"{name}: orcu's metadata of the file are ignored: {error}"]
    elif CALIBRATED_BY in file.names:
        history, note = _calibration_steps(file)
        notes = [*notes, note]
    absolute = replace(file, path=file.path.absolute())  # processes with other working directories may read it
    source = _make_source(name, columns, list(file.names), notes, absolute.batches)
    return replace(source, decimal=file.decimal, history=history, rows=file.rows, table=absolute)


def _calibration_steps(file: TableFile) -> tuple[list[dict[str, Any]], str]:
    """Calibrators in the column `CALIBRATED_BY`, and a note about them; only the first batch of rows is read."""
    batch = next(iter(file.batches([CALIBRATED_BY])), None)
    values = [] if batch is None else batch.column(CALIBRATED_BY).unique().to_pylist()
    if len(values) != 1 or is_missing(values[0]):
        return [], f"{file.path.name}: column {CALIBRATED_BY!r} is ignored, because its rows differ or are empty"
    methods = str(values[0]).split(METHOD_SEPARATOR)
    steps: list[dict[str, Any]] = [{"step": "calibrate", "method": method} for method in methods]
    return steps, f"{file.path.name}: calibrated by {', '.join(methods)} (column {CALIBRATED_BY})"


def _written_columns(metadata: Any, names: Sequence[str], columns: Columns) -> Columns:
    """Return the columns of a file written by `Predictions.write`; columns of the caller take precedence."""
    if metadata.columns:
        given = {name: value for name, value in vars(columns).items() if value != getattr(Columns, name)}
        return Columns.from_options({**metadata.columns, "classes": metadata.classes, **given})
    old_names = VERSION_1_NAMES if metadata.schema_version == 1 else {}
    written = {role: name for role in ROLES if (name := old_names.get(role, role)) in names}
    chosen = {role: getattr(columns, role) for role in ROLES if getattr(columns, role) is not None}
    values = [f"{VALUE_PREFIX[metadata.kind]}_{name}" for name in metadata.classes]
    return Columns(**{**written, **chosen, metadata.kind: values, "classes": columns.classes or metadata.classes})


def _open_folder(folder: Location, columns: Columns, open_file: Callable[[Location], TableFile]) -> PredictionsSource:
    """Open the files of a folder, as Spark, Dask or Ray write them; hidden ones and those without rows are skipped."""
    kind, paths, others = data_files(folder)
    files: list[PredictionsSource] = []
    history: list[dict[str, Any]] = []
    for path, name in paths:
        table = open_file(path)  # files without rows are opened too: they may be damaged
        partitions = partition_values(name)
        source = _open_file(table.in_partition(partitions) if partitions else table, columns)
        if source.rows is None or source.rows:
            files.append(replace(source, name=f"{folder.name}/{name}"))
            history += [step for step in source.history if step not in history]
    if not files:
        raise InputError(f"{folder}: the {len(paths)} {kind} files have no rows.")
    first = files[0]
    for other in files[1:]:
        if (other.kind, other.classes) != (first.kind, first.classes):
            raise InputError(
                f"{folder}: {first.name} has {first.kind} of {', '.join(first.classes)}, {other.name} has "
                f"{other.kind} of {', '.join(other.classes)}; expected the same in all files."
            )
    nested = sum("/" in name for _, name in paths)
    count = f"{len(files)} {kind} files" + (f", {nested} of them in subfolders" if nested else "")
    skipped = {"without rows": len(paths) - len(files), "in other formats": others}
    ignored = ", ".join(f"{number} {reason}" for reason, number in skipped.items() if number > 0)
    notes = [count + (f"; ignored: {ignored}" if ignored else ""), *first.notes]
    rows = None if any(file.rows is None for file in files) else sum(file.rows or 0 for file in files)
    return replace(first, name=folder.name, files=files, notes=notes, history=history, rows=rows)


def _make_source(
    name: str, columns: Columns, names: list[str], notes: list[str], batches: Callable[[list[str]], Iterator[Any]]
) -> PredictionsSource:
    if (columns.probs is None) == (columns.logits is None):
        raise InputError(
            f"{name}: pass the columns of the predictions as probs= or logits= (--probs 'p_*' or --logits 'z_*'). "
            f"The columns are: {join_names(names)}."
        )
    kind, selection = ("probs", columns.probs) if columns.logits is None else ("logits", columns.logits)
    roles = {column: role for role, column in _own_columns(columns).items()}
    for column, role in roles.items():
        if column not in names:
            raise InputError(missing_column_message(column, names, name, role))
    # A star does not match columns with another role.
    values, derived = select_value_columns(selection, [column for column in names if column not in roles], name)
    classes, values = order_classes(columns.classes, derived, values, name)
    others = [column for column in names if column not in {*roles, *values}]
    votes = _vote_fields(name, columns, others, classes)
    if columns.percent and kind == "logits":
        raise InputError("percent: logits are not percentages; pass probs= (--probs).")
    pairs = zip(classes, values, strict=True)
    order = ", ".join(f"{k} = {class_name} ({column})" for k, (class_name, column) in enumerate(pairs))
    notes = [*notes, f"classes, lowest first: {order}"]
    return PredictionsSource(name, columns, kind, values, classes, notes, batches, **votes)


def _own_columns(columns: Columns) -> dict[str, str]:
    named = {role: columns.label_column if role == "label" else getattr(columns, role) for role in ROLES}
    return {role: column for role, column in named.items() if column is not None}


def _vote_fields(name: str, columns: Columns, names: list[str], classes: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a source that say where the votes of several raters are."""
    if columns.ratings is not None:
        long_ratings = LongRatings.read(
            columns.ratings,
            classes,
            case=str(columns.id),
            rater=str(columns.rater),
            label=str(columns.label),
            explicit_order=columns.classes is not None,
        )
        return {"long_ratings": long_ratings, "raters": long_ratings.ratings.raters}
    if columns.label_shares is not None:
        return {"share_columns": match_share_columns(columns.label_shares, names, classes, name)}
    if columns.rater is not None:
        rater_columns, raters = select_rater_columns(columns.rater, names, name)
        return {"rater_columns": rater_columns, "raters": tuple(raters)}
    return {}


def count_decimals(values: FloatArray) -> int:
    """Return the number of decimal digits that represent all values exactly, at most 9."""

    def is_exact(part: FloatArray, digits: int) -> bool:
        scaled = part * 10.0**digits
        with np.errstate(invalid="ignore"):  # values that are not finite are reported later
            return bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6)

    head = values[:64]  # enough for most files
    return next((d for d in range(1, MAX_DIGITS) if is_exact(head, d) and is_exact(values, d)), MAX_DIGITS)


def _encode(column: Any, name: str) -> EncodedLabels:
    """Encode a pyarrow column as its distinct cells, ``None`` for nulls, and the index of each row's cell."""
    import pyarrow

    if pyarrow.types.is_nested(column.type):
        raise InputError(f"column {name!r}: expected one value per cell, got {column.type}.")
    encoded = column.dictionary_encode()
    encoded = encoded.cast(pyarrow.dictionary(pyarrow.int32(), encoded.type.value_type))
    values = [*encoded.dictionary.to_pylist(), *([None] if column.null_count else [])]
    index = to_numpy(encoded.indices.fill_null(len(values) - 1), np.int32)
    return EncodedLabels(values, index.astype(np.intp))


def _read_ids(column: Any, name: str, first_row: int) -> ObjectArray:
    """Convert a pyarrow column without empty cells to ids."""
    cells = column.to_pylist()
    empty = next((row for row, value in enumerate(cells) if is_missing(value)), None)
    if empty is not None:
        raise InputError(missing_entry_message(f"column {name!r}", empty + first_row))
    return np.asarray(cells, dtype=object)


def read_texts(column: Any, name: str, first_row: int) -> ObjectArray:
    """Convert a pyarrow column without empty cells to texts."""
    cells = _encode(column, name)
    empty = np.isin(cells.index, [k for k, value in enumerate(cells.values) if is_missing(value)])
    if empty.any():
        raise InputError(missing_entry_message(f"column {name!r}", int(np.argmax(empty)) + first_row))
    return np.array([cell_text(value) for value in cells.values], dtype=object)[cells.index]
