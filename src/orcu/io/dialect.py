"""Detection of the separator, decimal sign and header of a CSV file."""

import codecs
import csv
import gzip
import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from orcu.errors import InputError, first_line
from orcu.io.locations import Location, RemotePath

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {".": "point", ",": "comma"}
_LINES = 20  # lines that are inspected
_MAX_LINE_LENGTH = 1 << 20  # characters; a longer line is not a row of a table
_COMMA_NUMBER = re.compile(r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")
_GROUPED_NUMBER = re.compile(r"^[+-]?[1-9]\d{0,2},\d{3}$")
_EXCEL_SEPARATOR = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)  # a first line that Excel writes and reads
_POINT_NUMBER = re.compile(r"^\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*$")


@dataclass(frozen=True)
class Dialect:
    """Format of a CSV file."""

    separator: str  # one character
    decimal: str  # "." or ","
    header: tuple[str, ...]  # names of the columns
    skip: int  # number of lines before the first row
    detected: bool  # whether the separator or the decimal sign was detected
    encoding: str = "utf-8"  # "utf-8-sig" for a file with a byte-order mark

    def __str__(self) -> str:
        separator = SEPARATORS.get(self.separator, self.separator)
        encoding = "" if self.encoding.startswith("utf-8") else f", encoding {self.encoding}"
        how = "detected" if self.detected else "given"
        return f"separator {separator}, decimal {DECIMALS[self.decimal]} ({how}){encoding}"


def detect_dialect(
    path: Location, *, sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Dialect:
    """Detect the format of a CSV file, also compressed (.gz), from its first lines.

    The encoding is UTF-8 unless it is given, or the file starts with the byte-order mark of UTF-16.
    """
    if decimal not in (None, *DECIMALS):
        raise InputError(f"decimal: expected '.' or ',', got {decimal!r}.")
    encoding = _encoding(path, encoding)
    lines, is_complete = _first_lines(path, encoding)
    header_line = _next_line(lines, 0)
    if header_line < len(lines) and (declared := _EXCEL_SEPARATOR.match(lines[header_line])):
        sep = sep or declared[1]
        header_line = _next_line(lines, header_line + 1)
    lines = lines[header_line:]
    if not lines:
        raise InputError(f"{path.name}: the file is empty.")
    try:
        separator = sep or _separator([line for line in lines if line.strip()], is_complete)
        header_length = _header_length(lines, separator)
        header, *rows = _cells([*lines[:header_length], *filter(str.strip, lines[header_length:])], separator)
    except csv.Error as error:
        raise InputError(f"{path.name}: cannot be parsed as a table ({error}).") from None
    names = tuple(" ".join(part.strip() for part in name.splitlines()).strip() for name in header)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path.name}: duplicate column {duplicate!r} in the header.")
    cells = [cell for row in rows for cell in row]
    sign = decimal or _decimal(cells, separator)
    if decimal is None and sign == "," and (ambiguous := _thousands(cells)):
        raise InputError(
            f"{path.name}: {ambiguous!r} may have a decimal comma or a thousands separator. Give --decimal , for a "
            "comma (decimal=','), or write the numbers without thousands separators."
        )
    skip = header_line + header_length
    return Dialect(separator, sign, names, skip, detected=not (sep and decimal), encoding=encoding)


def _next_line(lines: list[str], start: int) -> int:
    """Return the number of the first line that is not blank."""
    return next((number for number in range(start, len(lines)) if lines[number].strip()), len(lines))


def _header_length(lines: list[str], separator: str) -> int:
    """Return the number of lines of the header, which has several if a quoted name has line breaks."""
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator)
    next(reader)
    return reader.line_num


def _encoding(path: Location, encoding: str | None) -> str:
    """Return the given encoding, or the one that the first bytes of the file show."""
    if encoding is not None:
        try:
            return codecs.lookup(encoding).name
        except LookupError:
            raise InputError(
                f"encoding: {encoding!r} is unknown; expected a name such as utf-8, cp1252 or latin-1."
            ) from None
    try:
        with _open(path, "rb") as file:
            start = file.read(4)
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise InputError(f"{path.name}: cannot be read ({first_line(error)}).") from None
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"


def _open(path: Location, mode: str, **options: Any) -> Any:
    is_compressed = path.name.lower().endswith(".gz")
    if not isinstance(path, RemotePath):
        return (gzip.open if is_compressed else open)(path, mode, **options)
    file = gzip.GzipFile(fileobj=path.open()) if is_compressed else path.open()
    return io.TextIOWrapper(file, **options) if mode == "rt" else file


def not_decodable_message(name: str, encoding: str, cause: BaseException) -> str:
    """Return the error message for a file whose bytes are not text in an encoding."""
    return (
        f"{name}: not text in the encoding {encoding} ({first_line(cause)}). Give its encoding with --encoding "
        "(cp1252 for files of Windows programs in western Europe), or save it as 'CSV UTF-8' in Excel."
    )


def _first_lines(path: Location, encoding: str) -> tuple[list[str], bool]:
    """Return the first lines, and whether they are the complete file."""
    try:
        with _open(path, "rt", encoding=encoding, newline="") as file:
            lines = list(islice(iter(lambda: file.readline(_MAX_LINE_LENGTH), ""), _LINES + 1))
    except UnicodeError as error:
        raise InputError(not_decodable_message(path.name, encoding, error)) from None
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise InputError(f"{path.name}: cannot be read ({first_line(error)}).") from None
    lines = [line.rstrip("\r\n") for line in lines]
    for number, line in enumerate(lines, 1):
        if len(line) >= _MAX_LINE_LENGTH:
            raise InputError(f"{path.name}: line {number} has {_MAX_LINE_LENGTH:,} characters or more; is it a table?")
    return lines[:_LINES], len(lines) <= _LINES


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    before = csv.field_size_limit(_MAX_LINE_LENGTH * _LINES)  # a cell may hold a long text
    try:
        return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    finally:
        csv.field_size_limit(before)


def _separator(lines: list[str], is_complete: bool) -> str:
    """Return the separator that splits all rows into the same, largest number of cells."""
    best, max_count = ",", 1
    for candidate in SEPARATORS:
        rows = _cells(lines, candidate)
        if not is_complete and len(rows) > 2:
            rows = rows[:-1]  # the last row may continue after a line break in a text
        counts = {len(row) for row in rows}
        if len(counts) == 1 and max(counts) > max_count:
            best, max_count = candidate, max(counts)
    return best


def _thousands(cells: list[str]) -> str:
    """Return a number if all numbers with a comma may have thousands separators, as 39,550 and unlike 0,250."""
    numbers = [cell.strip() for cell in cells if _COMMA_NUMBER.match(cell)]
    return numbers[0] if numbers and all(map(_GROUPED_NUMBER.match, numbers)) else ""


def _decimal(cells: list[str], separator: str) -> str:
    """Return a comma if numbers are written with it; if commas separate cells, only if no number has a point."""
    if not any(_COMMA_NUMBER.match(cell) for cell in cells):
        return "."
    return "." if separator == "," and any(_POINT_NUMBER.match(cell) for cell in cells) else ","
