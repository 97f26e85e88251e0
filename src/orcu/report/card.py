"""Notebook card of an evaluation: the headline, the six key figures and a small reliability diagram."""

from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.findings import SIGNIFICANT
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.report.card_html import ACCENT, card
from orcu.report.headline import failures, headline, key_figures
from orcu.report.text_tables import Cell

MAX_SENTENCES = 2  # besides failures; the report has all
MAX_CLASSES = 8
SIDE = 120  # pixels of the diagram


def evaluation_card(evaluation: Evaluation) -> str:
    """Card of an evaluation as one ``div``."""
    counts = {"subgroup": len(evaluation.subgroups), "other model": len(evaluation.others)}
    more = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count]
    classes = evaluation.classes
    order = " < ".join(classes if len(classes) <= MAX_CLASSES else (classes[0], "…", classes[-1]))
    return card(
        evaluation.name,
        about=f"{evaluation.rows:,} rows, {len(classes)} classes: {order}",
        sentences=[
            *headline(evaluation)[: len(failures(evaluation)) + MAX_SENTENCES],
            *(note for note in evaluation.notes if note.startswith("WARNING")),
        ],
        headings=["", "value", "95 % interval", "miscalibration"],
        rows=[
            [
                figure["label"],
                figure["value"],
                figure["interval"],
                Cell(figure["significance"], "best" if figure["significance"] == SIGNIFICANT else ""),
            ]
            for figure in key_figures(evaluation)
        ],
        note=", ".join([*more, "full report: .to_html()"]),
        picture=_diagram(evaluation),
    )


def _diagram(evaluation: Evaluation) -> str:
    """Reliability diagram of the most probable class: one dot per bin, whose area is the share of the rows."""
    weight, confidence, correct = (evaluation.sums.top[k] for k in (WEIGHT, VALUE, OUTCOME))
    filled = weight > 0
    shares = weight[filled] / weight.sum()
    dots = zip(confidence[filled] / weight[filled], correct[filled] / weight[filled], shares, strict=True)
    circles = "".join(
        f'<circle cx="{SIDE * x:.1f}" cy="{SIDE * (1 - y):.1f}" r="{1.5 + 11 * share**0.5:.1f}"/>'
        for x, y, share in dots
    )
    grey = 'stroke="currentColor" stroke-opacity=".4" fill="none"'
    return (
        f'<svg width="{SIDE + 26}" height="{SIDE + 20}" viewBox="-4 -4 {SIDE + 26} {SIDE + 20}" role="img" '
        'aria-label="Reliability diagram: accuracy against confidence">'
        f'<rect width="{SIDE}" height="{SIDE}" {grey}/>'
        f'<line x1="0" y1="{SIDE}" x2="{SIDE}" y2="0" stroke-dasharray="4 3" {grey}/>'
        f'<g fill="{ACCENT}" fill-opacity=".75">{circles}</g>'
        '<g fill="currentColor" fill-opacity=".7" font-size="10" font-family="system-ui,sans-serif">'
        f'<text x="{SIDE / 2}" y="{SIDE + 12}" text-anchor="middle">confidence</text>'
        f'<text transform="translate({SIDE + 18} {SIDE / 2}) rotate(-90)" text-anchor="middle">accuracy</text>'
        "</g></svg>"
    )
