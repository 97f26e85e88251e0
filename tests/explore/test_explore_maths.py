"""Loss, gradients and equilibrium of the explorer in a browser, compared with the library."""

import json

import numpy as np
import pytest
from browser import MARKS, dom_with, probe_result, without_policy
from explore_reference import library

from orcu import explore, geometry
from orcu.kernels import penalties
from orcu.kernels.soft_targets import log_targets
from orcu.theory import equilibrium

pytestmark = MARKS

TOLERANCE = 1e-6
MOVES = [-400.0, -3.0, -0.25, -0.1, 0.0, 0.5, 40.0]  # gaps for the comparison of landscapes

# Added to a copy of the page; computes all cases with the functions of the page.
COMPUTE = """<script type="application/json" id="cases">%s</script>
<script>
window.addEventListener('load', () => {
  const { cases, moves } = JSON.parse(document.getElementById('cases').textContent);
  const results = cases.map(settings => {
    const { targets, probs, gaps, softce, penalty, total, unimodal } = orcuModel.evaluate(settings);
    const equilibrium = orcuModel.equilibrium(settings);
    const landscape = orcuModel.landscape(settings, settings.gap, moves);
    const lowest = orcuModel.landscapeMinimum(settings, settings.gap, -50, 50);
    return { targets, probs, gaps, softce, penalty, total, unimodal, landscape, lowest,
      step: orcuModel.step(settings, 0.3),
      logTargets: orcuModel.logTargets(settings.classes, settings.label, settings.distance),
      equilibrium: { probs: equilibrium.probs, logGaps: equilibrium.logGaps, gaps: equilibrium.gaps.map(String) } };
  });
  const out = document.createElement('pre'); out.id = 'probe'; out.textContent = JSON.stringify(results);
  document.body.replaceChildren(out);
});
</script>"""


def make_cases():
    """Random settings over the full range of the page, and the edges of every branch."""
    rng = np.random.default_rng(20)
    cases = []

    def add(classes, label, scale, distance, regularizer, logits):
        cases.append(
            {
                "classes": classes,
                "label": int(label),
                "scale": float(scale),
                "distance": distance,
                "regularizer": regularizer,
                "logits": [float(z) for z in logits],
                "gap": int(rng.integers(classes - 1)),
            }
        )

    for regularizer in explore.REGULARIZERS:
        for distance in explore.DISTANCES:
            for classes in range(2, 13):
                for size in (1.0, 10.0, 1000.0):
                    scale = np.exp(rng.uniform(np.log(0.05), np.log(50)))
                    logits = np.clip(size * rng.normal(size=classes), -1000, 1000)
                    add(classes, rng.integers(classes), scale, distance, regularizer, logits)
                for scale in (0.05, 50.0):
                    add(classes, 0, scale, distance, regularizer, np.zeros(classes))
            # exactly on the margin (1/s^2 = 1/4 is exact), on both sides of 0, and far away
            for step in (0.25, 0.25 + 1e-9, 0.25 - 1e-9, 0.0, 1e-12, -1e-12, 1000.0, -1000.0):
                add(3, 1, 2.0, distance, regularizer, [-step, 0.0, -step])
            add(5, 4, 3.0, distance, regularizer, [1000, -1000, 1000, -1000, 1000])
    return cases


CASES = make_cases()


def compute(folder, cases, *, edit=lambda text: text):
    """Results of the page's functions for the cases; ``edit`` changes the page first."""
    payload = json.dumps({"cases": cases, "moves": MOVES})
    text = edit(without_policy(explore.page())).replace("</body>", COMPUTE % payload + "</body>")
    path = folder / "computed.html"
    path.write_text(text, encoding="utf-8")
    return probe_result(dom_with("probe", path.as_uri()))


def penalty_of(case):
    scale = case["scale"]
    return {
        "lbe": lambda r: penalties.log_barrier(r, scale=scale),
        "hinge": lambda r: penalties.hinge(r, margin=1 / scale**2),
        "softplus": penalties.softplus,
        "none": np.zeros_like,
    }[case["regularizer"]]


def error(value, expected):
    """The largest difference, relative for numbers above 1; NaN and null count as infinite."""
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    assert value.shape == expected.shape
    difference = np.abs(value - expected) / np.maximum(1, np.abs(expected))
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))


def beyond(case, values):
    """Sums over the classes beyond each gap."""
    label = case["label"]
    return np.array([values[k + 1 :].sum() if k >= label else values[: k + 1].sum() for k in range(len(values) - 1)])


def errors(case, result):
    """Differences between the page and the library, by name."""
    z, y = np.array(case["logits"]), np.array(case["label"])
    anchor = log_targets(case["classes"], case["distance"])[case["label"]]
    parts = library(case)
    worst = {
        "log targets": error(result["logTargets"], anchor),
        "targets": error(result["targets"], np.exp(anchor)),
        "probs": error(result["probs"], np.exp(geometry.log_probs(z))),
        "gaps": error(result["gaps"], geometry.directed_gaps(z, y)),
        "step": error(result["step"], z - 0.3 * parts["total"][1]),
    }
    for name, (value, gradient) in parts.items():
        worst[f"{name} value"] = error(result[name]["value"], value)
        worst[f"{name} gradient"] = error(result[name]["gradient"], gradient)

    gap, far = case["gap"], np.arange(case["classes"])
    outside = far > gap if gap >= y else far <= gap
    moved = z + outside * (np.array(MOVES)[:, None] - geometry.directed_gaps(z, y)[gap])
    softce = -(np.exp(anchor) * geometry.log_probs(moved)).sum(-1)
    penalty = penalty_of(case)(np.array(MOVES))
    worst["landscape softce"] = error(result["landscape"]["softce"], softce)
    worst["landscape penalty"] = error(result["landscape"]["penalty"], penalty)
    worst["landscape total"] = error(result["landscape"]["total"], softce + penalty)
    return worst | equilibrium_errors(case, result["equilibrium"], np.exp(anchor))


def equilibrium_errors(case, solution, anchor):
    """Errors of the equilibrium: against the library for LBE, of the optimality conditions for the others."""
    probs = np.array(solution["probs"])
    gaps = np.array([float(text) for text in solution["gaps"]])
    multiplier = beyond(case, anchor) - beyond(case, probs)
    if case["regularizer"] == "lbe":
        exact = equilibrium(case["classes"], case["label"], case["scale"], case["distance"])
        return {
            "equilibrium probs": error(probs, exact.probs),
            "equilibrium log gaps": error(solution["logGaps"], exact.log_gaps),
        }
    if case["regularizer"] == "softplus":
        return {"softplus stationarity": error(multiplier, geometry.sigmoid(gaps))}
    if case["regularizer"] == "hinge":
        # the multiplier of the margin is in [0, 1], and 0 where the gap is wider
        slack = -gaps - 1 / case["scale"] ** 2
        return {
            "hinge margin": max(0.0, float((-slack / np.maximum(1, -gaps)).max())),
            "hinge multiplier": error(multiplier, np.clip(multiplier, 0, 1)),
            "hinge slackness": error(multiplier * (slack > 1e-9 * np.maximum(1, -gaps)), 0 * multiplier),
        }
    return {"equilibrium is the anchor": error(probs, anchor)}


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    return compute(tmp_path_factory.mktemp("maths"), CASES)


def test_model_equals_the_library(computed):
    assert len(computed) == len(CASES) > 1000
    worst: dict[str, tuple[float, dict]] = {}
    for case, result in zip(CASES, computed, strict=True):
        for name, value in errors(case, result).items():
            if value >= worst.get(name, (-1.0, {}))[0]:
                worst[name] = (value, case)
    assert len(worst) > 15
    assert {name: entry for name, entry in worst.items() if not entry[0] < TOLERANCE} == {}


def test_unimodality_equals_the_library(computed):
    for case, result in zip(CASES, computed, strict=True):
        probs = np.array(result["probs"])
        assert result["unimodal"] == bool(geometry.is_unimodal(probs)), case


def test_landscape_minimum_is_the_lowest_point(computed):
    for case, result in zip(CASES, computed, strict=True):
        z, y, gap = np.array(case["logits"]), np.array(case["label"]), case["gap"]
        anchor = np.exp(log_targets(case["classes"], case["distance"])[case["label"]])
        far = np.arange(case["classes"])
        outside = far > gap if gap >= y else far <= gap
        grid = np.append(np.linspace(-50, 50, 201), result["lowest"])
        moved = z + outside * (grid[:, None] - geometry.directed_gaps(z, y)[gap])
        loss = -(anchor * geometry.log_probs(moved)).sum(-1) + penalty_of(case)(grid)
        assert loss[-1] <= loss.min() + 1e-9 * max(1, abs(loss.min())), case


@pytest.mark.parametrize(
    ("correct", "wrong", "name"),
    [
        ("s * (r - inside) -", "(r - inside) -", "penalty value"),
        ("-1 / (s * Math.min(r, -1 / (s * s)))", "-1 / (s * Math.min(r, -1 / s))", "total gradient"),
        ("1 / (scale * gap) : scale", "1 / gap : scale", "equilibrium probs"),
        ("d * d / 2 : d - 0.5", "d * d / 2 : d - 0.4", "targets"),
        ("(r > -1 / (s * s) ? 1", "(r >= -1 / (s * s) ? 1", "penalty gradient"),
    ],
)
def test_wrong_formula_is_detected(tmp_path, correct, wrong, name):
    def change(text):
        assert text.count(correct) == 1
        return text.replace(correct, wrong)

    sample = CASES[::7] + [case for case in CASES if case["scale"] == 2.0]
    results = compute(tmp_path, sample, edit=change)
    assert max(errors(*pair).get(name, 0.0) for pair in zip(sample, results, strict=True)) > 1e-3
