"""`AutoCalibration`: the choice of a calibrator."""

import json

import numpy as np
import pytest

from orcu import calibrators, geometry, metrics
from orcu.calibrators.auto import CANDIDATES, AutoCalibration
from orcu.errors import InputError
from orcu.model_selection import cross_fit_folds


def sample(rows=600, classes=4, sharpen=2.5, seed=0):
    rng = np.random.default_rng(seed)
    z = -((np.arange(classes) - rng.uniform(-0.5, classes - 0.5, size=(rows, 1))) ** 2)
    y = (rng.random((rows, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return sharpen * z, y


def test_auto_chooses_temperature_for_overconfident_logits_and_projection_for_calibrated_ones():
    assert AutoCalibration().fit(*sample()).chosen_ == "temperature+projection"
    assert AutoCalibration().fit(*sample(sharpen=1.0)).chosen_ == "projection"


def test_auto_chooses_a_dirichlet_map_for_swapped_classes():
    z, y = sample(2000)
    swapped = z[:, [1, 0, 2, 3]]
    fitted = AutoCalibration().fit(swapped, y)
    assert fitted.chosen_ in {"ordinal_dirichlet+projection", "dirichlet+projection"}
    assert fitted.scores_[fitted.chosen_] < fitted.scores_["temperature+projection"] - 0.1
    assert metrics.unimodality(fitted.predict_proba(swapped)) == 1


def test_auto_reason_and_scores_are_saved(tmp_path):
    z, y = sample()
    fitted = AutoCalibration().fit(z, y)
    assert set(fitted.scores_) == set(CANDIDATES)
    assert fitted.reason_.startswith("temperature+projection:")
    for expected in ("600 rows", f"{fitted.scores_[fitted.chosen_]:.4f}", f"{min(fitted.scores_.values()):.4f}"):
        assert expected in fitted.reason_
    fitted.save(tmp_path / "auto.json")
    loaded = calibrators.load(tmp_path / "auto.json")
    assert (loaded.chosen_, loaded.scores_, loaded.reason_) == (fitted.chosen_, fitted.scores_, fitted.reason_)
    assert (loaded.predict_proba(z) == fitted.predict_proba(z)).all()
    state = json.loads((tmp_path / "auto.json").read_text())
    state["state"]["calibrator"]["state"] = {}
    with pytest.raises(InputError, match="damaged"):
        calibrators.from_dict(state)


def test_auto_with_8_rows_uses_the_fallback():
    z, y = sample(8)
    with pytest.warns(calibrators.CalibrationWarning):
        fitted = AutoCalibration().fit(z, y)
    assert fitted.chosen_ == "temperature+projection"
    assert "8 rows" in fitted.reason_


def test_auto_ignores_rows_of_weight_0():
    z, y = sample(400)
    noise, labels = sample(400, seed=1)
    weight = np.repeat([1.0, 0.0], 400)
    both = AutoCalibration().fit(np.concatenate([z, -noise]), np.concatenate([y, labels]), sample_weight=weight)
    alone = AutoCalibration().fit(z, y)
    assert both.chosen_ == alone.chosen_
    assert both.predict_proba(z) == pytest.approx(alone.predict_proba(z))


@pytest.mark.filterwarnings("ignore::orcu.errors.CalibrationWarning")  # few rows
@pytest.mark.parametrize("rows", [25, 100])
def test_auto_on_few_rows_is_within_two_percent_of_the_best_calibrator(rows):
    test, labels = sample(4000, seed=99)
    scores = {name: [] for name in ("auto", "temperature", "ordinal_dirichlet", "dirichlet")}
    for seed in range(10):
        z, y = sample(rows, seed=seed)
        for name, values in scores.items():
            values.append(metrics.rps(calibrators.create(name).fit(z, y).predict_proba(test), labels))
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["auto"] < 1.02 * min(means.values())


def test_auto_with_groups_cross_validates_over_groups():
    # each group has other class frequencies: what a flexible map learns from a group does not help other groups
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 60)
    frequencies = rng.dirichlet(np.full(4, 0.3), size=12)[groups]
    y = (rng.random((len(groups), 1)) > frequencies.cumsum(axis=1)[:, :-1]).sum(axis=1)
    logits = rng.normal(size=(12, 4))[groups] + 0.1 * rng.normal(size=(len(groups), 4))

    by_row = calibrators.create("auto").fit(logits, y)
    by_group = calibrators.create("auto").fit(logits, y, groups=[f"q{k}" for k in groups])

    assert "dirichlet" in by_row.chosen_
    assert by_group.chosen_ in {"projection", "temperature+projection"}
    assert min(by_group.scores_.values()) > min(by_row.scores_.values()) + 0.1


def test_auto_with_a_single_group_splits_by_row():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    fitted = calibrators.create("auto").fit(logits, y, groups=np.zeros(60, dtype=int))
    assert fitted.scores_ == calibrators.create("auto").fit(logits, y).scores_


@pytest.mark.parametrize(("groups", "message"), [([1, 2], "^groups: "), ([None] + [1] * 59, "^groups: row 0")])
def test_auto_refuses_invalid_groups(groups, message):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=message):
        calibrators.create("auto").fit(rng.normal(size=(60, 3)), rng.integers(3, size=60), groups=groups)


def test_auto_with_groups_of_one_class_has_no_empty_fold():
    y = np.repeat([0, 1, 2], 10)
    folds = cross_fit_folds(y, 3, early_stopping=0, groups=y)
    assert sorted(len(fold.test) for fold in folds) == [10, 10, 10]
    calibrators.create("auto").fit(2 * np.eye(3)[y], y, groups=y)
