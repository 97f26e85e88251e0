"""Predictions from files and frames, in batches, with every guess announced and every bad row named."""

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from orcu.columns import Columns, columns_of, listed, no_column, ordered_classes, value_columns
from orcu.errors import InputError
from orcu.inputs import FloatArray, as_matrix, as_weight, half_unit
from orcu.labels import POSITIONS, canonical, is_missing, label_codes, need_position_zero
from orcu.predictions import (
    EXTRAS,
    SCHEMA_VERSION,
    Predictions,
    distributions,
    normalisation_note,
    printed_decimals,
)

BATCH_ROWS = 1 << 18
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SNIFF_LINES = 20
_COMMA_NUMBER = re.compile(r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")


@dataclass
class PredictionsSource:
    """Predictions that are read batch by batch, as often as needed.

    Iterate `batches`, or `load` all rows at once. ``notes`` tells what was recognised or repaired.
    """

    name: str
    columns: Columns
    kind: str
    value_columns: list[str]
    classes: tuple[str, ...]
    notes: list[str]
    open_batches: Any  # () -> iterator of pyarrow record batches
    decimal: str = "."
    rule: Any = "argmax"
    history: list[dict[str, Any]] = field(default_factory=list)
    mapping: str = ""
    _missed: tuple[int, float] = (0, 0.0)  # rows that were normalised, and the largest miss
    _digits: int = field(default=0, repr=False)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    def batches(self) -> Iterator[Predictions]:
        """The rows in order, some hundred thousand at a time.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        first_row, self._missed, lowest = 1, (0, 0.0), 0
        for batch in self.open_batches():
            if batch.num_rows:
                part = self._batch(batch, first_row)
                if part.y is not None:
                    found = int(part.y.min())
                    lowest = found if first_row == 1 else min(lowest, found)
                yield part
                first_row += batch.num_rows
        if self.mapping == POSITIONS:
            need_position_zero(lowest, str(self.columns.label))
        if first_row == 1:
            raise InputError(f"{self.name}: there is no row below the header.")

    def load(self) -> Predictions:
        """All rows in memory.

        Raises:
            InputError: if a row cannot be used, or an id stands twice.
        """
        parts = list(self.batches())
        return self.joined(parts)

    def joined(self, parts: list[Predictions]) -> Predictions:
        """One `Predictions` of batches that came from here."""
        whole = parts[0] if len(parts) == 1 else _concatenated(parts)
        whole.notes = self.all_notes()
        if whole.ids is not None:
            _check_ids(whole.ids, self.name)
        return whole

    def all_notes(self) -> list[str]:
        """What was recognised when opening, and repaired while reading."""
        return [*self.notes, *normalisation_note(*self._missed)]

    def _batch(self, batch: Any, first_row: int) -> Predictions:
        columns = [
            self._numbers(batch.column(name), name, first_row) for name in self.value_columns
        ]
        names = tuple(self.value_columns)
        values = as_matrix(
            np.stack(columns, axis=1), name=self.name, first_row=first_row, columns=names
        )
        options: dict[str, Any] = {"classes": self.classes}
        if self.kind == "probs":
            values = values / 100 if self.columns.percent else values
            self._digits = max(self._digits, printed_decimals(values))
            rounding = max(0.5 * 10.0**-self._digits, self._half_unit(batch))
            kept, missed = distributions(
                values, rounding=rounding, name=self.name, first_row=first_row, columns=names
            )
            count, worst = self._missed
            self._missed = count + len(missed), max(worst, float(missed.max(initial=0.0)))
            options["probs"] = kept
        else:
            options["logits"] = values
        part = Predictions(**options)
        part.notes, part.rule, part.history = [], self.rule, self.history
        if self.columns.label is not None:
            self._add_labels(part, batch.column(self.columns.label), first_row)
        if self.columns.weight is not None:
            weight = self._numbers(
                batch.column(self.columns.weight), self.columns.weight, first_row
            )
            named = f"column {self.columns.weight!r}"
            part.weight = as_weight(weight, rows=len(weight), name=named, first_row=first_row)
        if self.columns.id is not None:
            part.ids = np.asarray(batch.column(self.columns.id).to_pylist(), dtype=object)
        for name in EXTRAS:
            column = getattr(self.columns, name)
            if column is not None:
                part.extras[name] = _texts(batch.column(column), column, first_row)
        return part

    def _half_unit(self, batch: Any) -> float:
        types = {str(batch.schema.field(name).type) for name in self.value_columns}
        return half_unit(np.float16(0)) if "halffloat" in types else 0.0

    def _add_labels(self, part: Predictions, column: Any, first_row: int) -> None:
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        index = encoded.indices.to_numpy(zero_copy_only=False)
        labels = np.array([*values, None], dtype=object)
        missing = np.isnan(index) if index.dtype.kind == "f" else np.zeros(len(index), dtype=bool)
        codes = np.where(missing, len(values), np.nan_to_num(index)).astype(np.intp)
        given = self.columns.classes is not None
        part.y, self.mapping = label_codes(
            labels[codes],
            self.classes,
            given=given,
            first_row=first_row,
            name=str(self.columns.label),
        )
        part.mapping = self.mapping

    def _numbers(self, column: Any, name: str, first_row: int) -> FloatArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
            kind = column.type
        if (
            pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
        ):
            text = pc.utf8_trim_whitespace(column.cast(pa.string()))
            if self.decimal == ",":
                text = pc.replace_substring(text, ",", ".")
            try:
                column = text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise InputError(_not_a_number(text.to_pylist(), name, first_row)) from None
        elif not (
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        ):
            raise InputError(f"column {name!r}: expected numbers, got {kind}.")
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(
                f"column {name!r}: row {row + first_row} is empty; every row needs a number there."
            )
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def open_predictions(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    decimal: str | None = None,
    **columns: Any,
) -> PredictionsSource:
    r"""Open a .parquet, .csv or .csv.gz file of predictions.

    Args:
        path: the file. A Parquet file that orcu wrote needs no further options.
        sep: the separator of a CSV file; recognised from its first rows if not given.
        decimal: "." or ","; recognised likewise.
        columns: as in `Columns`: ``label="grade"``, ``probs="p_*"`` or ``logits="z_*"`` (a pattern
            whose star is the class name, or a list of columns), ``classes`` in order, and ``id``,
            ``weight``, ``group``, ``subject``, ``split``, ``fold``, ``percent``.

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
    path = Path(path)
    chosen = columns_of(columns)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return _open_parquet(path, chosen)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")):
        return _open_csv(path, chosen, sep, decimal)
    raise InputError(
        f"{path}: expected a name that ends in .parquet, .csv, .tsv or these with .gz."
    )


def frame_predictions(frame: Any, **columns: Any) -> PredictionsSource:
    """Predictions in a pandas or polars frame or a pyarrow table; columns as in `Columns`.

    Raises:
        InputError: if a column is missing; the text says which exist.
    """
    import pyarrow as pa

    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    notes: list[str] = []
    return _source(
        "frame",
        columns_of(columns),
        table.column_names,
        notes,
        lambda: iter(table.combine_chunks().to_batches()),
    )


def _open_parquet(path: Path, columns: Columns) -> PredictionsSource:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path.name}: not a whole Parquet file ({_first_line(error)}). Was it cut off while copying?"
        ) from None
    about = (schema.metadata or {}).get(b"orcu")
    if about is not None and columns.probs is None and columns.logits is None:
        columns = _own_columns(json.loads(about), schema.names, columns, path.name)

    def batches(needed: list[str]) -> Iterator[Any]:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:  # else it keeps what was read
                yield from file.iter_batches(BATCH_ROWS, columns=needed)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path.name}: damaged Parquet file ({_first_line(error)}).") from None

    source = _source(path.name, columns, schema.names, [], batches)
    source.open_batches = lambda: batches(_needed(source))
    if about is not None:
        source.history = json.loads(about).get("history", [])
    return source


def _own_columns(about: dict[str, Any], names: list[str], columns: Columns, file: str) -> Columns:
    """The columns of a file that `Predictions.write` has written."""
    if about.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{file}: schema version {about.get('schema_version')}, this orcu reads {SCHEMA_VERSION}."
        )
    prefix = "prob" if about["kind"] == "probs" else "logit"
    values = [f"{prefix}_{name}" for name in about["classes"]]
    found = {name: name for name in ("label", "id", "weight", *EXTRAS) if name in names}
    said = {
        name: getattr(columns, name)
        for name in ("label", "id", "weight", *EXTRAS)
        if getattr(columns, name) is not None
    }
    classes = columns.classes or about["classes"]
    return Columns(**{**found, **said, about["kind"]: values, "classes": classes})


def _open_csv(
    path: Path, columns: Columns, sep: str | None, decimal: str | None
) -> PredictionsSource:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            head = _head(file)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, OSError) as error:
        raise InputError(
            f"{path.name}: not readable as UTF-8 text ({_first_line(error)}). In Excel, save as 'CSV UTF-8'."
        ) from None
    if not head:
        raise InputError(f"{path.name}: the file is empty.")
    found_sep = sep or _separator(head)
    cells = list(csv.reader(io.StringIO("\n".join(head)), delimiter=found_sep))
    header = [name.strip() for name in cells[0]]
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path.name}: the column {twice!r} stands twice in the header.")
    found_decimal = decimal or _decimal(cells[1:])
    if found_decimal not in {".", ","}:
        raise InputError(f"decimal: expected '.' or ',', got {decimal!r}.")
    how = "given" if sep and decimal else "recognised"
    point = "comma" if found_decimal == "," else "point"
    notes = [
        f"{path.name}: separator {SEPARATORS.get(found_sep, found_sep)}, decimal {point} ({how})"
    ]

    def batches(needed: list[str]) -> Iterator[Any]:
        try:
            with pa.input_stream(path, compression="detect") as stream:
                reader = pa_csv.open_csv(
                    stream,
                    pa_csv.ReadOptions(column_names=header, skip_rows=1, block_size=1 << 24),
                    pa_csv.ParseOptions(delimiter=found_sep, newlines_in_values=True),
                    pa_csv.ConvertOptions(
                        include_columns=needed,
                        column_types={name: pa.string() for name in needed},
                        strings_can_be_null=False,
                    ),
                )
                yield from reader
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise InputError(f"{path.name}: {_first_line(error)}") from None
        except OSError as error:
            raise InputError(
                f"{path.name}: cannot be read to its end ({_first_line(error)})."
            ) from None

    source = _source(path.name, columns, header, notes, batches)
    source.decimal = found_decimal
    source.open_batches = lambda: batches(_needed(source))
    return source


def _source(
    name: str, columns: Columns, names: list[str], notes: list[str], batches: Any
) -> PredictionsSource:
    if (columns.probs is None) == (columns.logits is None):
        raise InputError(
            f"{name}: say where the predictions are, as probs= or logits= (--probs 'p_*' or --logits 'z_*'); "
            f"the columns are: {listed(names)}."
        )
    kind = "probs" if columns.logits is None else "logits"
    wanted = columns.probs if columns.logits is None else columns.logits
    chosen, found = value_columns(wanted, names, name)
    for role in ("label", "id", "weight", *EXTRAS):
        column = getattr(columns, role)
        if column is not None and column not in names:
            raise InputError(no_column(column, names, name, role))
    classes, chosen = ordered_classes(columns.classes, found, chosen, name)
    if columns.percent and kind == "logits":
        raise InputError("percent: logits are not percentages; say probs= (--probs).")
    pairs = zip(classes, chosen, strict=True)
    order = ", ".join(f"{k} = {c} ({v})" for k, (c, v) in enumerate(pairs))
    notes.append(f"classes, lowest first: {order}")
    return PredictionsSource(name, columns, kind, chosen, classes, notes, batches)


def _needed(source: PredictionsSource) -> list[str]:
    roles = [getattr(source.columns, role) for role in ("label", "id", "weight", *EXTRAS)]
    return list(dict.fromkeys([*source.value_columns, *(role for role in roles if role)]))


def _head(file: IO[str]) -> list[str]:
    return [
        line.rstrip("\r\n")
        for line, _ in zip(file, range(_SNIFF_LINES), strict=False)
        if line.strip()
    ]


def _separator(lines: list[str]) -> str:
    """The separator that cuts all first lines into the same number of cells, the more the better."""
    best, most = ",", 1
    for candidate in SEPARATORS:
        counts = {
            len(row) for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=candidate)
        }
        if len(counts) == 1 and max(counts) > most:
            best, most = candidate, max(counts)
    return best


def _decimal(rows: list[list[str]]) -> str:
    cells = [cell for row in rows for cell in row]
    return "," if any(_COMMA_NUMBER.match(cell) for cell in cells) else "."


def _texts(column: Any, name: str, first_row: int) -> Any:
    encoded = column.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    index = encoded.indices.to_numpy(zero_copy_only=False)
    missing = [k for k, value in enumerate(found) if is_missing(value)]
    empty = np.isnan(index) if column.null_count else np.isin(index, missing)
    if missing and column.null_count:
        empty |= np.isin(index, missing)
    if empty.any():
        row = int(np.argmax(empty)) + first_row
        raise InputError(f"column {name!r}: row {row} is empty; every row needs an entry there.")
    values = np.array([canonical(value) for value in found], dtype=object)
    return values[index.astype(np.intp)]


def _check_ids(ids: Any, file: str) -> None:
    seen: dict[str, int] = {}
    for row, value in enumerate(ids, start=1):
        first = seen.setdefault(str(value), row)
        if first != row:
            raise InputError(
                f"{file}: the id {str(value)!r} stands in rows {first} and {row}; every id must be unique."
            )


def _concatenated(parts: list[Predictions]) -> Predictions:
    whole = parts[0][:]
    for name in ("probs", "logits", "y", "ids", "weight"):
        if parts[0].__dict__.get(name) is not None:
            whole.__dict__[name] = np.concatenate([part.__dict__[name] for part in parts])
    for name in whole.extras:
        whole.extras[name] = np.concatenate([part.extras[name] for part in parts])
    return whole


def _not_a_number(texts: list[str | None], name: str, first_row: int) -> str:
    for row, text in enumerate(texts):
        try:
            float(text or "x")
        except ValueError:
            if not text:
                return f"column {name!r}: row {row + first_row} is empty; every row needs a number there."
            hint = "Check the separator and the decimal sign (--sep, --decimal)."
            if text.endswith("%"):
                hint = "Write the numbers without the sign, and say --percent."
            return (
                f"column {name!r}: row {row + first_row} has {text!r}, which is no number. {hint}"
            )
    return f"column {name!r}: holds text that is no number."


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
