"""Metrics, tables and intervals of the explorer in a browser, compared with `orcu.metrics`."""

import json

import numpy as np
import pytest
from browser import MARKS, dom_with, probe_result, without_policy

from orcu import Predictions, evaluate, explore
from orcu.figures.panels import reliability
from orcu.metrics.base import METRICS
from orcu.metrics.binning import bin_index
from orcu.metrics.rows import Rows
from orcu.metrics.sums import row_sums

pytestmark = MARKS

TOLERANCE = 1e-12
NAMES = (
    "accuracy",
    "off_by_one_accuracy",
    "mae",
    "qwk",
    "ece",
    "sce",
    "threshold_ce",
    "overconfidence",
    "rps",
    "nll",
    "brier",
)

# Added to a copy of the page; evaluates all cases with the functions of the page.
COMPUTE = """<script type="application/json" id="cases">%s</script>
<script>
window.addEventListener('load', () => {
  const { cases, values } = JSON.parse(document.getElementById('cases').textContent);
  const plain = table => [table.weight, table.value, table.outcome].map(part => [...part]);
  const results = cases.map(inputs => {
    const flat = rows => rows && Float64Array.from(rows.flat());
    const { probs, logits, labels, classes } = inputs;
    const result = orcuEvaluation.evaluate({ probs: flat(probs), logits: flat(logits), labels, classes });
    const { top, classes: perClass, thresholds } = result.tables;
    return { rows: result.rows, confusion: [...result.confusion], confidence: result.confidence,
      impossible: result.impossible, classErrors: result.classErrors, thresholdErrors: result.thresholdErrors,
      metrics: Object.fromEntries(Object.entries(result.metrics).map(([name, value]) => [name, String(value)])),
      top: plain(top), perClass: perClass.map(plain), thresholds: thresholds.map(plain),
      events: thresholds.map(table => plain(orcuEvaluation.complement(table))),
      diagram: orcuEvaluation.reliability(top) };
  });
  const out = document.createElement('pre'); out.id = 'probe';
  const bins = values.map(v => [orcuEvaluation.binIndex(v, 15), orcuEvaluation.binIndex(v, 25)]);
  out.textContent = JSON.stringify({ results, bins });
  document.body.replaceChildren(out);
});
</script>"""


def make_cases():
    """Random predictions of 2 to 12 classes, and edge cases: 0, 1, bin edges, ties, one class, impossible labels."""
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
        add(np.full((20, classes), 1 / classes), rng.integers(classes, size=20))  # ties are resolved to the first class
        certain = np.eye(classes)[rng.integers(classes, size=30)]
        add(certain, certain.argmax(1))  # p exactly 0 and 1, always correct
        add(certain, (certain.argmax(1) + 1) % classes)  # probability 0: the log-likelihood is infinite
        add(certain[:1].repeat(9, 0), certain[:1].argmax(1).repeat(9))  # a single class: kappa is undefined
        add(None, rng.integers(classes, size=30), 1000 * rng.normal(size=(30, classes)))  # probabilities underflow
        add(None, rng.integers(classes, size=30), 1e6 * rng.normal(size=(30, classes)))  # beyond 2^19: infinite
    edges = np.arange(16) / 15
    add(np.stack([edges, 1 - edges], 1), rng.integers(2, size=16))
    add(np.stack([edges / 2, edges / 2, 1 - edges], 1), rng.integers(3, size=16))
    tenths = rng.multinomial(10, np.ones(4) / 4, 300) / 10
    add(tenths, rng.integers(4, size=300))
    add(rng.dirichlet(np.ones(5), 20_000), rng.integers(5, size=20_000))
    near = rng.dirichlet(np.ones(4), 200) * (
        1 + 9e-7 * rng.uniform(-1, 1, (200, 1))
    )  # sums within float noise are not normalised
    add(near, rng.integers(4, size=200))
    return cases


CASES = make_cases()
EDGES = [float(np.nextafter(k / b, side)) for b in (15, 25) for k in range(b + 1) for side in (0, 1, k / b)]
VALUES = [0.0, 1.0, 1 + 2**-52, 5e-324, 0.2, 0.6, 1 / 3, 2 / 3, *(v for v in EDGES if v >= 0)]
BINS = np.stack([bin_index(np.array(VALUES), 15), bin_index(np.array(VALUES), 25)], 1).tolist()


def compute(folder, cases, *, edit=lambda text: text):
    """Results of the page's functions for the cases; ``edit`` changes the page first."""
    payload = json.dumps({"cases": cases, "values": VALUES})
    text = edit(without_policy(explore.page())).replace("</body>", COMPUTE % payload + "</body>")
    path = folder / "evaluate.html"
    path.write_text(text, encoding="utf-8")
    return probe_result(dom_with("probe", path.as_uri()))


def rows_of(case):
    y = np.array(case["labels"])
    if case["logits"] is not None:
        return Rows.from_logits(np.array(case["logits"]), y)
    return Rows(np.array(case["probs"]), y)


def library(case):
    """Rows, sums and metrics of a case from the library."""
    rows = rows_of(case)
    sums = row_sums(rows)
    values = {name: float(METRICS.get(name)(sums)) for name in (*NAMES, "unimodality")}
    return rows, sums, values


def error(value, expected):
    """The largest difference, relative for numbers above 1; equal infinities and NaN are equal."""
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    assert value.shape == expected.shape
    same = (value == expected) | (np.isnan(value) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        difference = np.abs(value - expected) / np.maximum(1, np.abs(expected))
    return float(np.where(same, 0, np.nan_to_num(difference, nan=np.inf)).max(initial=0.0))


def errors(case, result):
    """Differences between the page and the library, by name."""
    _, sums, values = library(case)
    worst = {name: error(float(result["metrics"][name]), value) for name, value in values.items()}
    diagram = reliability.data(sums.top)
    fields = {"predicted": "prob_pred", "observed": "prob_true", "low": "low", "high": "high", "rows": "count"}
    bins = {key: [row[key] for row in result["diagram"]] for key in fields}
    gaps = np.abs(sums.classes[:, 2] - sums.classes[:, 1]).sum(-1) / sums.total
    mirrored = sums.thresholds.copy()
    mirrored[:, 1:] = sums.thresholds[:, :1] - sums.thresholds[:, 1:]
    return worst | {
        "top": error(result["top"], sums.top),
        "classes": error(result["perClass"], sums.classes),
        "thresholds": error(result["thresholds"], sums.thresholds),
        "events": error(result["events"], mirrored[..., ::-1]),
        "confusion": error(result["confusion"], sums.confusion.ravel()),
        "class errors": error(result["classErrors"], gaps),
        "impossible": error(result["impossible"], sums.score("impossible")),
        "confidence": error(result["confidence"], sums.top[1].sum() / sums.total),
        **{key: error(bins[key], getattr(diagram, name)) for key, name in fields.items()},
    }


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    return compute(tmp_path_factory.mktemp("results"), CASES)


def test_evaluation_equals_the_library(computed):
    assert len(computed["results"]) == len(CASES) > 60
    worst: dict[str, float] = {}
    for case, result in zip(CASES, computed["results"], strict=True):
        for name, value in errors(case, result).items():
            worst[name] = max(value, worst.get(name, 0.0))
    assert len(worst) > 20
    assert {name: value for name, value in worst.items() if not value < TOLERANCE} == {}


def test_cases_include_undefined_metrics():
    values = [library(case)[2] for case in CASES]
    assert any(np.isinf(metrics["nll"]) for metrics in values)
    assert any(np.isnan(metrics["qwk"]) for metrics in values)
    assert any(0 < metrics["unimodality"] < 1 for metrics in values)


def test_bin_index_equals_the_library_at_every_edge(computed):
    assert computed["bins"] == BINS


def test_metrics_equal_those_of_evaluate(computed):
    case, result = next(pair for pair in zip(CASES, computed["results"], strict=True) if len(pair[0]["labels"]) == 400)
    evaluation = evaluate(Predictions(probs=case["probs"], y=case["labels"]), n_resamples=0)
    for name in NAMES:
        assert float(result["metrics"][name]) == pytest.approx(evaluation[name].value, abs=TOLERANCE, nan_ok=True)


@pytest.mark.parametrize(
    ("correct", "wrong", "name"),
    [
        ("if (value <= bin / nBins) bin -= 1;", "", "bins"),
        ("if (value > (bin + 1) / nBins) bin += 1;", "", "bins"),
        ("squares - 2 * probs[start + label] + 1", "squares - probs[start + label] + 1", "brier"),
        ("if (p > probs[start + prediction]) prediction", "if (p >= probs[start + prediction]) prediction", "accuracy"),
        ("const shape = logits ?? probs;", "const shape = probs;", "unimodality"),
        (
            "expected += labels[i] * predicted[j] * (i - j) ** 2 / rows",
            "expected += labels[i] * predicted[j] / rows",
            "qwk",
        ),
    ],
)
def test_wrong_formula_is_detected(tmp_path, correct, wrong, name):
    def change(text):
        assert text.count(correct) == 1
        return text.replace(correct, wrong)

    sample = [case for case in CASES if len(case["labels"]) < 1000]
    results = compute(tmp_path, sample, edit=change)
    if name == "bins":  # differs only for values at an edge where the product is rounded
        assert results["bins"] != BINS
    else:
        assert max(errors(*pair)[name] for pair in zip(sample, results["results"], strict=True)) > 1e-3
