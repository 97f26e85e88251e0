"""Numbers as they are printed in tables, in the terminal and in reports."""

import math

ARROWS = {"higher": "↑", "lower": "↓", "zero": "→0", "": ""}  # by the better direction of a metric


def format_value(value: float, *, percent: bool, signed: bool = False) -> str:
    """A number for a table: a percentage with one or two digits, else three digits.

    Example:
        >>> [format_value(v, percent=True) for v in (0.1234, 0.00123)], format_value(0.5, percent=False)
        (['12.3 %', '0.12 %'], '0.500')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite"
    sign = "+" if signed and value > 0 else ""
    if percent:
        return f"{sign}{value * 100:.{1 if abs(value) >= 0.01 or value == 0 else 2}f} %"
    return f"{sign}{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus sign before a zero


def format_interval(low: float | None, high: float | None, *, percent: bool, signed: bool = False) -> str:
    """The two ends of an interval for a table.

    Example:
        >>> format_interval(0.02, 0.11, percent=True)
        '2.0 – 11.0 %'
        >>> format_interval(0.0, 0.0, percent=True)
        '0'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "–"
    if low == high == 0:
        return "0"
    if percent:
        digits = 1 if max(abs(low), abs(high)) >= 0.01 else 2
        plus = ["+" if signed and end > 0 else "" for end in (low, high)]
        return f"{plus[0]}{low * 100:.{digits}f} – {plus[1]}{high * 100:.{digits}f} %"
    return " – ".join(format_value(end, percent=False, signed=signed) for end in (low, high))
