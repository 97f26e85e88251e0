"""HTML page of a ranking by preferences: strengths with intervals, position bias, and probabilities of each pair."""

from functools import partial
from typing import Any

from orcu.figures.style import ROLES, shorten
from orcu.judges.pairs import PairRanking
from orcu.report.page import Provenance, figure, render_page

MAX_PAIRS = 45  # pairs of systems in the table, of ten systems


def build(ranking: PairRanking, *, title: str = "Ranking of systems", provenance: Provenance | None = None) -> str:
    """Build the page; equal rankings give equal bytes."""
    picture = figure(
        "strength",
        partial(_draw, ranking=ranking),
        prefix="strengths",
        title="Strength of each system with its interval",
        width=6.0,
        height=1.1 + 0.4 * len(ranking.systems),
    )
    pairs = ranking.to_dict()["pairs"]
    return render_page(
        "pairs.html.j2",
        title=title,
        provenance=provenance or Provenance(),
        ranking=ranking,
        pairs=pairs[:MAX_PAIRS],
        n_hidden=max(0, len(pairs) - MAX_PAIRS),
        pictures=[picture],
    )


def _draw(ax: Any, ranking: PairRanking) -> None:
    """Draw the strength of each system, with its interval."""
    for row, system in enumerate(ranking.systems):
        if system.ranks:
            ax.hlines(row, system.low, system.high, color=ROLES["accent"], alpha=0.5, linewidth=4)
        ax.plot([system.strength], [row], marker="o", color=ROLES["accent"], markersize=5)
    ax.axvline(0, color=ROLES["muted"], linewidth=0.8)
    ax.set_yticks(range(len(ranking.systems)), [shorten(system.system, 24) for system in ranking.systems])
    ax.set_ylim(len(ranking.systems) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=ROLES["grid"], linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("strength (log odds against an average system)")
