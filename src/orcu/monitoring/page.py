"""Chart and HTML page of a check."""

import re
from functools import partial
from typing import Any

import numpy as np

from orcu.figures.base import add_note, grid
from orcu.figures.panels import monitoring, reliability
from orcu.figures.style import print_settings
from orcu.figures.svg import render
from orcu.metrics.sums import WEIGHT
from orcu.monitoring.check import Check, format_e_value, format_period
from orcu.report.page import Provenance, figure, render_page

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")  # dates must not be broken over lines


def chart(check: Check, *, width: str = "page") -> Any:
    """Draw e-values and overconfidence by day as a matplotlib figure, for `orcu.figures.save.save`.

    Args:
        check: result of `orcu.monitoring.check`.
        width: "column", "page" or "screen".

    Raises:
        InputError: if the width is unknown.
    """
    import matplotlib

    with matplotlib.rc_context(print_settings(width)):
        figure, axes = grid(width, 2, 1, height=2.0, around=0.4)
        (above,), (below,) = axes
        _draw_e_values(above, check)
        _draw_overconfidence(below, check)
        add_note(figure, _note(check))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def build(
    check: Check, *, title: str = "Can these probabilities still be trusted?", provenance: Provenance | None = None
) -> str:
    """Build the HTML page; equal checks give equal bytes.

    Args:
        check: result of `orcu.monitoring.check`.
        title: title of the page.
        provenance: date and command in the footer.
    """
    return render_page(
        "monitor.html.j2",
        title=title,
        provenance=provenance or Provenance(),
        check=check,
        findings=[_DATE.sub("\\1\u2011\\2\u2011\\3", sentence) for sentence in check.findings],
        charts={name: _svg_charts(check, name, width) for name, width in (("wide", 9.0), ("narrow", 4.2))},
        note=_note(check),
        reliabilities=_reliability_diagrams(check),
        format_e_value=format_e_value,
        format_period=format_period,
    )


def _svg_charts(check: Check, name: str, width: float) -> list[str]:
    """E-values and overconfidence as SVG; on a phone the text of the wide charts is too small to read."""
    size = {"width": width, "height": 2.8}
    return [
        render(partial(_draw_e_values, check=check), prefix=f"{name}-e-values", title="E-value by day", **size),
        render(
            partial(_draw_overconfidence, check=check),
            prefix=f"{name}-overconfidence",
            title=f"Overconfidence by {check.period}",
            **size,
        ),
    ]


def _draw_e_values(ax: Any, check: Check) -> None:
    days, logs = [day.day for day in check.days], np.array([day.log_e_value for day in check.days])
    monitoring.draw_e_values(ax, days, logs, alarm_threshold=check.alarm_threshold, drift=check.since)


def _draw_overconfidence(ax: Any, check: Check) -> None:
    reference, tolerance = check.reference, check.tolerance
    low, high = (0.0, 0.0) if reference is None else (reference.overconfidence_low, reference.overconfidence_high)
    names = "overconfidence_low", "overconfidence_high"
    monitoring.draw_overconfidence(
        ax,
        [day.day for day in check.days],
        *(np.array([getattr(day, name) for day in check.days]) for name in names),
        # A period that began before the first checked day is drawn at that day.
        periods=[max(part.day, check.days[0].day) for part in check.periods],
        observed=np.array([part.overconfidence for part in check.periods]),
        period=check.period,
        band=(low - tolerance, high + tolerance),
        band_name="tolerance" if reference is None else "reference",
        drift=check.since,
    )


def _note(check: Check) -> str:
    text = (
        "Each e-value is of all days up to that day, with the labels known now; the last one decides. The blue band is "
        f"the {100 * (1 - check.alpha):g} % confidence sequence of the overconfidence of all rows so far. Points are "
        f"single {check.period}s."
    )
    return text if check.drift is None else f"{text} The vertical line is the most likely start of the drift."


def _reliability_diagrams(check: Check) -> list[dict[str, str]]:
    """Diagrams of the reference, and of the rows before and since the drift, or of all rows."""
    tables = {} if check.reference is None else {"Reference": check.reference.tally.sums().top}
    if check.drift is None:
        tables["All days"] = check.tally.sums().top
    else:
        (before, after), drift = check.drift.tables, check.drift
        subgroup = "" if drift.subgroup is None else f", subgroup {drift.subgroup}"
        tables |= {f"Before {drift.since}{subgroup}": before, f"Since {drift.since}{subgroup}": after}
    unit = "sum of weights" if "--sample-weight" in check.columns else "rows"
    figures = []
    for number, (name, table) in enumerate((name, table) for name, table in tables.items() if table[WEIGHT].sum()):
        draw = partial(reliability.draw, diagram=reliability.data(table), xlabel="confidence")
        title = f"Reliability diagram of the top label: {name}"
        caption = f"{name}: {table[WEIGHT].sum():,.0f} {unit}"
        figures.append(figure(caption, draw, prefix=f"reliability-{number}", title=title))
    return figures
