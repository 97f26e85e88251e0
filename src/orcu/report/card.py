"""An evaluation as a card for notebooks: the headline, the six key figures, a small reliability diagram."""

from orcu.evaluation.evaluation import PAGES, Evaluation
from orcu.io.card import ACCENT, card
from orcu.io.text import Cell
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.report.headline import headline, key_figures

SENTENCES = 2  # the others are in the table, or in the report
MOST_CLASSES = 8
SIDE = 120  # pixels of the diagram


@PAGES.register("card")
def evaluation_card(evaluation: Evaluation) -> str:
    """The card as one ``div``; the report has everything."""
    warnings = [note for note in evaluation.notes if note.startswith("WARNING")]
    beside = {"group": len(evaluation.groups), "other model": len(evaluation.others)}
    more = [f"{count} {what}{'s' if count > 1 else ''}" for what, count in beside.items() if count]
    return card(
        evaluation.name,
        about=f"{evaluation.rows:,} rows of {len(evaluation.classes)} classes: {_in_order(evaluation.classes)}",
        sentences=[*headline(evaluation)[:SENTENCES], *warnings],
        headings=["", "value", "95 % interval", ""],
        rows=[_row(one) for one in key_figures(evaluation)],
        note=", ".join([*more, "the whole report: .to_html()"]),
        picture=_diagram(evaluation),
    )


def _row(figure: dict[str, str]) -> list[str | Cell]:
    verdict = Cell(figure["verdict"], "best" if figure["verdict"].startswith("beyond") else "")
    return [figure["label"], figure["value"], figure["interval"], verdict]


def _in_order(classes: tuple[str, ...]) -> str:
    """The classes from the lowest to the highest; of many, the two ends."""
    return " < ".join(classes if len(classes) <= MOST_CLASSES else (classes[0], "…", classes[-1]))


def _diagram(evaluation: Evaluation) -> str:
    """What came true against what was said of the most likely class: a dot per bin, its area the share of the rows."""
    weight, said, true = (evaluation.tables.top[k] for k in (WEIGHT, VALUE, OUTCOME))
    filled = weight > 0
    shares = weight[filled] / weight.sum()
    dots = zip(said[filled] / weight[filled], true[filled] / weight[filled], shares, strict=True)
    circles = "".join(
        f'<circle cx="{SIDE * x:.1f}" cy="{SIDE * (1 - y):.1f}" r="{1.5 + 11 * share**0.5:.1f}"/>'
        for x, y, share in dots
    )
    grey = 'stroke="currentColor" stroke-opacity=".4" fill="none"'
    return (
        f'<svg width="{SIDE + 26}" height="{SIDE + 20}" viewBox="-4 -4 {SIDE + 26} {SIDE + 20}" role="img" '
        'aria-label="Reliability: what came true against what was said">'
        f'<rect width="{SIDE}" height="{SIDE}" {grey}/>'
        f'<line x1="0" y1="{SIDE}" x2="{SIDE}" y2="0" stroke-dasharray="4 3" {grey}/>'
        f'<g fill="{ACCENT}" fill-opacity=".75">{circles}</g>'
        '<g fill="currentColor" fill-opacity=".7" font-size="10" font-family="system-ui,sans-serif">'
        f'<text x="{SIDE / 2}" y="{SIDE + 12}" text-anchor="middle">said</text>'
        f'<text transform="translate({SIDE + 18} {SIDE / 2}) rotate(-90)" text-anchor="middle">came true</text>'
        "</g></svg>"
    )
