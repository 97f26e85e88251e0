"""Matplotlib figures as SVG that lives inside a page: no metadata, own ids, the page's colours and font."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from orcu.figures.style import ROLES, SETTINGS

_DROPPED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", flags=re.DOTALL)


def render(draw: Callable[[Any], object], *, prefix: str, title: str, width: float = 3.5, height: float = 3.0) -> str:
    """One axes drawn by ``draw(ax)`` as an ``<svg>`` element; the same input gives the same bytes.

    Args:
        draw: paints the axes with the colours of `style.ROLES`.
        prefix: put before every id, so that several figures share a page.
        title: what the figure shows, for screen readers.
        width: in inches.
        height: in inches.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.rc_context(SETTINGS | {"svg.hashsalt": prefix}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the page's font has it
        figure = Figure(figsize=(width, height), layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        figure.set_facecolor("none")
        ax.set_facecolor("none")
        # The canvas itself: figure.savefig draws everything twice, once to see how large it is.
        FigureCanvasSVG(figure).print_svg(out, metadata=dict.fromkeys(_NO_METADATA))  # type: ignore[no-untyped-call]
    return _tidy(out.getvalue(), prefix, title)


_NO_METADATA = ("Creator", "Date", "Format", "Type")


def _tidy(svg: str, prefix: str, title: str) -> str:
    from html import escape

    svg = _DROPPED.sub("", svg).strip()
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([^;\"]*?[\d.]+px)[^;\"]*", r"font: \1 var(--font)", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", svg)
    for role, color in ROLES.items():
        svg = svg.replace(color, f"var(--{role})")
    label = escape(title, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return re.sub(r"\n\s*", "\n", svg)
