"""One held-out part in place of cross-fitting folds."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit

from orcu import InputError, OrdinalBoosting, OrdinalClassifier, metrics
from orcu.boosting import learner
from orcu.estimators import base
from orcu.model_selection import cross_fit_folds, hold_out

ONE_SPLIT = ShuffleSplit(1, test_size=0.3, random_state=0)


def sample(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.digitize(x[:, 0] + 0.7 * rng.logistic(size=rows), [-1, 0.5, 2])


def test_cross_fit_folds_of_one_split_stop_early_on_training_rows():
    y = np.arange(500) % 4
    (split,) = hold_out(y, 100)
    (fold,) = cross_fit_folds(y, [split], early_stopping=0.1)
    np.testing.assert_array_equal(fold.test, split[1])
    assert len(fold.test) == 100
    assert len(fold.early_stopping) == 50
    assert np.bincount(y[fold.test]).tolist() == [25] * 4
    np.testing.assert_array_equal(np.sort(np.concatenate([fold.all_training, fold.test])), np.arange(500))


def test_hold_out_keeps_groups_on_one_side():
    groups = np.arange(600) // 3
    ((train, test),) = hold_out(np.arange(600) % 4, 150, groups=groups)
    assert not set(groups[train]) & set(groups[test])
    assert 100 <= len(test) <= 200
    (fold,) = cross_fit_folds(np.arange(600) % 4, [(train, test)], groups=groups)
    assert not set(groups[fold.early_stopping]) & set(groups[fold.train])


@pytest.mark.parametrize("test", [np.arange(0), np.arange(100)])
def test_cross_fit_folds_refuse_a_split_without_training_or_test_rows(test):
    with pytest.raises(InputError, match="one fold without training rows, or without test rows"):
        cross_fit_folds(np.arange(100) % 4, [(np.arange(0), test)])


@pytest.mark.parametrize("estimator", [OrdinalBoosting, OrdinalClassifier])
def test_auto_holds_out_rows_of_large_tables_only(estimator, monkeypatch):
    options = {"n_estimators": 20} if estimator is OrdinalBoosting else {"estimators": "linear"}
    x, y = sample(400)
    assert estimator(**options).fit(x, y).ensemble_.n_folds == 5
    monkeypatch.setattr(base, "HOLD_OUT_FROM", 400)
    model = estimator(**options, random_state=0).fit(x, y)
    assert model.ensemble_.n_folds == 1
    assert len(model.ensemble_.rows) == len(model.ensemble_.logits) == 80
    assert "80 held-out rows" in str(model)
    assert estimator(**options, cv=5).fit(x, y).ensemble_.n_folds == 5


def test_model_with_held_out_rows_calibrates_covers_and_diagnoses():
    x, y = sample(3000)
    weight, groups = np.random.default_rng(1).uniform(1, 2, size=3000), np.arange(3000) // 2
    model = OrdinalClassifier(estimators=["linear", "boosting"], cv=hold_out_splitter(groups), random_state=0)
    model.fit(x, y, sample_weight=weight, groups=groups)
    rows = model.ensemble_.rows
    np.testing.assert_array_equal(model.ensemble_.y, y[rows])
    assert np.isfinite(model.ensemble_.logits).all()
    new, labels = sample(4000, seed=1)
    probs = model.predict_proba(new)
    assert metrics.rps(probs, labels) < 0.9 * metrics.rps(np.tile(np.bincount(y) / len(y), (4000, 1)), labels)
    assert metrics.unimodality(probs) == 1
    low, high = model.predict_sets(new, alpha=0.1).T
    assert 0.86 <= np.mean((low <= labels) & (labels <= high)) <= 0.95
    assert model.diagnose().rows == len(rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(new), probs)


def hold_out_splitter(groups):
    """A splitter of one split that keeps groups together."""
    from sklearn.model_selection import GroupShuffleSplit

    return GroupShuffleSplit(1, test_size=0.3, random_state=0)


def test_boosters_of_one_fold_are_trained_once_per_size(monkeypatch):
    import lightgbm

    trained, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *args, **options: trained.append(1) or train(*args, **options))
    x, y = sample(600)
    model = OrdinalBoosting(cv=ONE_SPLIT, n_estimators=60, random_state=0).fit(x, y)
    assert len(trained) == len(learner.NUM_LEAVES)
    (booster,) = model.boosters_["ce"]
    assert model.n_iter_ == booster.best_iteration < 60


def test_sizes_are_settled_on_as_many_folds_as_needed(monkeypatch):
    x, y = sample(1000)
    stopped = []
    stop_early = learner.BoostingLearner.__subclasses__()[0].stop_early
    monkeypatch.setattr(
        learner.BoostingLearner.__subclasses__()[0],
        "stop_early",
        lambda self, *args: stopped.append(1) or stop_early(self, *args),
    )
    for rows, folds in ((200, 2), (10_000, 5)):
        stopped.clear()
        monkeypatch.setattr(learner, "STOPPING_ROWS", rows)
        OrdinalBoosting(num_leaves=7, n_estimators=10, random_state=0).fit(x, y)
        assert len(stopped) == folds


@pytest.mark.parametrize(("rows", "epochs"), [(100, 50), (15_000, 50), (30_000, 25), (1_000_000, 10)])
def test_automatic_epochs_fall_with_the_number_of_rows(rows, epochs):
    assert OrdinalClassifier()._train_config(rows, early_stopping=True).epochs == epochs
    assert OrdinalClassifier(epochs=7)._train_config(rows, early_stopping=True).epochs == 7
