"""The explorer in a real browser: what it shows, its keys and pointer, its layout and its policy."""

import re

import numpy as np
import pytest
from browser import MARKS, chromium, told, without_policy
from explore_layout import laid_out
from explore_reference import library

from orcu import explore, geometry
from orcu.kernels.soft_targets import log_targets
from orcu.theory import equilibrium

pytestmark = MARKS

# Plays on the page as a reader would, and writes down what it then shows.
DRIVE = """<script>
window.addEventListener('load', async () => {
  const seen = [], errors = [];
  window.addEventListener('error', event => errors.push(event.message));
  const $ = id => document.getElementById(id), all = path => [...document.querySelectorAll(path)];
  const handle = k => document.querySelectorAll('.handle')[k];
  const wait = time => new Promise(done => setTimeout(done, time));
  const key = (k, name, more = {}) => handle(k).dispatchEvent(
    new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true, ...more }));
  const pointer = (k, kind, y) => handle(k).dispatchEvent(new PointerEvent(kind,
    { pointerId: 1, clientX: 0, clientY: y, bubbles: true, cancelable: true, pointerType: 'touch', isPrimary: true }));
  const slide = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event('input', { bubbles: true })); };
  const note = what => {
    const ids = ['softce', 'penalty', 'total', 'violated', 'unimodal', 'top', 'headline', 'subline', 'told'];
    seen.push({ what, ...orcuPage.state(), shown: Object.fromEntries(ids.map(id => [id, $(id).textContent])),
      handles: [...document.querySelectorAll('.handle')].map(h => [h.getAttribute('aria-valuenow'),
        h.getAttribute('aria-valuemin'), h.getAttribute('aria-valuemax'), h.getAttribute('aria-valuetext')]),
      rows: [...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent)),
      typed: [...document.querySelectorAll('#rows input')].map(i => i.value),
      focus: [...document.querySelectorAll('.handle')].indexOf(document.activeElement),
      nan: /NaN|undefined|Infinity/.test(document.querySelector('main').outerHTML),
      margin: $('margin').textContent,
      dots: all('#chart-equilibrium circle.now').map(dot => Number(dot.getAttribute('cx'))),
      names: all('#chart-equilibrium text[text-anchor=middle]').filter(t => /^\\d+$/.test(t.textContent))
        .map(t => Number(t.getAttribute('x'))),
      keys: all('#panel-landscape .legend > span').filter(k => !k.hidden).map(k => k.textContent),
      ring: document.querySelectorAll('#chart-landscape .ring').length });
  };
  note('start');
  handle(1).focus(); key(1, 'ArrowUp'); key(1, 'ArrowUp'); key(1, 'ArrowRight'); note('three up');
  key(1, 'ArrowDown', { shiftKey: true }); note('a little down');
  key(1, 'PageUp'); note('page up');
  key(1, 'Home'); note('home'); key(1, 'End'); note('end');
  key(1, 'ArrowUp', { ctrlKey: true }); note('left to the browser');
  $('reset').click(); note('reset');
  const box = () => handle(2).querySelector('.knob').getBoundingClientRect();
  const from = box().top + box().height / 2;
  pointer(2, 'pointerdown', from + 3); pointer(2, 'pointermove', from + 33); note('dragged');
  pointer(2, 'pointerup', from + 33); note('released');
  note('moved by ' + (box().top + box().height / 2 - from));
  pointer(2, 'pointermove', 0); note('a free pointer moves nothing');
  pointer(2, 'pointerdown', from); pointer(2, 'pointermove', -5000); pointer(2, 'pointerup', -5000);
  note('dragged to the end');
  $('reset').click(); $('step').click(); note('one step');
  for (const name of ['wrong', 'peaks', 'uniform', 'anchor', 'equilibrium', 'violated']) {
    document.querySelector(`[data-preset=${name}]`).click(); note('preset ' + name);
  }
  for (const one of ['hinge', 'softplus', 'none', 'lbe']) {
    document.querySelector(`#regularizer input[value=${one}]`).click(); note('regularizer ' + one);
  }
  document.querySelector('#distance input[value=huber]').click(); note('distance huber');
  slide('scale', 0); note('small scale'); slide('scale', $('scale').max); note('large scale');
  slide('classes', 12); note('twelve'); slide('label', 11); note('last label');
  document.querySelector('[data-preset=equilibrium]').click(); note('remote');
  slide('classes', 2); note('two');
  const input = document.querySelectorAll('#rows input')[1];
  input.focus(); input.value = '-1000'; input.dispatchEvent(new Event('change')); input.blur(); note('typed');
  location.hash = '#y=1&s=0.7&d=absolute&g=softplus&k=0&e=1&z=0.5,-0.25,1'; await wait(400); note('address');
  location.hash = '#y=99&s=-1&d=evil&g=%3Cb%3E&z=1,2,bad'; await wait(400); note('bad address');
  location.hash = '#y=99&s=-1&d=evil&g=%3Cb%3E&z=1,2'; await wait(400); note('half bad address');
  location.hash = '#s=0.5&g=hinge'; await wait(400); note('address without logits');
  location.hash = '#y=1&s=2&g=lbe&z=-0.1,0,-0.1,-2'; await wait(400); note('two miss');
  location.hash = '#y=1&s=2&g=lbe&z=-0.1,0,-2,-4'; await wait(400); note('one misses');
  $('reset').click(); await wait(500); note(location.hash);
  window.requestAnimationFrame = act => setTimeout(act, 16); // a window that is never painted has no frames
  window.cancelAnimationFrame = clearTimeout;
  $('descend').click(); await wait(1200); note('descending');
  $('descend').click(); await wait(50); const held = JSON.stringify(orcuPage.state().logits);
  await wait(300); note(held === JSON.stringify(orcuPage.state().logits) ? 'stopped' : 'still running');
  $('reset').click(); window.matchMedia = () => ({ matches: true }); $('descend').click(); note('at once');
  document.querySelector('[data-preset=equilibrium]').click(); window.matchMedia = () => ({ matches: false });
  $('descend').click(); await wait(100); note('settled');
  const out = document.createElement('pre'); out.id = 'probe';
  out.textContent = JSON.stringify({ seen, errors,
    resources: performance.getEntriesByType('resource').map(e => e.name) });
  document.body.append(out);
});
</script>"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    path = tmp_path_factory.mktemp("played") / "played.html"
    text = without_policy(explore.page()).replace("</body>", DRIVE + "</body>")
    path.write_text(text, encoding="utf-8")
    shown = chromium(
        "--window-size=1280,1000",
        "--virtual-time-budget=20000",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
        path.as_uri(),
    )
    assert "CONSOLE" not in shown.stderr, shown.stderr
    return told(shown.stdout)


def at(played, what):
    (one,) = [one for one in played["seen"] if one["what"] == what]
    return one


def number(text):
    return float(text.replace("\u2212", "-").replace(" ", ""))


def test_what_is_shown_is_what_the_library_gives(played):
    assert len(played["seen"]) > 35
    assert played["errors"] == played["resources"] == []
    for one in played["seen"]:
        assert not one["nan"], one["what"]
        case = {**one, "classes": len(one["logits"])}
        parts = library(case)
        for name, (value, _) in parts.items():
            if abs(value) < 1000:
                shown = number(one["shown"][name])
                assert shown == pytest.approx(value, abs=6e-4 if abs(value) < 100 else 0.06), one["what"]
        z, y = np.array(one["logits"]), np.array(one["label"])
        gaps, probs = geometry.directed_gaps(z, y), np.exp(geometry.log_probs(z))
        assert one["shown"]["violated"] == f"{(gaps > 0).sum()} of {len(gaps)}"
        around = "yes" if probs.argmax() == y else f"yes, around {probs.argmax()}"
        assert one["shown"]["unimodal"] == (around if geometry.is_unimodal(probs) else "no")
        top, percent = one["shown"]["top"].removesuffix(" %").split(" · ")
        assert int(top) == probs.argmax()
        assert float(percent) == pytest.approx(100 * probs.max(), abs=0.051)
        assert one["shown"]["headline"].startswith("Violated" if (gaps > 0).any() else "Ordered")
        assert [float(now) for now, *_ in one["handles"]] == pytest.approx(z.tolist(), abs=1e-6)
        assert all(float(low) <= float(now) <= float(high) for now, low, high, _ in one["handles"])
        for k, row in enumerate(one["rows"]):
            if probs[k] > 1e-3:
                assert number(row[2]) == pytest.approx(probs[k], abs=6e-5)
            if 1e-3 < abs(parts["total"][1][k]) < 100:
                assert number(row[7]) == pytest.approx(parts["total"][1][k], abs=6e-5)


def test_keys_move_a_logit(played):
    before = at(played, "start")["logits"]
    assert at(played, "three up")["logits"][1] == pytest.approx(before[1] + 0.3)
    assert at(played, "three up")["focus"] == 1, "the handle must keep the focus"
    assert at(played, "a little down")["logits"][1] == pytest.approx(before[1] + 0.29)
    assert at(played, "page up")["logits"][1] == pytest.approx(before[1] + 1.29)
    assert at(played, "home")["logits"][1] == -3
    assert at(played, "end")["logits"][1] == 3
    assert at(played, "left to the browser")["logits"][1] == 3
    assert at(played, "end")["logits"][2:] == before[2:]
    assert at(played, "reset")["logits"] == before
    assert at(played, "start")["handles"][2][3].startswith("0.40, probability 0.2")


def test_a_pointer_drags_a_logit(played):
    before, after = at(played, "start")["logits"], at(played, "dragged")["logits"]
    # the axis is 6 high on 232 pixels of a chart that may be scaled a little
    assert before[2] - after[2] == pytest.approx(30 * 6 / 232, rel=0.05)
    assert after[:2] + after[3:] == before[:2] + before[3:]
    assert at(played, "released")["logits"] == after
    (moved,) = [one["what"] for one in played["seen"] if one["what"].startswith("moved by")]
    assert float(moved.split()[-1]) == pytest.approx(30, abs=0.5), "the knob follows the pointer"
    assert at(played, "a free pointer moves nothing")["logits"] == after
    end = at(played, "dragged to the end")
    assert end["logits"][2] == 3
    assert end["handles"][2][2] == "5", "there is more axis to drag on"


def test_presets_stand_where_they_say(played):
    assert at(played, "preset uniform")["logits"] == [0] * 5
    anchor = np.exp(geometry.log_probs(np.array(at(played, "preset anchor")["logits"])))
    assert anchor == pytest.approx(np.exp(log_targets(5))[2], abs=1e-9)
    settled = at(played, "preset equilibrium")
    exact = equilibrium(5, 2, 3.0).probs
    assert np.exp(geometry.log_probs(np.array(settled["logits"]))) == pytest.approx(exact, abs=1e-9)
    assert library({**settled, "classes": 5})["total"][1] == pytest.approx(np.zeros(5), abs=1e-9)
    assert at(played, "preset wrong")["shown"]["top"].startswith("4 ")
    assert at(played, "preset peaks")["shown"]["unimodal"] == "no"
    assert at(played, "preset violated")["shown"]["violated"] == "1 of 4"
    assert "cut to 40" in at(played, "remote")["shown"]["told"]
    assert "silent" not in at(played, "regularizer hinge")["shown"]["subline"]


def test_settings_reach_the_numbers(played):
    assert at(played, "regularizer none")["shown"]["penalty"] == "–"
    assert at(played, "distance huber")["distance"] == "huber"
    assert (at(played, "small scale")["scale"], at(played, "large scale")["scale"]) == (0.05, 50)
    assert at(played, "small scale")["margin"] == "margin 1/s² = 400"
    assert len(at(played, "twelve")["rows"]) == len(at(played, "twelve")["handles"]) == 12
    assert at(played, "last label")["rows"][11][0] == "11 label"
    assert len(at(played, "two")["rows"]) == 2
    assert at(played, "typed")["logits"][1] == -1000
    assert at(played, "typed")["typed"][1] == "-1000"


def test_a_step_descends(played):
    start, step = at(played, "start"), at(played, "one step")
    gradient = library({**start, "classes": 5})["total"][1]
    assert step["logits"] == pytest.approx((np.array(start["logits"]) - 0.3 * gradient).tolist())
    later = at(played, "descending")
    assert number(later["shown"]["total"]) < number(start["shown"]["total"]) - 1
    assert at(played, "stopped")["logits"] != start["logits"]
    assert number(at(played, "at once")["shown"]["total"]) < number(step["shown"]["total"])
    assert at(played, "settled")["shown"]["told"].startswith("Settled after")


def test_the_address_holds_the_view_and_is_not_trusted(played):
    asked = at(played, "address")
    assert asked["logits"] == [0.5, -0.25, 1]
    assert (asked["label"], asked["scale"], asked["distance"]) == (1, 0.7, "absolute")
    assert (asked["regularizer"], asked["rate"]) == ("softplus", 1)
    assert at(played, "bad address")["logits"] == [0.5, -0.25, 1]
    half = at(played, "half bad address")
    assert (half["logits"], half["label"], half["distance"]) == ([1, 2], 0, "squared")
    (written,) = [one["what"] for one in played["seen"] if one["what"].startswith("#")]
    assert written == "#y=2&s=3&d=squared&g=lbe&k=2&e=0.3&z=-1.2,-0.4,0.4,1,-1.2"


def test_an_address_without_logits_keeps_those_of_the_page(played):
    start, asked = at(played, "start"), at(played, "address without logits")
    assert (asked["logits"], asked["label"]) == (start["logits"], start["label"])
    assert (asked["scale"], asked["regularizer"]) == (0.5, "hinge")


def test_the_headline_counts_the_gaps_that_miss_the_margin(played):
    assert "but 2 of 3 gaps miss the margin" in at(played, "two miss")["shown"]["headline"]
    assert "but gap 0|1 misses the margin" in at(played, "one misses")["shown"]["headline"]


def test_dots_stand_on_their_class(played):
    start = at(played, "start")
    assert len(start["names"]) >= 4  # the label's may be written otherwise
    for x in start["names"]:
        assert min(abs(x - dot) for dot in start["dots"]) < 1e-6


def test_every_mark_of_the_landscape_has_its_key(played):
    assert any(one["ring"] for one in played["seen"])
    for one in played["seen"]:
        assert ("lowest sum" in one["keys"]) == bool(one["ring"]), one["what"]
        assert "now" in one["keys"]


MANY = "#y=11&s=50&d=exponential&g=hinge&k=10&z=1,2,3,1,5,4,-7,0,-1,2,0.3,800"


@pytest.mark.parametrize("width", [1280, 800, 390, 340])
@pytest.mark.parametrize("view", ["", MANY, "#y=0&s=0.05&d=huber&g=lbe&z=0,0"])
def test_nothing_overflows_or_overlaps(tmp_path, width, view):
    found = laid_out(tmp_path, width, view)
    assert found["width"] == width
    assert found["content"] <= width
    assert len(found["charts"]) == 6
    for chart_width, height, left, right in found["charts"]:
        assert chart_width > 230
        assert height > 150
        assert left >= 0
        assert right <= width
    assert found["outside"] == []
    assert found["cut"] == []
    assert found["overlaps"] == []
    assert found["smallest"] >= 10
    assert found["targets"] >= 34
    assert found["touch"] == "none"


def test_dark_and_light_differ(tmp_path):
    light = laid_out(tmp_path, 1000)
    dark = laid_out(tmp_path, 1000, "", "--blink-settings=preferredColorScheme=0")
    assert light["background"] == "rgb(255, 255, 255)"
    assert dark["background"] == "rgb(18, 23, 29)"
    assert light["ink"] != dark["ink"]


def test_the_page_as_written_runs_under_its_policy_and_stays_silent(tmp_path):
    path = tmp_path / "page.html"
    explore.write(path)
    shown = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri())
    assert "CONSOLE" not in shown.stderr, shown.stderr
    assert re.search(r'<b id="total">4\.128</b>', shown.stdout)


def test_the_policy_stops_what_does_not_belong(tmp_path):
    path = tmp_path / "page.html"
    strange = "<img src='http://127.0.0.1:9/x'><script>document.title = 'taken'</script></body>"
    path.write_text(explore.page().replace("</body>", strange), encoding="utf-8")
    shown = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri())
    assert shown.stderr.count("Content Security Policy") >= 2
    assert "<title>ORCU explorer</title>" in shown.stdout
