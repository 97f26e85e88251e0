"""Tables as text: Markdown, LaTeX, HTML and CSV, with every sign that means something there written out."""

import html as entities
import io
import re
from collections.abc import Callable, Iterable, Sequence
from csv import writer
from dataclasses import dataclass
from functools import partial
from typing import Literal


@dataclass(frozen=True)
class Cell:
    """What stands in a cell; plain text stands for one without emphasis.

    Args:
        text: of the cell.
        emphasis: "best" is bold, "second" underlined.
        markup: whether the text is in the format's own signs already; then only what would end the cell is written out.
    """

    text: str
    emphasis: Literal["", "best", "second"] = ""
    markup: bool = False


Row = Sequence[str | Cell]


def markdown(headings: Row, rows: Iterable[Row], align: str) -> str:
    r"""A table in GitHub's Markdown.

    Args:
        headings: of the columns.
        rows: their cells.
        align: "l" or "r" for each column.

    Example:
        >>> print(markdown(["loss", "sce"], [["a|b", Cell("3.1", "best")]], "lr"), end="")
        | loss | sce |
        |---|---:|
        | a\|b | **3.1** |
    """
    dashes = "".join("---:|" if side == "r" else "---|" for side in align)
    first, *others = (f"| {' | '.join(_MARKDOWN.cells(row))} |" for row in (headings, *rows))
    return "\n".join([first, f"|{dashes}", *others, ""])


def latex(headings: Row, rows: Iterable[Row], align: str) -> str:
    r"""A tabular with the rules of booktabs; arguments as for `markdown`.

    Example:
        >>> print(latex(["loss", "sce"], [["a & b", Cell("3.1", "best")]], "lr"), end="")
        \begin{tabular}{lr}
        \toprule
        loss & sce \\
        \midrule
        a \& b & \textbf{3.1} \\
        \bottomrule
        \end{tabular}
    """
    first, *others = (" & ".join(_LATEX.cells(row)) + r" \\" for row in (headings, *rows))
    top = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", first, r"\midrule"]
    return "\n".join([*top, *others, r"\bottomrule", r"\end{tabular}", ""])


def html(headings: Row, rows: Iterable[Row]) -> str:
    """A table element without classes or styles.

    Example:
        >>> print(html(["loss", "sce"], [["<b>", Cell("3.1", "best")]]), end="")
        <table>
        <tr><th>loss</th><th>sce</th></tr>
        <tr><td>&lt;b&gt;</td><td><b>3.1</b></td></tr>
        </table>
    """
    first = "".join(f"<th>{cell}</th>" for cell in html_cells(headings))
    others = ["".join(f"<td>{cell}</td>" for cell in html_cells(row)) for row in rows]
    return "\n".join(["<table>", *(f"<tr>{cells}</tr>" for cells in (first, *others)), "</table>", ""])


def html_cells(row: Row) -> list[str]:
    """What stands between the tags of each cell, for a table with styles of its own.

    Example:
        >>> html_cells(["<b>", Cell("3.1", "best")])
        ['&lt;b&gt;', '<b>3.1</b>']
    """
    return _HTML.cells(row)


def markdown_text(text: str) -> str:
    r"""Text on one line, as it is to be read in Markdown outside of a table.

    Example:
        >>> print(markdown_text("<b> & *c*\nd"))
        \<b> \& \*c\* d
    """
    return _MARKDOWN.cells([text])[0]


def csv(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Comma-separated values, quoted where they have to be.

    Example:
        >>> csv(["loss", "sce"], [["a, b", 3.1]])
        'loss,sce\n"a, b",3.1\n'
    """
    out = io.StringIO()
    writer(out, lineterminator="\n").writerows([headings, *rows])
    return out.getvalue()


@dataclass(frozen=True)
class _Format:
    """How a format writes plain text, text that is its own markup, and what is best and second best."""

    plain: Callable[[str], str]
    markup: Callable[[str], str]
    best: str
    second: str

    def cells(self, row: Row) -> list[str]:
        """The cells of a row, each on one line."""
        emphasis = {"best": self.best, "second": self.second, "": "{}"}
        written = []
        for cell in (cell if isinstance(cell, Cell) else Cell(cell) for cell in row):
            text = " ".join(cell.text.splitlines())
            written.append(emphasis[cell.emphasis].format(self.markup(text) if cell.markup else self.plain(text)))
        return written


# An underscore within a word is no sign of Markdown: names such as wine_quality stay as they are.
_MARKDOWN = _Format(
    partial(re.compile(r"[\\|`*\[\]<&~$]|(?<![^\W_])_|_(?![^\W_])").sub, r"\\\g<0>"),
    partial(re.compile(r"\|").sub, r"\\|"),
    "**{}**",
    "<u>{}</u>",
)
_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"{{{sign}}}" for sign in "[*"},  # which the \\ of the row before would take for its own
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX_SIGNS.get(sign, sign) for sign in text)


_LATEX = _Format(_latex, str, r"\textbf{{{}}}", r"\underline{{{}}}")
_HTML = _Format(partial(entities.escape, quote=False), str, "<b>{}</b>", "<u>{}</u>")
