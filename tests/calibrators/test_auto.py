"""`AutoCalibration`: the weighted average of calibrators."""

import numpy as np
import pytest

from orcu import calibrators, geometry, metrics
from orcu.calibrators.auto import CANDIDATES, AutoCalibration
from orcu.calibrators.cross_validation import PRIOR_ROWS, LogLosses
from orcu.calibrators.projection import nearest_unimodal
from orcu.errors import InputError
from orcu.model_selection import cross_fit_folds


def sample(rows=600, classes=4, sharpen=2.5, seed=0):
    rng = np.random.default_rng(seed)
    z = -((np.arange(classes) - rng.uniform(-0.5, classes - 0.5, size=(rows, 1))) ** 2)
    y = (rng.random((rows, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return sharpen * z, y


def test_auto_on_overconfident_logits_gives_the_flexible_map_almost_no_weight():
    fitted = AutoCalibration().fit(*sample())
    assert list(fitted.weights_) == list(CANDIDATES)
    assert sum(fitted.weights_.values()) == pytest.approx(1)
    assert fitted.weights_["dirichlet"] < 0.05
    assert fitted.calibrators_["temperature"].temperature_ == pytest.approx(2.5, rel=0.15)


def test_auto_gives_the_dirichlet_map_the_largest_weight_for_swapped_classes():
    z, y = sample(2000)
    swapped = z[:, [1, 0, 2, 3]]
    fitted = AutoCalibration().fit(swapped, y)
    assert fitted.chosen_ == "dirichlet"
    assert fitted.weights_["dirichlet"] > 0.9
    assert fitted.scores_["dirichlet"] < fitted.scores_["temperature"] - 0.1
    assert metrics.unimodality(fitted.predict_proba(swapped)) == 1


def test_auto_predicts_the_projected_weighted_mean_of_its_calibrators():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 4))  # many multimodal rows
    y = (rng.random((300, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
    fitted = AutoCalibration().fit(z, y)
    mean = sum(weight * fitted.calibrators_[name].predict_proba(z) for name, weight in fitted.weights_.items())
    assert metrics.unimodality(mean) < 1
    assert fitted.predict_proba(z) == pytest.approx(nearest_unimodal(mean), abs=1e-15)
    assert geometry.probs(fitted.predict_logits(z)) == pytest.approx(fitted.predict_proba(z), abs=1e-12)


def test_auto_reason_and_scores_are_saved(tmp_path):
    z, y = sample()
    fitted = AutoCalibration().fit(z, y)
    assert set(fitted.scores_) == set(CANDIDATES)
    assert "600 rows" in fitted.reason_
    for name, weight in fitted.weights_.items():
        assert f"{weight:.2f} {name} ({fitted.scores_[name]:.4f})" in fitted.reason_
    fitted.save(tmp_path / "auto.json")
    loaded = calibrators.load(tmp_path / "auto.json")
    assert (loaded.weights_, loaded.scores_, loaded.reason_) == (fitted.weights_, fitted.scores_, fitted.reason_)
    assert (loaded.predict_proba(z) == fitted.predict_proba(z)).all()
    assert repr(loaded) == repr(fitted)


@pytest.mark.parametrize("part", ["weights", "calibrators"])
def test_auto_refuses_a_damaged_file(part):
    state = AutoCalibration().fit(*sample(60)).to_dict()
    damaged = {"weights": {"temperature": 0.5, "gap": 0.6}, "calibrators": {"gap": {}}}
    state["state"][part] = damaged[part]
    with pytest.raises(InputError, match="damaged|not a calibrator"):
        calibrators.from_dict(state)


def test_auto_with_8_rows_uses_the_fallback():
    z, y = sample(8)
    with pytest.warns(calibrators.CalibrationWarning):
        fitted = AutoCalibration().fit(z, y)
    assert fitted.weights_ == {"temperature": 1.0}
    assert fitted.chosen_ == "temperature"
    assert "8 rows" in fitted.reason_
    assert metrics.unimodality(fitted.predict_proba(z)) == 1


def test_average_weights_minimise_the_penalised_log_loss():
    rng = np.random.default_rng(0)
    probs, weight = rng.uniform(0.05, 0.95, size=(3, 200)), rng.uniform(0.5, 2.0, size=200)
    share = weight / weight.sum()
    weights = LogLosses(-np.log(probs), share).average_weights()

    def objective(w):
        return share @ np.log(w @ probs) + PRIOR_ROWS * (share @ share) * np.log(w[:-1]).sum()

    assert weights.sum() == pytest.approx(1)
    for step in 0.01 * np.array([[1, -1, 0], [-1, 1, 0], [1, 0, -1], [-1, 0, 1]]):
        if (weights + step > 0).all():
            assert objective(weights + step) < objective(weights)


def test_average_weights_of_equal_candidates_avoid_the_last():
    weights = LogLosses(np.ones((3, 50)), np.full(50, 0.02)).average_weights()
    assert weights[:2] == pytest.approx(0.5, abs=0.01)
    assert weights[2] < 0.01


def test_auto_ignores_rows_of_weight_0():
    z, y = sample(400)
    noise, labels = sample(400, seed=1)
    weight = np.repeat([1.0, 0.0], 400)
    both = AutoCalibration().fit(np.concatenate([z, -noise]), np.concatenate([y, labels]), sample_weight=weight)
    alone = AutoCalibration().fit(z, y)
    assert both.weights_ == pytest.approx(alone.weights_)
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

    assert by_row.weights_["dirichlet"] > 0.7
    assert by_group.weights_["dirichlet"] < 0.2
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
