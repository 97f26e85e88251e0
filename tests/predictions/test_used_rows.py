"""Rows have one job: what fitted a calibrator or sets is known, and refused as a judge."""

import numpy as np
import pytest

from orcu import OrdinalPredictionSets, Predictions, evaluate
from orcu.calibrators import TemperatureScaling
from orcu.errors import InputError
from orcu.predictions.used_rows import UsedRows


@pytest.fixture
def told():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 4))
    return Predictions(logits=logits, y=rng.integers(4, size=300), ids=np.arange(300))


def test_rows_are_known_by_id_or_by_their_values():
    values = np.eye(4)
    named = UsedRows.of(values, ids=["a", "b", "c", "d"])
    assert named.shared_with(UsedRows.of(values + 1, ids=["d", "x", "y", "a"])) == 2
    assert named.shared_with(UsedRows.of(values, ids=["w", "x", "y", "z"])) == 0  # ids decide
    assert named.shared_with(UsedRows.of(values)) == 4
    assert named.shared_with(UsedRows.of(values[:3])) == 0
    assert UsedRows.from_dict(named.to_dict()) == named
    with pytest.raises(InputError, match="3 ids for 4 rows"):
        UsedRows.of(values, ids=["a", "b", "c"])


def test_sets_refuse_rows_that_fitted_the_calibrator(told):
    fit, judge = told[:200], told[150:]
    calibrator = TemperatureScaling().fit(fit.logits, fit.y, ids=fit.ids)
    probs = calibrator.predict_proba(judge.logits)
    with pytest.raises(InputError, match=r"50 of the 150 rows \(first: id '150'\) have fitted the"):
        OrdinalPredictionSets().fit(probs, judge.y, ids=judge.ids, calibrator=calibrator)
    with pytest.raises(InputError, match="ids: give them to the calibrator's fit"):
        OrdinalPredictionSets().fit(probs, judge.y, calibrator=calibrator)
    sets = OrdinalPredictionSets().fit(probs[50:], judge.y[50:], ids=judge.ids[50:], calibrator=calibrator)
    assert sets.fitted_on_.count == 100
    assert OrdinalPredictionSets.from_dict(sets.to_dict()).fitted_on_ == sets.fitted_on_


def test_sets_are_not_judged_on_rows_that_fitted_them(told):
    sets = OrdinalPredictionSets().fit(told.probs[:200], told.y[:200])
    with pytest.raises(InputError, match="200 of the 200 rows have fitted these sets"):
        sets.quality(told.probs[:200], told.y[:200])
    assert 0 < sets.quality(told.probs[200:], told.y[200:]).coverage <= 1


def test_an_evaluation_says_when_rows_fitted_their_own_calibrator(told, tmp_path):
    calibrator = TemperatureScaling().fit(told.logits[:200], told.y[:200], ids=told.ids[:200])
    told[100:].calibrated(calibrator).write(tmp_path / "moved.parquet")
    moved = Predictions.read(tmp_path / "moved.parquet")
    notes = evaluate(moved, bootstrap=0).notes
    assert any("100 of 200 rows have fitted the temperature calibrator" in note for note in notes)
    clean = told[200:].calibrated(calibrator)
    assert not any("have fitted" in note for note in evaluate(clean, bootstrap=0).notes)
    assert told.history == ()  # nothing changes its inputs


def test_ids_match_however_their_column_came():
    ids = UsedRows.of(np.eye(3), ids=[1, 2, 3])
    assert ids.shared_with(UsedRows.of(np.zeros((2, 3)), ids=np.array([3.0, 4.0]))) == 1
    assert ids.shared_with(UsedRows.of(np.zeros((1, 3)), ids=["2"])) == 1
