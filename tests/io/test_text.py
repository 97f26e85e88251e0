"""Tables as text: whatever a name holds, it is read again as it was, and never breaks its cell."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from orcu.io import text
from orcu.io.text import Cell

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


class Read(HTMLParser):
    """The texts of the cells, and the tags that stand in them."""

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
    reader = Read()
    reader.feed(re.sub(r"\n\s*(?=<)", "", page))
    return reader


@pytest.mark.parametrize("name", HOSTILE)
def test_html_shows_a_name_as_it_is(name):
    page = text.html(["loss", name], [[name, Cell(name, "best")]])
    reader = read_html(page)
    assert reader.cells == ["loss", one_line(name), one_line(name), one_line(name)]
    assert set(reader.tags) == {"table", "tr", "th", "td", "b"}


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_a_name_as_it_is(name):
    page = text.markdown(["loss", name], [[name, Cell(name, "best")]], "lr")
    assert len(page.splitlines()) == 3
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page)
    reader = read_html(shown)
    assert [cell.strip() for cell in reader.cells] == ["loss", *[one_line(name).strip()] * 3]
    assert set(reader.tags) == {"table", "thead", "tbody", "tr", "th", "td", "strong"}


@pytest.mark.parametrize("name", HOSTILE)
def test_csv_is_read_again_as_it_was(name):
    assert list(csv.reader(io.StringIO(text.csv(["loss", name], [[name, 1]]), newline=""))) == [
        ["loss", name],
        [name, "1"],
    ]


WRITTEN = {
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
def test_latex_leaves_no_sign_of_its_own(name):
    page = text.latex(["loss", name], [[name, Cell(name, "second")]], "lr")
    row = page.splitlines()[4]
    first, second = re.fullmatch(r"(.*?)(?<!\\) & \\underline\{(.*)\} \\\\", row).groups()
    pieces = re.compile("|".join(map(re.escape, sorted(WRITTEN, key=len, reverse=True))))
    assert not re.search(r"[&%$#_{}~^\\<>|]", pieces.sub("", first))
    assert pieces.sub(lambda match: WRITTEN[match[0]], first) == one_line(name)
    assert first == second
    assert not first.startswith(("[", "*"))  # the end of the row before would take them


def test_harmless_names_stay_as_they_are():
    names = ["wine_quality", "ORCU, s = 5", "gap+projection", "feasible_sce % ↓", "93 (9.30%)", "-", "2.0 – 11.0 %"]
    assert text.markdown(names, [], "l" * len(names)).startswith(f"| {' | '.join(names)} |\n")
    assert all(f"<th>{name}</th>" in text.html(names, []) for name in names)


def test_what_is_markup_already_keeps_its_signs():
    cell = Cell("`a|b` **c**", markup=True)
    assert text.markdown(["x"], [[cell]], "l").splitlines()[2] == r"| `a\|b` **c** |"
    assert "<td><i>a</i></td>" in text.html(["x"], [[Cell("<i>a</i>", markup=True)]])
