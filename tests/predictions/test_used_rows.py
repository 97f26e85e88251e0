"""`UsedRows`: rows that fitted a calibrator or prediction sets are detected when they are used again."""

import numpy as np
import pytest

from orcu import OrdinalPredictionSets, Predictions, evaluate
from orcu.calibrators import TemperatureScaling
from orcu.errors import InputError
from orcu.predictions.used_rows import UsedRows


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 4))
    return Predictions(logits=logits, y=rng.integers(4, size=300), ids=np.arange(300))


def test_count_shared_compares_ids_or_else_the_digest():
    values = np.eye(4)
    with_ids = UsedRows.from_values(values, ids=["a", "b", "c", "d"])
    assert with_ids.count_shared(UsedRows.from_values(values + 1, ids=["d", "x", "y", "a"])) == 2
    assert with_ids.count_shared(UsedRows.from_values(values, ids=["w", "x", "y", "z"])) == 0  # ids decide
    assert with_ids.count_shared(UsedRows.from_values(values)) == 4
    assert with_ids.count_shared(UsedRows.from_values(values[:3])) == 0
    assert UsedRows.from_dict(with_ids.to_dict()) == with_ids
    with pytest.raises(InputError, match="^ids: 3 ids for 4 rows"):
        UsedRows.from_values(values, ids=["a", "b", "c"])


def test_count_shared_ids_of_different_types_match():
    rows = UsedRows.from_values(np.eye(3), ids=[1, 2, 3])
    assert rows.count_shared(UsedRows.from_values(np.zeros((2, 3)), ids=np.array([3.0, 4.0]))) == 1
    assert rows.count_shared(UsedRows.from_values(np.zeros((1, 3)), ids=["2"])) == 1


def test_prediction_sets_fit_rejects_rows_of_the_calibrator(predictions):
    fit, test = predictions[:200], predictions[150:]
    calibrator = TemperatureScaling().fit(fit.logits, fit.y, ids=fit.ids)
    probs = calibrator.predict_proba(test.logits)
    with pytest.raises(InputError, match=r"50 of the 150 rows \(first: id '150'\)"):
        OrdinalPredictionSets().fit(probs, test.y, ids=test.ids, calibrator=calibrator)
    with pytest.raises(InputError, match="^ids:"):
        OrdinalPredictionSets().fit(probs, test.y, calibrator=calibrator)
    sets = OrdinalPredictionSets().fit(probs[50:], test.y[50:], ids=test.ids[50:], calibrator=calibrator)
    assert sets.fitted_on_.count == 100
    assert OrdinalPredictionSets.from_dict(sets.to_dict()).fitted_on_ == sets.fitted_on_


def test_prediction_sets_coverage_report_rejects_the_rows_of_the_fit(predictions):
    sets = OrdinalPredictionSets().fit(predictions.probs[:200], predictions.y[:200])
    with pytest.raises(InputError, match="200 of the 200 rows"):
        sets.coverage_report(predictions.probs[:200], predictions.y[:200])
    assert 0 < sets.coverage_report(predictions.probs[200:], predictions.y[200:]).coverage <= 1


def test_evaluate_warns_about_rows_that_fitted_their_calibrator(predictions, tmp_path):
    calibrator = TemperatureScaling().fit(predictions.logits[:200], predictions.y[:200], ids=predictions.ids[:200])
    predictions[100:].calibrated(calibrator).write(tmp_path / "calibrated.parquet")
    notes = evaluate(Predictions.read(tmp_path / "calibrated.parquet"), n_resamples=0).notes
    assert any(note.startswith("WARNING: 100 of 200 rows") and "temperature" in note for note in notes)
    unused = evaluate(predictions[200:].calibrated(calibrator), n_resamples=0)
    assert not any(note.startswith("WARNING") for note in unused.notes)
    assert predictions.history == ()  # the input is unchanged
