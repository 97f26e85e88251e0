"""Marks of significance: none for noise, one for a real difference, the same for the same rows."""

import numpy as np
import pytest

from orcu import Predictions, bench
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.significance import compared, marks
from orcu.bench.spec import load_spec
from orcu.bench.tables import BETTER, WORSE, lines, rendered
from orcu.errors import InputError, UnknownNameError
from orcu.metrics.base import METRICS

COLUMNS = [METRICS.get(name) for name in ("accuracy", "rps", "ece")]


def folds(rng, *, noise, count=5, rows=200, same=False):
    """Folds of a model that knows the truth, and one whose logits are blurred."""
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


def test_a_blurred_model_is_worse():
    assert compared(folds(np.random.default_rng(0), noise=2.0), COLUMNS) == [WORSE] * 3
    swapped = [(b, a) for a, b in folds(np.random.default_rng(0), noise=2.0)]
    assert compared(swapped, COLUMNS) == [BETTER] * 3


@pytest.mark.parametrize("same", [False, True])
def test_models_of_the_same_worth_are_seldom_marked(same, monkeypatch):
    monkeypatch.setattr("orcu.bench.significance.RESAMPLES", 200)  # ends of an interval at 2.5 ± 1.1 %
    rng = np.random.default_rng(1)
    marked = 0
    for _ in range(40):
        pairs = folds(rng, noise=0.3, rows=150, same=same)
        both = [  # two blurs of one model: neither is better
            (a, Predictions(logits=b.logits + 0.3 * rng.normal(size=b.logits.shape), y=b.labels, ids=b.ids))
            for a, b in pairs
        ]
        marked += compared(both, COLUMNS[1:2])[0] != ""
    assert marked <= 8  # 5 % of 40 is 2; a test that marks one in three is found out nearly always


def test_other_rows_are_refused():
    one = folds(np.random.default_rng(0), noise=1.0, count=1)[0][0]
    other = folds(np.random.default_rng(5), noise=1.0, count=1)[0][0]
    with pytest.raises(InputError, match="other rows"):
        compared([(one, other)], COLUMNS)


def test_the_table_carries_the_marks(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    for job in jobs(spec):
        execute(job, results)
    plan = bench.status(spec, results=results)
    assert set(marks(plan, "ce")) == {
        ("lev", "ours", calibrator, metric) for calibrator in spec.calibrators for metric in spec.columns
    }
    record = {"data": "lev", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.5)}
    told = [{**record, "loss": loss, "calibrator": "none"} for loss in ("ce", "ours")]
    table = lines(spec, told, {("lev", "ours", "none", "sce"): WORSE})
    assert f"50.00 {WORSE}" in rendered(spec, table, "markdown")
    assert r"50.00 $\blacktriangledown$" in rendered(spec, table, "latex")
    with pytest.raises(UnknownNameError, match="Did you mean 'ours'"):
        marks(plan, "our")


def test_a_metric_that_is_not_defined_has_no_mark():
    impossible = Predictions(probs=[[1.0, 0.0], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]], y=[1, 1, 1, 0])
    constant = Predictions(probs=[[0.4, 0.6]] * 4, y=[1, 1, 1, 0])
    columns = [METRICS.get(name) for name in ("nll", "rps", "qwk")]
    for one in (impossible, constant):
        assert compared([(one, one)], columns) == ["", "", ""]
