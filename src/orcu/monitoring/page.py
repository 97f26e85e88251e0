"""The chart of a check, and its page."""

import re
from functools import partial
from typing import Any

import numpy as np

import orcu
from orcu.evaluation.printed import shown
from orcu.figures.base import grid, note
from orcu.figures.panels import monitoring, reliability
from orcu.figures.style import printed
from orcu.figures.svg import render
from orcu.monitoring.check import Check, shown_evidence
from orcu.report.build import Provenance, page_template

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")  # which a line must not end in the middle of


def chart(check: Check, *, width: str = "page") -> Any:
    """A matplotlib figure, for `orcu.figures.save.save`: the evidence above, over-confidence below.

    Args:
        check: what `orcu.monitoring.check` gave.
        width: "column", "page" or "screen".

    Raises:
        InputError: if the width is unknown.
    """
    import matplotlib

    with matplotlib.rc_context(printed(width)):
        figure, axes = grid(width, 2, 1, height=2.0, around=0.4)
        (above,), (below,) = axes
        _evidence(above, check)
        _overconfidence(below, check)
        note(figure, _note(check))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def build(
    check: Check, *, title: str = "Can these probabilities still be trusted?", provenance: Provenance | None = None
) -> str:
    """The page as text; the same check gives the same bytes.

    Args:
        check: what `orcu.monitoring.check` gave.
        title: of the page.
        provenance: date and command to state.
    """
    html = page_template("monitor.html.j2").render(
        title=title,
        version=orcu.__version__,
        provenance=provenance or Provenance(),
        check=check,
        sentences=[_DATE.sub("\\1\u2011\\2\u2011\\3", sentence) for sentence in check.sentences],
        rows=sum(day.rows for day in check.days),
        evidence=render(
            partial(_evidence, check=check), prefix="evidence", title="Evidence of drift by day", width=9, height=2.8
        ),
        overconfidence=render(
            partial(_overconfidence, check=check),
            prefix="overconfidence",
            title="Over-confidence by day",
            width=9,
            height=2.8,
        ),
        note=_note(check),
        reliabilities=_reliabilities(check),
        days=[
            (
                day,
                [shown(value, percent=True) for value in (day.accuracy, day.ece, day.sce)],
                shown(day.overconfidence, percent=True, signed=True),
                shown_evidence(day),
            )
            for day in check.days
        ],
    )
    return html.replace(" %", "\u00a0%")


def _evidence(ax: Any, check: Check) -> None:
    monitoring.draw_evidence(
        ax,
        [day.day for day in check.days],
        np.array([day.log_evidence for day in check.days]),
        limit=check.limit,
        drift=None if check.drift is None else check.drift.since,
    )


def _overconfidence(ax: Any, check: Check) -> None:
    reference, tolerance = check.reference, check.tolerance
    band = (-tolerance, tolerance) if reference is None else (reference.low - tolerance, reference.high + tolerance)
    monitoring.draw_overconfidence(
        ax,
        [day.day for day in check.days],
        *(np.array([getattr(day, name) for day in check.days]) for name in ("overconfidence", "low", "high")),
        band=band,
        band_name="within the tolerance" if reference is None else "as in the reference",
        drift=None if check.drift is None else check.drift.since,
    )


def _note(check: Check) -> str:
    text = (
        "Each point of the evidence is of all days up to it, with the labels known today; the last one decides. All "
        f"days so far: the over-confidence of all rows, {100 * (1 - check.alpha):g} % at all looks at once."
    )
    return text if check.drift is None else f"{text} The upright line: where the drift most likely began."


def _reliabilities(check: Check) -> list[dict[str, str]]:
    """Of the reference, and of the rows before and since the drift, or of all rows."""
    tallies = {} if check.reference is None else {"The reference": check.reference.tally}
    if check.drift is None:
        tallies["All days"] = check.tally
    else:
        before, after = check.drift.tallies
        tallies |= {f"Before {check.drift.since}": before, f"Since {check.drift.since}": after}
    figures = []
    for number, (name, tally) in enumerate((name, tally) for name, tally in tallies.items() if tally.rows):
        diagram = reliability.data(tally.tables().top)
        svg = render(
            partial(reliability.draw, diagram=diagram, xlabel="confidence"),
            prefix=f"reliability-{number}",
            title=f"Reliability diagram of the top label: {name}",
        )
        figures.append({"name": f"{name}: {tally.rows:,} rows", "svg": svg})
    return figures
