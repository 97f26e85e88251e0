"""The explorer's maths in a real browser, against the library: every value, gradient and equilibrium."""

import json

import numpy as np
import pytest
from browser import MARKS, dom_with, told, without_policy
from explore_reference import library

from orcu import explore, geometry
from orcu.kernels.soft_targets import log_targets
from orcu.theory import equilibrium

pytestmark = MARKS

TOLERANCE = 1e-6
MOVES = [-400.0, -3.0, -0.25, -0.1, 0.0, 0.5, 40.0]  # gaps at which landscapes are compared

# Appended to a copy of the page; computes all cases with the page's own functions.
COMPUTE = """<script type="application/json" id="cases">%s</script>
<script>
window.addEventListener('load', () => {
  const { cases, moves } = JSON.parse(document.getElementById('cases').textContent);
  const found = cases.map(one => {
    const { targets, probs, gaps, softce, penalty, total, unimodal } = orcuModel.evaluate(one);
    const settled = orcuModel.equilibrium(one);
    const landscape = orcuModel.landscape(one, one.gap, moves);
    const lowest = orcuModel.landscapeMinimum(one, one.gap, -50, 50);
    return { targets, probs, gaps, softce, penalty, total, unimodal, landscape, lowest,
      step: orcuModel.step(one, 0.3), logTargets: orcuModel.logTargets(one.classes, one.label, one.distance),
      settled: { probs: settled.probs, logGaps: settled.logGaps, gaps: settled.gaps.map(String) } };
  });
  const out = document.createElement('pre'); out.id = 'probe'; out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out);
});
</script>"""


def make_cases():
    """Random settings over the whole range of the page, and the edges of every branch."""
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
            # exactly on the margin (1/s^2 = 1/4 has no rounding), on both sides of 0, and far off
            for step in (0.25, 0.25 + 1e-9, 0.25 - 1e-9, 0.0, 1e-12, -1e-12, 1000.0, -1000.0):
                add(3, 1, 2.0, distance, regularizer, [-step, 0.0, -step])
            add(5, 4, 3.0, distance, regularizer, [1000, -1000, 1000, -1000, 1000])
    return cases


CASES = make_cases()


def compute(folder, cases, *, edit=lambda text: text):
    """What the page's functions give for the cases; ``edit`` may break the page first."""
    payload = json.dumps({"cases": cases, "moves": MOVES})
    text = edit(without_policy(explore.page())).replace("</body>", COMPUTE % payload + "</body>")
    path = folder / "computed.html"
    path.write_text(text, encoding="utf-8")
    return told(dom_with("probe", path.as_uri()))


def penalty_of(case):
    scale = case["scale"]
    return {
        "lbe": lambda r: geometry.log_barrier(r, scale=scale),
        "hinge": lambda r: geometry.hinge(r, margin=1 / scale**2),
        "softplus": geometry.softplus,
        "none": np.zeros_like,
    }[case["regularizer"]]


def miss(found, expected):
    """The largest difference, relative where numbers exceed 1; NaN and null count as infinite."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape
    difference = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))


def beyond(case, values):
    """Sums over the classes beyond each gap."""
    label = case["label"]
    return np.array([values[k + 1 :].sum() if k >= label else values[: k + 1].sum() for k in range(len(values) - 1)])


def misses(case, found):
    """How far the page's numbers are from the library's, by name."""
    z, y = np.array(case["logits"]), np.array(case["label"])
    anchor = log_targets(case["classes"], case["distance"])[case["label"]]
    parts = library(case)
    worst = {
        "log targets": miss(found["logTargets"], anchor),
        "targets": miss(found["targets"], np.exp(anchor)),
        "probs": miss(found["probs"], np.exp(geometry.log_probs(z))),
        "gaps": miss(found["gaps"], geometry.directed_gaps(z, y)),
        "step": miss(found["step"], z - 0.3 * parts["total"][1]),
    }
    for name, (value, gradient) in parts.items():
        worst[f"{name} value"] = miss(found[name]["value"], value)
        worst[f"{name} gradient"] = miss(found[name]["gradient"], gradient)

    gap, far = case["gap"], np.arange(case["classes"])
    outside = far > gap if gap >= y else far <= gap
    moved = z + outside * (np.array(MOVES)[:, None] - geometry.directed_gaps(z, y)[gap])
    softce = -(np.exp(anchor) * geometry.log_probs(moved)).sum(-1)
    penalty = penalty_of(case)(np.array(MOVES))
    worst["landscape softce"] = miss(found["landscape"]["softce"], softce)
    worst["landscape penalty"] = miss(found["landscape"]["penalty"], penalty)
    worst["landscape total"] = miss(found["landscape"]["total"], softce + penalty)
    return worst | settled_misses(case, found["settled"], np.exp(anchor))


def settled_misses(case, settled, anchor):
    """The equilibrium: the library's for LBE, what defines a minimiser for the others."""
    probs = np.array(settled["probs"])
    gaps = np.array([float(text) for text in settled["gaps"]])
    moved = beyond(case, anchor) - beyond(case, probs)
    if case["regularizer"] == "lbe":
        exact = equilibrium(case["classes"], case["label"], case["scale"], case["distance"])
        return {
            "equilibrium probs": miss(probs, exact.probs),
            "equilibrium log gaps": miss(settled["logGaps"], exact.log_gaps),
        }
    if case["regularizer"] == "softplus":
        return {"softplus stationarity": miss(moved, geometry.sigmoid(gaps))}
    if case["regularizer"] == "hinge":
        # moved is the multiplier of the margin: in [0, 1], and 0 where the gap is wider
        slack = -gaps - 1 / case["scale"] ** 2
        return {
            "hinge margin": max(0.0, float((-slack / np.maximum(1, -gaps)).max())),
            "hinge multiplier": miss(moved, np.clip(moved, 0, 1)),
            "hinge slackness": miss(moved * (slack > 1e-9 * np.maximum(1, -gaps)), 0 * moved),
        }
    return {"equilibrium is the anchor": miss(probs, anchor)}


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    return compute(tmp_path_factory.mktemp("maths"), CASES)


def test_every_number_equals_the_librarys(computed):
    assert len(computed) == len(CASES) > 1000
    worst: dict[str, tuple[float, dict]] = {}
    for case, found in zip(CASES, computed, strict=True):
        for name, value in misses(case, found).items():
            if value >= worst.get(name, (-1.0, {}))[0]:
                worst[name] = (value, case)
    assert len(worst) > 15
    assert {name: one for name, one in worst.items() if not one[0] < TOLERANCE} == {}


def test_unimodality_equals_the_librarys(computed):
    for case, found in zip(CASES, computed, strict=True):
        probs = np.array(found["probs"])
        assert found["unimodal"] == bool(geometry.is_unimodal(probs)), case


def test_the_lowest_point_of_a_landscape_is_the_lowest(computed):
    for case, found in zip(CASES, computed, strict=True):
        z, y, gap = np.array(case["logits"]), np.array(case["label"]), case["gap"]
        anchor = np.exp(log_targets(case["classes"], case["distance"])[case["label"]])
        far = np.arange(case["classes"])
        outside = far > gap if gap >= y else far <= gap
        grid = np.append(np.linspace(-50, 50, 201), found["lowest"])
        moved = z + outside * (grid[:, None] - geometry.directed_gaps(z, y)[gap])
        loss = -(anchor * geometry.log_probs(moved)).sum(-1) + penalty_of(case)(grid)
        assert loss[-1] <= loss.min() + 1e-9 * max(1, abs(loss.min())), case


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("s * (r - inside) -", "(r - inside) -", "penalty value"),
        ("-1 / (s * Math.min(r, -1 / (s * s)))", "-1 / (s * Math.min(r, -1 / s))", "total gradient"),
        ("1 / (scale * gap) : scale", "1 / gap : scale", "equilibrium probs"),
        ("d * d / 2 : d - 0.5", "d * d / 2 : d - 0.4", "targets"),
        ("(r > -1 / (s * s) ? 1", "(r >= -1 / (s * s) ? 1", "penalty gradient"),
    ],
)
def test_a_wrong_formula_is_noticed(tmp_path, right, wrong, name):
    def broken(text):
        assert text.count(right) == 1
        return text.replace(right, wrong)

    some = CASES[::7] + [case for case in CASES if case["scale"] == 2.0]
    found = compute(tmp_path, some, edit=broken)
    assert max(misses(*pair).get(name, 0.0) for pair in zip(some, found, strict=True)) > 1e-3
