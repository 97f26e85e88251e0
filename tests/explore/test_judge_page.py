"""The explorer's second tab in a real browser: files dropped on it, what it shows and refuses, its tabs and layout."""

import base64
import hashlib
import json
import re
import shlex
import sys

import numpy as np
import pytest
from browser import MARKS, chromium, dom_with, told, without_policy
from explore_layout import laid_out

from orcu import Predictions, cli, evaluate, explore
from orcu.evaluation.printed import shown
from orcu.metrics.base import all_metrics
from orcu.report.headline import headline

pytestmark = MARKS

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"

# Plays on the page as a reader would, under the page's own policy, and writes down what it then shows.
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
      refusal: $('refusal').hidden ? null : $('refusal').textContent, progress: $('progress').textContent,
      result: !$('result').hidden, choosing: $('choose').open && !$('choose').hidden,
      sentences: texts('#sentences p'), notes: texts('#notes li'), title: document.title,
      figures: Object.fromEntries(all('#figures b').map(b => [b.id.replace('figure-', ''), b.textContent])),
      names: texts('#by-class figcaption'), events: texts('#by-threshold figcaption'),
      cells: texts('#decisions svg text'), command: $('command').textContent, said: $('copied').textContent,
      label: $('label-column').value, order: all('#class-order select').map(s => s.value),
      columns: all('#class-columns input:checked').map(box => box.value), images: all('img').length,
      selected: all('[role=tab]').map(t => [t.id, t.getAttribute('aria-selected'), t.tabIndex]),
      nan: /NaN|undefined|Infinity/.test($('result').outerHTML) };
  };
  const drop = async (what, ...contents) => {
    const carried = new DataTransfer();
    for (const [name, parts] of contents) carried.items.add(new File(parts, name));
    const kinds = { bubbles: true, cancelable: true, dataTransfer: carried };
    $('source').dispatchEvent(new DragEvent('dragover', kinds));
    const taken = !$('source').dispatchEvent(new DragEvent('drop', kinds));
    // to read takes real time, which the browser's virtual one does not wait for
    while ($('progress').textContent.startsWith('Reading')) await new Blob(['.']).text();
    note(what);
    views[what].taken = taken;
  };
  const key = (id, name) => $(id).dispatchEvent(
    new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
  const set = (control, value) => {
    control.value = value;
    for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
  };
  const paste = (what, text) => { $('pasted').value = text; $('judge-pasted').click(); note(what); };
  const press = what => { all('#columns button')[0].click(); note(what); };

  note('start');
  key('tab-loss', 'ArrowRight'); note('right');
  key('tab-judge', 'ArrowRight'); note('round');
  key('tab-loss', 'End'); note('end'); key('tab-judge', 'Home'); note('home');
  $('tab-judge').click(); note('clicked');
  await wait(500); note('the address stays');
  location.hash = '#s=0.5&g=hinge'; await wait(400); note('address of the loss');
  location.hash = '#judge'; await wait(400); note('address of the judge');
  $('tab-loss').click();
  await drop('dropped beside', ['good.csv', [files.good]]);
  await drop('workbook', ['book.xlsx', [new Uint8Array([0x50, 0x4b, 3, 4, 0, 0, 255])]]);
  await drop('again', ['good.csv', [files.good]]);
  await drop('large', ['large.csv', new Array(200).fill(new Uint8Array(1e6))]);
  await drop('empty', ['empty.csv', []]);
  await drop('two', ['a.csv', ['x']], ['b.csv', ['y']]);
  await drop('few', ['few.tsv', [files.few]]);
  await drop('impossible', ['zero.csv', [files.zero]]);
  await drop('shifted', ['shifted.csv', [files.shifted]]);
  await drop('many', ['many.csv', [files.many]]);
  await drop('strangely named', ['a b;c.dat', [files.good]]);
  await drop('hostile', ['<b>.csv', [files.hostile]]);
  await drop('alphabet', ['order.csv', [files.alphabet]]);
  set(all('#class-order select')[0], 'p_low'); note('swapped once');
  set(all('#class-order select')[1], 'p_mid'); press('ordered');
  set($('label-column'), 'p_mid'); note('changed'); press('wrong label');
  set($('label-column'), 'grade'); press('right label');
  await drop('percent', ['percent.csv', [files.percent]]);
  set($('kind'), 'percent'); press('said percent');
  const box = all('#class-columns input').find(one => one.value === 'p_c');
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
    """A CSV of predictions as a spreadsheet quotes it."""

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
    tied = np.tile([[0.9375, 0.0625, 0.0]], (32, 1))  # two of 32 are right: 6.25 %, which is half way between digits
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


def under_its_policy(script):
    """The page with a script that its policy names too; everything else stays forbidden."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(FILES).replace("<", "\\u003c")
    page = explore.page().replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    added = f'<script type="application/json" id="files">{data}</script><script>{script}</script>'
    return page.replace("</body>", added + "</body>")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("judge") / "page.html"
    path.write_text(under_its_policy(DRIVE), encoding="utf-8")
    return told(dom_with("probe", path.as_uri(), "--window-size=1280,1000"))


@pytest.fixture
def views(session):
    return session["views"]


def printed(evaluation):
    """The figures of an evaluation as they are printed, by name."""
    metrics = {metric.name: metric for metric in all_metrics()}
    return {
        name: shown(evaluation[name].value, percent=metrics[name].percent, signed=metrics[name].better == "zero")
        for name in metrics
    }


def evaluation_of(folder, name, **options):
    path = folder / "preds.csv"
    path.write_text(FILES[name], encoding="utf-8")
    return evaluate(Predictions.read(path, **{"label": "grade", "probs": "p_*", **options}), bootstrap=0)


def assert_shows(view, evaluation):
    """The page shows the figures and the words of an evaluation."""
    expected = printed(evaluation)
    assert len(view["figures"]) == 12
    for metric, text in view["figures"].items():
        assert text.replace("\u00a0", " ") == expected[metric], metric
    first, _, shape, decisions = headline(evaluation)
    sentences = [text.replace("\u00a0", " ") for text in view["sentences"] if not text.startswith("WARNING")]
    assert [sentences[0], *sentences[2:]] == [first, shape, decisions]
    assert shown(evaluation["sce"].value, percent=True) in sentences[1]


def test_a_dropped_file_shows_what_the_library_prints(views, tmp_path):
    view, evaluation = views["dropped beside"], evaluation_of(tmp_path, "good")
    assert view["taken"]
    assert (view["open"], view["refusal"], view["result"]) == ("judge", None, True)
    assert_shows(view, evaluation)
    assert view["progress"] == "Judged 400 rows of good.csv."
    assert view["names"] == list(evaluation.classes)
    assert view["events"] == [record["event"] for record in evaluation.per_threshold]
    counts = [f"{count:,.0f}" for count in evaluation.tables.confusion.ravel() if count]
    assert sorted(view["cells"]) == sorted([*counts, *evaluation.classes, *evaluation.classes, "true", "decided"])
    assert "separator comma, decimal point (recognised)" in view["notes"]
    assert views["again"]["figures"] == view["figures"]


def test_the_words_are_the_librarys_in_other_cases(views, tmp_path):
    for name, view, options in (
        ("few", "few", {"sep": "\t"}),
        ("zero", "impossible", {}),
        ("many", "many", {}),
        ("ties", "pasted", {}),
        ("shifted", "shifted", {}),
        ("percent", "said percent", {"percent": True}),
        ("alphabet", "ordered", {"classes": ["low", "mid", "high"]}),
    ):
        assert_shows(views[view], evaluation_of(tmp_path, name, **options))
    assert views["few"]["sentences"][0].startswith("12 rows are too few")
    assert views["impossible"]["figures"]["nll"] == "infinite"
    assert any(note.startswith("10 rows give their label a probability of 0") for note in views["impossible"]["notes"])
    assert views["pasted"]["figures"]["accuracy"] == "6.2\u00a0%", "halves go to the even digit"
    assert len(views["many"]["names"]) == len(views["many"]["events"]) == 3


def test_labels_that_may_start_elsewhere_earn_a_warning(views, tmp_path):
    (warning,) = [note for note in evaluation_of(tmp_path, "shifted").notes if note.startswith("WARNING")]
    assert views["shifted"]["sentences"][0].replace("\u00a0%", "%") == warning


def test_what_is_no_table_is_refused_and_leaves_no_figure(views):
    for name, words in (
        ("workbook", "book.xlsx: an Excel workbook or a ZIP archive, not a CSV."),
        ("large", "large.csv: has 200 MB, and the page reads up to 100 MB."),
        ("empty", "empty.csv: the file is empty."),
        ("two", "2 files; the page judges one at a time."),
        ("nothing pasted", "the pasted table: the file is empty."),
    ):
        assert views[name]["refusal"].startswith(words)
        assert not views[name]["result"]
        assert views[name]["taken" if name != "nothing pasted" else "refusal"], (
            "the browser must not open the file itself"
        )
        assert not views[name]["choosing"]


def test_a_doubtful_order_is_asked_for(views):
    view = views["alphabet"]
    assert "in the order of the alphabet (high, low, mid)" in view["refusal"]
    assert (view["result"], view["choosing"]) == (False, True)
    assert views["swapped once"]["order"] == ["p_low", "p_high", "p_mid"]
    assert (views["ordered"]["result"], views["ordered"]["refusal"]) == (True, None)
    assert views["ordered"]["names"] == ["low", "mid", "high"]


def test_other_columns_are_never_shown_with_old_figures(views):
    assert not views["changed"]["result"]
    assert "Press Judge" in views["changed"]["progress"]
    assert "'p_mid' cannot hold both" in views["wrong label"]["refusal"]
    assert views["right label"]["figures"] == views["ordered"]["figures"]
    assert "if they sum to 100, say percent" in views["percent"]["refusal"]
    assert views["one column less"]["columns"] == ["p_b", "p_a"]
    assert not views["one column less"]["result"]
    assert re.search(r"sums to .* over p_b, p_a", views["does not sum"]["refusal"])


def test_names_are_never_markup(views):
    view = views["hostile"]
    assert view["result"], view["refusal"]
    assert view["names"] == [HOSTILE, "<b>a</b>"]
    assert (view["images"], view["title"]) == (0, "ORCU explorer")
    assert any(f"0 = {HOSTILE} (p_{HOSTILE})" in note for note in view["notes"])


@pytest.mark.parametrize("view", ["dropped beside", "ordered", "said percent", "hostile"])
def test_the_command_on_the_page_gives_the_same_figures(views, tmp_path, monkeypatch, view):
    """It is run as it stands, but for the resamples, which do not change a value."""
    monkeypatch.chdir(tmp_path)
    said = shlex.split(views[view]["command"])
    name = {"dropped beside": "good", "ordered": "alphabet", "said percent": "percent", "hostile": "hostile"}[view]
    (tmp_path / said[2]).write_text(FILES[name], encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [*said, "--bootstrap", "0", "--json", "numbers.json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (0, None)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    values = json.loads((tmp_path / "numbers.json").read_text())["metrics"]
    for metric in all_metrics():
        if metric.name in views[view]["figures"]:
            value = values[metric.name]["value"]  # JSON has no infinity
            text = shown(
                float("inf") if value is None else value, percent=metric.percent, signed=metric.better == "zero"
            )
            assert views[view]["figures"][metric.name].replace("\u00a0", " ") == text


def test_a_table_without_a_fit_name_is_saved_first(views):
    assert views["strangely named"]["command"].startswith("orcu evaluate predictions.csv --label grade --probs 'p_*' ")
    assert views["strangely named"]["said"] == "Save the table as predictions.csv first."
    assert views["dropped beside"]["said"] == ""


def test_the_example_is_over_confident(views):
    view = views["example"]
    assert view["sentences"][0].startswith("Over-confident by ")
    assert view["result"]


def test_the_command_can_be_copied(views):
    for view, words in (("copied", "The command is copied."), ("not copied", "The command is selected; ")):
        assert views[view]["said"].startswith(words)
        assert views[view]["copy"] == views[view]["command"] != ""


def test_nothing_is_written_that_is_no_number(views):
    assert not any(view["nan"] for view in views.values())


def test_keys_and_addresses_open_the_tabs(views):
    open_tab = {what: views[what]["open"] for what in ("start", "right", "round", "end", "home", "clicked")}
    assert open_tab == {
        "start": "loss", "right": "judge", "round": "loss", "end": "judge", "home": "loss", "clicked": "judge",
    }  # fmt: skip
    assert views["right"]["focus"] == "tab-judge"
    assert views["right"]["selected"] == [["tab-loss", "false", -1], ["tab-judge", "true", 0]]
    assert views["the address stays"]["hash"] == "#judge"
    assert views["address of the loss"]["open"] == "loss"
    assert views["address of the judge"]["open"] == "judge"


def test_the_policy_allows_no_connection(session):
    assert session["errors"] == []
    assert session["resources"] == []
    assert session["violations"] == ["connect-src"], "the one that the test itself has tried"


@pytest.mark.parametrize(("address", "tab"), [("", "judge"), ("#judge", "loss"), ("#judge", "judge")])
def test_the_tab_is_open_from_the_start(tmp_path, address, tab):
    path = tmp_path / "page.html"
    explore.write(path, tab=tab)
    page = chromium("--dump-dom", path.as_uri() + address).stdout
    assert re.search(r'id="tab-judge"[^>]*aria-selected="true"', page)
    assert re.search(r'id="view-loss"[^>]*hidden', page)
    assert not re.search(r'id="view-judge"[^>]*hidden', page)


@pytest.mark.parametrize("width", [1280, 800, 400, 340])
def test_nothing_overflows_or_overlaps(tmp_path, width):
    act = "document.getElementById('example').click(); document.getElementById('choose').open = true;"
    layout = laid_out(tmp_path, width, "#judge", act=act)
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


def test_a_page_without_a_file_says_what_to_drop(tmp_path):
    text = without_policy(explore.page(tab="judge"))
    assert "Drop a CSV of predictions here" in text
    assert "nothing is uploaded" in text
