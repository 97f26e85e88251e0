"""How a CSV file is written: its separator, its decimal sign, its header; recognised once, for all who read it."""

import csv
import gzip
import io
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orcu.errors import InputError, first_line

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {".": "point", ",": "comma"}
_LINES = 20  # that are looked at
_LONGEST_LINE = 1 << 20  # characters; a longer one is no line of a table
_COMMA_NUMBER = re.compile(r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")
_POINT_NUMBER = re.compile(r"^\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*$")


@dataclass(frozen=True)
class Dialect:
    """How one file is written.

    Attributes:
        separator: one character.
        decimal: "." or ",".
        header: the names of the columns.
        skip: lines up to the header, it included.
        recognised: whether separator or decimal sign were read off the file.
    """

    separator: str
    decimal: str
    header: tuple[str, ...]
    skip: int
    recognised: bool

    def __str__(self) -> str:
        separator = SEPARATORS.get(self.separator, self.separator)
        how = "recognised" if self.recognised else "given"
        return f"separator {separator}, decimal {DECIMALS[self.decimal]} ({how})"


def dialect_of(path: Path, *, sep: str | None = None, decimal: str | None = None) -> Dialect:
    r"""The dialect of a CSV file, read off its first lines where it is not said.

    Args:
        path: the file, also packed (.gz).
        sep: the separator, if it is known.
        decimal: the decimal sign, if it is known.

    Raises:
        InputError: if the file is empty or no text, a column stands twice, or the decimal sign is another.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "grades.csv"
        >>> _ = path.write_text("grade;p_low;p_high\nlow;0,9;0,1\n")
        >>> print(dialect_of(path))
        separator semicolon, decimal comma (recognised)
    """
    if decimal not in (None, *DECIMALS):
        raise InputError(f"decimal: expected '.' or ',', got {decimal!r}.")
    lines, whole = _first_lines(path)
    above = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    lines = [line for line in lines[above:] if line.strip()]
    if not lines:
        raise InputError(f"{path.name}: the file is empty.")
    try:
        separator = sep or _separator(lines, whole)
        header, *rows = _cells(lines, separator)
    except csv.Error as error:
        raise InputError(f"{path.name}: not readable as a table ({error}).") from None
    names = tuple(name.strip() for name in header)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path.name}: the column {twice!r} stands twice in the header.")
    sign = decimal or _decimal([cell for row in rows for cell in row], separator)
    return Dialect(separator, sign, names, above + 1, recognised=not (sep and decimal))


def _first_lines(path: Path) -> tuple[list[str], bool]:
    """The first lines, and whether they are all there are."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            lines = [line.rstrip("\r\n") for line in islice(iter(lambda: file.readline(_LONGEST_LINE), ""), _LINES + 1)]
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, OSError) as error:
        raise InputError(
            f"{path.name}: not readable as UTF-8 text ({first_line(error)}). In Excel, save as 'CSV UTF-8'."
        ) from None
    for number, line in enumerate(lines, 1):
        if len(line) >= _LONGEST_LINE:
            raise InputError(f"{path.name}: line {number} has more than {_LONGEST_LINE:,} characters; is it a table?")
    return lines[:_LINES], len(lines) <= _LINES


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    before = csv.field_size_limit(_LONGEST_LINE * _LINES)  # a cell may be a long text
    try:
        return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    finally:
        csv.field_size_limit(before)


def _separator(lines: list[str], whole: bool) -> str:
    """The separator that cuts all first rows into the same number of cells, the more the better."""
    best, most = ",", 1
    for candidate in SEPARATORS:
        rows = _cells(lines, candidate)
        if not whole and len(rows) > 2:
            rows = rows[:-1]  # a text with line breaks may go on below
        counts = {len(row) for row in rows}
        if len(counts) == 1 and max(counts) > most:
            best, most = candidate, max(counts)
    return best


def _decimal(cells: list[str], separator: str) -> str:
    """A comma if numbers are written with it; between commas only if none is written with a point."""
    if not any(_COMMA_NUMBER.match(cell) for cell in cells):
        return "."
    return "." if separator == "," and any(_POINT_NUMBER.match(cell) for cell in cells) else ","
