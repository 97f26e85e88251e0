"""Predictions from files and frames, in batches, with every guess announced and every bad row named."""

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from orcu.errors import InputError
from orcu.predictions.columns import Columns, columns_of, listed, no_column, ordered_classes, value_columns
from orcu.predictions.predictions import EXTRAS, SCHEMA_VERSION
from orcu.predictions.source import PredictionsSource

BATCH_ROWS = 1 << 18
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SNIFF_LINES = 20
_COMMA_NUMBER = re.compile(r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")


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
    if path.is_dir():
        return _open_folder(path, chosen)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return _open_parquet(path, chosen)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")):
        return _open_csv(path, chosen, sep, decimal)
    raise InputError(f"{path}: expected a name that ends in .parquet, .csv, .tsv or these with .gz.")


def frame_predictions(frame: Any, **columns: Any) -> PredictionsSource:
    """Predictions in a pandas or polars frame or a pyarrow table; columns as in `Columns`.

    Raises:
        InputError: if a column is missing; the text says which exist.
    """
    import pyarrow as pa

    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    notes: list[str] = []
    return _source(
        "frame", columns_of(columns), table.column_names, notes, lambda: iter(table.combine_chunks().to_batches())
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

    source = _source(path.name, columns, schema.names, [], None)
    source.open_batches = partial(_parquet_batches, path.absolute(), _needed(source))
    if about is not None:
        source.history = json.loads(about).get("history", [])
    return source


def _parquet_batches(path: Path, needed: list[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:  # else it keeps what was read
            yield from file.iter_batches(BATCH_ROWS, columns=needed)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path.name}: damaged Parquet file ({_first_line(error)}).") from None


def _open_folder(folder: Path, columns: Columns) -> PredictionsSource:
    """The Parquet files of a folder, as Spark, Dask or Ray write them; hidden and empty ones are skipped."""
    import pyarrow.parquet as pq

    paths = sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))
    if not paths:
        raise InputError(f"{folder}: there is no .parquet file in this folder.")
    files, history = [], []
    for path in paths:
        source = _open_parquet(path, columns)  # also of those without rows: they may be damaged
        if pq.read_metadata(path).num_rows:
            files.append(replace(source, name=f"{folder.name}/{path.relative_to(folder).as_posix()}"))
            history += [one for one in source.history if one not in history]
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
    told = f"{len(files)} Parquet files" + (f", {inner} of them in subfolders" if inner else "")
    empty = len(paths) - len(files)
    others = sum(one.is_file() and not one.name.startswith((".", "_")) for one in folder.rglob("*")) - len(paths)
    left = [f"{n} {what}" for n, what in ((empty, "without rows"), (others, "of other kinds")) if n > 0]
    notes = [told + (f"; left out: {', '.join(left)}" if left else ""), *first.notes]
    return replace(first, name=folder.name, files=files, notes=notes, history=history)


def _own_columns(about: dict[str, Any], names: list[str], columns: Columns, file: str) -> Columns:
    """The columns of a file that `Predictions.write` has written."""
    if about.get("schema_version") != SCHEMA_VERSION:
        raise InputError(f"{file}: schema version {about.get('schema_version')}, this orcu reads {SCHEMA_VERSION}.")
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


def _open_csv(path: Path, columns: Columns, sep: str | None, decimal: str | None) -> PredictionsSource:
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
    notes = [f"{path.name}: separator {SEPARATORS.get(found_sep, found_sep)}, decimal {point} ({how})"]

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
            raise InputError(f"{path.name}: cannot be read to its end ({_first_line(error)}).") from None

    source = _source(path.name, columns, header, notes, batches)
    source.decimal = found_decimal
    source.open_batches = lambda: batches(_needed(source))
    return source


def _source(name: str, columns: Columns, names: list[str], notes: list[str], batches: Any) -> PredictionsSource:
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
    return [line.rstrip("\r\n") for line, _ in zip(file, range(_SNIFF_LINES), strict=False) if line.strip()]


def _separator(lines: list[str]) -> str:
    """The separator that cuts all first lines into the same number of cells, the more the better."""
    best, most = ",", 1
    for candidate in SEPARATORS:
        counts = {len(row) for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=candidate)}
        if len(counts) == 1 and max(counts) > most:
            best, most = candidate, max(counts)
    return best


def _decimal(rows: list[list[str]]) -> str:
    cells = [cell for row in rows for cell in row]
    return "," if any(_COMMA_NUMBER.match(cell) for cell in cells) else "."


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
