"""Pictures of explanations: the section of a report, and the picture of a notebook card."""

import re
import zlib
from functools import partial
from typing import Any

from orcu.explain.model_explanation import ModelExplanation
from orcu.explain.row_explanation import RowExplanation
from orcu.figures.panels import contributions, importance, partial_dependence
from orcu.figures.svg import render
from orcu.report.card_html import ACCENT

# A notebook has no style sheet of ours: colours that are visible on white and on black.
_NOTEBOOK_COLORS = {
    "ink": "currentColor",
    "muted": "#8a939d",
    "grid": "#8a939d",
    "accent": ACCENT,
    "alarm": "#d9722f",
    "quiet": "#8aa5bd",
    "font": "system-ui,sans-serif",
}


def explanation_section(explanation: ModelExplanation) -> dict[str, Any]:
    """Figures and sentences of a report's section on the columns of a table."""
    result = explanation.importance
    clear = [name for name, low in zip(result.names, result.low, strict=True) if low > 0]
    if clear:
        most = f"The predictions depend most on {', '.join(clear[:3])}."
        rest = len(result.names) - len(clear)
        sentence = f"{most} For {rest} of {len(result.names)} columns no effect on the RPS is significant."
    else:
        sentence = "No column has a significant effect on the RPS: the model predicts about the same for all rows."
    curves = [
        {
            "name": f"{curve.column}: {what}",
            "svg": render(
                partial(draw, dependence=curve), prefix=f"dependence{k}-{kind}", title=f"{what} against {curve.column}"
            ),
        }
        for k, curve in enumerate(explanation.dependence)
        for kind, what, draw in (
            ("grade", "expected grade", partial_dependence.draw),
            ("thresholds", "this class or above", partial_dependence.draw_thresholds),
        )
    ]
    return {
        "sentence": sentence,
        "rows": result.rows,
        "repeats": result.repeats.shape[1],
        "hidden": max(0, len(result.names) - importance.MAX_COLUMNS),
        "importance": render(
            partial(importance.draw, importance=result),
            prefix="importance",
            title="Permutation importance of the columns with 95 % intervals",
            width=3.8,
            height=importance.height(result),
        ),
        "scale": _scale(explanation),
        "curves": curves,
    }


def _scale(explanation: ModelExplanation) -> str:
    """Sentence on the numbers of the classes in the expected grade."""
    if not explanation.dependence:
        return ""
    first = explanation.dependence[0]
    return (
        f"The expected grade counts {first.classes[0]} as {first.grades[0]:g} and {first.classes[-1]} as "
        f"{first.grades[-1]:g}."
    )


def row_picture(explanation: RowExplanation) -> str:
    """The waterfall of a row's contributions as an ``<svg>`` element for notebooks, light or dark."""
    number = zlib.crc32(repr(explanation.to_dict()).encode())  # a notebook may have several pictures
    svg = render(
        partial(contributions.draw, explanation=explanation),
        prefix=f"contributions{number}",
        title="Contributions of the columns to the expected grade",
        width=4.6,
        height=contributions.height(explanation),
    )
    svg = svg.replace("<svg ", '<svg width="440" ', 1)
    return re.sub(r"var\(--(\w+)\)", lambda match: _NOTEBOOK_COLORS[match[1]], svg)
