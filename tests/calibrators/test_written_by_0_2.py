"""Calibrator files written by orcu 0.2 are read to the same probabilities, bit for bit."""

import json
from pathlib import Path

import numpy as np
import pytest

from orcu import calibrators
from orcu.calibrators.groups import KEYS_OF_0_2

FOLDER = Path(__file__).parents[1] / "data" / "written_by_0_2" / "calibrators"
FILES = [path for path in sorted(FOLDER.glob("*.json")) if not path.stem.endswith(".expected")]


def test_every_registered_calibrator_has_a_file_of_0_2():
    assert {json.loads(path.read_text())["calibrator"] for path in FILES} == set(calibrators.names())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_load_of_a_file_of_0_2_predicts_the_same_bits(path, tmp_path):
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    options = {} if expected["subgroup"] is None else {"subgroup": expected["subgroup"]}
    calibrator = calibrators.load(path)
    calibrator.save(tmp_path / "again.json")
    for loaded in (calibrator, calibrators.load(tmp_path / "again.json")):
        assert np.array_equal(loaded.predict_proba(expected["logits"], **options), expected["probs"])
        assert np.array_equal(loaded.predict_logits(expected["logits"], **options), expected["calibrated_logits"])


def test_auto_of_0_2_is_an_average_of_its_chosen_calibrator():
    old = json.loads((FOLDER / "auto.json").read_text())["state"]
    loaded = calibrators.load(FOLDER / "auto.json")
    assert loaded.weights_ == {old["chosen"]: 1.0}
    assert (loaded.chosen_, loaded.scores_, loaded.reason_) == (old["chosen"], old["scores"], old["reason"])


def test_grouped_calibration_writes_the_new_keys(tmp_path):
    old = json.loads((FOLDER / "grouped.json").read_text())["state"]
    new = calibrators.load(FOLDER / "grouped.json").to_dict()["state"]
    for key, old_key in KEYS_OF_0_2.items():
        assert new[key] == old[old_key]
        assert old_key not in new
