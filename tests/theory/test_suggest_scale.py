"""`suggest_scale` from the theory, and `choose_scale`, the search by training."""

import numpy as np
import pytest

from orcu import data, suggest_scale
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.plan import check_parts, status
from orcu.bench.spec import load_spec
from orcu.bench.store import Store
from orcu.errors import InputError
from orcu.theory import equilibrium
from orcu.theory.equilibrium import _Problem
from orcu.training.choose_scale import choose_scale


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("accuracy", [0.55, 0.7, 0.9, 0.99])
def test_suggest_scale_confidence_equals_accuracy(num_classes, accuracy):
    suggestion = suggest_scale(num_classes, accuracy)
    assert suggestion.fits
    assert suggestion.confidence == pytest.approx(accuracy, abs=1e-4)
    # on the falling branch: a larger scale is less confident
    assert suggest_scale(num_classes, accuracy - 0.02).scale > suggestion.scale


def test_suggest_scale_from_a_confusion_matrix():
    counts = np.array([[80.0, 20, 0], [10, 80, 10], [0, 20, 80]])
    suggestion = suggest_scale(3, confusion=counts)
    share = counts.sum(0) / counts.sum()
    solution = equilibrium(3, scale=suggestion.scale, label_distribution=(counts / counts.sum(0)).T)
    assert solution.probs.max(-1) @ share == pytest.approx(0.8, abs=1e-4)
    assert suggest_scale(3, confusion=10 * counts).scale == pytest.approx(suggestion.scale)
    without_middle = counts.copy()
    without_middle[:, 1] = 0  # a class that is never predicted
    assert suggest_scale(3, confusion=without_middle).fits


def test_suggest_scale_without_a_fitting_scale():
    suggestion = suggest_scale(3, confusion=[[0, 0, 9], [0, 0, 0], [9, 0, 0]])
    assert not suggestion.fits
    assert "no s fits" in str(suggestion)
    assert "calibrator" in str(suggestion)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^accuracy: .*confusion"),
        ({"accuracy": 0.7, "confusion": np.eye(4)}, "^accuracy: .*confusion"),
        ({"accuracy": 0.25}, "^accuracy: .* 0.25"),
        ({"accuracy": 1.0}, "^accuracy: .* 1.0"),
        ({"accuracy": float("nan")}, "^accuracy: .* nan"),
        ({"confusion": np.eye(3)}, r"^confusion: .*\(4, 4\).*\(3, 3\)"),
        ({"confusion": np.zeros((4, 4))}, "^confusion: "),
        ({"confusion": -np.eye(4)}, "^confusion: "),
    ],
)
def test_suggest_scale_invalid_argument_raises(options, message):
    with pytest.raises(InputError, match=message):
        suggest_scale(4, **options)


def sharpened(power, rows=4000):
    """Probabilities that are calibrated at power 1, and under- or overconfident at other powers."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(rows, 4))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((rows, 1))).sum(1).clip(max=3)
    q = p**power
    return q / q.sum(1, keepdims=True), y


@pytest.mark.parametrize("best", [0.3, 1.0, 3.0, 12.0])
def test_choose_scale_finds_the_best_scale(best):
    y = sharpened(1.0)[1]
    starts = []

    def train(scale, start):
        starts.append(start)
        return scale, sharpened((best / scale) ** 0.5)[0]

    search = choose_scale(train, y)
    assert starts[0] is None
    assert set(starts[1:]) == {3.0}  # all other trainings start from the first
    assert best / 2 <= search.best.scale <= best * 2
    assert len(search.trials) <= 6
    assert search.best.value == min(trial.value for trial in search.trials)


def test_spec_with_automatic_scale(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    data.prepare("lev", output=tmp_path / "data" / "lev")
    path = tmp_path / "auto.toml"
    path.write_text(
        """
name = "auto"
losses = [{ label = "s = 3", name = "orcu" }, { label = "auto", name = "orcu", scale = "auto" }]
columns = ["sce", "rps"]

[[data]]
set = "lev"
folds = [0]
hidden_layer_sizes = [32]
training = { epochs = 8 }
"""
    )
    spec, results = load_spec(path), tmp_path / "results"
    check_parts(spec)
    assert [execute(job, results) for job in jobs(spec)] == ["done", "done"]
    by_loss = {record["loss"]: record for record in status(spec, results=results).records()}
    result = Store(results).result(by_loss["auto"]["run"])
    assert result["scales"]["3"] > 0
    assert result["scales"][f"{result['scale']:g}"] == min(result["scales"].values())
    assert len(result["scales"]) >= 4


def test_suggest_scale_of_many_classes_takes_few_steps(monkeypatch):
    steps, step = [], _Problem._step
    monkeypatch.setattr(_Problem, "_step", lambda self, u: steps.append(len(u)) or step(self, u))
    assert suggest_scale(20, 0.5).scale == pytest.approx(1.7529, abs=1e-4)
    assert sum(steps) < 50_000  # problem steps: 32,000, and many more if solved problems stay in the batch
