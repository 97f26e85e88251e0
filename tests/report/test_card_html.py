"""Notebook cards: escaped, valid HTML without scripts, with the values of the object."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import browser
import numpy as np
import pytest

from orcu import Predictions, evaluate, suggest_scale
from orcu.calibrators import create, recommend
from orcu.calibrators.base import CALIBRATORS
from orcu.report.card_html import MAX_ROWS, card

CLASSES = ["<b>none</b>", "a & b", "quote \" and '", "severe"]
VOID_ELEMENTS = {"br", "img", "circle", "rect", "line"}


class CardReader(HTMLParser):
    """Collect the text, elements and attributes of a card, and check that all elements are closed."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.open, self.attributes = "", set(), [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID_ELEMENTS:
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
def objects(rows):
    """One object of each kind that has a card."""
    z, y = rows
    predictions = Predictions(
        logits=z, codes=y, classes=CLASSES, ids=[f"patient{k}" for k in range(400)], subgroup=["<i>n</i>", "s"] * 200
    )
    calm = predictions.replace(logits=z / 3)
    return {
        "evaluation": evaluate(predictions, name="<script>alert(1)</script>", compare={"calm": calm}, n_resamples=100),
        "predictions": predictions,
        "recommendation": recommend(z, y, calibrators=("temperature",)),
        "suggestion": suggest_scale(5, 0.7),
        **{name: create(name).fit(z, y) for name in ("temperature", "gap+projection", "auto", "dirichlet")},
    }


KINDS = (
    *("evaluation", "predictions", "recommendation", "suggestion"),
    *("temperature", "gap+projection", "auto", "dirichlet"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_card_is_valid_html_without_scripts(kind, objects):
    html = objects[kind]._repr_html_()
    reader = CardReader(html)
    svg = {"svg", "rect", "line", "g", "circle", "text"}
    assert reader.tags <= {"div", "span", "b", "table", "tr", "th", "td"} | svg
    assert not any(name.startswith("on") or name in {"href", "src", "class", "id"} for name, _ in reader.attributes)
    assert "url(" not in html
    assert html == objects[kind]._repr_html_()  # the same bytes again
    # dark and light pages: no colour of text or background is set but what is inherited
    assert set(re.findall(r"(?<![-\w])color:([^;\"]+)", html)) <= {"inherit"}
    assert set(re.findall(r"background:([^;\"]+)", html)) <= {"transparent"}


def test_evaluation_card_has_headline_and_key_figures(objects):
    text = CardReader(objects["evaluation"]._repr_html_()).text
    classes = "<b>none</b> < a & b < quote \" and ' < severe"
    for expected in ("<script>alert(1)</script>", "400 rows", classes, "(SCE)", "2 subgroups", "1 other model"):
        assert expected in text, expected
    shown = f"{100 * objects['evaluation']['accuracy'].value:.1f} %"
    assert shown in text


def test_evaluation_card_of_hundreds_of_classes_is_small():
    probs = np.random.default_rng(0).dirichlet(np.ones(300), size=50)
    evaluation = evaluate(probs=probs, y=probs.argmax(axis=1), n_resamples=0)
    text = CardReader(evaluation._repr_html_()).text
    assert "300 classes: 0 < … < 299" in text
    assert len(evaluation._repr_html_()) < 12_000


def test_evaluation_card_has_warnings(rows):
    z, y = rows
    fitted = create("temperature").fit(z, y)
    evaluation = evaluate(Predictions(logits=z, y=y).calibrated(fitted), n_resamples=0)
    assert (
        "WARNING: 400 of 400 rows were used to fit the temperature calibrator"
        in CardReader(evaluation._repr_html_()).text
    )


def test_predictions_card_has_classes_and_counts_but_no_ids(objects):
    text = CardReader(objects["predictions"]._repr_html_()).text
    assert "400 rows, logits of 4 classes" in text
    assert "ids, subgroup" in text
    assert "<b>none</b>" in text
    counts = np.bincount(objects["predictions"].y)
    assert str(counts[3]) in text
    assert "patient" not in text
    assert "labels" not in CardReader(Predictions(probs=[[0.5, 0.5]])._repr_html_()).text.replace("no labels", "")


@pytest.mark.parametrize("name", CALIBRATORS.names())
def test_calibrator_card_before_and_after_fit(name, rows):
    calibrator = create({"chain": "temperature+projection"}.get(name, name))
    fresh = CardReader(calibrator._repr_html_()).text
    assert type(calibrator).__name__ in fresh
    if calibrator.n_parameters(2):
        assert "not fitted" in fresh
        assert "fitted on 400 rows of 4 classes" in CardReader(calibrator.fit(*rows)._repr_html_()).text
    else:
        assert "nothing to fit" in fresh


def test_calibrator_card_has_fitted_parameters(objects):
    assert f"{objects['temperature'].temperature_:.4g}" in CardReader(objects["temperature"]._repr_html_()).text
    auto = CardReader(objects["auto"]._repr_html_()).text
    assert objects["auto"].chosen_ in auto
    assert f"{objects['auto'].scores_['gap']:.4f}" in auto


def test_recommendation_card_marks_the_chosen_method(objects):
    html = objects["recommendation"]._repr_html_()
    assert f"<b>{objects['recommendation'].chosen}</b>" in html
    assert objects["recommendation"].reason in CardReader(html).text.replace(" %", "%")


def test_suggestion_card_has_the_reason(objects):
    text = CardReader(objects["suggestion"]._repr_html_()).text
    assert objects["suggestion"].reason in text
    assert "70.0%" in text


def test_card_long_table_is_shortened():
    text = CardReader(card("Many", headings=["", "n"], rows=[[f"row{k}", str(k)] for k in range(MAX_ROWS + 3)])).text
    assert "and 3 more" in text
    assert f"row{MAX_ROWS}" not in text
    assert "more" not in CardReader(card("All", rows=[["row", "1"]] * MAX_ROWS)).text


MODULES_OF_A_CARD = """
import sys
from orcu import Predictions, evaluate
predictions = Predictions(probs=[[0.6, 0.4], [0.3, 0.7]], y=[0, 1])
evaluation = evaluate(predictions, n_resamples=0)
before = set(sys.modules)
predictions._repr_html_()
evaluation._repr_html_()
print(*sorted(name for name in set(sys.modules) - before if name.startswith(("orcu", "matplotlib", "jinja2"))))
"""


def test_card_imports_only_the_modules_it_needs():
    result = subprocess.run([sys.executable, "-c", MODULES_OF_A_CARD], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) == {
        "orcu.evaluation.findings",
        "orcu.report",
        "orcu.report.card",
        "orcu.report.card_html",
        "orcu.report.headline",
        "orcu.report.text_tables",
    }


@pytest.mark.browser
@pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "rgb(0, 0, 0)"), ("#111111", "rgb(230, 230, 230)")])
def test_card_text_inherits_the_colour_and_fits_the_width(paper, ink, objects, tmp_path):
    cards = "".join(thing._repr_html_() for thing in objects.values())
    script = """
      const ink = new Set([...document.querySelectorAll("main *")].map(element => getComputedStyle(element).color));
      const wide = [...document.querySelectorAll("main > div")].some(e => e.getBoundingClientRect().right > 420);
      const probe = document.createElement("pre"); probe.id = "probe";
      probe.textContent = JSON.stringify({ink: [...ink], wide});
      document.body.append(probe);"""
    # stripes as notebooks have them, in a column as narrow as a phone
    style = f"body {{ margin: 0; background: {paper}; color: {ink}; }} main {{ width: 400px; }} td {{ color: red; }}"
    page = tmp_path / "cards.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style}</style><main>{cards}</main><script>{script}</script>"
    )
    shown = browser.probe_result(
        browser.chromium("--dump-dom", f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()).stdout
    )
    assert shown == {"ink": [ink], "wide": False}
