"""HTML cards for notebooks, without scripts and style sheets, for light and dark pages."""

from collections.abc import Iterable, Mapping
from html import escape

from orcu.report.text_tables import HTML, Row

MAX_ROWS = 12
ACCENT = "#3d8fd6"  # visible on white and on black; text inherits the colour of the notebook
_FRAME = (
    "display:inline-block;box-sizing:border-box;max-width:100%;overflow-x:auto;margin:.3em 0;padding:.7em 1em;"
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,"
    "Arial,sans-serif;font-size:13px;line-height:1.45;text-align:left"
)
_MUTED = "opacity:.7"
# Notebooks style tables differently; inline styles override their style sheets.
_PLAIN = "border:0;background:transparent;color:inherit"
_TABLE = (
    f"{_PLAIN};border-collapse:collapse;width:auto;margin:.5em 0 0;font-size:12px;font-variant-numeric:tabular-nums"
)
_CELL = f"{_PLAIN};border-top:1px solid rgba(128,128,128,.25);padding:.15em 0;white-space:nowrap"


def card(
    title: str,
    *,
    about: str = "",
    sentences: Iterable[str] = (),
    facts: Mapping[str, str] | None = None,
    headings: Row = (),
    rows: Iterable[Row] = (),
    note: str = "",
    picture: str = "",
) -> str:
    """Return a ``div`` with a title, sentences, facts, a table and a note; all texts are escaped.

    The first sentence is bold, ``MAX_ROWS`` rows of the table are shown, and ``picture`` is an ``<svg>`` element beside
    the table, which is not escaped.

    Example:
        >>> html = card(
        ...     "A <b>", facts={"rows": "3"}, headings=["class", "share"], rows=[["low & high", "50 %"]]
        ... )
        >>> "<b>A &lt;b&gt;</b>" in html, "low &amp; high" in html
        (True, True)
    """
    rows = list(rows)
    hidden = len(rows) - MAX_ROWS
    notes = [f"and {hidden:,} more", note] if hidden > 0 else [note]
    parts = [f'<div><b>{escape(title)}</b> <span style="{_MUTED}">{escape(about)}</span></div>']
    for number, sentence in enumerate(filter(None, sentences)):
        bold = ";font-weight:600" if number == 0 else ""
        parts.append(f'<div style="margin-top:.3em;max-width:52em{bold}">{escape(sentence)}</div>')
    if facts:
        spans = (
            f'<span style="margin-right:1.2em"><span style="{_MUTED}">{escape(name)}</span> {escape(value)}</span>'
            for name, value in facts.items()
        )
        parts.append(f'<div style="margin-top:.3em">{" ".join(spans)}</div>')
    if rows:
        beside = f"<div>{picture}</div>" if picture else ""
        table = _table(headings, rows[:MAX_ROWS])
        parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:.6em 2em"><div>{table}</div>{beside}</div>')
    text = escape("; ".join(filter(None, notes)))
    if text:
        parts.append(f'<div style="margin-top:.4em;max-width:52em;font-size:11px;{_MUTED}">{text}</div>')
    body = "\n".join(parts)
    return f'<div style="{_FRAME}">\n{body}\n</div>'.replace(" %", "\u00a0%")


def _table(headings: Row, rows: list[Row]) -> str:
    def line(row: Row, tag: str, more: str) -> str:
        sides = ["text-align:left", *["text-align:right;padding-left:1.4em"] * (len(row) - 1)]
        cells = zip(HTML.cells(row), sides, strict=True)
        html = "".join(f'<{tag} style="{_CELL};{side}{more}">{cell}</{tag}>' for cell, side in cells)
        return f'<tr style="{_PLAIN}">{html}</tr>'

    first = line(headings, "th", f";border-top:0;font-weight:normal;{_MUTED}") if headings else ""
    return f'<table style="{_TABLE}">\n{first}\n' + "\n".join(line(row, "td", "") for row in rows) + "\n</table>"
