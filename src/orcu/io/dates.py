"""Detection and parsing of dates that are written as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from orcu.errors import InputError

_TIME = (
    r"(?:[T ]\s*[0-2]?\d(?::[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?)?(?:\s*[AaPp]\.?[Mm]\.?)?"
    r"(?:\s*(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?"
)
_SHAPE = re.compile(rf"(\d{{1,4}})([-./])(\d{{1,2}})\2(\d{{1,4}}){_TIME}", re.ASCII)
_ENDS_WITH_TIME = re.compile(rf"(.*?){_TIME}", re.ASCII | re.DOTALL)
_EXAMPLES = "2026-12-31 or 31.12.2026"


@dataclass(frozen=True)
class _Format:
    """Order of day, month and year, and their separator; ``pattern`` is the notation of `datetime.strptime`."""

    pattern: str

    def parse(self, text: str) -> date | None:
        """The date of a text, with or without a time of day; ``None`` if the text does not match."""
        match = _SHAPE.fullmatch(text.strip())
        if match is None or match[2] != self.pattern[2]:
            return None
        parts = {letter: match[k] for letter, k in zip(self.pattern[1::3], (1, 3, 4), strict=True)}
        if len(parts["Y"]) != 4 or max(len(parts["m"]), len(parts["d"])) > 2:
            return None
        try:
            return date(int(parts["Y"]), int(parts["m"]), int(parts["d"]))
        except ValueError:
            return None


@dataclass(frozen=True)
class _GivenFormat(_Format):
    """Format of the user; a time of day that it does not mention is ignored."""

    def parse(self, text: str) -> date | None:
        head = _ENDS_WITH_TIME.fullmatch(text.strip())
        for candidate in (text.strip(), head[1] if head else ""):
            try:
                return datetime.strptime(candidate, self.pattern).date()
            except ValueError:
                continue
        return None


# ISO 8601; the German notation, in which the day is always first; and notations in which countries differ.
_FORMATS = [
    _Format(pattern)
    for pattern in ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
]


def parse_dates(cells: Mapping[str, int], *, date_format: str | None = None, name: str = "date") -> dict[str, date]:
    """Parse the distinct texts of a column; without a format, the one that fits all texts is used.

    Texts such as 2026-12-31 and 31.12.2026 are recognised, with or without a time of day. In 31/12/2026 the order of
    day and month follows from all texts together. If it does not, as for 01/02/2026 alone, the column is refused.

    Args:
        cells: distinct texts, each with the number of its first row.
        date_format: format in the notation of `datetime.strptime`, such as ``"%d.%m.%Y"``; detected by default.
        name: name of the column in error messages.

    Raises:
        InputError: if a text is not a date in the format, if the texts have different formats, or if the order of day
            and month is ambiguous.

    Example:
        >>> parse_dates({"31.12.2026": 1, "1.2.2027 08:15": 2})["1.2.2027 08:15"]
        datetime.date(2027, 2, 1)
        >>> parse_dates({"01/02/2027": 1, "01/31/2027": 2})["01/02/2027"]
        datetime.date(2027, 1, 2)
    """
    formats = _FORMATS if date_format is None else [_GivenFormat(_check_format(date_format))]
    parsed = [{text: candidate.parse(text) for text in cells} for candidate in formats]
    failures = [sum(day is None for day in days.values()) for days in parsed]
    best = min(range(len(formats)), key=failures.__getitem__)
    if failures[best]:
        raise InputError(_mismatch_message(cells, parsed[best], formats[best], date_format is not None, name))
    fitting = [k for k, count in enumerate(failures) if count == 0]
    days = {text: day for text, day in parsed[best].items() if day is not None}
    for other in fitting:
        text = next((text for text in days if parsed[other][text] != days[text]), None)
        if text is not None:
            readings = " or ".join(f"{parsed[k][text]} ({formats[k].pattern})" for k in fitting)
            raise InputError(
                f"{name}, row {cells[text]}: {text!r} is ambiguous: {readings}. Give the format: "
                f"--date-format {formats[best].pattern} or --date-format {formats[other].pattern} (date_format= in "
                "Python)."
            )
    return days


def parse_date(value: Any, *, date_format: str | None = None, name: str = "date") -> date:
    """Parse one date: a date, a datetime or a text as for `parse_dates`.

    Raises:
        InputError: if the text is not a date, or ambiguous.

    Example:
        >>> parse_date("31.12.2026")
        datetime.date(2026, 12, 31)
    """
    if isinstance(value, date):  # also a datetime
        return date(value.year, value.month, value.day)
    try:
        return parse_dates({str(value): 1}, date_format=date_format, name=name)[str(value)]
    except InputError as error:
        raise InputError(str(error).replace(f"{name}, row 1:", f"{name}:", 1)) from None


def _check_format(date_format: str) -> str:
    """Return the format if it has day, month and year; a round trip of two dates tells."""
    for day in (date(2026, 12, 31), date(2013, 2, 1)):
        try:
            valid = datetime.strptime(day.strftime(date_format), date_format).date() == day
        except (ValueError, re.error, OverflowError):
            valid = False
        if not valid:
            raise InputError(
                f"date_format: expected a format with day, month and year, such as %d.%m.%Y or %Y-%m-%d, got "
                f"{date_format!r}."
            )
    return date_format


def _mismatch_message(
    cells: Mapping[str, int], parsed: Mapping[str, date | None], used: _Format, given: bool, name: str
) -> str:
    failing = [text for text, day in parsed.items() if day is None]
    first = min(failing, key=cells.__getitem__)
    where = f"{name}, row {cells[first]}: "
    count = f" ({len(failing):,} of {len(cells):,} different texts do not match)" if len(cells) > 1 else ""
    if given:
        return f"{where}{first!r} does not match the date format {used.pattern!r}{count}."
    if len(failing) < len(cells):
        other = next(text for text, day in parsed.items() if day is not None)
        return (
            f"{where}{first!r} is not a date in the format of other rows, such as {other!r} ({used.pattern}){count}. "
            "Use one format in the whole column, or give it with --date-format (date_format= in Python)."
        )
    return (
        f"{where}expected a date such as {_EXAMPLES}, got {first!r}. For other notations give the format, such as "
        "--date-format %Y%m%d (date_format= in Python)."
    )
