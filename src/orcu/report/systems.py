"""HTML page of a comparison of systems: mean human grades with intervals, ranks and differences."""

from functools import partial
from typing import Any

from orcu.figures.style import ROLES, shorten
from orcu.judges.systems import SystemComparison
from orcu.report.page import Provenance, figure, render_page


def build(
    comparison: SystemComparison, *, title: str = "Comparison of systems", provenance: Provenance | None = None
) -> str:
    """Build the page; equal comparisons give equal bytes."""
    height = 1.1 + 0.4 * len(comparison.systems)
    picture = figure(
        "mean human grade",
        partial(_draw, comparison=comparison),
        prefix="systems",
        title="Mean human grade of each system with its interval",
        width=6.0,
        height=height,
    )
    return render_page(
        "systems.html.j2",
        title=title,
        provenance=provenance or Provenance(),
        comparison=comparison,
        interval=f"{100 * comparison.confidence_level:g} % interval",
        pictures=[picture],
    )


def _draw(ax: Any, comparison: SystemComparison) -> None:
    """Draw the interval of each mean, with the judge and (thin) of human grades alone."""
    for row, mean in enumerate(comparison.systems):
        ax.hlines(row + 0.22, mean.human_low, mean.human_high, color=ROLES["muted"], linewidth=1.2)
        ax.hlines(row, mean.low, mean.high, color=ROLES["accent"], alpha=0.5, linewidth=4)
        ax.plot([mean.mean], [row], marker="o", color=ROLES["accent"], markersize=5)
    ax.set_yticks(range(len(comparison.systems)), [shorten(mean.system, 24) for mean in comparison.systems])
    ax.set_ylim(len(comparison.systems) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("mean human grade (thin: human grades alone)")
