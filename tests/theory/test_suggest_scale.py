"""`suggest_scale` and the choice of a scale: the theory's answer, and a search that finds the best."""

import numpy as np
import pytest

from orcu import data, suggest_scale
from orcu.bench.collect import records
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.plan import check_parts
from orcu.bench.spec import load_spec
from orcu.bench.store import Store
from orcu.errors import InputError
from orcu.theory import equilibrium
from orcu.theory.equilibrium import _Problem
from orcu.training.choose_scale import choose_scale


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("accuracy", [0.55, 0.7, 0.9, 0.99])
def test_the_equilibrium_is_as_sure_as_the_model_is_right(num_classes, accuracy):
    found = suggest_scale(num_classes, accuracy)
    assert found.fits
    assert found.confidence == pytest.approx(accuracy, abs=1e-4)
    # on the falling branch: a larger scale is less sure
    assert suggest_scale(num_classes, accuracy - 0.02).scale > found.scale


def test_the_overlap_of_a_confusion_matrix_decides():
    counts = np.array([[80.0, 20, 0], [10, 80, 10], [0, 20, 80]])
    found = suggest_scale(3, confusion=counts)
    share = counts.sum(0) / counts.sum()
    told = equilibrium(3, scale=found.scale, label_distribution=(counts / counts.sum(0)).T)
    assert told.probs.max(-1) @ share == pytest.approx(0.8, abs=1e-4)
    assert suggest_scale(3, confusion=10 * counts).scale == pytest.approx(found.scale)
    never = counts.copy()
    never[:, 1] = 0  # a class that is never decided for
    assert suggest_scale(3, confusion=never).fits


def test_where_no_scale_fits_it_says_so():
    found = suggest_scale(3, confusion=[[0, 0, 9], [0, 0, 0], [9, 0, 0]])
    assert not found.fits
    assert "no s fits" in str(found)
    assert "calibrator" in str(found)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "give it, or a confusion matrix"),
        ({"accuracy": 0.7, "confusion": np.eye(4)}, "not both"),
        ({"accuracy": 0.25}, "above 1/4"),
        ({"accuracy": 1.0}, "below 1"),
        ({"accuracy": float("nan")}, "accuracy"),
        ({"confusion": np.eye(3)}, r"shape \(4, 4\)"),
        ({"confusion": np.zeros((4, 4))}, "counts of rows"),
        ({"confusion": -np.eye(4)}, "counts of rows"),
    ],
)
def test_bad_input(told, message):
    with pytest.raises(InputError, match=message):
        suggest_scale(4, **told)


def sharpened(power, rows=4000):
    """Rows that are calibrated at power 1, under- or overconfident elsewhere."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(rows, 4))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((rows, 1))).sum(1).clip(max=3)
    q = p**power
    return q / q.sum(1, keepdims=True), y


@pytest.mark.parametrize("best", [0.3, 1.0, 3.0, 12.0])
def test_the_search_walks_to_the_best_scale(best):
    y = sharpened(1.0)[1]
    starts = []

    def train(scale, start):
        starts.append(start)
        return scale, sharpened((best / scale) ** 0.5)[0]

    found = choose_scale(train, y)
    assert starts[0] is None
    assert set(starts[1:]) == {3.0}  # all others start from the first
    assert best / 2 <= found.best.scale <= best * 2
    assert len(found.trials) <= 6
    assert found.best.value == min(trial.value for trial in found.trials)


def test_a_spec_may_ask_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    data.prepare("lev", out=tmp_path / "data" / "lev")
    path = tmp_path / "auto.toml"
    path.write_text(
        """
name = "auto"
losses = [{ label = "s = 3", name = "orcu" }, { label = "auto", name = "orcu", scale = "auto" }]
columns = ["sce", "rps"]

[[data]]
set = "lev"
folds = [0]
hidden = [32]
recipe = { epochs = 8 }
"""
    )
    spec, results = load_spec(path), tmp_path / "results"
    check_parts(spec)
    assert [execute(job, results) for job in jobs(spec)] == ["done", "done"]
    found = {record["loss"]: record for record in records(spec, results)}
    told = Store(results).result(found["auto"]["run"])
    assert told["scales"]["3"] > 0
    assert told["scales"][f"{told['scale']:g}"] == min(told["scales"].values())
    assert len(told["scales"]) >= 4


def test_many_classes_take_few_steps(monkeypatch):
    steps, step = [], _Problem._step
    monkeypatch.setattr(_Problem, "_step", lambda self, u: steps.append(len(u)) or step(self, u))
    assert suggest_scale(20, 0.5).scale == pytest.approx(1.7529, abs=1e-4)
    assert sum(steps) < 50_000  # of one problem each: it takes 32,000, and many times that unless solved problems leave
