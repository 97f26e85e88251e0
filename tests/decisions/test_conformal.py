"""Prediction sets: contiguous, nested, and right as often as promised."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import OrdinalPredictionSets
from orcu.calibrators import CalibrationWarning
from orcu.decisions.conformal import scores
from orcu.errors import InputError
from orcu.predictions.used_rows import UsedRows


def sample(rows, seed, size=5, honest=False):
    """Predictions of a model that is wrong about its confidence, unless honest."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(size, 0.5), size=rows)
    y = (rng.random((rows, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
    return (probs if honest else probs**3 / (probs**3).sum(1, keepdims=True)), y


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
@settings(deadline=None, max_examples=60)
def test_scores_are_those_of_growing_intervals(seed, size):
    probs = np.random.default_rng(seed).dirichlet(np.ones(size), size=4)
    for p, found in zip(probs, scores(probs), strict=True):
        low = high = int(p.argmax())
        mass = p[low]
        expected = {low: 0.0}
        while len(expected) < size:
            below = p[low - 1] if low > 0 else -1
            above = p[high + 1] if high < size - 1 else -1
            low, high, new = (low - 1, high, low - 1) if below >= above else (low, high + 1, high + 1)
            expected[new] = mass
            mass += p[new]
        assert found == pytest.approx([expected[k] for k in range(size)], abs=1e-7)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("honest", [True, False])
def test_the_promise_holds_in_finite_samples(alpha, honest):
    """Mean coverage over many small fitting sets lies between 1 - alpha and 1 - alpha + 1/(n+1)."""
    rows, repeats = 39, 300
    hits = []
    for seed in range(repeats):
        probs, y = sample(rows + 200, seed, honest=honest)
        sets = OrdinalPredictionSets(alpha=alpha).fit(probs[:rows], y[:rows])
        hits.append(sets.quality(probs[rows:], y[rows:]).coverage)
    slack = 3 * np.std(hits) / np.sqrt(repeats)
    assert np.mean(hits) >= 1 - alpha - slack


def test_every_class_gets_its_promise():
    probs, y = sample(20_000, 1, honest=True)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 4, y)  # class 4 is hard
    half = len(y) // 2
    plain = OrdinalPredictionSets(alpha=0.1).fit(probs[:half], y[:half])
    each = OrdinalPredictionSets(alpha=0.1, conditional=True).fit(probs[:half], y[:half])
    by_class = each.quality(probs[half:], y[half:])
    assert (by_class.class_coverage > 0.88).all()
    assert plain.quality(probs[half:], y[half:]).class_coverage.min() < 0.85


def test_underflowing_tails_do_not_blow_up_the_sets():
    probs, y = sample(4000, 1)
    sharp = probs**8 / (probs**8).sum(1, keepdims=True)  # masses reach 1 before all classes are in
    sets = OrdinalPredictionSets(alpha=0.1).fit(sharp[:2000], y[:2000])
    assert 0.87 < sets.quality(sharp[2000:], y[2000:]).coverage < 0.935


def test_sets_hold_the_mode_and_grow_with_the_promise():
    probs, y = sample(500, 2)
    sizes = []
    for alpha in (0.5, 0.2, 0.05, 0.01):
        low, high = OrdinalPredictionSets(alpha=alpha).fit(probs, y).predict(probs)
        mode = probs.argmax(1)
        assert ((low <= mode) & (mode <= high)).all()
        sizes.append((high - low + 1).mean())
    assert sizes == sorted(sizes)


def test_too_few_rows_give_full_sets_and_a_warning():
    probs, y = sample(5, 3)
    with pytest.warns(CalibrationWarning, match="too few rows for the promise at alpha = 0.1"):
        sets = OrdinalPredictionSets(alpha=0.1).fit(probs, y)
    low, high = sets.predict(probs)
    assert (low == 0).all()
    assert (high == 4).all()
    again = OrdinalPredictionSets.from_dict(json.loads(json.dumps(sets.to_dict())))
    assert np.isinf(again.thresholds_).all()
    with pytest.warns(CalibrationWarning, match="too few rows for class"):
        OrdinalPredictionSets(conditional=True).fit(probs, y)


def test_files_and_bad_input(tmp_path):
    probs, y = sample(100, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sets = OrdinalPredictionSets().fit(probs, y)
    sets.save(tmp_path / "s.json")
    again = OrdinalPredictionSets.load(tmp_path / "s.json")
    assert all((a == b).all() for a, b in zip(again.predict(probs), sets.predict(probs), strict=True))
    with pytest.raises(InputError, match="fitted for 5 classes, got 2"):
        sets.predict([[0.5, 0.5]])
    with pytest.raises(InputError, match="not fitted"):
        OrdinalPredictionSets().predict(probs)
    with pytest.raises(InputError, match=r"alpha: expected a number in \[0, 1\)"):
        OrdinalPredictionSets(alpha=1.5).fit(probs, y)
    with pytest.raises(InputError, match="no prediction sets"):
        OrdinalPredictionSets.from_dict({})
    with pytest.raises(InputError, match="there is no such file"):
        OrdinalPredictionSets.load(tmp_path / "absent.json")


@pytest.mark.parametrize("damage", [{"thresholds": [float("nan")] * 5}, {"thresholds": [0.1]}, {"alpha": "x"}])
def test_damaged_data_are_refused(damage):
    state = OrdinalPredictionSets().fit(*sample(100, seed=0)).to_dict()
    with pytest.raises(InputError, match="the sets' data are damaged"):
        OrdinalPredictionSets.from_dict(state | damage)


def test_whatever_remembers_its_rows_can_be_named_as_the_calibrator():
    probs, y = sample(200, seed=0)
    used = SimpleNamespace(fitted_on_=UsedRows.of(probs[:100], ids=range(100)))
    with pytest.raises(InputError, match=r"10 of the 110 rows \(first: id '90'\) have fitted the calibrator"):
        OrdinalPredictionSets().fit(probs[90:], y[90:], ids=range(90, 200), calibrator=used)
    OrdinalPredictionSets().fit(probs[100:], y[100:], ids=range(100, 200), calibrator=used)
