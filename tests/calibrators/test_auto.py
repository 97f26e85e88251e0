"""The calibrator that chooses itself, and the weights of a pool."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from orcu import calibrators, geometry, metrics
from orcu.calibrators.auto import CANDIDATES, AutoCalibration
from orcu.calibrators.pool import pool, pool_weights, pooled
from orcu.errors import InputError
from orcu.model_selection import deal


def sample(rows=600, classes=4, sharpen=2.5, seed=0):
    rng = np.random.default_rng(seed)
    z = -((np.arange(classes) - rng.uniform(-0.5, classes - 0.5, size=(rows, 1))) ** 2)
    y = (rng.random((rows, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return sharpen * z, y


def test_a_model_that_is_too_sharp_gets_a_temperature_and_a_good_one_is_left_alone():
    assert AutoCalibration().fit(*sample()).chosen_ == "temperature+projection"
    assert AutoCalibration().fit(*sample(sharpen=1.0)).chosen_ == "projection"


def test_a_model_that_takes_one_class_for_another_gets_a_map_that_mixes_classes():
    z, y = sample(2000)
    wrong = z[:, [1, 0, 2, 3]]
    fitted = AutoCalibration().fit(wrong, y)
    assert fitted.chosen_ in {"ordinal_dirichlet+projection", "dirichlet+projection"}
    assert fitted.scores_[fitted.chosen_] < fitted.scores_["temperature+projection"] - 0.1
    assert metrics.unimodality(fitted.predict_proba(wrong)) == 1


def test_the_choice_is_told_and_kept_in_files(tmp_path):
    z, y = sample()
    fitted = AutoCalibration().fit(z, y)
    assert set(fitted.scores_) == set(CANDIDATES)
    assert fitted.reason_.startswith("temperature+projection: log loss 0.")
    assert "600 rows" in fitted.reason_
    fitted.save(tmp_path / "auto.json")
    again = calibrators.load(tmp_path / "auto.json")
    assert (again.chosen_, again.scores_, again.reason_) == (fitted.chosen_, fitted.scores_, fitted.reason_)
    assert (again.predict_proba(z) == fitted.predict_proba(z)).all()
    state = json.loads((tmp_path / "auto.json").read_text())
    state["state"]["calibrator"]["state"] = {}
    with pytest.raises(InputError, match="damaged"):
        calibrators.from_dict(state)


def test_of_few_rows_nothing_is_compared():
    z, y = sample(8)
    with pytest.warns(calibrators.CalibrationWarning):
        fitted = AutoCalibration().fit(z, y)
    assert fitted.chosen_ == "temperature+projection"
    assert "8 rows are too few" in fitted.reason_


def test_rows_of_no_weight_do_not_choose():
    z, y = sample(400)
    noise, labels = sample(400, seed=1)
    weight = np.repeat([1.0, 0.0], 400)
    both = AutoCalibration().fit(np.concatenate([z, -noise]), np.concatenate([y, labels]), weight=weight)
    alone = AutoCalibration().fit(z, y)
    assert both.chosen_ == alone.chosen_
    assert both.predict_proba(z) == pytest.approx(alone.predict_proba(z))


@pytest.mark.filterwarnings("ignore::orcu.errors.CalibrationWarning")  # few rows
@pytest.mark.parametrize("rows", [25, 100])
def test_on_few_rows_it_is_no_worse_than_the_best_of_them(rows):
    test, labels = sample(4000, seed=99)
    scores = {name: [] for name in ("auto", "temperature", "ordinal_dirichlet", "dirichlet")}
    for seed in range(10):
        z, y = sample(rows, seed=seed)
        for name, values in scores.items():
            values.append(metrics.rps(calibrators.create(name).fit(z, y).predict_proba(test), labels))
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["auto"] < 1.02 * min(means.values())


def test_pools_give_members_what_they_are_worth():
    rng = np.random.default_rng(0)
    z, y = sample(2000, sharpen=1.0)
    good, noise = geometry.log_probs(z), geometry.log_probs(rng.normal(size=z.shape))
    assert pool_weights(np.stack([good, noise]), y).tolist() == [1.0, 0.0]
    assert pool_weights(np.stack([noise, good]), y).tolist() == [0.0, 1.0]
    half = [geometry.log_probs(z + rng.normal(scale=1.0, size=z.shape)) for _ in range(3)]
    weights = pool_weights(np.stack(half), y)
    assert weights == pytest.approx(np.full(3, 1 / 3), abs=0.15)
    assert weights.sum() == pytest.approx(1)
    own = [-log[np.arange(2000), y].mean() for log in half]
    together = -geometry.log_probs(pooled(np.stack(half), weights))[np.arange(2000), y].mean()
    assert together < min(own)
    # a member that is right but too sharp is not to be blamed for what the calibrator will mend
    sharp = geometry.log_probs(6 * z)
    assert pool_weights(np.stack([sharp, half[0]]), y)[0] > 0.5


def test_pools_of_few_rows_are_near_equal_weights_and_of_one_member_its_own():
    z, y = sample(12)
    rng = np.random.default_rng(0)
    members = np.stack([geometry.log_probs(z + rng.normal(size=z.shape)) for _ in range(3)])
    assert pool_weights(members, y) == pytest.approx(np.full(3, 1 / 3), abs=0.25)
    assert pool_weights(members[:1], y).tolist() == [1.0]
    counted = pool_weights(members[:, [0, 0, 1, 2]], y[[0, 0, 1, 2]])
    weighted = pool_weights(members[:, :3], y[:3], np.array([2.0, 1.0, 1.0]))
    assert weighted == pytest.approx(counted, abs=0.02)
    with pytest.raises(InputError, match="no member"):
        pool_weights(members[:0], y)


def test_a_member_that_is_far_too_sure_is_weighed_for_what_it_knows():
    """Trees may be right more often and sixty times too sure: they are not left out for it, nor do they outvote all."""
    z, y = sample(600)
    rng = np.random.default_rng(0)
    folds = deal(y, 5)
    sure, noisy = (geometry.log_probs(z + rng.normal(size=z.shape)) for _ in range(2))
    equals = pool([Said("a", sure), Said("b", noisy)], folds, y).weights
    much_too_sure = [Said("a", geometry.log_probs(60 * sure)), Said("b", noisy)]
    assert pool(much_too_sure, folds, y).weights["a"] == pytest.approx(equals["a"], abs=0.05)
    good = [Said("a", geometry.log_probs(60 * z)), Said("b", noisy)]
    assert pool(good, folds, y).weights["a"] > 0.55


@dataclass
class Said:
    """What models of one loss said out of fold."""

    name: str
    log_probs: object


def test_rows_of_a_subject_are_judged_by_maps_that_saw_none_of_them():
    # every subject has its own frequencies: a free map learns those of its own rows, which help no other subject
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(12), 60)
    own = rng.dirichlet(np.full(4, 0.3), size=12)[subject]
    y = (rng.random((len(subject), 1)) > own.cumsum(axis=1)[:, :-1]).sum(axis=1)
    logits = rng.normal(size=(12, 4))[subject] + 0.1 * rng.normal(size=(len(subject), 4))

    alone = calibrators.create("auto").fit(logits, y)
    together = calibrators.create("auto").fit(logits, y, subject=[f"q{k}" for k in subject])

    assert "dirichlet" in alone.chosen_
    assert together.chosen_ in {"projection", "temperature+projection"}
    assert min(together.scores_.values()) > min(alone.scores_.values()) + 0.1


def test_a_single_subject_is_dealt_by_rows():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    one = calibrators.create("auto").fit(logits, y, subject=np.zeros(60, dtype=int))
    assert one.scores_ == calibrators.create("auto").fit(logits, y).scores_


@pytest.mark.parametrize(("subject", "words"), [([1, 2], "one entry per row"), ([None] + [1] * 59, "row 0 is empty")])
def test_subjects_that_do_not_fit_are_refused(subject, words):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=words):
        calibrators.create("auto").fit(rng.normal(size=(60, 3)), rng.integers(3, size=60), subject=subject)


def test_subjects_of_one_class_each_leave_no_fold_empty():
    y = np.repeat([0, 1, 2], 10)
    folds = deal(y, 3, stop=0, groups=y)
    assert sorted(len(fold.held) for fold in folds) == [10, 10, 10]
    calibrators.create("auto").fit(2 * np.eye(3)[y], y, subject=y)  # and nothing is fitted on no rows
