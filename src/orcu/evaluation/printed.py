"""Numbers as they are printed in tables, in the terminal and on pages."""

import math

ARROWS = {"higher": "↑", "lower": "↓", "zero": "→0", "": ""}  # by which way a metric is better


def shown(value: float, *, percent: bool, signed: bool = False) -> str:
    """A value for a printed table: percent with one or two digits, else three digits.

    Example:
        >>> shown(0.1234, percent=True), shown(0.00123, percent=True), shown(0.5, percent=False)
        ('12.3 %', '0.12 %', '0.500')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite"
    sign = "+" if signed and value > 0 else ""
    if percent:
        return f"{sign}{value * 100:.{1 if abs(value) >= 0.01 or value == 0 else 2}f} %"
    return f"{sign}{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus before a zero


def shown_interval(low: float | None, high: float | None, *, percent: bool, signed: bool = False) -> str:
    """Two ends for a printed table.

    Example:
        >>> shown_interval(0.02, 0.11, percent=True)
        '2.0 – 11.0 %'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "–"
    ends = [shown(end, percent=percent, signed=signed) for end in (low, high)]
    if percent:
        digits = 1 if max(abs(low), abs(high)) >= 0.01 else 2
        plus = ["+" if signed and end > 0 else "" for end in (low, high)]
        return f"{plus[0]}{low * 100:.{digits}f} – {plus[1]}{high * 100:.{digits}f} %"
    return f"{ends[0]} – {ends[1]}"
