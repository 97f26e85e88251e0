"""Tests of the HTML report as text."""

import html
import html.parser
import re

import numpy as np
import pytest

from orcu import Predictions, evaluate
from orcu.evaluation.evaluation import format_metric
from orcu.metrics.base import METRICS
from orcu.report.headline import headline
from orcu.report.page import Provenance, build, write

EVIL = ["<script>alert(1)</script>", 'b" onload="x', "c & d $x$", "{{ 7*7 }}"]


def sample_evaluation(rows=400, sharpen=2.0, classes=EVIL, seed=0, **options):
    rng = np.random.default_rng(seed)
    size = len(classes)
    logits = -((np.arange(size) - rng.uniform(-0.5, size - 0.5, size=(rows, 1))) ** 2)
    logits += rng.normal(scale=0.2, size=logits.shape)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    predictions = Predictions(
        logits=sharpen * logits,
        y=y,
        classes=classes,
        ids=[f"<i>id{i}</i>" for i in range(rows)],
        subgroup=np.where(np.arange(rows) % 2, "</td><b>odd", "even"),
    )
    other = Predictions(logits=logits, y=y, classes=classes)
    return evaluate(predictions, compare={"<u>other</u>": other}, name="<model>", n_resamples=100, **options)


@pytest.fixture(scope="module")
def evaluation():
    return sample_evaluation()


PROVENANCE = Provenance([("<file>.csv", "ab" * 32)], "2026-01-02", "orcu evaluate '<file>.csv'")


@pytest.fixture(scope="module")
def page(evaluation):
    return build(evaluation, provenance=PROVENANCE)


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


def test_build_escapes_text_from_files(page):
    tags = Tags(page)
    assert tags.open == []
    assert "script" not in tags.names
    assert not tags.names & {"i", "u"}
    assert not any(name.startswith("on") for name in tags.attributes)
    assert "&lt;script&gt;" in page
    assert "49" not in re.findall(r">\{?\{? ?(\d+)", "".join(re.findall(r"<th>.*?</th>", page)))
    assert "{{ 7*7 }}" in page


def test_build_loads_nothing_from_outside(page):
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", page)
    assert "@import" not in page
    assert "url(http" not in page
    assert "<!DOCTYPE svg" not in page
    assert "<metadata>" not in page
    assert "default-src 'none'" in page


def test_build_ids_are_unique_and_figures_are_named(page):
    ids = Tags(page).ids
    assert len(ids) == len(set(ids))
    assert page.count("<svg ") == page.count('role="img"') > 20


def test_build_same_evaluation_gives_the_same_bytes(page):
    assert build(sample_evaluation(), provenance=PROVENANCE) == page


def test_build_shows_row_ids_only_on_request(page):
    assert not re.search(r"(&lt;|<)i(&gt;|>)id\d", page)
    assert re.search(r"&lt;i&gt;id\d+", build(sample_evaluation(60, classes=["no", "yes"]), show_ids=True))


def test_build_states_the_provenance(page):
    for text in ("sha256 " + "ab" * 32, "2026-01-02", "400 rows", "&lt;file&gt;.csv", "seed 0", "100 resamples"):
        assert text in page, text
    assert "labels matched to class names by value" not in page  # positions were given
    assert "integer labels taken as positions" in page


def test_build_figures_use_the_colours_of_the_page(page):
    svg = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--accent)" in svg
    assert not re.search(r"(fill|stroke): #(?!ffffff)[0-9a-f]{6}", svg)
    assert "DejaVu" not in svg


def test_write_equals_build_and_is_small(evaluation, page, tmp_path):
    write(evaluation, tmp_path / "r.html", provenance=PROVENANCE)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert (tmp_path / "r.html").stat().st_size < 1_500_000


def test_headline_over_under_and_calibrated_models():
    sharp, calm, flat = (headline(sample_evaluation(800, factor, list("abcd"))) for factor in (2.5, 1.0, 0.3))
    assert sharp[0].startswith("Over-confident by ")
    assert "over-confident" not in calm[0].lower()
    assert "under-confident" not in calm[0].lower()
    assert flat[0].startswith("Under-confident by ")
    assert re.match(r"Significant on 800 rows.* ECE, SCE, .* 4 of 4 classes", sharp[2])
    assert calm[2].startswith("No calibration error is significant on 800 rows.")
    assert "unimodal" in sharp[3]
    assert re.search(r"odd is over-confident by \d+ points", sharp[1])
    assert "confident" not in calm[1]


@pytest.mark.slow
def test_build_of_two_and_of_thirteen_classes():
    for classes in (["no", "yes"], [str(k) for k in range(13)]):  # above 12 cells have no numbers, letters are small
        alone = evaluate(sample_evaluation(300, classes=classes).sample, n_resamples=50)
        assert build(alone).endswith("</html>")


def test_build_without_resamples_shows_no_nan():
    evaluation = sample_evaluation(60, classes=["no", "yes"])
    alone = evaluate(evaluation.sample, n_resamples=0)
    page = build(alone)
    assert "nan" not in re.sub(r"<svg.*?</svg>|<style.*?</style>", "", page, flags=re.DOTALL).lower().split()


def test_page_has_a_methods_paragraph_with_the_numbers_of_the_evaluation(evaluation, page):
    from orcu.report.methods import methods_paragraph

    text = methods_paragraph(evaluation)
    assert f"{evaluation.rows:,} rows" in text
    assert f"{evaluation.n_resamples:,} resamples" in text
    assert format_metric(evaluation, METRICS.get("rps")) in text
    shown = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")
    assert text in shown
