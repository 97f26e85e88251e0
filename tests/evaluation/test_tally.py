"""The mergeable state: exact to the last bit under any split, order and merge; streamed groups."""

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import Tally
from orcu.errors import InputError
from orcu.evaluation.equal_counts import StreamGroups
from orcu.metrics.binning import even_groups


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.integers(1, 60),
    st.sampled_from(["none", "unit", "tiny", "huge"]),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_order_and_split_do_not_change_a_bit(seed, num_classes, rows, weights, logits):
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=3, size=(rows, num_classes))
    if not logits:
        values = rng.dirichlet(np.full(num_classes, 0.5), size=rows)
    y = rng.integers(num_classes, size=rows)
    scale = {"none": None, "unit": 1.0, "tiny": 1e-9, "huge": 1e11}[weights]
    weight = None if scale is None else rng.uniform(0.01, 1, size=rows) * scale  # exact sums hold 40 powers of two

    def tally(index):
        made = Tally(num_classes)
        given = {"logits" if logits else "probs": values[index]}
        made.update(**given, y=y[index], weight=None if weight is None else weight[index])
        return made

    whole = tally(np.arange(rows))
    order = rng.permutation(rows)
    pieces = [p for p in np.split(order, np.sort(rng.integers(0, rows + 1, size=4))) if len(p)]
    rng.shuffle(pieces)
    merged = Tally(num_classes)
    for piece in pieces:
        merged = tally(piece).merge(merged)
    assert (merged.vector() == whole.vector()).all()
    assert merged.rows == rows
    ours, theirs = merged.compute(), whole.compute()
    assert all(ours[k] == theirs[k] or math.isnan(theirs[k]) for k in theirs)


def test_sums_are_correctly_rounded():
    rng = np.random.default_rng(0)
    weight = rng.random(500) * 10.0 ** rng.integers(-8, 8, size=500)
    tally = Tally(2)
    tally.update(np.full((500, 2), 0.5), rng.integers(2, size=500), weight=weight)
    exact = sum(Fraction(w) for w in weight.tolist())
    assert float(tally.tables().top[0].sum()) == pytest.approx(float(exact), rel=1e-15)


def test_the_adaptive_error_needs_the_order_of_all_rows(ordinal_sample):
    logits, y = ordinal_sample(3000)
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    assert math.isnan(tally.compute()["ace"])


def test_chunks_do_not_change_a_bit(monkeypatch, ordinal_sample):
    logits, y = ordinal_sample(1000)
    whole, chunked = Tally(5), Tally(5)
    whole.update(logits=logits, y=y)
    monkeypatch.setattr("orcu.evaluation.tally._CHUNK", 7)
    chunked.update(logits=logits, y=y)
    assert (whole.vector() == chunked.vector()).all()


def test_it_needs_the_formulas_alone():
    code = "import sys; from orcu import Tally; Tally(3); print(*(name for name in sys.modules if name[:5] == 'orcu.'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {"errors", "inputs", "geometry", "registry", "decisions", "metrics", "evaluation"}
    modules = {name.removeprefix("orcu.") for name in done.stdout.split()}
    assert {name.split(".")[0] for name in modules} == packages
    assert {name for name in modules if name.startswith("evaluation")} == {"evaluation", "evaluation.tally"}


def test_it_travels_as_json_and_pickle(ordinal_sample):
    logits, y = ordinal_sample(200)
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    again = Tally.from_dict(json.loads(json.dumps(tally.to_dict())))
    assert (again.vector() == tally.vector()).all()
    assert pickle.loads(pickle.dumps(tally)).compute()["ece"] == tally.compute()["ece"]
    assert len(json.dumps(tally.to_dict())) < 100_000


def test_it_refuses_what_does_not_fit():
    tally = Tally(3)
    with pytest.raises(InputError, match="the tally is empty"):
        tally.compute()
    with pytest.raises(InputError, match="for 3 classes, got 2"):
        tally.update([[0.5, 0.5]], [0])
    with pytest.raises(InputError, match="exactly one"):
        tally.update(y=[0])
    with pytest.raises(InputError, match="3 classes and 15 bins cannot take in one of 4"):
        tally.merge(Tally(4))
    with pytest.raises(InputError, match="state_version: expected 1, got 99"):
        Tally.from_dict(tally.to_dict() | {"state_version": 99})
    with pytest.raises(InputError, match="does not fit"):
        Tally.from_dict(tally.to_dict() | {"limbs": [[0]]})


def test_a_million_rows_take_constant_memory():
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
def test_streamed_groups_are_those_of_a_stable_sort(seed, rows, groups, digits, few):
    rng = np.random.default_rng(seed)
    values = rng.random((2, rows)).round(digits)
    values[:, rng.random(rows) < 0.3] = 0.0
    if digits == 40:  # which differ in their last bits only
        values[0] = 0.5 + 1e-15 * np.round(100 * values[0])
    parts = np.split(values, np.sort(rng.integers(0, rows + 1, size=3)), axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orcu.evaluation.equal_counts._FEW", few)
        stream = StreamGroups(2, groups=groups, count=lambda one: [one.counts(part) for part in parts])
    dealt = np.concatenate([stream.dealer(k).assign(part) for k, part in enumerate(parts)], axis=1)
    assert (dealt == [even_groups(column, groups) for column in values]).all()
