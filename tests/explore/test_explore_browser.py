"""The loss tab of the explorer in a browser: values, keys, pointer, layout and content security policy."""

import re

import numpy as np
import pytest
from browser import MARKS, chromium, probe_result, without_policy
from explore_layout import measure_layout
from explore_reference import library

from orcu import explore, geometry
from orcu.kernels.soft_targets import log_targets
from orcu.theory import equilibrium

pytestmark = MARKS

# Uses the page like a reader, and records its content after each step.
DRIVE = """<script>
window.addEventListener('load', async () => {
  const records = [], errors = [];
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
    const ids = ['softce', 'penalty', 'total', 'violated', 'unimodal', 'top', 'headline', 'subline', 'message'];
    records.push({ what, ...orcuPage.state(), shown: Object.fromEntries(ids.map(id => [id, $(id).textContent])),
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
  for (const name of ['hinge', 'softplus', 'none', 'lbe']) {
    document.querySelector(`#regularizer input[value=${name}]`).click(); note('regularizer ' + name);
  }
  document.querySelector('#distance input[value=huber]').click(); note('distance huber');
  slide('scale', 0); note('small scale'); slide('scale', $('scale').max); note('large scale');
  slide('num-classes', 12); note('twelve'); slide('true-class', 11); note('last label');
  document.querySelector('[data-preset=equilibrium]').click(); note('remote');
  slide('num-classes', 2); note('two');
  const input = document.querySelectorAll('#rows input')[1];
  input.focus(); input.value = '-1000'; input.dispatchEvent(new Event('change')); input.blur(); note('typed');
  location.hash = '#y=1&s=0.7&d=absolute&g=softplus&k=0&e=1&z=0.5,-0.25,1'; await wait(400); note('address');
  location.hash = '#y=99&s=-1&d=evil&g=%3Cb%3E&z=1,2,bad'; await wait(400); note('bad address');
  location.hash = '#y=99&s=-1&d=evil&g=%3Cb%3E&z=1,2'; await wait(400); note('half bad address');
  location.hash = '#s=0.5&g=hinge'; await wait(400); note('address without logits');
  location.hash = '#y=1&s=2&g=lbe&z=-0.1,0,-0.1,-2'; await wait(400); note('two violate');
  location.hash = '#y=1&s=2&g=lbe&z=-0.1,0,-2,-4'; await wait(400); note('one violates');
  $('reset').click(); await wait(500); note(location.hash);
  window.requestAnimationFrame = act => setTimeout(act, 16); // a window without painting has no frames
  window.cancelAnimationFrame = clearTimeout;
  $('descend').click(); await wait(1200); note('descending');
  $('descend').click(); await wait(50); const logits = JSON.stringify(orcuPage.state().logits);
  await wait(300); note(logits === JSON.stringify(orcuPage.state().logits) ? 'stopped' : 'still running');
  $('reset').click(); window.matchMedia = () => ({ matches: true }); $('descend').click(); note('at once');
  document.querySelector('[data-preset=equilibrium]').click(); window.matchMedia = () => ({ matches: false });
  $('descend').click(); await wait(100); note('converged');
  const out = document.createElement('pre'); out.id = 'probe';
  out.textContent = JSON.stringify({ records, errors,
    resources: performance.getEntriesByType('resource').map(e => e.name) });
  document.body.append(out);
});
</script>"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("session") / "page.html"
    text = without_policy(explore.page()).replace("</body>", DRIVE + "</body>")
    path.write_text(text, encoding="utf-8")
    process = chromium(
        "--window-size=1280,1000",
        "--virtual-time-budget=20000",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
        path.as_uri(),
    )
    assert "CONSOLE" not in process.stderr, process.stderr
    return probe_result(process.stdout)


def at(session, what):
    (record,) = [record for record in session["records"] if record["what"] == what]
    return record


def number(text):
    return float(text.replace("\u2212", "-").replace(" ", ""))


def test_displayed_values_equal_the_librarys(session):
    assert len(session["records"]) > 35
    assert session["errors"] == session["resources"] == []
    for record in session["records"]:
        assert not record["nan"], record["what"]
        case = {**record, "classes": len(record["logits"])}
        parts = library(case)
        for name, (value, _) in parts.items():
            if abs(value) < 1000:
                shown = number(record["shown"][name])
                assert shown == pytest.approx(value, abs=6e-4 if abs(value) < 100 else 0.06), record["what"]
        z, y = np.array(record["logits"]), np.array(record["label"])
        gaps, probs = geometry.directed_gaps(z, y), np.exp(geometry.log_probs(z))
        assert record["shown"]["violated"] == f"{(gaps > 0).sum()} of {len(gaps)}"
        around = "yes" if probs.argmax() == y else f"yes, around {probs.argmax()}"
        assert record["shown"]["unimodal"] == (around if geometry.is_unimodal(probs) else "no")
        top, percent = record["shown"]["top"].removesuffix(" %").split(" · ")
        assert int(top) == probs.argmax()
        assert float(percent) == pytest.approx(100 * probs.max(), abs=0.051)
        assert record["shown"]["headline"].startswith("Violated" if (gaps > 0).any() else "Ordered")
        assert [float(now) for now, *_ in record["handles"]] == pytest.approx(z.tolist(), abs=1e-6)
        assert all(float(low) <= float(now) <= float(high) for now, low, high, _ in record["handles"])
        for k, row in enumerate(record["rows"]):
            if probs[k] > 1e-3:
                assert number(row[2]) == pytest.approx(probs[k], abs=6e-5)
            if 1e-3 < abs(parts["total"][1][k]) < 100:
                assert number(row[7]) == pytest.approx(parts["total"][1][k], abs=6e-5)


def test_keys_change_a_logit(session):
    before = at(session, "start")["logits"]
    assert at(session, "three up")["logits"][1] == pytest.approx(before[1] + 0.3)
    assert at(session, "three up")["focus"] == 1, "the handle must keep the focus"
    assert at(session, "a little down")["logits"][1] == pytest.approx(before[1] + 0.29)
    assert at(session, "page up")["logits"][1] == pytest.approx(before[1] + 1.29)
    assert at(session, "home")["logits"][1] == -3
    assert at(session, "end")["logits"][1] == 3
    assert at(session, "left to the browser")["logits"][1] == 3
    assert at(session, "end")["logits"][2:] == before[2:]
    assert at(session, "reset")["logits"] == before
    assert at(session, "start")["handles"][2][3].startswith("0.40, probability 0.2")


def test_pointer_drags_a_logit(session):
    before, after = at(session, "start")["logits"], at(session, "dragged")["logits"]
    # the axis covers 6 units on 232 pixels, and the chart may be scaled slightly
    assert before[2] - after[2] == pytest.approx(30 * 6 / 232, rel=0.05)
    assert after[:2] + after[3:] == before[:2] + before[3:]
    assert at(session, "released")["logits"] == after
    (moved,) = [record["what"] for record in session["records"] if record["what"].startswith("moved by")]
    assert float(moved.split()[-1]) == pytest.approx(30, abs=0.5), "the knob follows the pointer"
    assert at(session, "a free pointer moves nothing")["logits"] == after
    end = at(session, "dragged to the end")
    assert end["logits"][2] == 3
    assert end["handles"][2][2] == "5", "there is more axis to drag on"


def test_presets_have_the_named_state(session):
    assert at(session, "preset uniform")["logits"] == [0] * 5
    anchor = np.exp(geometry.log_probs(np.array(at(session, "preset anchor")["logits"])))
    assert anchor == pytest.approx(np.exp(log_targets(5))[2], abs=1e-9)
    state = at(session, "preset equilibrium")
    exact = equilibrium(5, 2, 3.0).probs
    assert np.exp(geometry.log_probs(np.array(state["logits"]))) == pytest.approx(exact, abs=1e-9)
    assert library({**state, "classes": 5})["total"][1] == pytest.approx(np.zeros(5), abs=1e-9)
    assert at(session, "preset wrong")["shown"]["top"].startswith("4 ")
    assert at(session, "preset peaks")["shown"]["unimodal"] == "no"
    assert at(session, "preset violated")["shown"]["violated"] == "1 of 4"
    assert "40" in at(session, "remote")["shown"]["message"]
    assert "inactive" not in at(session, "regularizer hinge")["shown"]["subline"]


def test_settings_change_the_values(session):
    assert at(session, "regularizer none")["shown"]["penalty"] == "–"
    assert at(session, "distance huber")["distance"] == "huber"
    assert (at(session, "small scale")["scale"], at(session, "large scale")["scale"]) == (0.05, 50)
    assert at(session, "small scale")["margin"] == "margin 1/s² = 400"
    assert len(at(session, "twelve")["rows"]) == len(at(session, "twelve")["handles"]) == 12
    assert at(session, "last label")["rows"][11][0] == "11 label"
    assert len(at(session, "two")["rows"]) == 2
    assert at(session, "typed")["logits"][1] == -1000
    assert at(session, "typed")["typed"][1] == "-1000"


def test_step_and_descent_lower_the_loss(session):
    start, step = at(session, "start"), at(session, "one step")
    gradient = library({**start, "classes": 5})["total"][1]
    assert step["logits"] == pytest.approx((np.array(start["logits"]) - 0.3 * gradient).tolist())
    later = at(session, "descending")
    assert number(later["shown"]["total"]) < number(start["shown"]["total"]) - 1
    assert at(session, "stopped")["logits"] != start["logits"]
    assert number(at(session, "at once")["shown"]["total"]) < number(step["shown"]["total"])
    assert at(session, "converged")["shown"]["message"].startswith("Converged after")


def test_address_restores_the_state_and_is_validated(session):
    state = at(session, "address")
    assert state["logits"] == [0.5, -0.25, 1]
    assert (state["label"], state["scale"], state["distance"]) == (1, 0.7, "absolute")
    assert (state["regularizer"], state["rate"]) == ("softplus", 1)
    assert at(session, "bad address")["logits"] == [0.5, -0.25, 1]
    half = at(session, "half bad address")
    assert (half["logits"], half["label"], half["distance"]) == ([1, 2], 0, "squared")
    (address,) = [record["what"] for record in session["records"] if record["what"].startswith("#")]
    assert address == "#y=2&s=3&d=squared&g=lbe&k=2&e=0.3&z=-1.2,-0.4,0.4,1,-1.2"


def test_address_without_logits_uses_those_of_the_page(session):
    start, state = at(session, "start"), at(session, "address without logits")
    assert (state["logits"], state["label"]) == (start["logits"], start["label"])
    assert (state["scale"], state["regularizer"]) == (0.5, "hinge")


def test_headline_counts_the_gaps_that_violate_the_margin(session):
    assert "2 of 3 gaps" in at(session, "two violate")["shown"]["headline"]
    assert "gap 0|1 " in at(session, "one violates")["shown"]["headline"]


def test_dots_have_the_positions_of_their_classes(session):
    start = at(session, "start")
    assert len(start["names"]) >= 4  # the label has another text
    for x in start["names"]:
        assert min(abs(x - dot) for dot in start["dots"]) < 1e-6


def test_landscape_legend_has_every_marker(session):
    assert any(record["ring"] for record in session["records"])
    for record in session["records"]:
        assert ("lowest sum" in record["keys"]) == bool(record["ring"]), record["what"]
        assert "now" in record["keys"]


MANY = "#y=11&s=50&d=exponential&g=hinge&k=10&z=1,2,3,1,5,4,-7,0,-1,2,0.3,800"


@pytest.mark.parametrize("width", [1280, 800, 390, 340])
@pytest.mark.parametrize("view", ["", MANY, "#y=0&s=0.05&d=huber&g=lbe&z=0,0"])
def test_layout_has_no_overflow_or_overlap(tmp_path, width, view):
    layout = measure_layout(tmp_path, width, view)
    assert layout["width"] == width
    assert layout["content"] <= width
    assert len(layout["charts"]) == 6
    for chart_width, height, left, right in layout["charts"]:
        assert chart_width > 230
        assert height > 150
        assert left >= 0
        assert right <= width
    assert layout["outside"] == []
    assert layout["cut"] == []
    assert layout["overlaps"] == []
    assert layout["smallest"] >= 10
    assert layout["targets"] >= 34
    assert layout["touch"] == "none"


def test_dark_and_light_colours_differ(tmp_path):
    light = measure_layout(tmp_path, 1000)
    dark = measure_layout(tmp_path, 1000, "", "--blink-settings=preferredColorScheme=0")
    assert light["background"] == "rgb(255, 255, 255)"
    assert dark["background"] == "rgb(18, 23, 29)"
    assert light["ink"] != dark["ink"]


def test_written_page_runs_without_console_messages(tmp_path):
    path = tmp_path / "page.html"
    explore.write(path)
    process = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri())
    assert "CONSOLE" not in process.stderr, process.stderr
    assert re.search(r'<b id="total">4\.128</b>', process.stdout)


def test_content_security_policy_blocks_other_content(tmp_path):
    path = tmp_path / "page.html"
    added = "<img src='http://127.0.0.1:9/x'><script>document.title = 'taken'</script></body>"
    path.write_text(explore.page().replace("</body>", added), encoding="utf-8")
    process = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri())
    assert process.stderr.count("Content Security Policy") >= 2
    assert "<title>ORCU explorer</title>" in process.stdout
