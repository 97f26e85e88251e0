"""Trees beside networks in one ensemble."""

import pickle

import numpy as np
import pandas as pd
import pytest

from orcu import OrdinalClassifier, geometry, metrics
from orcu.boosting import trees
from orcu.errors import InputError, UnknownNameError

pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
QUICK = {"hidden": (8,), "epochs": 4, "learning_rate": 0.03, "random_state": 0}


def sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "site": rng.choice(["n", "s", "w"], n)})
    frame.loc[frame.index % 11 == 0, "b"] = np.nan
    steps = np.sign(frame["a"]) * np.sign(frame["b"].fillna(0))  # what four epochs of eight units cannot learn
    return frame, np.digitize(steps + (frame["site"] == "s") + 0.4 * rng.normal(size=n), [-0.5, 0.5, 1.5])


@pytest.fixture(scope="module")
def fitted():
    return OrdinalClassifier(**QUICK).fit(*sample())


def test_on_a_table_the_default_has_trees_where_they_help(fitted):
    frame, y = sample(seed=1)
    assert list(fitted.weights_) == ["ce trees", "orcu trees", "ce", "sord", "orcu"]
    assert fitted.weights_["ce trees"] + fitted.weights_["orcu trees"] > 0.3
    networks = OrdinalClassifier(**QUICK, members="network").fit(*sample())
    mixed, plain = fitted.predict_proba(frame), networks.predict_proba(frame)
    assert metrics.rps(mixed, y) < 0.9 * metrics.rps(plain, y)
    assert metrics.unimodality(mixed) == 1
    assert set(networks.weights_) == {"ce", "sord", "orcu"}


def test_a_prediction_is_the_weighted_mean_of_what_all_members_say(fitted):
    frame, _ = sample(40, seed=1)
    said = fitted._said(frame)
    kept = [share for share in fitted.pool_.factors.values() if share > 0]
    logits = np.einsum("l,lknc->nc", kept, said) / 5
    np.testing.assert_allclose(fitted.predict_logits(frame), logits, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(frame), fitted.calibrator_.predict_proba(logits))
    assert fitted.predict_proba(frame, members=True).shape == (5 * len(kept), 40, 4)
    np.testing.assert_allclose(np.exp(said).sum(axis=-1), 1)


def test_out_of_fold_means_out_of_fold():
    frame, y = sample(400)
    noise = np.random.default_rng(0).permutation(y)  # nothing to learn: in-fold trees would know it all the same
    model = OrdinalClassifier(**QUICK, members="boosting", calibrator=None).fit(frame, noise)
    learned = metrics.nll(geometry.probs(model.pool_.logits), noise)
    frequencies = np.bincount(noise) / len(noise)
    assert learned > metrics.nll(np.tile(frequencies, (len(noise), 1)), noise)


@pytest.mark.slow
def test_sets_seeds_and_files(fitted):
    frame, y = sample(seed=1)
    low, high = fitted.predict_sets(frame, alpha=0.2).T
    assert ((low <= y) & (y <= high)).mean() > 0.74
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(frame) == fitted.predict_proba(frame)).all()
    split = OrdinalClassifier(**QUICK, members=("boosting",), sets="split").fit(*sample(200))
    low, high = split.predict_sets(frame, alpha=0.2).T
    assert ((low <= y) & (y <= high)).mean() > 0.7


def test_no_module_answers_as_a_ensemble_with_trees(fitted):
    with pytest.raises(AttributeError, match="this ensemble has trees.*members='network'"):
        _ = fitted.model_
    with pytest.raises(InputError, match="partial_fit: an ensemble does not go on"):
        fitted.partial_fit(*sample(50))
    assert fitted.diagnose() is not None


def test_a_budget_leaves_the_first_trees():
    model = OrdinalClassifier(**QUICK, budget=1e-6).fit(*sample(200))
    assert list(model.weights_) == ["ce trees"]


def test_who_asks_for_networks_gets_them():
    frame, y = sample(120)
    assert set(OrdinalClassifier(("ce", "orcu"), **QUICK).fit(frame, y).weights_) == {"ce", "orcu"}
    wide = np.random.default_rng(0).normal(size=(120, trees.MOST_COLUMNS + 1))
    assert "ce trees" not in OrdinalClassifier(**QUICK).fit(wide, y).weights_
    both = OrdinalClassifier("ce", **QUICK, members=("boosting", "network")).fit(frame, y)
    assert list(both.weights_) == ["ce trees", "orcu trees", "ce"]


def test_without_lightgbm_a_table_gets_networks_and_a_word(monkeypatch):
    real = trees.importlib.util.find_spec
    monkeypatch.setattr(trees.importlib.util, "find_spec", lambda name: None if name == "lightgbm" else real(name))
    with pytest.warns(UserWarning, match=r"LightGBM is not installed.*pip install 'orcu\[boosting\]'"):
        model = OrdinalClassifier(**QUICK).fit(*sample(120))
    assert "ce trees" not in model.weights_
    with pytest.raises(InputError, match="needs LightGBM, which is not installed"):
        OrdinalClassifier(**QUICK, members="boosting").fit(*sample(120))


def test_a_lightgbm_that_cannot_be_loaded_is_as_good_as_none(monkeypatch):
    """On images without libgomp its import fails."""
    real = trees.importlib.import_module

    def broken(name):
        if name == "lightgbm":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return real(name)

    monkeypatch.setattr(trees.importlib, "import_module", broken)
    with pytest.warns(UserWarning, match=r"LightGBM cannot be loaded \(libgomp.so.1"):
        model = OrdinalClassifier(**QUICK).fit(*sample(120))
    assert "ce trees" not in model.weights_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": "forest"}, "kind of member"),
        ({"members": ()}, "members: expected some of boosting, network"),
        ({"members": 3}, "members: expected some of boosting, network"),
        ({"members": "boosting", "loss": "sord"}, "loss: is that of the networks, and members names none"),
        ({"members": "boosting", "folds": 1}, "members: with folds=1 there is one network"),
    ],
)
def test_members_that_cannot_be_are_told(options, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        OrdinalClassifier(**QUICK | options).fit(*sample(60))


@pytest.mark.slow
def test_weights_of_rows_and_classes_reach_the_trees():
    frame, y = sample(120)
    options = QUICK | {"members": "boosting", "calibrator": None}
    plain = OrdinalClassifier(**options).fit(frame, y).predict_proba(frame)[:, 3].mean()
    heavy = OrdinalClassifier(**options, class_weight={3: 30.0}).fit(frame, y).predict_proba(frame)[:, 3].mean()
    weighted = OrdinalClassifier(**options).fit(frame, y, sample_weight=1.0 + 29.0 * (y == 3))
    assert heavy > plain + 0.02
    assert weighted.predict_proba(frame)[:, 3].mean() > plain + 0.02
