"""The explorer's key figures in a real browser, against `orcu.metrics`: every figure, table and interval."""

import json

import numpy as np
import pytest
from browser import MARKS, dom_with, told, without_policy

from orcu import Predictions, evaluate, explore
from orcu.figures.panels import reliability
from orcu.metrics.base import METRICS
from orcu.metrics.binning import bin_index
from orcu.metrics.rows import Rows
from orcu.metrics.sums import row_sums

pytestmark = MARKS

TOLERANCE = 1e-12
NAMES = ("accuracy", "within_one", "mae", "qwk", "ece", "sce", "threshold_ce", "overconfidence", "rps", "nll", "brier")

# Appended to a copy of the page; judges all cases with the page's own functions.
COMPUTE = """<script type="application/json" id="cases">%s</script>
<script>
window.addEventListener('load', () => {
  const { cases, values } = JSON.parse(document.getElementById('cases').textContent);
  const plain = table => [table.weight, table.value, table.outcome].map(part => [...part]);
  const results = cases.map(one => {
    const flat = rows => rows && Float64Array.from(rows.flat());
    const { probs, logits, labels, classes } = one;
    const result = orcuJudge.judge({ probs: flat(probs), logits: flat(logits), labels, classes });
    const { top, classes: perClass, thresholds } = result.tables;
    return { rows: result.rows, confusion: [...result.confusion], confidence: result.confidence,
      impossible: result.impossible, classErrors: result.classErrors, thresholdErrors: result.thresholdErrors,
      metrics: Object.fromEntries(Object.entries(result.metrics).map(([name, value]) => [name, String(value)])),
      top: plain(top), perClass: perClass.map(plain), thresholds: thresholds.map(plain),
      events: thresholds.map(table => plain(orcuJudge.event(table))), diagram: orcuJudge.reliability(top) };
  });
  const out = document.createElement('pre'); out.id = 'probe';
  const bins = values.map(v => [orcuJudge.binOf(v, 15), orcuJudge.binOf(v, 25)]);
  out.textContent = JSON.stringify({ results, bins });
  document.body.replaceChildren(out);
});
</script>"""


def make_cases():
    """Random predictions of 2 to 12 classes, and the edges: 0, 1, bin edges, ties, one class, labels of no chance."""
    rng = np.random.default_rng(25)
    cases = []

    def add(probs, labels, logits=None):
        values = np.asarray(probs if logits is None else logits, dtype=float)
        case = {"probs": None, "logits": None, "labels": [int(y) for y in labels], "classes": values.shape[1]}
        cases.append({**case, ("probs" if logits is None else "logits"): values.tolist()})

    for classes in (2, 3, 5, 12):
        for rows in (1, 7, 400):
            probs = rng.dirichlet(np.full(classes, 0.7), rows)
            add(probs, rng.integers(classes, size=rows))
            add(np.round(probs, 2) / np.round(probs, 2).sum(1, keepdims=True), rng.integers(classes, size=rows))
            add(None, rng.integers(classes, size=rows), rng.normal(0, 4, (rows, classes)))
        add(np.full((20, classes), 1 / classes), rng.integers(classes, size=20))  # ties go to the first
        certain = np.eye(classes)[rng.integers(classes, size=30)]
        add(certain, certain.argmax(1))  # p exactly 0 and 1, always right
        add(certain, (certain.argmax(1) + 1) % classes)  # never a chance: the log-likelihood is infinite
        add(certain[:1].repeat(9, 0), certain[:1].argmax(1).repeat(9))  # one class alone: no kappa
        add(None, rng.integers(classes, size=30), 1000 * rng.normal(size=(30, classes)))  # probabilities underflow
        add(None, rng.integers(classes, size=30), 1e6 * rng.normal(size=(30, classes)))  # beyond 2^19: infinite
    edges = np.arange(16) / 15
    add(np.stack([edges, 1 - edges], 1), rng.integers(2, size=16))
    add(np.stack([edges / 2, edges / 2, 1 - edges], 1), rng.integers(3, size=16))
    tenths = rng.multinomial(10, np.ones(4) / 4, 300) / 10
    add(tenths, rng.integers(4, size=300))
    add(rng.dirichlet(np.ones(5), 20_000), rng.integers(5, size=20_000))
    near = rng.dirichlet(np.ones(4), 200) * (1 + 9e-7 * rng.uniform(-1, 1, (200, 1)))  # sums within noise stay
    add(near, rng.integers(4, size=200))
    return cases


CASES = make_cases()
EDGES = [float(np.nextafter(k / b, side)) for b in (15, 25) for k in range(b + 1) for side in (0, 1, k / b)]
VALUES = [0.0, 1.0, 1 + 2**-52, 5e-324, 0.2, 0.6, 1 / 3, 2 / 3, *(v for v in EDGES if v >= 0)]
BINS = np.stack([bin_index(np.array(VALUES), 15), bin_index(np.array(VALUES), 25)], 1).tolist()


def compute(folder, cases, *, edit=lambda text: text):
    """What the page's functions give for the cases; ``edit`` may break the page first."""
    payload = json.dumps({"cases": cases, "values": VALUES})
    text = edit(without_policy(explore.page())).replace("</body>", COMPUTE % payload + "</body>")
    path = folder / "judge.html"
    path.write_text(text, encoding="utf-8")
    return told(dom_with("probe", path.as_uri()))


def rows_of(case):
    y = np.array(case["labels"])
    if case["logits"] is not None:
        return Rows.of_logits(np.array(case["logits"]), y)
    return Rows(np.array(case["probs"]), y)


def library(case):
    """The same figures from orcu."""
    rows = rows_of(case)
    sums = row_sums(rows)
    values = {name: float(METRICS.get(name)(sums)) for name in (*NAMES, "unimodality")}
    return rows, sums, values


def miss(value, expected):
    """The largest difference, relative where numbers exceed 1; equal infinities and NaN are equal."""
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    assert value.shape == expected.shape
    same = (value == expected) | (np.isnan(value) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        difference = np.abs(value - expected) / np.maximum(1, np.abs(expected))
    return float(np.where(same, 0, np.nan_to_num(difference, nan=np.inf)).max(initial=0.0))


def misses(case, result):
    """How far the page's numbers are from the library's, by name."""
    _, sums, values = library(case)
    worst = {name: miss(float(result["metrics"][name]), value) for name, value in values.items()}
    diagram = reliability.data(sums.top)
    drawn = {part: [one[part] for one in result["diagram"]] for part in ("said", "seen", "low", "high", "rows")}
    gaps = np.abs(sums.classes[:, 2] - sums.classes[:, 1]).sum(-1) / sums.total
    mirrored = sums.thresholds.copy()
    mirrored[:, 1:] = sums.thresholds[:, :1] - sums.thresholds[:, 1:]
    return worst | {
        "top": miss(result["top"], sums.top),
        "classes": miss(result["perClass"], sums.classes),
        "thresholds": miss(result["thresholds"], sums.thresholds),
        "events": miss(result["events"], mirrored[..., ::-1]),
        "confusion": miss(result["confusion"], sums.confusion.ravel()),
        "class errors": miss(result["classErrors"], gaps),
        "impossible": miss(result["impossible"], sums.score("impossible")),
        "confidence": miss(result["confidence"], sums.top[1].sum() / sums.total),
        **{part: miss(drawn[part], getattr(diagram, "count" if part == "rows" else part)) for part in drawn},
    }


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    return compute(tmp_path_factory.mktemp("results"), CASES)


def test_every_figure_equals_the_librarys(computed):
    assert len(computed["results"]) == len(CASES) > 60
    worst: dict[str, float] = {}
    for case, result in zip(CASES, computed["results"], strict=True):
        for name, value in misses(case, result).items():
            worst[name] = max(value, worst.get(name, 0.0))
    assert len(worst) > 20
    assert {name: value for name, value in worst.items() if not value < TOLERANCE} == {}


def test_the_cases_reach_every_edge():
    values = [library(case)[2] for case in CASES]
    assert any(np.isinf(one["nll"]) for one in values)
    assert any(np.isnan(one["qwk"]) for one in values)
    assert any(0 < one["unimodality"] < 1 for one in values)


def test_bins_are_the_librarys_at_every_edge(computed):
    assert computed["bins"] == BINS


def test_the_figures_are_those_of_an_evaluation(computed):
    case, result = next(pair for pair in zip(CASES, computed["results"], strict=True) if len(pair[0]["labels"]) == 400)
    evaluation = evaluate(Predictions(probs=case["probs"], y=case["labels"]), bootstrap=0)
    for name in NAMES:
        assert float(result["metrics"][name]) == pytest.approx(evaluation[name].value, abs=TOLERANCE, nan_ok=True)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("if (value <= place / bins) place -= 1;", "", "bins"),
        ("if (value > (place + 1) / bins) place += 1;", "", "bins"),
        ("squares - 2 * probs[at + label] + 1", "squares - probs[at + label] + 1", "brier"),
        ("if (p > probs[at + decision]) decision", "if (p >= probs[at + decision]) decision", "accuracy"),
        ("const shape = logits ?? probs;", "const shape = probs;", "unimodality"),
        (
            "expected += labels[i] * decided[j] * (i - j) ** 2 / rows",
            "expected += labels[i] * decided[j] / rows",
            "qwk",
        ),
    ],
)
def test_a_wrong_formula_is_noticed(tmp_path, right, wrong, name):
    def broken(text):
        assert text.count(right) == 1
        return text.replace(right, wrong)

    some = [case for case in CASES if len(case["labels"]) < 1000]
    answer = compute(tmp_path, some, edit=broken)
    if name == "bins":  # only values beside an edge that the product rounds across tell the two apart
        assert answer["bins"] != BINS
    else:
        assert max(misses(*pair)[name] for pair in zip(some, answer["results"], strict=True)) > 1e-3
