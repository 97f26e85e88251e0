"""Tests of `orcu.Tally` and of the equal-count bins of a stream."""

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import Tally
from orcu.errors import InputError
from orcu.evaluation.equal_counts import StreamedBins
from orcu.metrics.base import METRICS, metric
from orcu.metrics.binning import equal_count_bins
from orcu.metrics.sums import PARTS, row_score


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.integers(1, 60),
    st.sampled_from(["none", "unit", "tiny", "huge"]),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_tally_merge_order_and_split_do_not_change_a_bit(seed, num_classes, rows, weights, logits):
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=3, size=(rows, num_classes))
    if not logits:
        values = rng.dirichlet(np.full(num_classes, 0.5), size=rows)
    y = rng.integers(num_classes, size=rows)
    scale = {"none": None, "unit": 1.0, "tiny": 1e-9, "huge": 1e11}[weights]
    weight = None if scale is None else rng.uniform(0.01, 1, size=rows) * scale  # exact sums cover 40 powers of two

    def tally(index):
        part = Tally(num_classes)
        scores = {"logits" if logits else "probs": values[index]}
        part.update(**scores, y=y[index], sample_weight=None if weight is None else weight[index])
        return part

    complete = tally(np.arange(rows))
    order = rng.permutation(rows)
    pieces = [p for p in np.split(order, np.sort(rng.integers(0, rows + 1, size=4))) if len(p)]
    rng.shuffle(pieces)
    merged = Tally(num_classes)
    for piece in pieces:
        merged = tally(piece).merge(merged)
    assert (merged.vector() == complete.vector()).all()
    assert merged.rows == rows
    values, expected = merged.compute(), complete.compute()
    assert all(values[name] == expected[name] or math.isnan(expected[name]) for name in expected)


def test_tally_sums_are_correctly_rounded():
    rng = np.random.default_rng(0)
    weight = rng.random(500) * 10.0 ** rng.integers(-8, 8, size=500)
    tally = Tally(2)
    tally.update(np.full((500, 2), 0.5), rng.integers(2, size=500), sample_weight=weight)
    exact = sum(Fraction(w) for w in weight.tolist())
    assert float(tally.sums().top[0].sum()) == pytest.approx(float(exact), rel=1e-15)


def test_tally_compute_ace_is_nan(ordinal_sample):
    logits, y = ordinal_sample(3000)
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    assert math.isnan(tally.compute()["ace"])


def test_tally_update_in_chunks_does_not_change_a_bit(monkeypatch, ordinal_sample):
    logits, y = ordinal_sample(1000)
    complete, chunked = Tally(5), Tally(5)
    complete.update(logits=logits, y=y)
    monkeypatch.setattr("orcu.evaluation.tally._CHUNK", 7)
    chunked.update(logits=logits, y=y)
    assert (complete.vector() == chunked.vector()).all()


def test_tally_import_loads_only_metrics():
    code = "import sys; from orcu import Tally; Tally(3); print(*(name for name in sys.modules if name[:5] == 'orcu.'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {"errors", "inputs", "geometry", "registry", "raters", "resampling"}
    packages |= {"decisions", "metrics", "evaluation"}
    modules = {name.removeprefix("orcu.") for name in done.stdout.split()}
    assert {name.split(".")[0] for name in modules} == packages
    assert {name for name in modules if name.startswith("evaluation")} == {"evaluation", "evaluation.tally"}


def test_tally_json_and_pickle_round_trip(ordinal_sample):
    logits, y = ordinal_sample(200)
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    again = Tally.from_dict(json.loads(json.dumps(tally.to_dict())))
    assert (again.vector() == tally.vector()).all()
    assert pickle.loads(pickle.dumps(tally)).compute()["ece"] == tally.compute()["ece"]
    assert len(json.dumps(tally.to_dict())) < 100_000


def test_tally_invalid_arguments_raise():
    tally = Tally(3)
    with pytest.raises(InputError, match="empty.*update"):
        tally.compute()
    with pytest.raises(InputError, match="^probs: .*3.*2"):
        tally.update([[0.5, 0.5]], [0])
    with pytest.raises(InputError, match="^probs, logits:"):
        tally.update(y=[0])
    with pytest.raises(InputError, match="^merge: .*3 classes.*4 classes"):
        tally.merge(Tally(4))
    with pytest.raises(InputError, match="^state_version: .*99"):
        Tally.from_dict(tally.to_dict() | {"state_version": 99})
    for damage in ([[0]], [[0], [1, 2]], [[0.5] * 421] * 5, [[2**70] * 421] * 5):
        with pytest.raises(InputError, match="^state"):
            Tally.from_dict(tally.to_dict() | {"state": damage})
    with pytest.raises(InputError, match="^row_scores: Field required"):
        Tally.from_dict({name: value for name, value in tally.to_dict().items() if name != "row_scores"})
    with pytest.raises(InputError, match="row score 'far'"):
        Tally.from_dict(tally.to_dict() | {"row_scores": ["far"]})
    with pytest.raises(InputError, match="metric 'far'"):
        Tally.from_dict(tally.to_dict() | {"metrics": ["far"]})


@pytest.fixture
def far(monkeypatch):
    """Registers a row score and a metric of it, and removes them after the test."""

    def register():
        monkeypatch.setitem(METRICS._components, "far", None)  # removed again by monkeypatch
        monkeypatch.delitem(METRICS._components, "far")
        monkeypatch.setitem(PARTS, "far_rows", None)
        monkeypatch.delitem(PARTS, "far_rows")
        row_score("far_rows")(lambda rows: (np.abs(rows.decision - rows.y) > 1).astype(float))
        metric("far", "Far", family="decision", better="lower")(lambda sums: sums.mean("far_rows"))

    return register


def test_tally_keeps_the_metrics_of_its_creation(far):
    before = Tally(3)
    far()
    after = Tally(3)
    for tally in (before, after):
        tally.update(np.full((4, 3), 1 / 3), [0, 1, 2, 2])
    assert "far" not in before.compute()
    assert after.compute()["far"] == 0.5
    assert "far" not in before.to_dict()["metrics"]
    assert "far" in after.to_dict()["metrics"]
    with pytest.raises(InputError, match="^merge: .*far, far_rows"):
        before.merge(after)
    with pytest.raises(InputError, match="^merge: .*far, far_rows"):
        after.merge(before)
    restored = Tally.from_dict(json.loads(json.dumps(before.to_dict())))
    assert restored.compute().keys() == before.compute().keys()
    assert restored.merge(before).rows == 8


def test_tally_repr_names_classes_bins_rows_and_metrics():
    tally = Tally(3, n_bins=7)
    tally.update([[0.2, 0.3, 0.5]], [2])
    for part in ("num_classes=3", "n_bins=7", "rows=1", f"{len(METRICS.names())} metrics"):
        assert part in repr(tally)


def test_tally_from_dict_reads_a_state_of_0_2():
    folder = Path(__file__).parents[1] / "data" / "written_by_0_2"
    tally = Tally.from_dict(json.loads((folder / "tally.json").read_text()))
    rng = np.random.default_rng(0)
    again = Tally(3, n_bins=5)
    again.update(rng.dirichlet(np.ones(3), size=40), rng.integers(3, size=40))
    assert (tally.state == again.state).all()
    assert tally.compute() == pytest.approx(again.compute(), rel=0, abs=0, nan_ok=True)
    assert tally.merge(again).rows == 80


def test_tally_state_size_does_not_grow_with_rows():
    tally = Tally(8)
    before = len(json.dumps(tally.to_dict()))
    rng = np.random.default_rng(0)
    for _ in range(5):
        tally.update(logits=rng.normal(size=(20_000, 8)), y=rng.integers(8, size=20_000))
    assert len(json.dumps(tally.to_dict())) < before * 10
    assert tally.rows == 100_000


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.integers(1, 20),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([0, 20, 10**6]),
)
@settings(deadline=None, max_examples=60)
def test_streamed_bins_equal_those_of_a_stable_sort(seed, rows, n_bins, digits, max_candidates):
    rng = np.random.default_rng(seed)
    values = rng.random((2, rows)).round(digits)
    values[:, rng.random(rows) < 0.3] = 0.0
    if digits == 40:  # which differ in their last bits only
        values[0] = 0.5 + 1e-15 * np.round(100 * values[0])
    parts = np.split(values, np.sort(rng.integers(0, rows + 1, size=3)), axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orcu.evaluation.equal_counts._MAX_CANDIDATES", max_candidates)
        stream = StreamedBins(2, n_bins=n_bins, count=lambda one_pass: [one_pass.counts(part) for part in parts])
    index = np.concatenate([stream.assigner(k).assign(part) for k, part in enumerate(parts)], axis=1)
    assert (index == [equal_count_bins(column, n_bins) for column in values]).all()
