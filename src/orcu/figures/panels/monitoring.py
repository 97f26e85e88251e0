"""Daily e-values and overconfidence of a monitored model."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from orcu.figures.style import ROLES
from orcu.inputs import FloatArray

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_DECADES = 12  # e-values are drawn up to 10 to this power


def draw_e_values(
    ax: Any, days: Sequence[date], log_e_values: FloatArray, *, alarm_threshold: float, drift: date | None = None
) -> None:
    """Draw e-values on a logarithmic axis, with the alarm threshold and the start of the drift.

    Args:
        ax: matplotlib axes.
        days: days in order.
        log_e_values: natural logarithm of the e-value of each day.
        alarm_threshold: e-value at which there is an alarm.
        drift: most likely first day of the drift.
    """
    decades = np.minimum(np.asarray(log_e_values) / np.log(10), MAX_DECADES)
    dashes, label = (0, (4, 3)), f"alarm at {alarm_threshold:g}"
    ax.axhline(alarm_threshold, color=ROLES["alarm"], linewidth=1.0, linestyle=dashes, label=label)
    marker = {"marker": "o", "markersize": 3} if len(days) < 15 else {}  # a line through one day is invisible
    ax.plot(days, 10.0**decades, color=ROLES["accent"], linewidth=1.4, label="e-value", **marker)
    ax.set_yscale("log")
    low, high = float(decades.min()), float(decades.max())
    ax.set_ylim(10.0 ** min(low - 0.3, -1), 10.0 ** max(high + 0.3, np.log10(alarm_threshold) + 0.5))
    if high == MAX_DECADES:
        text = f"above {power_of_ten(MAX_DECADES)}"
        ax.text(0.99, 0.9, text, transform=ax.transAxes, va="top", ha="right", color=ROLES["muted"])
    _format_axes(ax, drift)
    ax.yaxis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
    ax.set_yticks([], minor=True)
    ax.set_ylabel("e-value")
    _place_legend(ax)


def draw_overconfidence(
    ax: Any,
    days: Sequence[date],
    low: FloatArray,
    high: FloatArray,
    *,
    periods: Sequence[date],
    observed: FloatArray,
    band: tuple[float, float],
    band_name: str,
    drift: date | None = None,
    period: str = "day",
) -> None:
    """Draw confidence minus accuracy of each period, the confidence sequence of all days so far, and the expected band.

    Args:
        ax: matplotlib axes.
        days: days in order.
        low: lower ends of the confidence sequence, as fractions.
        high: upper ends of the confidence sequence.
        periods: first days of the periods, in order.
        observed: overconfidence of each period; NaN for periods without labels.
        band: ends of the expected overconfidence.
        band_name: legend label of the band.
        drift: most likely first day of the drift.
        period: day, week or month.
    """
    ax.axhspan(100 * band[0], 100 * band[1], color=ROLES["muted"], alpha=0.18, linewidth=0, label=band_name)
    ax.axhline(0, color=ROLES["muted"], linewidth=0.6)
    ax.fill_between(days, 100 * low, 100 * high, color=ROLES["accent"], alpha=0.3, linewidth=0, label="all days so far")
    marker = {"linestyle": "none", "marker": "o", "markersize": 2.6, "color": ROLES["accent"]}
    ax.plot(periods, 100 * observed, label=f"each {period}", **marker)
    ends = np.array([*observed[np.isfinite(observed)], *band, 0.0])
    margin = max(0.02, 0.25 * float(np.ptp(ends)))
    ax.set_ylim(100 * (float(ends.min()) - margin / 4), 100 * (float(ends.max()) + margin))
    _format_axes(ax, drift)
    ax.set_ylabel("overconfidence, points")
    _place_legend(ax)


def _place_legend(ax: Any) -> None:
    """Put the legend above the axes, where it hides nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def power_of_ten(exponent: int) -> str:
    """A power of ten as text.

    Example:
        >>> power_of_ten(-1), power_of_ten(2), power_of_ten(17)
        ('0.1', '100', '10¹⁷')
    """
    return f"{10.0**exponent:g}" if -2 <= exponent <= 3 else f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def _format_axes(ax: Any, drift: date | None) -> None:
    """Mark the start of the drift, and format the axis of days."""
    from matplotlib import dates

    if drift is not None:
        ax.axvline(drift, color=ROLES["alarm"], linewidth=1.0, alpha=0.7)
    locator = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    formats = ["%Y", "%b", "%b %d", "%H:%M", "%H:%M", "%S"]  # years, months, days, and smaller units
    zero_formats = ["", "%Y", "%b", "%b %d", "%H:%M", "%H:%M"]  # first tick within the next larger unit
    formatter = dates.ConciseDateFormatter(locator, formats=formats, zero_formats=zero_formats, show_offset=False)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(formatter)
    ax.grid(axis="y", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
