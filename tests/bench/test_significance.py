"""Significance marks: none for noise, one for a real difference."""

import numpy as np
import pytest

from orcu import Predictions, bench
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.significance import compare_models, marks
from orcu.bench.spec import load_spec
from orcu.bench.tables import BETTER, WORSE, lines, render_table
from orcu.errors import InputError, UnknownNameError
from orcu.metrics.base import METRICS

COLUMNS = [METRICS.get(name) for name in ("accuracy", "rps", "ece")]


def make_folds(rng, *, noise, count=5, rows=200, same=False):
    """Predictions of a model with noisy logits and of the true model, fold by fold."""
    pairs = []
    state = rng.integers(2**31)
    for fold in range(count):
        draw = np.random.default_rng(state if same else [state, fold])
        logits = 2 * draw.normal(size=(rows, 4))
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        y = (probs.cumsum(1) < draw.random((rows, 1))).sum(1).clip(max=3)
        ids = np.arange(rows) + (0 if same else rows * fold)
        other = logits + noise * rng.normal(size=logits.shape)
        pairs.append(tuple(Predictions(logits=z, y=y, ids=ids) for z in (other, logits)))
    return pairs


def test_compare_models_noisy_model_is_worse():
    assert compare_models(make_folds(np.random.default_rng(0), noise=2.0), COLUMNS) == [WORSE] * 3
    swapped = [(b, a) for a, b in make_folds(np.random.default_rng(0), noise=2.0)]
    assert compare_models(swapped, COLUMNS) == [BETTER] * 3


@pytest.mark.parametrize("same", [False, True])
def test_compare_models_equal_models_are_rarely_marked(same, monkeypatch):
    monkeypatch.setattr("orcu.bench.significance.RESAMPLES", 200)  # standard error of the 2.5 % quantile: 1.1 %
    rng = np.random.default_rng(1)
    marked = 0
    for _ in range(40):
        pairs = make_folds(rng, noise=0.3, rows=150, same=same)
        noisy = [  # two noisy versions of one model: neither is better
            (a, Predictions(logits=b.logits + 0.3 * rng.normal(size=b.logits.shape), y=b.labels, ids=b.ids))
            for a, b in pairs
        ]
        marked += compare_models(noisy, COLUMNS[1:2])[0] != ""
    assert marked <= 8  # 2 are expected; a method that marks one in three almost always exceeds 8


def test_compare_models_different_rows_raise():
    first = make_folds(np.random.default_rng(0), noise=1.0, count=1)[0][0]
    second = make_folds(np.random.default_rng(5), noise=1.0, count=1)[0][0]
    with pytest.raises(InputError, match="different test rows"):
        compare_models([(first, second)], COLUMNS)


def test_marks_appear_in_the_table(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    for job in jobs(spec):
        execute(job, results)
    plan = bench.status(spec, results=results)
    assert set(marks(plan, "ce")) == {
        ("lev", "ours", calibrator, metric) for calibrator in spec.calibrators for metric in spec.columns
    }
    record = {"data": "lev", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.5)}
    rows = [{**record, "loss": loss, "calibrator": "none"} for loss in ("ce", "ours")]
    table = lines(spec, rows, {("lev", "ours", "none", "sce"): WORSE})
    assert f"50.00 {WORSE}" in render_table(spec, table, "markdown")
    assert r"50.00 $\blacktriangledown$" in render_table(spec, table, "latex")
    with pytest.raises(UnknownNameError, match="'ours'"):
        marks(plan, "our")


def test_compare_models_undefined_metric_has_no_mark():
    impossible = Predictions(probs=[[1.0, 0.0], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]], y=[1, 1, 1, 0])
    constant = Predictions(probs=[[0.4, 0.6]] * 4, y=[1, 1, 1, 0])
    columns = [METRICS.get(name) for name in ("nll", "rps", "qwk")]
    for model in (impossible, constant):
        assert compare_models([(model, model)], columns) == ["", "", ""]
