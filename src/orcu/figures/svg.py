"""Matplotlib figures as inline SVG: no metadata, unique ids, and the colours and font of the page."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from orcu.figures.style import ROLES, SETTINGS

_DROPPED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", flags=re.DOTALL)


def render(draw: Callable[[Any], object], *, prefix: str, title: str, width: float = 3.5, height: float = 3.0) -> str:
    """Render axes drawn by ``draw(ax)`` as an ``<svg>`` element; the same input gives the same bytes.

    Args:
        draw: function that draws on axes with the colours of `style.ROLES`.
        prefix: prefix of all ids, so that a page can have several figures.
        title: description for screen readers.
        width: width in inches.
        height: height in inches.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.rc_context(SETTINGS | {"svg.hashsalt": prefix}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs missing in matplotlib's font: the page's font has them
        figure = Figure(figsize=(width, height), layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        figure.set_facecolor("none")
        ax.set_facecolor("none")
        # The canvas directly, because figure.savefig draws everything twice to measure it.
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
