"""`OrdinalClassifier` with linear models, forests, networks and boosted trees as base learners."""

import pickle

import numpy as np
import pandas as pd
import pytest

from orcu import OrdinalClassifier, errors, geometry, metrics
from orcu.ensemble.kinds import MAX_TABLE_COLUMNS
from orcu.errors import InputError, UnknownNameError
from orcu.metrics import rows

pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
QUICK = {"hidden_layer_sizes": (8,), "epochs": 4, "learning_rate": 0.03, "random_state": 0}


def sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "site": rng.choice(["n", "s", "w"], n)})
    frame.loc[frame.index % 11 == 0, "b"] = np.nan
    steps = np.sign(frame["a"]) * np.sign(frame["b"].fillna(0))  # what four epochs of eight units cannot learn
    return frame, np.digitize(steps + (frame["site"] == "s") + 0.4 * rng.normal(size=n), [-0.5, 0.5, 1.5])


@pytest.fixture(scope="module")
def fitted():
    return OrdinalClassifier(**QUICK).fit(*sample())


def test_ordinal_classifier_on_a_table_uses_trees_where_they_help(fitted):
    frame, y = sample(seed=1)
    assert list(fitted.weights_) == ["linear", "extra trees", "random forest", "ce", "sord", "orcu", "ce trees"]
    assert sum(fitted.weights_[name] for name in ("extra trees", "random forest", "ce trees")) > 0.3
    networks = OrdinalClassifier(**QUICK, estimators="network").fit(*sample())
    mixed, plain = fitted.predict_proba(frame), networks.predict_proba(frame)
    assert metrics.rps(mixed, y) < 0.9 * metrics.rps(plain, y)
    assert metrics.unimodality(mixed) == 1
    assert set(networks.weights_) == {"ce", "sord", "orcu"}


def test_predict_logits_is_the_weighted_mean_of_member_log_probabilities(fitted):
    frame, _ = sample(40, seed=1)
    log_probs = fitted.ensemble_.member_log_probs(fitted._encode(frame))
    factors = [factor for factor in fitted.ensemble_.factors.values() if factor > 0]
    logits = np.einsum("l,lknc->nc", factors, log_probs) / 5
    np.testing.assert_allclose(fitted.predict_logits(frame), logits, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(frame), fitted.calibrator_.predict_proba(logits))
    assert fitted.predict_proba_members(frame).shape == (5 * len(factors), 40, 4)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1)


def test_ensemble_logits_on_random_labels_are_no_better_than_frequencies():
    frame, y = sample(400)
    noise = np.random.default_rng(0).permutation(y)  # nothing to learn, but in-fold trees would fit it
    model = OrdinalClassifier(**QUICK, estimators="boosting", calibrator=None).fit(frame, noise)
    learned = metrics.nll(geometry.probs(model.ensemble_.logits), noise)
    frequencies = np.bincount(noise) / len(noise)
    assert learned > metrics.nll(np.tile(frequencies, (len(noise), 1)), noise)


@pytest.mark.slow
def test_predict_sets_cover_and_pickle_gives_the_same_predictions(fitted):
    frame, y = sample(seed=1)
    low, high = fitted.predict_sets(frame, alpha=0.2).T
    assert ((low <= y) & (y <= high)).mean() > 0.74
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(frame) == fitted.predict_proba(frame)).all()
    split = OrdinalClassifier(**QUICK, estimators=("boosting",), sets="split").fit(*sample(200))
    low, high = split.predict_sets(frame, alpha=0.2).T
    assert ((low <= y) & (y <= high)).mean() > 0.7


def test_model_and_partial_fit_of_an_ensemble_with_trees_raise(fitted):
    with pytest.raises(AttributeError, match="^model_:"):
        _ = fitted.model_
    with pytest.raises(InputError, match="^partial_fit:"):
        fitted.partial_fit(*sample(50))
    assert fitted.diagnose() is not None


def test_time_limit_reached_keeps_the_first_learner():
    model = OrdinalClassifier(**QUICK, time_limit=1e-6).fit(*sample(200))
    assert list(model.weights_) == ["linear"]


@pytest.mark.slow
def test_presets_choose_the_base_learners():
    frame, y = sample(120)
    fast = OrdinalClassifier(**QUICK, presets="fast").fit(frame, y)
    assert list(fast.weights_) == ["linear", "extra trees", "random forest", "ce"]
    both = OrdinalClassifier(**QUICK, presets="best", estimators=["boosting", "network"]).fit(frame, y)
    assert list(both.weights_) == ["ce trees", "orcu trees", "ce", "sord", "orcu"]
    with pytest.raises(UnknownNameError, match="preset"):
        OrdinalClassifier(**QUICK, presets="good").fit(frame, y)


def test_estimators_alone_decide_which_base_learners_are_fitted():
    frame, y = sample(120)
    one_loss = OrdinalClassifier("orcu", **QUICK).fit(frame, y)
    assert list(one_loss.weights_) == ["linear", "extra trees", "random forest", "orcu", "ce trees"]
    wide = np.random.default_rng(0).normal(size=(120, MAX_TABLE_COLUMNS + 1))
    assert list(OrdinalClassifier(**QUICK).fit(wide, y).weights_) == ["ce", "sord", "orcu", "ce trees"]
    assert list(OrdinalClassifier(**QUICK, presets="fast").fit(wide, y).weights_) == ["ce"]
    both = OrdinalClassifier("ce", **QUICK, estimators=("boosting", "network")).fit(frame, y)
    assert list(both.weights_) == ["ce trees", "ce"]


def test_estimators_auto_without_lightgbm_warns_and_uses_the_others(monkeypatch):
    real = errors.importlib.util.find_spec
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None if name == "lightgbm" else real(name))
    with pytest.warns(UserWarning, match=r"LightGBM.*pip install 'orcu\[boosting\]'"):
        model = OrdinalClassifier(**QUICK).fit(*sample(120))
    assert "ce trees" not in model.weights_
    with pytest.raises(InputError, match="^estimators: boosting needs lightgbm"):
        OrdinalClassifier(**QUICK, estimators="boosting").fit(*sample(120))


def test_estimators_auto_with_broken_lightgbm_warns_and_uses_the_others(monkeypatch):
    """On images without libgomp its import fails."""
    real = errors.importlib.import_module

    def broken(name):
        if name == "lightgbm":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return real(name)

    monkeypatch.setattr(errors.importlib, "import_module", broken)
    with pytest.warns(UserWarning, match=r"LightGBM.*libgomp\.so\.1"):
        model = OrdinalClassifier(**QUICK).fit(*sample(120))
    assert "ce trees" not in model.weights_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": "forests"}, "estimator 'forests'"),
        ({"estimators": ()}, "^estimators:"),
        ({"estimators": 3}, "^estimators:"),
        ({"estimators": "boosting", "loss": "sord"}, "^loss:"),
        ({"estimators": "boosting", "cv": 1}, "^estimators:"),
    ],
)
def test_estimators_that_cannot_be_used_raise(options, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        OrdinalClassifier(**QUICK | options).fit(*sample(60))


@pytest.mark.slow
def test_sample_and_class_weights_change_the_trees():
    frame, y = sample(120)
    options = QUICK | {"estimators": "boosting", "calibrator": None}
    plain = OrdinalClassifier(**options).fit(frame, y).predict_proba(frame)[:, 3].mean()
    heavy = OrdinalClassifier(**options, class_weight={3: 30.0}).fit(frame, y).predict_proba(frame)[:, 3].mean()
    weighted = OrdinalClassifier(**options).fit(frame, y, sample_weight=1.0 + 29.0 * (y == 3))
    assert heavy > plain + 0.02
    assert weighted.predict_proba(frame)[:, 3].mean() > plain + 0.02


def test_fit_does_not_validate_probabilities_at_every_early_stopping_step(monkeypatch):
    calls, as_probs = [], rows.as_probs
    monkeypatch.setattr(rows, "as_probs", lambda *args, **options: calls.append(1) or as_probs(*args, **options))
    OrdinalClassifier(**QUICK).fit(*sample(200))
    assert len(calls) < 20


def test_class_weight_shifts_calibrated_probabilities():
    """A calibrator fitted without the class weights would restore the class frequencies."""
    frame, y = sample(200)
    options = QUICK | {"estimators": ["linear", "forest"]}
    plain = OrdinalClassifier(**options).fit(frame, y).predict_proba(frame)[:, 3].mean()
    heavy = OrdinalClassifier(**options, class_weight={3: 30.0}).fit(frame, y).predict_proba(frame)[:, 3].mean()
    assert heavy > 2 * plain
