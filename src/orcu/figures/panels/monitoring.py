"""A model in use, day by day: the evidence that its calibration has drifted, and its over-confidence."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from orcu.figures.style import ROLES
from orcu.inputs import FloatArray

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DECADES = 12  # of evidence that are drawn; beyond any doubt there is nothing more to see


def draw_evidence(
    ax: Any, days: Sequence[date], log_evidence: FloatArray, *, limit: float, drift: date | None = None
) -> None:
    """The evidence on a logarithmic axis, the limit of an alarm, and the day with which a drift began.

    Args:
        ax: of matplotlib.
        days: in order.
        log_evidence: natural logarithms, one for each day.
        limit: the evidence at which there is an alarm.
        drift: the day with which a drift most likely began.
    """
    decades = np.minimum(np.asarray(log_evidence) / np.log(10), DECADES)
    ax.axhline(limit, color=ROLES["alarm"], linewidth=1.0, linestyle=(0, (4, 3)), label=f"alarm at {limit:g}")
    ax.plot(days, 10.0**decades, color=ROLES["accent"], linewidth=1.4, label="evidence", **_marker(days))
    ax.set_yscale("log")
    low, high = float(decades.min()), float(decades.max())
    ax.set_ylim(10.0 ** min(low - 0.3, -1), 10.0 ** max(high + 0.3, np.log10(limit) + 0.5))
    if high == DECADES:
        ax.text(
            0.99, 0.9, f"beyond {power(DECADES)}", transform=ax.transAxes, va="top", ha="right", color=ROLES["muted"]
        )
    _mark(ax, drift)
    _dates(ax)
    ax.yaxis.set_major_formatter(lambda value, place: power(round(np.log10(value))))
    ax.set_yticks([], minor=True)
    ax.set_ylabel("evidence")
    ax.legend(loc="upper left")


def draw_overconfidence(
    ax: Any,
    days: Sequence[date],
    daily: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    band: tuple[float, float],
    band_name: str,
    drift: date | None = None,
) -> None:
    """Confidence minus accuracy of each day, between which ends that of all days so far lies, and what is expected.

    Args:
        ax: of matplotlib.
        days: in order.
        daily: the over-confidence of each day, as a fraction; gaps are not numbers.
        low: the lower end of that of all days so far.
        high: the upper end.
        band: between which over-confidence is expected.
        band_name: what it is called.
        drift: the day with which a drift most likely began.
    """
    ax.axhspan(100 * band[0], 100 * band[1], color=ROLES["muted"], alpha=0.18, linewidth=0, label=band_name)
    ax.axhline(0, color=ROLES["muted"], linewidth=0.6)
    ax.fill_between(days, 100 * low, 100 * high, color=ROLES["accent"], alpha=0.3, linewidth=0, label="all days so far")
    ax.plot(days, 100 * daily, linestyle="none", marker="o", markersize=2.6, color=ROLES["accent"], label="each day")
    finite = daily[np.isfinite(daily)]
    ends = np.array([*finite, *band, 0.0])
    room = max(0.02, 0.25 * float(np.ptp(ends)))
    ax.set_ylim(100 * (float(ends.min()) - room / 4), 100 * (float(ends.max()) + room))
    _mark(ax, drift)
    _dates(ax)
    ax.set_ylabel("over-confidence, points")
    ax.legend(loc="upper left", ncols=3)


def power(exponent: int) -> str:
    """A power of ten as it is printed.

    Example:
        >>> power(-1), power(2), power(17)
        ('0.1', '100', '10¹⁷')
    """
    return f"{10.0**exponent:g}" if -2 <= exponent <= 3 else f"10{str(exponent).translate(_RAISED)}"


def _marker(days: Sequence[date]) -> dict[str, Any]:
    """A line through a single day is nothing to see."""
    return {"marker": "o", "markersize": 3} if len(days) < 15 else {}


def _mark(ax: Any, drift: date | None) -> None:
    if drift is not None:
        ax.axvline(drift, ymax=0.85, color=ROLES["alarm"], linewidth=1.0, alpha=0.7)  # below the legend


def _dates(ax: Any) -> None:
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    short = ["%Y", "%b", "%b %d", "%H:%M", "%H:%M", "%S"]  # of years, months, days and what is less than a day
    first = ["", "%Y", "%b", "%b %d", "%H:%M", "%H:%M"]  # of the first of each in the next larger one
    form = dates.ConciseDateFormatter(locator, formats=short, zero_formats=first, show_offset=False)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(form)
    ax.grid(axis="y", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
