"""Cards for notebooks: every value that has one says the same as its text, escaped, without scripts."""

import re
from html.parser import HTMLParser

import browser
import numpy as np
import pytest

from orcu import Predictions, evaluate, suggest_scale
from orcu.calibrators import create, recommend
from orcu.calibrators.base import CALIBRATORS
from orcu.io.card import MOST_ROWS, card

CLASSES = ["<b>none</b>", "a & b", "quote \" and '", "severe"]
WHOLE = {"br", "img", "circle", "rect", "line"}  # elements without an end


class Reader(HTMLParser):
    """The text of a card, its elements, and whether each of them is closed in its turn."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.open, self.attributes = "", set(), [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in WHOLE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data.replace("\u00a0", " ")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(400, 1))) ** 2)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return 3 * z, (rng.random((400, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


@pytest.fixture(scope="module")
def things(rows):
    """Every kind of value that has a card."""
    z, y = rows
    predictions = Predictions(
        logits=z, codes=y, classes=CLASSES, ids=[f"patient{k}" for k in range(400)], group=["<i>n</i>", "s"] * 200
    )
    calm = predictions.replace(logits=z / 3)
    return {
        "evaluation": evaluate(predictions, name="<script>alert(1)</script>", compare={"calm": calm}, bootstrap=100),
        "predictions": predictions,
        "recommendation": recommend(z, y, methods=("temperature",)),
        "suggestion": suggest_scale(5, 0.7),
        **{name: create(name).fit(z, y) for name in ("temperature", "gap+projection", "auto", "dirichlet")},
    }


KINDS = (
    *("evaluation", "predictions", "recommendation", "suggestion"),
    *("temperature", "gap+projection", "auto", "dirichlet"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_is_whole_html_without_scripts(kind, things):
    html = things[kind]._repr_html_()
    reader = Reader(html)
    svg = {"svg", "rect", "line", "g", "circle", "text"}
    assert reader.tags <= {"div", "span", "b", "table", "tr", "th", "td"} | svg
    assert not any(name.startswith("on") or name in {"href", "src", "class", "id"} for name, _ in reader.attributes)
    assert "url(" not in html
    assert html == things[kind]._repr_html_()  # the same bytes again
    # dark and light pages: no colour of text or background is set but what is inherited
    assert set(re.findall(r"(?<![-\w])color:([^;\"]+)", html)) <= {"inherit"}
    assert set(re.findall(r"background:([^;\"]+)", html)) <= {"transparent"}


def test_an_evaluation_says_its_headline_and_its_key_figures(things):
    text = Reader(things["evaluation"]._repr_html_()).text
    for expected in (
        "<script>alert(1)</script>",
        "400 rows of 4 classes: <b>none</b> < a & b < quote \" and ' < severe",
        "Over-confident by",
        "class-wise error (SCE)",
        "beyond chance",
        "2 groups, 1 other model",
    ):
        assert expected in text, expected
    shown = f"{100 * things['evaluation']['accuracy'].value:.1f} %"
    assert shown in text


def test_an_evaluation_of_hundreds_of_classes_stays_small():
    probs = np.random.default_rng(0).dirichlet(np.ones(300), size=50)
    evaluation = evaluate(probs=probs, y=probs.argmax(axis=1), bootstrap=0)
    text = Reader(evaluation._repr_html_()).text
    assert "300 classes: 0 < … < 299" in text
    assert len(evaluation._repr_html_()) < 12_000


def test_warnings_of_an_evaluation_are_on_its_card(rows):
    z, y = rows
    fitted = create("temperature").fit(z, y)
    evaluation = evaluate(Predictions(logits=z, y=y).calibrated(fitted), bootstrap=0)
    assert "WARNING: 400 of 400 rows have fitted the temperature calibrator" in Reader(evaluation._repr_html_()).text


def test_predictions_show_classes_and_counts_and_no_id(things):
    text = Reader(things["predictions"]._repr_html_()).text
    assert "400 rows, logits of 4 classes" in text
    assert "ids, group" in text
    assert "<b>none</b>" in text
    counts = np.bincount(things["predictions"].y)
    assert str(counts[3]) in text
    assert "patient" not in text
    assert "labels" not in Reader(Predictions(probs=[[0.5, 0.5]])._repr_html_()).text.replace("no labels", "")


@pytest.mark.parametrize("name", CALIBRATORS.names())
def test_every_calibrator_has_a_card_before_and_after_the_fit(name, rows):
    calibrator = create({"chain": "temperature+projection"}.get(name, name))
    fresh = Reader(calibrator._repr_html_()).text
    assert type(calibrator).__name__ in fresh
    if calibrator.parameters(2):
        assert "not fitted" in fresh
        assert "fitted on 400 rows of 4 classes" in Reader(calibrator.fit(*rows)._repr_html_()).text
    else:
        assert "nothing to fit" in fresh


def test_what_was_learned_is_on_the_card(things):
    assert f"{things['temperature'].temperature_:.4g}" in Reader(things["temperature"]._repr_html_()).text
    auto = Reader(things["auto"]._repr_html_()).text
    assert things["auto"].chosen_ in auto
    assert f"{things['auto'].scores_['projection']:.4f}" in auto


def test_a_recommendation_marks_the_chosen_one(things):
    html = things["recommendation"]._repr_html_()
    assert f"<b>{things['recommendation'].chosen}</b>" in html
    assert things["recommendation"].rule in Reader(html).text.replace(" %", "%")


def test_a_suggestion_gives_its_reason(things):
    text = Reader(things["suggestion"]._repr_html_()).text
    assert things["suggestion"].reason in text
    assert "70.0%" in text


def test_long_tables_are_cut_with_a_word():
    text = Reader(card("Many", headings=["", "n"], rows=[[f"row{k}", str(k)] for k in range(MOST_ROWS + 3)])).text
    assert "and 3 more" in text
    assert f"row{MOST_ROWS}" not in text
    assert "more" not in Reader(card("All", rows=[["row", "1"]] * MOST_ROWS)).text


@pytest.mark.browser
@pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "rgb(0, 0, 0)"), ("#111111", "rgb(230, 230, 230)")])
def test_text_has_the_colour_of_the_notebook_and_stays_in_its_width(paper, ink, things, tmp_path):
    cards = "".join(thing._repr_html_() for thing in things.values())
    script = """
      const ink = new Set([...document.querySelectorAll("main *")].map(one => getComputedStyle(one).color));
      const wide = [...document.querySelectorAll("main > div")].some(one => one.getBoundingClientRect().right > 420);
      const probe = document.createElement("pre"); probe.id = "probe";
      probe.textContent = JSON.stringify({ink: [...ink], wide});
      document.body.append(probe);"""
    # stripes as notebooks have them, in a column as narrow as a phone
    style = f"body {{ margin: 0; background: {paper}; color: {ink}; }} main {{ width: 400px; }} td {{ color: red; }}"
    page = tmp_path / "cards.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style}</style><main>{cards}</main><script>{script}</script>"
    )
    shown = browser.told(
        browser.chromium("--dump-dom", f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()).stdout
    )
    assert shown == {"ink": [ink], "wide": False}
