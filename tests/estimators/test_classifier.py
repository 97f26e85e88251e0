"""`OrdinalClassifier`: scikit-learn's contract, tables, scales, sets, and rows that have one job."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from orcu import OrdinalClassifier, estimators, metrics
from orcu.calibrators import CalibrationWarning, UnimodalProjection
from orcu.errors import InputError, UnknownNameError

# Failures that follow from what the estimator is for, with the reason.
EXPECTED = {
    "check_classifiers_classes": "strings without an order are refused: the alphabet is no order",
    "check_fit_score_takes_y": "calls partial_fit after fit, and an ensemble does not go on",
    "check_sample_weight_equivalence_on_dense_data": "rows are dealt to jobs; a row given twice is dealt twice",
}
QUICK = {"members": "network", "hidden": (16,), "epochs": 12, "learning_rate": 0.03, "random_state": 0}
ALONE = QUICK | {"loss": "orcu", "folds": 1}  # one network, with rows held back


def sample(rows=1000, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + noise * rng.normal(size=rows), [-1.5, 0, 1.5])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # few rows, and scikit-learn's own
def test_scikit_learns_contract():
    estimator = OrdinalClassifier(members="network", hidden=(32,), epochs=60, random_state=0)
    found = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    failed = {one["check_name"] for one in found if one["status"] in {"failed", "xfail"}}
    assert failed == set(EXPECTED)


def test_probabilities_are_unimodal_and_of_the_classes_in_order():
    x, y = sample()
    model = OrdinalClassifier(**QUICK).fit(x, y * 10)
    probs = model.predict_proba(x)
    assert model.classes_.tolist() == [0, 10, 20, 30]
    assert probs.sum(1) == pytest.approx(np.ones(len(x)))
    assert metrics.unimodality(probs) == 1
    assert (model.predict(x) == model.classes_[probs.argmax(1)]).all()
    assert model.score(x, y * 10) > 0.7
    assert model.set_params(metric="qwk").score(x, y * 10) > 0.75
    with pytest.raises(UnknownNameError, match="metric"):
        model.set_params(metric="kappa").score(x, y * 10)
    with pytest.raises(NotFittedError):
        OrdinalClassifier().score(x, y)


def test_the_same_seed_gives_the_same_bits_and_leaves_torchs_alone():
    x, y = sample(400)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, second = (OrdinalClassifier(**QUICK).fit(x, y).predict_proba(x) for _ in range(2))
    assert (first == second).all()
    assert (torch.random.get_rng_state() == before).all()
    other = OrdinalClassifier(**QUICK | {"random_state": 1}).fit(x, y).predict_proba(x)
    assert (first != other).any()


def test_frames_with_categories_and_gaps():
    x, y = sample(800)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["site"] = pd.Categorical(np.where(x[:, 0] > 0, "north", "south"))
    frame["smoker"] = x[:, 1] > 0
    frame["text"] = np.where(x[:, 2] > 0, "yes", "no")
    frame.loc[::7, "a"] = np.nan
    frame.loc[::5, "text"] = None
    names = pd.Categorical.from_codes(y, ["none", "mild", "severe", "worst"], ordered=True)
    model = OrdinalClassifier(**QUICK).fit(frame, pd.Series(names))
    assert model.classes_.tolist() == ["none", "mild", "severe", "worst"]
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    strange = frame.assign(site="west")  # a category that was never seen
    with pytest.warns(UserWarning, match="not seen in training"):
        assert model.predict_proba(strange).shape == (800, 4)
    with pytest.raises(InputError, match="'a': row 3 is infinite"):
        model.predict(frame.assign(a=[0.0, 0, 0, np.inf] * 200))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.drop(columns="site"))
    with pytest.raises(InputError, match="holds dates"):
        model.fit(frame.assign(day=pd.date_range("2020", periods=800)), y)
    nullable = frame.assign(text=frame["text"].astype("string"), count=pd.array([1, None] * 400, "Int64"))
    assert OrdinalClassifier(**QUICK).fit(nullable, y).score(nullable, y) > 0.6
    strings = pd.Series(names).astype(str)
    with pytest.raises(InputError, match="cannot be told"):
        OrdinalClassifier(**QUICK).fit(frame, strings)
    given = OrdinalClassifier(**QUICK, classes=["none", "mild", "severe", "worst"])
    assert given.fit(frame, strings).score(frame, strings) > 0.6


def test_polars_frames():
    import polars as pl

    x, y = sample(400)
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "site": ["n" if v > 0 else "s" for v in x[:, 2]]})
    assert OrdinalClassifier(**QUICK).fit(frame, y).score(frame, y) > 0.6


def test_it_works_where_scikit_learn_does():
    x, y = sample(900)
    model = OrdinalClassifier(**QUICK, scale=2.0)
    assert clone(model).get_params() == model.get_params()
    told = cross_val_predict(model, x, y, cv=3, method="predict_proba")
    assert told.shape == (900, 4)
    named = clone(model).set_params(classes=["a", "b", "c", "d"])
    letters = np.array(["a", "b", "c", "d"])[y]
    assert (estimators.cross_val_predict(named, x, letters, cv=3) == told).all()
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {"ordinalclassifier__loss": ["ce", "orcu"]}, cv=2)
    assert search.fit(x, y).best_score_ > 0.6
    fitted = model.fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    with pytest.raises(InputError, match="not kept in files and copies"):
        again.diagnose()


def test_weights_move_the_model():
    x, y = sample(1500, noise=1.5)
    plain = OrdinalClassifier(**QUICK, calibrator=None, scale=3.0)
    base = plain.fit(x, y).predict_proba(x)[:, 3].mean()
    heavy = plain.fit(x, y, sample_weight=np.where(y == 3, 5.0, 1.0)).predict_proba(x)[:, 3].mean()
    by_class = plain.set_params(class_weight={3: 5.0}).fit(x, y).predict_proba(x)[:, 3].mean()
    assert heavy > base + 0.02
    assert by_class > base + 0.02
    with pytest.raises(InputError, match="'9' is none of the classes"):
        plain.set_params(class_weight={9: 5.0}).fit(x, y)
    with pytest.raises(InputError, match="every weight is zero"):
        plain.set_params(class_weight="balanced").fit(x, y, sample_weight=np.zeros(len(y)))


def test_rows_have_one_job():
    _, y = sample(1000)
    jobs = OrdinalClassifier()._jobs(y, 0)
    together = np.concatenate(list(jobs.values()))
    assert sorted(together.tolist()) == list(range(1000))
    assert [len(jobs[name]) for name in ("train", "validation", "calibration", "sets")] == [700, 100, 100, 100]
    share = np.bincount(y) / 1000
    for rows in jobs.values():  # each class keeps its share
        assert np.bincount(y[rows], minlength=4) / len(rows) == pytest.approx(share, abs=0.03)
    rare = np.array([0] * 50 + [1] * 50 + [2])
    assert 2 in rare[OrdinalClassifier()._jobs(rare, 0)["train"]]
    with pytest.raises(InputError, match="validation_fraction"):
        OrdinalClassifier(validation_fraction=0.7)._jobs(y, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 1},
        {"learning_rate": -1.0},
        {"scale": "big"},
        {"scale": -1.0},
        {"hidden": 5},
        {"hidden": (0,)},
        {"calibrator": "nope"},
        {"calibrator": 5},
        {"loss": 5},
        {"loss": "nope"},
        {"loss": ()},
        {"loss": ("ce", "ce")},
        {"folds": 0},
        {"sets": "nope"},
        {"budget": -1.0},
        {"metric": "nope"},
        {"class_weight": "nope"},
        {"module": torch.nn.Linear},
        {"validation_fraction": 0.6},
        {"calibration_fraction": 0.45, "validation_fraction": 0.45},
    ],
    ids=str,
)
def test_wrong_options_are_told_and_lose_nothing(wrong):
    x, y = sample(300)
    model = OrdinalClassifier(**ALONE, scale=3.0, calibrator=None).fit(x, y)
    before = model.predict_proba(x)
    usual = model.get_params()
    with pytest.raises((InputError, TypeError), match=next(iter(wrong))):
        model.set_params(**wrong).fit(x, y)
    assert (model.set_params(**usual).predict_proba(x) == before).all()
    with pytest.raises(InputError, match="more than one class"):
        model.fit(x, y * 0)
    assert (model.predict_proba(x) == before).all()
    assert set(model.predict(x)) <= {0, 1, 2, 3}


def test_no_rows_held_back():
    x, y = sample(300)
    model = OrdinalClassifier(**ALONE, scale=3.0, calibration_fraction=0, calibrator=None).fit(x, y)
    assert model.score(x, y) > 0.6
    with pytest.raises(InputError, match="0 rows were held back for sets"):
        model.predict_sets(x)


def test_rows_that_train_later_are_not_held_back_any_more():
    x, y = sample(900)
    model = OrdinalClassifier(**ALONE, scale=3.0).fit(x, y).partial_fit(x, y)
    with pytest.raises(InputError, match="0 rows were held back"):
        model.predict_sets(x)
    with pytest.raises(InputError, match="diagnose"):
        model.diagnose()


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_sets_cover_after_calibration(alpha):
    """Over draws of data the true class is inside with 1 - alpha or more."""
    inside = []
    for seed in range(12):
        x, y = sample(1600, noise=1.2, seed=seed)
        model = OrdinalClassifier("orcu", folds=1, hidden=(8,), epochs=4, scale=3.0, random_state=seed).fit(
            x[:600], y[:600]
        )
        low, high = model.predict_sets(x[600:], alpha).T
        inside.append(((low <= y[600:]) & (y[600:] <= high)).mean())
    # 60 rows fit each threshold: the mean over draws has a deviation of about 0.04 / sqrt(12)
    assert np.mean(inside) > 1 - alpha - 0.025


def test_too_few_rows_are_told():
    x, y = sample(60)
    with pytest.warns(CalibrationWarning, match="projected, not calibrated"):
        model = OrdinalClassifier(**ALONE).fit(x, y)
    assert metrics.unimodality(model.predict_proba(x)) == 1
    assert isinstance(model.calibrator_, UnimodalProjection)
    with pytest.raises(InputError, match="6 rows were held back"):
        model.predict_sets(x, alpha=0.05)
    with pytest.raises(InputError, match="at least 80"):
        model.diagnose()
    with pytest.raises(InputError, match="more than one class"):
        model.fit(x, np.ones(60))


def test_the_scale_chooses_itself():
    x, y = sample(2000, noise=0.3)
    model = OrdinalClassifier(**ALONE | {"epochs": 20}, calibrator=None).fit(x, y)
    tried = {trial.scale: trial.value for trial in model.chosen_.trials}
    assert 3.0 in tried
    assert len(tried) >= 4
    assert model.scale_ == min(tried, key=tried.get)
    fixed = OrdinalClassifier(**ALONE | {"epochs": 20}, calibrator=None, scale=3.0).fit(x, y)
    assert fixed.scale_ == 3.0
    new, labels = sample(4000, noise=0.3, seed=9)
    chosen, three = (metrics.sce(one.predict_proba(new), labels) for one in (model, fixed))
    assert chosen < three


def test_diagnosis_says_which_is_better():
    x, y = sample(3000, noise=0.8)
    model = OrdinalClassifier(**ALONE).fit(x, y)
    found = model.diagnose()
    assert found.rows == 600
    assert set(found.ours) == set(found.baseline)
    assert "On 600 held-out rows" in str(found)
    assert found.ours["unimodality"] == 1
    broken = OrdinalClassifier(**ALONE | {"epochs": 1, "learning_rate": 1e-6}, patience=None).fit(x, y)
    told = broken.diagnose()
    assert "neither better nor worse" in told.verdict or "unimodality" in told.verdict


def test_going_on():
    x, y = sample(600)
    warm = OrdinalClassifier(**ALONE | {"epochs": 2}, scale=3.0, warm_start=True, patience=None)
    first = warm.fit(x, y).score(x, y)
    for _ in range(4):
        warm.fit(x, y)
    assert warm.score(x, y) > first
    part = OrdinalClassifier(**QUICK)
    for _ in range(20):
        part.partial_fit(x[:300], y[:300], classes=[0, 1, 2, 3])
        part.partial_fit(x[300:], y[300:])
    assert part.score(x, y) > 0.7
    assert metrics.unimodality(part.predict_proba(x)) == 1
    with pytest.raises(InputError, match="partial_fit holds none back"):
        part.diagnose()


def test_any_module():
    x, y = sample(500)
    images = x.reshape(500, 1, 2, 2)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    before = [value.clone() for value in module.state_dict().values()]
    model = OrdinalClassifier(module=module, epochs=20, learning_rate=0.05, random_state=0).fit(images, y)
    assert model.score(images, y) > 0.7
    assert all((a == b).all() for a, b in zip(before, module.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "loss", ["ce", "poe", "sord", {"name": "orcu", "scale": 5.0}, {"anchor": "huber", "regularizer": "lbe"}]
)
def test_every_kind_of_loss(loss):
    x, y = sample(800)
    model = OrdinalClassifier(loss, **QUICK).fit(x, y)
    assert model.score(x, y) > 0.6
    torch.rand(3)  # what others draw changes nothing
    again = OrdinalClassifier(loss, **QUICK).fit(x, y)
    assert (again.predict_proba(x) == model.predict_proba(x)).all()


def test_labels_that_carry_their_order_need_no_classes():
    x, y = sample(300)
    names = ["none", "mild", "grave", "fatal"]
    told = np.array(names)[y]
    polars = pytest.importorskip("polars")
    for labels in (
        pd.Categorical(told, categories=names, ordered=True),
        pd.Series(pd.Categorical(told, categories=names, ordered=True)),
        polars.Series(told.tolist(), dtype=polars.Enum(names)),
    ):
        model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(x, labels)
        assert model.classes_.tolist() == names
    with pytest.raises(InputError, match="order cannot be told"):
        OrdinalClassifier(**QUICK).fit(x, pd.Categorical(told, categories=names))


def test_categories_that_training_has_not_seen_are_told():
    x, y = sample(300)
    frame = pd.DataFrame({"number": x[:, 0], "site": np.where(x[:, 1] > 0, "north", "south")})
    model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(frame, y)
    with pytest.warns(UserWarning, match="'site': 300 of 300 values were not seen.*'west'"):
        model.predict(frame.assign(site="west"))
    with pytest.raises(InputError, match="'site': has numbers, where"):
        model.predict(frame.assign(site=1.0))
    with pytest.raises(InputError, match="'number': expected numbers, got 'much'"):
        model.predict(frame.assign(number="much"))


def test_a_warm_start_of_another_shape_is_refused_and_loses_nothing():
    x, y = sample(300)
    model = OrdinalClassifier(**ALONE, scale=3.0, calibrator=None, warm_start=True).fit(x, y)
    before = model.predict_proba(x)
    with pytest.raises(InputError, match="the last fit has other classes"):
        model.fit(x, (y > 1).astype(int))
    usual = model.hidden
    with pytest.raises(InputError, match="other layers"):
        model.set_params(hidden=(3,)).fit(x, y)
    assert (model.set_params(hidden=usual).predict_proba(x) == before).all()


def test_other_classes_in_a_later_partial_fit_are_refused():
    x, y = sample(300)
    model = OrdinalClassifier(**QUICK).partial_fit(x, y, classes=[0, 1, 2, 3])
    with pytest.raises(InputError, match="the model has 0, 1, 2, 3, in this order; got 3, 2, 1, 0"):
        model.partial_fit(x, y, classes=[3, 2, 1, 0])


def test_training_that_diverges_says_so():
    x, y = sample(300)
    wild = OrdinalClassifier("ce", **QUICK | {"learning_rate": 1e30})
    with pytest.raises(InputError, match="training diverged in epoch 0.*lower learning_rate"):
        wild.fit(x, y)
    with pytest.raises(InputError, match=r"training diverged in epoch 0.*\(it is 1e\+30\)"):
        wild.partial_fit(x[:100], y[:100], classes=[0, 1, 2, 3])  # one step: only the logits tell


def test_under_torchrun_every_process_fits_a_model_of_its_own(monkeypatch):
    x, y = sample(300)
    options = QUICK | {"scale": 3.0, "calibrator": None}
    plain = OrdinalClassifier(**options).fit(x, y).predict_proba(x)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr("orcu.training.loop.DistributedDataParallel", None)
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    assert (OrdinalClassifier(**options).fit(x, y).predict_proba(x) == plain).all()


def test_a_module_takes_frames_of_numbers():
    x, y = sample(300)
    frame = pd.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])])
    module = torch.nn.Linear(x.shape[1], 4)
    options = QUICK | {"scale": 3.0, "calibrator": None, "module": module}
    framed = OrdinalClassifier(**options).fit(frame, y).predict_proba(frame)
    plain = OrdinalClassifier(**options).fit(x, y).predict_proba(x)
    assert framed == pytest.approx(plain, abs=1e-6)


def test_labels_with_gaps_name_the_row():
    x, y = sample(300)
    told = np.array(["a", "b", "c", "d"], dtype=object)[y]
    told[5] = np.nan
    for labels in (
        told,
        pd.Categorical(told, categories=list("abcd"), ordered=True),
        np.where(np.arange(300) == 5, np.nan, y),
    ):
        with pytest.raises(InputError, match="y: row 5 has no label"):
            OrdinalClassifier(**QUICK, classes=None if labels is not told else list("abcd")).fit(x, labels)


def test_what_a_fit_cannot_use_is_told():
    x, y = sample(300)
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(frame, y)
    with pytest.raises(InputError, match="X: has no rows"):
        model.predict(frame[:0])
    with pytest.raises(InputError, match="module= takes numbers only, and column 'site'"):
        OrdinalClassifier(**QUICK, module=torch.nn.Linear(5, 4)).fit(frame.assign(site="n"), y)
    with pytest.raises(InputError, match="every row has the class 'a'"):
        OrdinalClassifier(**QUICK, classes=["a", "b"]).fit(x, np.array(["a"] * 300))
    integers = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(x, pd.Series(y, dtype="Int64"))
    assert integers.classes_.tolist() == [0, 1, 2, 3]
    assert integers.classes_.dtype.kind == "i"
