"""Tests of prediction sets: contiguity, nesting and coverage."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import OrdinalPredictionSets
from orcu.calibrators import CalibrationWarning
from orcu.decisions.conformal import CrossConformalSets, scores
from orcu.errors import InputError
from orcu.predictions.used_rows import UsedRows


def sample(rows, seed, size=5, calibrated=False):
    """Predictions of a miscalibrated model, or of a calibrated one."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(size, 0.5), size=rows)
    y = (rng.random((rows, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
    return (probs if calibrated else probs**3 / (probs**3).sum(1, keepdims=True)), y


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
@settings(deadline=None, max_examples=60)
def test_scores_equal_the_masses_of_growing_intervals(seed, size):
    probs = np.random.default_rng(seed).dirichlet(np.ones(size), size=4)
    for p, row_scores in zip(probs, scores(probs), strict=True):
        low = high = int(p.argmax())
        mass = p[low]
        expected = {low: 0.0}
        while len(expected) < size:
            below = p[low - 1] if low > 0 else -1
            above = p[high + 1] if high < size - 1 else -1
            low, high, new = (low - 1, high, low - 1) if below >= above else (low, high + 1, high + 1)
            expected[new] = mass
            mass += p[new]
        assert row_scores == pytest.approx([expected[k] for k in range(size)], abs=1e-7)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("calibrated", [True, False])
def test_prediction_sets_have_their_nominal_coverage_in_finite_samples(alpha, calibrated):
    """Mean coverage over many small fitting sets lies between 1 - alpha and 1 - alpha + 1/(n+1)."""
    rows, repeats = 39, 300
    coverages = []
    for seed in range(repeats):
        probs, y = sample(rows + 200, seed, calibrated=calibrated)
        sets = OrdinalPredictionSets(alpha=alpha).fit(probs[:rows], y[:rows])
        coverages.append(sets.coverage_report(probs[rows:], y[rows:]).coverage)
    slack = 3 * np.std(coverages) / np.sqrt(repeats)
    assert np.mean(coverages) >= 1 - alpha - slack


def test_prediction_sets_class_conditional_covers_each_class():
    probs, y = sample(20_000, 1, calibrated=True)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 4, y)  # class 4 is hard
    half = len(y) // 2
    plain = OrdinalPredictionSets(alpha=0.1).fit(probs[:half], y[:half])
    each = OrdinalPredictionSets(alpha=0.1, class_conditional=True).fit(probs[:half], y[:half])
    by_class = each.coverage_report(probs[half:], y[half:])
    assert (by_class.class_coverage > 0.88).all()
    assert plain.coverage_report(probs[half:], y[half:]).class_coverage.min() < 0.85


def test_prediction_sets_with_underflowing_tails_keep_their_coverage():
    probs, y = sample(4000, 1)
    sharp = probs**8 / (probs**8).sum(1, keepdims=True)  # masses reach 1 before all classes are in
    sets = OrdinalPredictionSets(alpha=0.1).fit(sharp[:2000], y[:2000])
    assert 0.87 < sets.coverage_report(sharp[2000:], y[2000:]).coverage < 0.935


def test_prediction_sets_contain_the_mode_and_grow_as_alpha_falls():
    probs, y = sample(500, 2)
    sizes = []
    for alpha in (0.5, 0.2, 0.05, 0.01):
        low, high = OrdinalPredictionSets(alpha=alpha).fit(probs, y).predict(probs)
        mode = probs.argmax(1)
        assert ((low <= mode) & (mode <= high)).all()
        sizes.append((high - low + 1).mean())
    assert sizes == sorted(sizes)


def test_prediction_sets_fit_too_few_rows_warns_and_predicts_all_classes():
    probs, y = sample(5, 3)
    with pytest.warns(CalibrationWarning, match="alpha = 0.1.*9 rows"):
        sets = OrdinalPredictionSets(alpha=0.1).fit(probs, y)
    low, high = sets.predict(probs)
    assert (low == 0).all()
    assert (high == 4).all()
    again = OrdinalPredictionSets.from_dict(json.loads(json.dumps(sets.to_dict())))
    assert np.isinf(again.thresholds_).all()
    with pytest.warns(CalibrationWarning, match="alpha = 0.1.*class 0"):
        OrdinalPredictionSets(class_conditional=True).fit(probs, y)


def test_prediction_sets_save_load_and_invalid_arguments(tmp_path):
    probs, y = sample(100, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sets = OrdinalPredictionSets().fit(probs, y)
    sets.save(tmp_path / "s.json")
    again = OrdinalPredictionSets.load(tmp_path / "s.json")
    assert all((a == b).all() for a, b in zip(again.predict(probs), sets.predict(probs), strict=True))
    with pytest.raises(InputError, match="5 classes, got 2"):
        sets.predict([[0.5, 0.5]])
    with pytest.raises(InputError, match="not fitted"):
        OrdinalPredictionSets().predict(probs)
    with pytest.raises(InputError, match=r"^alpha: .*\[0, 1\)"):
        OrdinalPredictionSets(alpha=1.5).fit(probs, y)
    with pytest.raises(InputError, match="^prediction_sets:"):
        OrdinalPredictionSets.from_dict({})
    with pytest.raises(InputError, match="absent.json"):
        OrdinalPredictionSets.load(tmp_path / "absent.json")


@pytest.mark.parametrize("damage", [{"thresholds": [float("nan")] * 5}, {"thresholds": [0.1]}, {"alpha": "x"}])
def test_prediction_sets_from_dict_damaged_data_raises(damage):
    state = OrdinalPredictionSets().fit(*sample(100, seed=0)).to_dict()
    with pytest.raises(InputError, match="thresholds|alpha"):
        OrdinalPredictionSets.from_dict(state | damage)


def test_prediction_sets_fit_rows_of_the_calibrator_raises():
    probs, y = sample(200, seed=0)
    used = SimpleNamespace(fitted_on_=UsedRows.from_values(probs[:100], ids=range(100)))
    with pytest.raises(InputError, match=r"^10 of the 110 rows .*'90'.*calibrator"):
        OrdinalPredictionSets().fit(probs[90:], y[90:], ids=range(90, 200), calibrator=used)
    OrdinalPredictionSets().fit(probs[100:], y[100:], ids=range(100, 200), calibrator=used)


def test_prediction_sets_load_reads_a_file_of_0_2():
    sets = OrdinalPredictionSets.load(Path(__file__).parents[1] / "data" / "written_by_0_2" / "prediction_sets.json")
    rng = np.random.default_rng(1)
    probs, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    again = OrdinalPredictionSets(alpha=0.2, class_conditional=True).fit(probs, y, ids=range(60))
    assert (sets.alpha, sets.class_conditional, sets.fitted_on_) == (0.2, True, again.fitted_on_)
    assert (sets.thresholds_ == again.thresholds_).all()


def test_prediction_sets_repr_names_options_rows_and_thresholds():
    probs, y = sample(200, seed=0)
    sets = OrdinalPredictionSets(alpha=0.2)
    assert repr(sets) == "OrdinalPredictionSets(alpha=0.2, class_conditional=False)"
    sets.fit(probs, y)
    for part in ("alpha=0.2", "5 classes", "200 rows", f"{sets.thresholds_[0]:.3g}"):
        assert part in repr(sets)
    cross = CrossConformalSets(alpha=0.3).fit(probs, y, fold=np.arange(200) % 4)
    for part in ("alpha=0.3", "5 classes", "200 rows", "4 folds"):
        assert part in repr(cross)
