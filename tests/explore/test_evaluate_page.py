"""The evaluate tab of the explorer in a browser: dropped files, results, errors, tabs and layout."""

import base64
import hashlib
import json
import re
import shlex
import sys

import numpy as np
import pytest
from browser import MARKS, chromium, dom_with, probe_result, without_policy
from explore_layout import measure_layout

from orcu import Predictions, cli, evaluate, explore
from orcu.evaluation.formatting import format_value
from orcu.metrics.base import all_metrics
from orcu.report.headline import headline

pytestmark = MARKS

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"

# Uses the page like a reader, under its content security policy, and records its content after each step.
DRIVE = """
window.addEventListener('load', async () => {
  const files = JSON.parse(document.getElementById('files').textContent);
  const views = {}, errors = [], violations = [];
  addEventListener('error', event => errors.push(event.message));
  addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective));
  const $ = id => document.getElementById(id), all = path => [...document.querySelectorAll(path)];
  const texts = path => all(path).map(e => e.textContent);
  const wait = time => new Promise(done => setTimeout(done, time));
  const note = what => {
    views[what] = { open: orcuTabs.open(), hash: location.hash, focus: document.activeElement.id,
      error: $('error').hidden ? null : $('error').textContent, progress: $('progress').textContent,
      result: !$('result').hidden, choosing: $('choose').open && !$('choose').hidden,
      sentences: texts('#sentences p'), notes: texts('#notes li'), title: document.title,
      figures: Object.fromEntries(all('#figures b').map(b => [b.id.replace('figure-', ''), b.textContent])),
      names: texts('#by-class figcaption'), events: texts('#by-threshold figcaption'),
      cells: texts('#decisions svg text'), command: $('command').textContent, copied: $('copied').textContent,
      label: $('label-column').value, order: all('#class-order select').map(s => s.value),
      columns: all('#class-columns input:checked').map(box => box.value), images: all('img').length,
      selected: all('[role=tab]').map(t => [t.id, t.getAttribute('aria-selected'), t.tabIndex]),
      nan: /NaN|undefined|Infinity/.test($('result').outerHTML) };
  };
  const drop = async (what, ...contents) => {
    const transfer = new DataTransfer();
    for (const [name, parts] of contents) transfer.items.add(new File(parts, name));
    const kinds = { bubbles: true, cancelable: true, dataTransfer: transfer };
    $('source').dispatchEvent(new DragEvent('dragover', kinds));
    const handled = !$('source').dispatchEvent(new DragEvent('drop', kinds));
    // reading takes real time, which virtual time does not include
    while ($('progress').textContent.startsWith('Reading')) await new Blob(['.']).text();
    note(what);
    views[what].handled = handled;
  };
  const key = (id, name) => $(id).dispatchEvent(
    new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
  const set = (control, value) => {
    control.value = value;
    for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
  };
  const paste = (what, text) => { $('pasted').value = text; $('evaluate-pasted').click(); note(what); };
  const press = what => { all('#columns button')[0].click(); note(what); };

  note('start');
  key('tab-loss', 'ArrowRight'); note('right');
  key('tab-evaluate', 'ArrowRight'); note('round');
  key('tab-loss', 'End'); note('end'); key('tab-evaluate', 'Home'); note('home');
  $('tab-evaluate').click(); note('clicked');
  await wait(500); note('the address stays');
  location.hash = '#s=0.5&g=hinge'; await wait(400); note('address of the loss');
  location.hash = '#evaluate'; await wait(400); note('address of evaluate');
  $('tab-loss').click();
  await drop('dropped outside', ['good.csv', [files.good]]);
  await drop('workbook', ['book.xlsx', [new Uint8Array([0x50, 0x4b, 3, 4, 0, 0, 255])]]);
  await drop('again', ['good.csv', [files.good]]);
  await drop('large', ['large.csv', new Array(200).fill(new Uint8Array(1e6))]);
  await drop('empty', ['empty.csv', []]);
  await drop('two', ['a.csv', ['x']], ['b.csv', ['y']]);
  await drop('few', ['few.tsv', [files.few]]);
  await drop('impossible', ['zero.csv', [files.zero]]);
  await drop('shifted', ['shifted.csv', [files.shifted]]);
  await drop('many', ['many.csv', [files.many]]);
  await drop('other suffix', ['a b;c.dat', [files.good]]);
  await drop('hostile', ['<b>.csv', [files.hostile]]);
  await drop('alphabet', ['order.csv', [files.alphabet]]);
  set(all('#class-order select')[0], 'p_low'); note('swapped once');
  set(all('#class-order select')[1], 'p_mid'); press('ordered');
  set($('label-column'), 'p_mid'); note('changed'); press('wrong label');
  set($('label-column'), 'grade'); press('right label');
  await drop('percent', ['percent.csv', [files.percent]]);
  set($('kind'), 'percent'); press('as percent');
  const box = all('#class-columns input').find(input => input.value === 'p_c');
  box.click(); note('one column less'); press('does not sum');
  paste('nothing pasted', '');
  paste('pasted', files.ties);
  $('example').click(); note('example');
  const clipboard = writeText => Object.defineProperty(
    navigator, 'clipboard', { configurable: true, value: { writeText } });
  let copy = null;
  clipboard(async text => { copy = text; }); $('copy').click(); await wait(50); note('copied');
  views.copied.copy = copy;
  clipboard(async () => { throw new Error('not allowed'); }); $('copy').click(); await wait(50); note('not copied');
  views['not copied'].copy = String(getSelection());
  try { await fetch('http://127.0.0.1:9/'); } catch { /* refused */ }
  await wait(50);
  const out = document.createElement('pre'); out.id = 'probe';
  out.textContent = JSON.stringify({ views, errors, violations,
    resources: performance.getEntriesByType('resource').map(e => e.name) });
  document.body.append(out);
});
"""


def table(probs, labels, classes, sep=","):
    """A CSV of predictions with quoted names."""

    def cell(text):
        return '"' + text.replace('"', '""') + '"'

    lines = [sep.join(["grade", *(cell(f"p_{name}") for name in classes)])]
    rows = zip(labels, probs, strict=True)
    lines += [sep.join([cell(classes[y]), *(repr(float(p)) for p in row)]) for y, row in rows]
    return "\n".join(lines) + "\n"


def make_files():
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.full(4, 0.5), 400)
    labels = (probs.cumsum(1)[:, :-1] < rng.random((400, 1))).sum(1)
    names = ["none", "mild", "moderate", "severe"]
    tied = np.tile([[0.9375, 0.0625, 0.0]], (32, 1))  # 2 of 32 correct: 6.25 %, a tie in rounding
    certain = np.eye(3)[rng.integers(3, size=40)]
    wide = rng.dirichlet(np.ones(30), 300)
    shifted = rng.dirichlet(np.full(3, 0.1), 60)
    return {
        "good": table(probs, labels, names),
        "few": table(probs[:12], labels[:12], names, sep="\t"),
        "zero": table(certain, (certain.argmax(1) + (np.arange(40) % 4 == 0)) % 3, names[:3]),
        "shifted": table(shifted, np.maximum(shifted.argmax(1) - 1, 0), ["0", "1", "2"]),
        "many": table(wide, wide.argmax(1), [str(k) for k in range(30)]),
        "hostile": table(probs[:, :2] / probs[:, :2].sum(1, keepdims=True), labels % 2, [HOSTILE, "<b>a</b>"]),
        "alphabet": table(probs[:, :3] / probs[:, :3].sum(1, keepdims=True), labels % 3, ["high", "low", "mid"]),
        "percent": table(
            100 * np.round(probs[:, :3] / probs[:, :3].sum(1, keepdims=True), 3), labels % 3, ["b", "a", "c"]
        ),
        "ties": table(tied, [0, 0, *[1] * 30], names[:3]),
    }


FILES = make_files()


def page_with_script(script):
    """The page with a script that its content security policy allows."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(FILES).replace("<", "\\u003c")
    page = explore.page().replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    added = f'<script type="application/json" id="files">{data}</script><script>{script}</script>'
    return page.replace("</body>", added + "</body>")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate") / "page.html"
    path.write_text(page_with_script(DRIVE), encoding="utf-8")
    return probe_result(dom_with("probe", path.as_uri(), "--window-size=1280,1000"))


@pytest.fixture
def views(session):
    return session["views"]


def formatted_metrics(evaluation):
    """Formatted metrics of an evaluation by name."""
    metrics = {metric.name: metric for metric in all_metrics()}
    return {
        name: format_value(evaluation[name].value, percent=metrics[name].percent, signed=metrics[name].better == "zero")
        for name in metrics
    }


def evaluation_of(folder, name, **options):
    path = folder / "preds.csv"
    path.write_text(FILES[name], encoding="utf-8")
    return evaluate(Predictions.read(path, **{"label": "grade", "probs": "p_*", **options}), n_resamples=0)


def assert_shows(view, evaluation):
    """Check that the page shows the metrics and sentences of an evaluation."""
    expected = formatted_metrics(evaluation)
    assert len(view["figures"]) == 12
    for metric, text in view["figures"].items():
        assert text.replace("\u00a0", " ") == expected[metric], metric
    first, _, shape, decisions = headline(evaluation)[-4:]  # the page does not list failures
    sentences = [text.replace("\u00a0", " ") for text in view["sentences"] if not text.startswith("WARNING")]
    assert [sentences[0], *sentences[2:]] == [first, shape, decisions]
    assert format_value(evaluation["sce"].value, percent=True) in sentences[1]


def test_dropped_file_shows_the_metrics_of_the_library(views, tmp_path):
    view, evaluation = views["dropped outside"], evaluation_of(tmp_path, "good")
    assert view["handled"]
    assert (view["open"], view["error"], view["result"]) == ("evaluate", None, True)
    assert_shows(view, evaluation)
    assert view["progress"] == "Evaluated 400 rows of good.csv."
    assert view["names"] == list(evaluation.classes)
    assert view["events"] == [record["event"] for record in evaluation.per_threshold]
    counts = [f"{count:,.0f}" for count in evaluation.sums.confusion.ravel() if count]
    assert sorted(view["cells"]) == sorted(
        [*counts, *evaluation.classes, *evaluation.classes, "true class", "predicted class"]
    )
    assert "separator comma, decimal point (detected)" in view["notes"]
    assert views["again"]["figures"] == view["figures"]


def test_sentences_equal_the_librarys_in_other_cases(views, tmp_path):
    for name, view, options in (
        ("few", "few", {"sep": "\t"}),
        ("zero", "impossible", {}),
        ("many", "many", {}),
        ("ties", "pasted", {}),
        ("shifted", "shifted", {}),
        ("percent", "as percent", {"percent": True}),
        ("alphabet", "ordered", {"classes": ["low", "mid", "high"]}),
    ):
        assert_shows(views[view], evaluation_of(tmp_path, name, **options))
    assert views["few"]["sentences"][0].startswith("12 rows")
    assert views["impossible"]["figures"]["nll"] == "infinite"
    assert any(note.startswith("10 rows have probability 0") for note in views["impossible"]["notes"])
    assert views["pasted"]["figures"]["accuracy"] == "6.2\u00a0%", "halves are rounded to even"
    assert len(views["many"]["names"]) == len(views["many"]["events"]) == 3


def test_shifted_labels_give_a_warning(views, tmp_path):
    (warning,) = [note for note in evaluation_of(tmp_path, "shifted").notes if note.startswith("WARNING")]
    assert views["shifted"]["sentences"][0].replace("\u00a0%", "%") == warning


def test_invalid_input_shows_an_error_and_no_results(views):
    for name, message in (
        ("workbook", "book.xlsx: an Excel workbook"),
        ("large", "large.csv: has 200 MB"),
        ("empty", "empty.csv: the file is empty."),
        ("two", "2 files"),
        ("nothing pasted", "pasted table: the file is empty."),
    ):
        assert views[name]["error"].startswith(message)
        assert not views[name]["result"]
        assert views[name]["handled" if name != "nothing pasted" else "error"], "the browser must not open the file"
        assert not views[name]["choosing"]


def test_alphabetical_order_needs_a_confirmation(views):
    view = views["alphabet"]
    assert "(high, low, mid)" in view["error"]
    assert (view["result"], view["choosing"]) == (False, True)
    assert views["swapped once"]["order"] == ["p_low", "p_high", "p_mid"]
    assert (views["ordered"]["result"], views["ordered"]["error"]) == (True, None)
    assert views["ordered"]["names"] == ["low", "mid", "high"]


def test_changed_columns_hide_the_results(views):
    assert not views["changed"]["result"]
    assert "Evaluate" in views["changed"]["progress"]
    assert "'p_mid'" in views["wrong label"]["error"]
    assert views["right label"]["figures"] == views["ordered"]["figures"]
    assert "percent" in views["percent"]["error"]
    assert views["one column less"]["columns"] == ["p_b", "p_a"]
    assert not views["one column less"]["result"]
    assert re.search(r"sums to .* over p_b, p_a", views["does not sum"]["error"])


def test_names_are_escaped(views):
    view = views["hostile"]
    assert view["result"], view["error"]
    assert view["names"] == [HOSTILE, "<b>a</b>"]
    assert (view["images"], view["title"]) == (0, "ORCU explorer")
    assert any(f"0 = {HOSTILE} (p_{HOSTILE})" in note for note in view["notes"])


@pytest.mark.parametrize("view", ["dropped outside", "ordered", "as percent", "hostile"])
def test_command_on_the_page_gives_the_same_metrics(views, tmp_path, monkeypatch, view):
    """The command is run without resampling, which does not change the values."""
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(views[view]["command"])
    name = {"dropped outside": "good", "ordered": "alphabet", "as percent": "percent", "hostile": "hostile"}[view]
    (tmp_path / arguments[2]).write_text(FILES[name], encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [*arguments, "--n-resamples", "0", "--json", "numbers.json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (0, None)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    values = json.loads((tmp_path / "numbers.json").read_text())["metrics"]
    for metric in all_metrics():
        if metric.name in views[view]["figures"]:
            value = values[metric.name]["value"]  # JSON has no infinity
            text = format_value(
                float("inf") if value is None else value, percent=metric.percent, signed=metric.better == "zero"
            )
            assert views[view]["figures"][metric.name].replace("\u00a0", " ") == text


def test_table_with_another_suffix_is_saved_first(views):
    assert views["other suffix"]["command"].startswith("orcu evaluate predictions.csv --label grade --probs 'p_*' ")
    assert views["other suffix"]["copied"] == "Save the table as predictions.csv first."
    assert views["dropped outside"]["copied"] == ""


def test_example_is_over_confident(views):
    view = views["example"]
    assert view["sentences"][0].startswith("Over-confident by ")
    assert view["result"]


def test_command_can_be_copied(views):
    for view, message in (("copied", "The command was copied."), ("not copied", "The command is selected; ")):
        assert views[view]["copied"].startswith(message)
        assert views[view]["copy"] == views[view]["command"] != ""


def test_results_have_no_invalid_numbers(views):
    assert not any(view["nan"] for view in views.values())


def test_keys_and_addresses_select_the_tab(views):
    open_tab = {what: views[what]["open"] for what in ("start", "right", "round", "end", "home", "clicked")}
    assert open_tab == {
        "start": "loss", "right": "evaluate", "round": "loss", "end": "evaluate", "home": "loss", "clicked": "evaluate",
    }  # fmt: skip
    assert views["right"]["focus"] == "tab-evaluate"
    assert views["right"]["selected"] == [["tab-loss", "false", -1], ["tab-evaluate", "true", 0]]
    assert views["the address stays"]["hash"] == "#evaluate"
    assert views["address of the loss"]["open"] == "loss"
    assert views["address of evaluate"]["open"] == "evaluate"


def test_content_security_policy_blocks_connections(session):
    assert session["errors"] == []
    assert session["resources"] == []
    assert session["violations"] == ["connect-src"], "the connection that the test tries"


@pytest.mark.parametrize(("address", "tab"), [("", "evaluate"), ("#evaluate", "loss"), ("#evaluate", "evaluate")])
def test_tab_is_open_at_the_start(tmp_path, address, tab):
    path = tmp_path / "page.html"
    explore.write(path, tab=tab)
    page = chromium("--dump-dom", path.as_uri() + address).stdout
    assert re.search(r'id="tab-evaluate"[^>]*aria-selected="true"', page)
    assert re.search(r'id="view-loss"[^>]*hidden', page)
    assert not re.search(r'id="view-evaluate"[^>]*hidden', page)


@pytest.mark.parametrize("width", [1280, 800, 400, 340])
def test_layout_has_no_overflow_or_overlap(tmp_path, width):
    script = "document.getElementById('example').click(); document.getElementById('choose').open = true;"
    layout = measure_layout(tmp_path, width, "#evaluate", script=script)
    assert layout["width"] == width
    assert layout["content"] <= width
    assert len(layout["charts"]) == 2 + 5 + 4 + 1
    for chart_width, height, left, right in layout["charts"]:
        assert chart_width > 200
        assert height > 150
        assert left >= 0
        assert right <= width
    assert layout["outside"] == []
    assert layout["cut"] == []
    assert layout["overlaps"] == []
    assert layout["smallest"] >= 10
    assert layout["targets"] >= 34


def test_page_without_a_file_shows_instructions(tmp_path):
    text = without_policy(explore.page(tab="evaluate"))
    assert "Drop a CSV" in text
    assert "nothing is uploaded" in text
