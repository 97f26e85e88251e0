"""A source of predictions: read in batches, as often as needed, with every bad row named."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_matrix, as_weight, half_unit
from orcu.predictions.columns import Columns
from orcu.predictions.labels import POSITIONS, canonical, is_missing, label_codes, need_position_zero
from orcu.predictions.predictions import EXTRAS, Predictions, distributions, normalisation_note, printed_decimals


@dataclass(frozen=True)
class Seen:
    """What a reading has met: rows, rows that were normalised and the largest miss, labels."""

    rows: int = 0
    missed: int = 0
    worst: float = 0.0
    lowest: int | None = None
    mappings: frozenset[str] = frozenset()

    def __add__(self, other: "Seen") -> "Seen":
        lowest = [one for one in (self.lowest, other.lowest) if one is not None]
        return Seen(
            self.rows + other.rows,
            self.missed + other.missed,
            max(self.worst, other.worst),
            min(lowest, default=None),
            self.mappings | other.mappings,
        )


@dataclass
class PredictionsSource:
    """Predictions that are read batch by batch, as often as needed.

    Iterate `batches`, or `load` all rows at once. ``notes`` tells what was recognised or repaired.
    A folder's `fragments` are its files, which can be read side by side.
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
    files: list["PredictionsSource"] = field(default_factory=list)  # of a folder
    seen: Seen = field(default_factory=Seen, repr=False)
    _digits: int = field(default=0, repr=False)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    @property
    def fragments(self) -> list["PredictionsSource"]:
        """The files, or this source itself."""
        return self.files or [self]

    def deciding(self, rule: Any) -> "PredictionsSource":
        """The same predictions, deciding by the rule."""
        return replace(self, rule=rule, files=[one.deciding(rule) for one in self.files])

    def batches(self) -> Iterator[Predictions]:
        """The rows in order, some hundred thousand at a time.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        seen = Seen()
        for fragment in self.fragments:
            yield from fragment.parts()
            seen += fragment.seen
        self.finish(seen)

    def parts(self) -> Iterator[Predictions]:
        """The rows of one file, without the checks that need all rows; ``seen`` adds up what was met.

        Raises:
            InputError: if a row cannot be used; the text names it.
        """
        self.seen = Seen()
        for batch in self.open_batches():
            if batch.num_rows:
                try:
                    part, missed = self._batch(batch, self.seen.rows + 1)
                except InputError as error:  # which of several files was it?
                    told = str(error)
                    named = told if told.startswith(self.name) else f"{self.name}: {told}"
                    raise InputError(named) from None
                lowest = None if part.y is None else int(part.y.min())
                worst = float(missed.max(initial=0.0))
                mappings = frozenset([part.mapping])
                self.seen += Seen(len(part), len(missed), worst, lowest, mappings)
                yield part

    def finish(self, seen: Seen) -> None:
        """Check what only all rows can tell, and keep it for the notes.

        Raises:
            InputError: if there are no rows, or labels are matched now one way, now another.
        """
        self.seen = seen
        if not seen.rows:
            raise InputError(f"{self.name}: there is no row below the header.")
        if len(seen.mappings) > 1:
            raise InputError(
                f"{self.columns.label}: in some rows the labels are names of classes, in others positions "
                "0, 1, ...; write them in one way."
            )
        if POSITIONS in seen.mappings and seen.lowest is not None:
            need_position_zero(seen.lowest, str(self.columns.label))

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
        return [*self.notes, *normalisation_note(self.seen.missed, self.seen.worst)]

    def _batch(self, batch: Any, first_row: int) -> tuple[Predictions, FloatArray]:
        """The rows of a batch, and how far those that were normalised had missed a sum of one."""
        columns = [self._numbers(batch.column(name), name, first_row) for name in self.value_columns]
        names = tuple(self.value_columns)
        values = as_matrix(np.stack(columns, axis=1), name=self.name, first_row=first_row, columns=names)
        options: dict[str, Any] = {"classes": self.classes}
        missed = np.zeros(0)
        if self.kind == "probs":
            values = values / 100 if self.columns.percent else values
            self._digits = max(self._digits, printed_decimals(values))
            rounding = max(0.5 * 10.0**-self._digits, self._half_unit(batch))
            kept, missed = distributions(values, rounding=rounding, name=self.name, first_row=first_row, columns=names)
            options["probs"] = kept
        else:
            options["logits"] = values
        part = Predictions(**options)
        part.notes, part.rule, part.history = [], self.rule, self.history
        if self.columns.label is not None:
            self._add_labels(part, batch.column(self.columns.label), first_row)
        if self.columns.weight is not None:
            weight = self._numbers(batch.column(self.columns.weight), self.columns.weight, first_row)
            named = f"column {self.columns.weight!r}"
            part.weight = as_weight(weight, rows=len(weight), name=named, first_row=first_row)
        if self.columns.id is not None:
            part.ids = np.asarray(batch.column(self.columns.id).to_pylist(), dtype=object)
        for name in EXTRAS:
            column = getattr(self.columns, name)
            if column is not None:
                part.extras[name] = _texts(batch.column(column), column, first_row)
        return part, missed

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
        part.y, part.mapping = label_codes(
            labels[codes], self.classes, given=given, first_row=first_row, name=str(self.columns.label)
        )

    def _numbers(self, column: Any, name: str, first_row: int) -> FloatArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
            kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            text = pc.utf8_trim_whitespace(column.cast(pa.string()))
            if self.decimal == ",":
                text = pc.replace_substring(text, ",", ".")
            try:
                column = text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise InputError(_not_a_number(text.to_pylist(), name, first_row)) from None
        elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise InputError(f"column {name!r}: expected numbers, got {kind}.")
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"column {name!r}: row {row + first_row} is empty; every row needs a number there.")
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


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
            return f"column {name!r}: row {row + first_row} has {text!r}, which is no number. {hint}"
    return f"column {name!r}: holds text that is no number."
