"""Text tables: special characters in names are escaped in every format."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from orcu.report import text_tables
from orcu.report.text_tables import Cell

HOSTILE = [
    "a|b",
    "a\\|b",
    "back\\slash",
    "<script>alert(1)</script>",
    "x & y &amp; z",
    "50 % of $5 #1 {x} ~y^2",
    "[link](http://example.org)",
    "**bold** *it* __under__ _it_ ~~gone~~ `code`",
    "![image](x.png)",
    "[0, 1)",
    "* starred",
    "quotes \" and '",
    "two\nlines",
    "comma, semicolon; tab\tend",
    "{} {0} {name}",
    "↑ ↓ ± ▲ ▼",
]


def one_line(name):
    return " ".join(name.splitlines())


class TableReader(HTMLParser):
    """Collect the texts of the cells and the tags."""

    def __init__(self):
        super().__init__()
        self.cells, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1] not in {"table", "tr"} and self.cells:
            self.cells[-1] += data.replace("\n", "") if data.strip() == "" else data


def read_html(page):
    reader = TableReader()
    reader.feed(re.sub(r"\n\s*(?=<)", "", page))
    return reader


@pytest.mark.parametrize("name", HOSTILE)
def test_html_escapes_names(name):
    page = text_tables.html(["loss", name], [[name, Cell(name, "best")]])
    reader = read_html(page)
    assert reader.cells == ["loss", one_line(name), one_line(name), one_line(name)]
    assert set(reader.tags) == {"table", "tr", "th", "td", "b"}


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_escapes_names(name):
    page = text_tables.markdown(["loss", name], [[name, Cell(name, "best")]], "lr")
    assert len(page.splitlines()) == 3
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page)
    reader = read_html(rendered)
    assert [cell.strip() for cell in reader.cells] == ["loss", *[one_line(name).strip()] * 3]
    assert set(reader.tags) == {"table", "thead", "tbody", "tr", "th", "td", "strong"}


@pytest.mark.parametrize("name", HOSTILE)
def test_csv_is_read_back_unchanged(name):
    assert list(csv.reader(io.StringIO(text_tables.csv(["loss", name], [[name, 1]]), newline=""))) == [
        ["loss", name],
        [name, "1"],
    ]


ESCAPES = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    "{[}": "[",
    "{*}": "*",
    r"$\pm$": "±",
    r"$\uparrow$": "↑",
    r"$\downarrow$": "↓",
    r"$\blacktriangle$": "▲",
    r"$\blacktriangledown$": "▼",
    **{f"\\{sign}": sign for sign in "&%$#_{}"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_latex_escapes_names(name):
    page = text_tables.latex(["loss", name], [[name, Cell(name, "second")]], "lr")
    row = page.splitlines()[4]
    first, second = re.fullmatch(r"(.*?)(?<!\\) & \\underline\{(.*)\} \\\\", row).groups()
    pieces = re.compile("|".join(map(re.escape, sorted(ESCAPES, key=len, reverse=True))))
    assert not re.search(r"[&%$#_{}~^\\<>|]", pieces.sub("", first))
    assert pieces.sub(lambda match: ESCAPES[match[0]], first) == one_line(name)
    assert first == second
    assert not first.startswith(("[", "*"))  # after the end of a row they would be its arguments


def test_markdown_and_html_leave_harmless_names_unchanged():
    names = ["wine_quality", "ORCU, s = 5", "gap+projection", "feasible_sce % ↓", "93 (9.30%)", "-", "2.0 – 11.0 %"]
    assert text_tables.markdown(names, [], "l" * len(names)).startswith(f"| {' | '.join(names)} |\n")
    assert all(f"<th>{name}</th>" in text_tables.html(names, []) for name in names)


def test_markup_cells_are_not_escaped():
    cell = Cell("`a|b` **c**", markup=True)
    assert text_tables.markdown(["x"], [[cell]], "l").splitlines()[2] == r"| `a\|b` **c** |"
    assert "<td><i>a</i></td>" in text_tables.html(["x"], [[Cell("<i>a</i>", markup=True)]])


def test_latex_merges_cells_of_blocks_only():
    rows = [["a", "x", "1"], ["a", "x", "2"], ["a", "y", "3"], ["b", "y", "4"]]
    body = text_tables.latex(["data", "calibrator", "n"], rows, "llr", merge=2).splitlines()[4:-2]
    assert body == [
        r"\multirow{3}{*}{a} & \multirow{2}{*}{x} & 1 \\",
        r" &  & 2 \\",
        r"\cmidrule(l){2-3}",
        r" & y & 3 \\",
        r"\midrule",
        r"b & y & 4 \\",  # another block, so the equal cell above is not continued
    ]
    without_rules = text_tables.latex(["data", "calibrator", "n"], rows, "llr", merge=2, rules=1)
    assert r"\cmidrule" not in without_rules
    assert without_rules.count(r"\midrule") == 2
    assert r"\multirow" not in text_tables.latex(["data", "calibrator", "n"], rows, "llr")


def test_comment_of_several_lines_is_one_line():
    assert text_tables.comment("a\n\\input{b}", "latex") == "% a \\input{b}\n"
