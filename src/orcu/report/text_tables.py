"""Tables as Markdown, LaTeX, HTML and CSV, with all special characters escaped."""

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
    """Cell of a table; a plain text is a cell without emphasis.

    Args:
        text: text of the cell.
        emphasis: "best" (bold) or "second" (underlined).
        markup: whether the text is markup of the format; only characters that would end the cell are escaped.
    """

    text: str
    emphasis: Literal["", "best", "second"] = ""
    markup: bool = False


Row = Sequence[str | Cell]


def markdown(headings: Row, rows: Iterable[Row], align: str) -> str:
    r"""Return a table in GitHub's Markdown; ``align`` is "l" or "r" for each column.

    Example:
        >>> print(markdown(["loss", "sce"], [["a|b", Cell("3.1", "best")]], "lr"), end="")
        | loss | sce |
        |---|---:|
        | a\|b | **3.1** |
    """
    dashes = "".join("---:|" if side == "r" else "---|" for side in align)
    first, *others = (f"| {' | '.join(_MARKDOWN.cells(row))} |" for row in (headings, *rows))
    return "\n".join([first, f"|{dashes}", *others, ""])


def latex(headings: Row, rows: Iterable[Row], align: str, *, merge: int = 0, rules: int | None = None) -> str:
    r"""Return a LaTeX tabular for the package booktabs; the first arguments as for `markdown`.

    Args:
        headings: cells of the first row.
        rows: cells of the other rows.
        align: "l" or "r" for each column.
        merge: number of first columns in which equal cells of consecutive rows become one, for the package multirow.
        rules: number of first columns with a rule between their blocks, which is shorter from the second column on;
            all merged columns by default.

    Example:
        >>> print(latex(["loss", "sce"], [["a & b", Cell("3.1", "best")]], "lr"), end="")
        \begin{tabular}{lr}
        \toprule
        loss & sce \\
        \midrule
        a \& b & \textbf{3.1} \\
        \bottomrule
        \end{tabular}
        >>> rows = [["LEV", "CE", "1"], ["LEV", "LS", "2"], ["SWD", "CE", "3"]]
        >>> print("\n".join(latex(["data", "loss", "sce"], rows, "llr", merge=1).splitlines()[4:-2]))
        \multirow{2}{*}{LEV} & CE & 1 \\
         & LS & 2 \\
        \midrule
        SWD & CE & 3 \\
    """
    rules = merge if rules is None else rules
    first, *others = (_LATEX.cells(row) for row in (headings, *rows))
    lines = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", " & ".join(first) + r" \\", r"\midrule"]
    for number, cells in enumerate(others):
        # A cell is part of a block if it and all cells on its left equal those of the row before.
        same = 0 if number == 0 else _common(cells, others[number - 1], merge)
        if number and same < rules:
            lines.append(r"\midrule" if same == 0 else rf"\cmidrule(l){{{same + 1}-{len(cells)}}}")
        merged = []
        for column in range(merge):
            following = others[number + 1 :]
            height = 1 + next(
                (k for k, row in enumerate(following) if _common(row, cells, merge) <= column), len(following)
            )
            text = cells[column] if height == 1 else rf"\multirow{{{height}}}{{*}}{{{cells[column]}}}"
            merged.append("" if column < same else text)
        lines.append(" & ".join([*merged, *cells[merge:]]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _common(first: Sequence[str], second: Sequence[str], most: int) -> int:
    """Number of equal cells at the beginning of two rows."""
    return next((column for column in range(most) if first[column] != second[column]), most)


def html(headings: Row, rows: Iterable[Row]) -> str:
    """Return an HTML table without classes or styles.

    Example:
        >>> print(html(["loss", "sce"], [["<b>", Cell("3.1", "best")]]), end="")
        <table>
        <tr><th>loss</th><th>sce</th></tr>
        <tr><td>&lt;b&gt;</td><td><b>3.1</b></td></tr>
        </table>
    """
    first = "".join(f"<th>{cell}</th>" for cell in HTML.cells(headings))
    others = ["".join(f"<td>{cell}</td>" for cell in HTML.cells(row)) for row in rows]
    return "\n".join(["<table>", *(f"<tr>{cells}</tr>" for cells in (first, *others)), "</table>", ""])


def comment(text: str, form: str) -> str:
    """Return a line before or after a table: a comment in latex and html, plain text in Markdown.

    Example:
        >>> for form in ("latex", "html", "markdown"):
        ...     print(comment("Table III --> 2", form), end="")
        % Table III --> 2
        <!-- Table III - -> 2 -->
        Table III --> 2
    """
    text = " ".join(text.splitlines())
    if form == "latex":
        return f"% {text}\n"
    return f"<!-- {text.replace('--', '- -')} -->\n" if form == "html" else f"{escape_markdown(text)}\n"


def escape_markdown(text: str) -> str:
    r"""Escape a text for Markdown, on one line.

    Example:
        >>> print(escape_markdown("<b> & *c*\nd"))
        \<b> \& \*c\* d
    """
    return _MARKDOWN.cells([text])[0]


def escape_latex(text: str) -> str:
    r"""Escape a text for LaTeX, on one line.

    Example:
        >>> print(escape_latex("SCE (%) ↓"))
        SCE (\%) $\downarrow$
    """
    return _LATEX.cells([text])[0]


def csv(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return comma-separated values, quoted where necessary.

    Example:
        >>> csv(["loss", "sce"], [["a, b", 3.1]])
        'loss,sce\n"a, b",3.1\n'
    """
    out = io.StringIO()
    writer(out, lineterminator="\n").writerows([headings, *rows])
    return out.getvalue()


@dataclass(frozen=True)
class _Format:
    """Escaping of plain text and of markup, and the emphasis of cells, in one format."""

    plain: Callable[[str], str]
    markup: Callable[[str], str]
    best: str
    second: str

    def cells(self, row: Row) -> list[str]:
        """Format the cells of a row, each on one line."""
        emphasis = {"best": self.best, "second": self.second, "": "{}"}
        cells = []
        for cell in (cell if isinstance(cell, Cell) else Cell(cell) for cell in row):
            text = " ".join(cell.text.splitlines())
            cells.append(emphasis[cell.emphasis].format(self.markup(text) if cell.markup else self.plain(text)))
        return cells


# An underscore within a word needs no escape in Markdown: names such as wine_quality stay unchanged.
_MARKDOWN = _Format(
    partial(re.compile(r"[\\|`*\[\]<&~$]|(?<![^\W_])_|_(?![^\W_])").sub, r"\\\g<0>"),
    partial(re.compile(r"\|").sub, r"\\|"),
    "**{}**",
    "<u>{}</u>",
)
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"{{{sign}}}" for sign in "[*"},  # after the \\ of the row before they would be its arguments
    "±": r"$\pm$",
    "⁻": r"$^{-}$",
    "²": r"$^{2}$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
}
_LATEX_TABLE = str.maketrans(_LATEX_ESCAPES)
_LATEX = _Format(lambda text: text.translate(_LATEX_TABLE), str, r"\textbf{{{}}}", r"\underline{{{}}}")
HTML = _Format(partial(entities.escape, quote=False), str, "<b>{}</b>", "<u>{}</u>")
