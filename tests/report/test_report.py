"""The page as text: self-contained, escaped, the same bytes, the right words."""

import html.parser
import re

import numpy as np
import pytest

from orcu import Predictions, evaluate
from orcu.report.build import Provenance, build, write
from orcu.report.headline import headline

EVIL = ["<script>alert(1)</script>", 'b" onload="x', "c & d $x$", "{{ 7*7 }}"]


def judged(rows=400, sharpen=2.0, classes=EVIL, seed=0, **options):
    rng = np.random.default_rng(seed)
    size = len(classes)
    logits = -((np.arange(size) - rng.uniform(-0.5, size - 0.5, size=(rows, 1))) ** 2)
    logits += rng.normal(scale=0.2, size=logits.shape)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    told = Predictions(
        logits=sharpen * logits,
        y=y,
        classes=classes,
        ids=[f"<i>id{i}</i>" for i in range(rows)],
        group=np.where(np.arange(rows) % 2, "</td><b>odd", "even"),
    )
    other = Predictions(logits=logits, y=y, classes=classes)
    return evaluate(told, compare={"<u>other</u>": other}, name="<model>", bootstrap=100, **options)


@pytest.fixture(scope="module")
def found():
    return judged()


ABOUT = Provenance([("<file>.csv", "ab" * 32)], "2026-01-02", "orcu evaluate '<file>.csv'")


@pytest.fixture(scope="module")
def page(found):
    return build(found, provenance=ABOUT)


class Tags(html.parser.HTMLParser):
    void = frozenset({"meta", "link", "br", "path", "rect", "use", "line", "circle"})

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.ids, self.open = set(), set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_text_from_files_is_escaped(page):
    tags = Tags(page)
    assert tags.open == []
    assert "script" not in tags.names
    assert not tags.names & {"i", "u"}
    assert not any(name.startswith("on") for name in tags.attributes)
    assert "&lt;script&gt;" in page
    assert "49" not in re.findall(r">\{?\{? ?(\d+)", "".join(re.findall(r"<th>.*?</th>", page)))
    assert "{{ 7*7 }}" in page


def test_nothing_comes_from_outside(page):
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", page)
    assert "@import" not in page
    assert "url(http" not in page
    assert "<!DOCTYPE svg" not in page
    assert "<metadata>" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique_and_figures_are_named(page):
    ids = Tags(page).ids
    assert len(ids) == len(set(ids))
    assert page.count("<svg ") == page.count('role="img"') > 20


def test_the_same_input_gives_the_same_bytes(page):
    assert build(judged(), provenance=ABOUT) == page


def test_row_ids_appear_only_when_asked(page):
    assert not re.search(r"(&lt;|<)i(&gt;|>)id\d", page)
    assert re.search(r"&lt;i&gt;id\d+", build(judged(60, classes=["no", "yes"]), show_ids=True))


def test_it_states_where_it_comes_from(page):
    for text in ("sha256 " + "ab" * 32, "2026-01-02", "400 rows", "&lt;file&gt;.csv", "seed 0", "100 resamples"):
        assert text in page, text
    assert "labels matched to class names by value" not in page  # positions were given
    assert "integer labels taken as positions" in page


def test_colours_follow_the_page(page):
    svg = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--accent)" in svg
    assert not re.search(r"(fill|stroke): #(?!ffffff)[0-9a-f]{6}", svg)
    assert "DejaVu" not in svg


def test_a_second_page_is_the_first_and_small(found, page, tmp_path):
    write(found, tmp_path / "r.html", provenance=ABOUT)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert (tmp_path / "r.html").stat().st_size < 1_500_000


def test_the_headline_tells_over_from_under_and_from_noise():
    sharp, calm, flat = (headline(judged(800, factor, list("abcd"))) for factor in (2.5, 1.0, 0.3))
    assert sharp[0].startswith("Over-confident by ")
    assert calm[0].startswith("Confidence matches accuracy within noise")
    assert flat[0].startswith("Under-confident by ")
    assert re.match(r"0 of 4 classes are calibrated as far as 800 rows can tell", sharp[2])
    assert re.match(r"[34] of 4 classes", calm[2])
    assert "unimodal" in sharp[3]
    assert re.match(r"By group, .* is over-confident by \d+ points", sharp[1])
    assert calm[1] == "In no group does confidence miss accuracy beyond chance."


def test_two_classes_and_thirteen_make_a_page():
    for classes in (["no", "yes"], [str(k) for k in range(13)]):  # above 12 cells have no numbers, letters are small
        alone = evaluate(judged(300, classes=classes).sample, bootstrap=20)
        assert build(alone).endswith("</html>")


def test_a_page_without_resamples_has_no_nan():
    found = judged(60, classes=["no", "yes"])
    alone = evaluate(found.sample, bootstrap=0)
    page = build(alone)
    assert "nan" not in re.sub(r"<svg.*?</svg>|<style.*?</style>", "", page, flags=re.DOTALL).lower().split()
