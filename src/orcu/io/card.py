"""A small card of HTML, as notebooks show a value: no scripts, no style sheet, at home on light and dark pages."""

from collections.abc import Iterable, Mapping
from html import escape

from orcu.io.text import Row, html_cells

MOST_ROWS = 12
ACCENT = "#3d8fd6"  # seen on white and on black; text has the notebook's own colour
_FRAME = (
    "display:inline-block;box-sizing:border-box;max-width:100%;overflow-x:auto;margin:.3em 0;padding:.7em 1em;"
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,"
    "Arial,sans-serif;font-size:13px;line-height:1.45;text-align:left"
)
_QUIET = "opacity:.7"
# The notebooks stripe, centre and colour tables each in their way; what is said at the element holds everywhere.
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
    """One ``div`` with a title, sentences, facts and a table; every text is escaped.

    Args:
        title: what it is.
        about: more of it, on the same line.
        sentences: what there is to say, the first one in bold.
        facts: names and values, one beside the other.
        headings: of the table's columns.
        rows: of the table, of which ``MOST_ROWS`` are shown; the first column to the left, the others to the right.
        note: a small line at the end.
        picture: an ``<svg>`` element beside the table, taken as it is.

    Example:
        >>> html = card(
        ...     "A <b>", facts={"rows": "3"}, headings=["class", "share"], rows=[["low & high", "50 %"]]
        ... )
        >>> "<b>A &lt;b&gt;</b>" in html, "low &amp; high" in html
        (True, True)
    """
    rows = list(rows)
    hidden = len(rows) - MOST_ROWS
    notes = [f"and {hidden:,} more", note] if hidden > 0 else [note]
    parts = [f'<div><b>{escape(title)}</b> <span style="{_QUIET}">{escape(about)}</span></div>']
    for number, sentence in enumerate(filter(None, sentences)):
        weight = ";font-weight:600" if number == 0 else ""
        parts.append(f'<div style="margin-top:.3em;max-width:52em{weight}">{escape(sentence)}</div>')
    if facts:
        parts.append(f'<div style="margin-top:.3em">{_facts(facts)}</div>')
    if rows:
        beside = f"<div>{picture}</div>" if picture else ""
        table = _table(headings, rows[:MOST_ROWS])
        parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:.6em 2em"><div>{table}</div>{beside}</div>')
    text = escape("; ".join(filter(None, notes)))
    if text:
        parts.append(f'<div style="margin-top:.4em;max-width:52em;font-size:11px;{_QUIET}">{text}</div>')
    body = "\n".join(parts)
    return f'<div style="{_FRAME}">\n{body}\n</div>'.replace(" %", "\u00a0%")


def _facts(facts: Mapping[str, str]) -> str:
    return " ".join(
        f'<span style="margin-right:1.2em"><span style="{_QUIET}">{escape(name)}</span> {escape(value)}</span>'
        for name, value in facts.items()
    )


def _table(headings: Row, rows: list[Row]) -> str:
    def line(row: Row, tag: str, more: str) -> str:
        sides = ["text-align:left", *["text-align:right;padding-left:1.4em"] * (len(row) - 1)]
        cells = zip(html_cells(row), sides, strict=True)
        written = "".join(f'<{tag} style="{_CELL};{side}{more}">{cell}</{tag}>' for cell, side in cells)
        return f'<tr style="{_PLAIN}">{written}</tr>'

    quiet = f";border-top:0;font-weight:normal;{_QUIET}"
    first = line(headings, "th", quiet) if headings else ""
    return f'<table style="{_TABLE}">\n{first}\n' + "\n".join(line(row, "td", "") for row in rows) + "\n</table>"
