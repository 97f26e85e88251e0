"""`OrdinalClassifier`: scikit-learn's contract, tables, single networks, scales, sets."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from orcu import CalibratedOrdinal, OrdinalBoosting, OrdinalClassifier, OrdinalLogistic, metrics, model_selection
from orcu.calibrators import CalibrationWarning, UnimodalProjection
from orcu.errors import InputError, UnknownNameError
from orcu.estimators import classifier
from orcu.estimators.diagnosis import HeldOutRows, compare_with_baseline

# Failures that follow from what the estimator is for, with the reason.
EXPECTED = {
    "check_classifiers_classes": "strings without an order are refused: the alphabetical order may be wrong",
    "check_fit_score_takes_y": "calls partial_fit after fit, which needs a single network",
    "check_sample_weight_equivalence_on_dense_data": "rows are split into folds; a repeated row may be in two folds",
}
QUICK = {"estimators": "network", "hidden_layer_sizes": (16,), "epochs": 12, "learning_rate": 0.03, "random_state": 0}
SINGLE = QUICK | {"loss": "orcu", "cv": 1}  # one network, with held-out rows


def sample(rows=1000, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + noise * rng.normal(size=rows), [-1.5, 0, 1.5])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # few rows, and scikit-learn's own
def test_ordinal_classifier_passes_scikit_learn_checks():
    estimator = OrdinalClassifier(estimators="network", hidden_layer_sizes=(32,), epochs=60, random_state=0)
    results = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    failed = {result["check_name"] for result in results if result["status"] in {"failed", "xfail"}}
    assert failed == set(EXPECTED)


def test_predict_proba_is_unimodal_with_columns_in_the_order_of_classes():
    x, y = sample()
    model = OrdinalClassifier(**QUICK).fit(x, y * 10)
    probs = model.predict_proba(x)
    assert model.classes_.tolist() == [0, 10, 20, 30]
    assert probs.sum(1) == pytest.approx(np.ones(len(x)))
    assert metrics.unimodality(probs) == 1
    assert (model.predict(x) == model.classes_[probs.argmax(1)]).all()
    assert model.score(x, y * 10) > 0.7
    assert model.set_params(scoring="qwk").score(x, y * 10) > 0.75
    with pytest.raises(UnknownNameError, match="scoring 'kappa'"):
        model.set_params(scoring="kappa").score(x, y * 10)
    with pytest.raises(NotFittedError):
        OrdinalClassifier().score(x, y)


def public_members(estimator):
    """Names of the methods and properties that need a fitted estimator."""
    without_fit = {"fit", "partial_fit", "get_params", "set_params", "get_metadata_routing"}
    members = {name: inspect.getattr_static(type(estimator), name) for name in dir(type(estimator))}
    names = [name for name, value in members.items() if inspect.isfunction(value) or isinstance(value, property)]
    return [name for name in names if not name.startswith(("_", "set_")) and name not in without_fit]


def use(estimator, name):
    """Read a property, or call a method with rows and labels."""
    member, arguments = getattr(estimator, name), {"X": np.zeros((2, 3)), "y": np.zeros(2, int)}
    parameters = inspect.signature(member).parameters
    return member(**{key: value for key, value in arguments.items() if key in parameters})


@pytest.mark.parametrize(
    "estimator",
    [
        OrdinalClassifier(),
        OrdinalClassifier(cv=1),
        OrdinalBoosting(),
        OrdinalLogistic(),
        CalibratedOrdinal(LogisticRegression()),
    ],
    ids=str,
)
def test_unfitted_estimator_raises_not_fitted_error(estimator):
    names = public_members(estimator)
    assert {"predict", "predict_proba", "score"} <= set(names)
    for name in names:
        with pytest.raises(NotFittedError):
            use(estimator, name)


def test_fit_same_random_state_gives_the_same_bits_and_keeps_torch_state():
    x, y = sample(400)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, second = (OrdinalClassifier(**QUICK).fit(x, y).predict_proba(x) for _ in range(2))
    assert (first == second).all()
    assert (torch.random.get_rng_state() == before).all()
    other = OrdinalClassifier(**QUICK | {"random_state": 1}).fit(x, y).predict_proba(x)
    assert (first != other).any()


def test_fit_of_pandas_frames_with_categories_and_missing_values():
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
    unseen = frame.assign(site="west")
    with pytest.warns(UserWarning, match="^X: column 'site'"):
        assert model.predict_proba(unseen).shape == (800, 4)
    with pytest.raises(InputError, match="^column 'a': row 3"):
        model.predict(frame.assign(a=[0.0, 0, 0, np.inf] * 200))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.drop(columns="site"))
    with pytest.raises(InputError, match="^column 'day'"):
        model.fit(frame.assign(day=pd.date_range("2020", periods=800)), y)
    nullable = frame.assign(text=frame["text"].astype("string"), count=pd.array([1, None] * 400, "Int64"))
    assert OrdinalClassifier(**QUICK).fit(nullable, y).score(nullable, y) > 0.6
    strings = pd.Series(names).astype(str)
    with pytest.raises(InputError, match="^classes:"):
        OrdinalClassifier(**QUICK).fit(frame, strings)
    ordered = OrdinalClassifier(**QUICK, classes=["none", "mild", "severe", "worst"])
    assert ordered.fit(frame, strings).score(frame, strings) > 0.6


def test_fit_of_polars_frames():
    import polars as pl

    x, y = sample(400)
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "site": ["n" if v > 0 else "s" for v in x[:, 2]]})
    assert OrdinalClassifier(**QUICK).fit(frame, y).score(frame, y) > 0.6


def test_ordinal_classifier_works_with_clone_search_and_pickle():
    x, y = sample(900)
    model = OrdinalClassifier(**QUICK, scale=2.0)
    assert clone(model).get_params() == model.get_params()
    probs = cross_val_predict(model, x, y, cv=3, method="predict_proba")
    assert probs.shape == (900, 4)
    named = clone(model).set_params(classes=["a", "b", "c", "d"])
    letters = np.array(["a", "b", "c", "d"])[y]
    assert (model_selection.cross_val_predict(named, x, letters, cv=3) == probs).all()
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {"ordinalclassifier__loss": ["ce", "orcu"]}, cv=2)
    assert search.fit(x, y).best_score_ > 0.6
    fitted = model.fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    with pytest.raises(InputError, match="^diagnose:"):
        again.diagnose()


def test_sample_and_class_weights_change_the_model():
    x, y = sample(1500, noise=1.5)
    plain = OrdinalClassifier(**QUICK, calibrator=None, scale=3.0)
    base = plain.fit(x, y).predict_proba(x)[:, 3].mean()
    heavy = plain.fit(x, y, sample_weight=np.where(y == 3, 5.0, 1.0)).predict_proba(x)[:, 3].mean()
    by_class = plain.set_params(class_weight={3: 5.0}).fit(x, y).predict_proba(x)[:, 3].mean()
    assert heavy > base + 0.02
    assert by_class > base + 0.02
    with pytest.raises(InputError, match="^class_weight: '9'"):
        plain.set_params(class_weight={9: 5.0}).fit(x, y)
    with pytest.raises(InputError, match="^sample_weight:"):
        plain.set_params(class_weight="balanced").fit(x, y, sample_weight=np.zeros(len(y)))


def test_train_calibration_split_is_a_stratified_partition():
    _, y = sample(1000)
    options = {"validation": 0.1, "calibration": 0.1, "random_state": 0}
    splits = model_selection.train_calibration_split(y, **options)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(1000))
    assert [len(splits[name]) for name in ("train", "validation", "calibration", "sets")] == [700, 100, 100, 100]
    share = np.bincount(y) / 1000
    for rows in splits.values():  # each class keeps its share
        assert np.bincount(y[rows], minlength=4) / len(rows) == pytest.approx(share, abs=0.03)
    rare = np.array([0] * 50 + [1] * 50 + [2])
    assert 2 in rare[model_selection.train_calibration_split(rare, **options)["train"]]
    with pytest.raises(InputError, match="^validation_fraction:"):
        model_selection.train_calibration_split(y, **options | {"validation": 0.7})


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 1},
        {"learning_rate": -1.0},
        {"scale": "big"},
        {"scale": -1.0},
        {"hidden_layer_sizes": 5},
        {"hidden_layer_sizes": (0,)},
        {"calibrator": "nope"},
        {"calibrator": 5},
        {"loss": 5},
        {"loss": "nope"},
        {"loss": ()},
        {"loss": ("ce", "ce")},
        {"cv": 0},
        {"sets": "nope"},
        {"time_limit": -1.0},
        {"scoring": "nope"},
        {"class_weight": "nope"},
        {"module": torch.nn.Linear},
        {"validation_fraction": 0.6},
        {"calibration_fraction": 0.45, "validation_fraction": 0.45},
    ],
    ids=str,
)
def test_fit_with_a_wrong_parameter_raises_and_keeps_the_fitted_model(wrong):
    x, y = sample(300)
    model = OrdinalClassifier(**SINGLE, scale=3.0, calibrator=None).fit(x, y)
    before = model.predict_proba(x)
    usual = model.get_params()
    with pytest.raises((InputError, TypeError), match=next(iter(wrong))):
        model.set_params(**wrong).fit(x, y)
    assert (model.set_params(**usual).predict_proba(x) == before).all()
    with pytest.raises(InputError, match="more than one class"):
        model.fit(x, y * 0)
    assert (model.predict_proba(x) == before).all()
    assert set(model.predict(x)) <= {0, 1, 2, 3}


def test_predict_sets_without_calibration_fraction_raises():
    x, y = sample(300)
    model = OrdinalClassifier(**SINGLE, scale=3.0, calibration_fraction=0, calibrator=None).fit(x, y)
    assert model.score(x, y) > 0.6
    with pytest.raises(InputError, match="^alpha: 0 rows"):
        model.predict_sets(x)


def test_partial_fit_after_fit_discards_the_held_out_rows():
    x, y = sample(900)
    model = OrdinalClassifier(**SINGLE, scale=3.0).fit(x, y).partial_fit(x, y)
    with pytest.raises(InputError, match="^alpha: 0 rows"):
        model.predict_sets(x)
    with pytest.raises(InputError, match="diagnose"):
        model.diagnose()


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_predict_sets_of_a_single_network_cover(alpha):
    """Over draws of data the true class is inside with 1 - alpha or more."""
    inside = []
    for seed in range(12):
        x, y = sample(1600, noise=1.2, seed=seed)
        model = OrdinalClassifier("orcu", cv=1, hidden_layer_sizes=(8,), epochs=4, scale=3.0, random_state=seed).fit(
            x[:600], y[:600]
        )
        low, high = model.predict_sets(x[600:], alpha).T
        inside.append(((low <= y[600:]) & (y[600:] <= high)).mean())
    # 60 rows fit each threshold: the mean over draws has a deviation of about 0.04 / sqrt(12)
    assert np.mean(inside) > 1 - alpha - 0.025


def test_fit_with_too_few_calibration_rows_warns():
    x, y = sample(60)
    with pytest.warns(CalibrationWarning, match="^6 rows"):
        model = OrdinalClassifier(**SINGLE).fit(x, y)
    assert metrics.unimodality(model.predict_proba(x)) == 1
    assert isinstance(model.calibrator_, UnimodalProjection)
    with pytest.raises(InputError, match="^alpha: 6 rows"):
        model.predict_sets(x, alpha=0.05)
    with pytest.raises(InputError, match="^diagnose: .* 80"):
        model.diagnose()
    with pytest.raises(InputError, match="more than one class"):
        model.fit(x, np.ones(60))


def test_scale_auto_of_a_single_network_minimises_validation_sce():
    x, y = sample(2000, noise=0.3)
    model = OrdinalClassifier(**SINGLE | {"epochs": 20}, calibrator=None).fit(x, y)
    tried = {trial.scale: trial.value for trial in model.scale_choice_.trials}
    assert 3.0 in tried
    assert len(tried) >= 4
    assert model.scale_ == min(tried, key=tried.get)
    fixed = OrdinalClassifier(**SINGLE | {"epochs": 20}, calibrator=None, scale=3.0).fit(x, y)
    assert fixed.scale_ == 3.0
    new, labels = sample(4000, noise=0.3, seed=9)
    chosen, three = (metrics.sce(fitted.predict_proba(new), labels) for fitted in (model, fixed))
    assert chosen < three


def test_diagnose_compares_with_cross_entropy():
    x, y = sample(3000, noise=0.8)
    model = OrdinalClassifier(**SINGLE).fit(x, y)
    diagnosis = model.diagnose()
    assert diagnosis.rows == 600
    assert set(diagnosis.ours) == set(diagnosis.baseline)
    assert "600 held-out rows" in str(diagnosis)
    assert diagnosis.ours["unimodality"] == 1
    broken = OrdinalClassifier(**SINGLE | {"epochs": 1, "learning_rate": 1e-6}, patience=None).fit(x, y)
    verdict = broken.diagnose().verdict
    assert "not significantly better or worse" in verdict or "unimodality" in verdict


def test_compare_with_baseline_counts_weights_as_rows_and_resamples_groups():
    rng = np.random.default_rng(0)
    logits, baseline = rng.normal(size=(2, 200, 3))
    y, weight = (logits + rng.normal(size=(200, 3))).argmax(1), rng.integers(1, 4, size=200)
    repeat = np.repeat(np.arange(200), weight)
    rows = HeldOutRows(y, sample_weight=weight, calibration_weight=weight)
    weighted = compare_with_baseline(logits, baseline, rows, "none", name="a")
    repeated = compare_with_baseline(logits[repeat], baseline[repeat], HeldOutRows(y[repeat]), "none", name="a")
    assert weighted.ours == pytest.approx(repeated.ours, abs=1e-9)
    assert weighted.ours["accuracy"] != np.mean(logits.argmax(1) == y)
    twice = np.repeat(np.arange(200), 2)
    widths = [
        difference.high - difference.low
        for groups in (None, twice)
        for difference in [
            compare_with_baseline(
                logits[twice], baseline[twice], HeldOutRows(y[twice], groups=groups), "none", name="a"
            ).differences["rps"]
        ]
    ]
    assert 1.2 < widths[1] / widths[0] < 1.6  # about the square root of 2
    with pytest.raises(InputError, match="^diagnose: all held-out rows are of one group"):
        compare_with_baseline(logits, baseline, HeldOutRows(y, groups=np.zeros(200, int)), "none", name="a")


@pytest.mark.parametrize("options", [{"cv": 2}, {"cv": 1, "loss": "orcu", "scale": 3.0, "calibration_fraction": 0.2}])
def test_diagnose_passes_weights_and_groups_of_fit(options, monkeypatch):
    x, y = sample(400)
    weight, groups = np.random.default_rng(0).uniform(1, 2, size=400), np.arange(400) // 2
    passed = []
    monkeypatch.setattr(
        classifier, "compare_with_baseline", lambda ours, baseline, rows, *_, **__: passed.append((len(ours), rows))
    )
    model = OrdinalClassifier(**QUICK | {"epochs": 2} | options, class_weight="balanced")
    model.fit(x, y, sample_weight=weight, groups=groups).diagnose()
    ((n, rows),) = passed
    assert n == len(rows.y) == len(rows.groups) == len(rows.sample_weight)
    assert len(np.unique(rows.groups)) == n / 2
    ratio = rows.calibration_weight / rows.sample_weight
    assert len(np.unique(ratio.round(4))) == len(np.unique(rows.y))  # a class weight for each class


def test_warm_start_and_partial_fit_continue_training():
    x, y = sample(600)
    warm = OrdinalClassifier(**SINGLE | {"epochs": 2}, scale=3.0, warm_start=True, patience=None)
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
    with pytest.raises(InputError, match="^diagnose:"):
        part.diagnose()


def test_module_takes_images_and_is_not_changed():
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
def test_fit_with_every_kind_of_loss_is_reproducible(loss):
    x, y = sample(800)
    model = OrdinalClassifier(loss, **QUICK).fit(x, y)
    assert model.score(x, y) > 0.6
    torch.rand(3)  # other users of the generator change nothing
    again = OrdinalClassifier(loss, **QUICK).fit(x, y)
    assert (again.predict_proba(x) == model.predict_proba(x)).all()


def test_fit_of_ordered_categories_needs_no_classes():
    x, y = sample(300)
    names = ["none", "mild", "grave", "fatal"]
    texts = np.array(names)[y]
    polars = pytest.importorskip("polars")
    for labels in (
        pd.Categorical(texts, categories=names, ordered=True),
        pd.Series(pd.Categorical(texts, categories=names, ordered=True)),
        polars.Series(texts.tolist(), dtype=polars.Enum(names)),
    ):
        model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(x, labels)
        assert model.classes_.tolist() == names
    with pytest.raises(InputError, match="^classes:"):
        OrdinalClassifier(**QUICK).fit(x, pd.Categorical(texts, categories=names))


def test_predict_with_unseen_categories_warns_and_wrong_types_raise():
    x, y = sample(300)
    frame = pd.DataFrame({"number": x[:, 0], "site": np.where(x[:, 1] > 0, "north", "south")})
    model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(frame, y)
    with pytest.warns(UserWarning, match="^X: column 'site': 300 of 300 .*'west'"):
        model.predict(frame.assign(site="west"))
    with pytest.raises(InputError, match="^column 'site':"):
        model.predict(frame.assign(site=1.0))
    with pytest.raises(InputError, match="^column 'number': .*'much'"):
        model.predict(frame.assign(number="much"))


def test_warm_start_with_other_classes_or_layers_raises():
    x, y = sample(300)
    model = OrdinalClassifier(**SINGLE, scale=3.0, calibrator=None, warm_start=True).fit(x, y)
    before = model.predict_proba(x)
    with pytest.raises(InputError, match="^warm_start: .*classes"):
        model.fit(x, (y > 1).astype(int))
    usual = model.hidden_layer_sizes
    with pytest.raises(InputError, match="^warm_start: .*layers"):
        model.set_params(hidden_layer_sizes=(3,)).fit(x, y)
    assert (model.set_params(hidden_layer_sizes=usual).predict_proba(x) == before).all()


def test_partial_fit_with_other_classes_raises():
    x, y = sample(300)
    model = OrdinalClassifier(**QUICK).partial_fit(x, y, classes=[0, 1, 2, 3])
    with pytest.raises(InputError, match="^classes: .*0, 1, 2, 3.*3, 2, 1, 0"):
        model.partial_fit(x, y, classes=[3, 2, 1, 0])


def test_fit_that_diverges_raises_with_the_learning_rate():
    x, y = sample(300)
    wild = OrdinalClassifier("ce", **QUICK | {"learning_rate": 1e30})
    with pytest.raises(InputError, match="epoch 0.*learning_rate"):
        wild.fit(x, y)
    with pytest.raises(InputError, match=r"epoch 0.*learning_rate.*1e\+30"):
        wild.partial_fit(x[:100], y[:100], classes=[0, 1, 2, 3])  # one step: only the logits are not finite


def test_fit_under_torchrun_is_not_distributed(monkeypatch):
    x, y = sample(300)
    options = QUICK | {"scale": 3.0, "calibrator": None}
    plain = OrdinalClassifier(**options).fit(x, y).predict_proba(x)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr("orcu.training.loop.DistributedDataParallel", None)
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    assert (OrdinalClassifier(**options).fit(x, y).predict_proba(x) == plain).all()


def test_module_takes_frames_of_numbers():
    x, y = sample(300)
    frame = pd.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])])
    module = torch.nn.Linear(x.shape[1], 4)
    options = QUICK | {"scale": 3.0, "calibrator": None, "module": module}
    framed = OrdinalClassifier(**options).fit(frame, y).predict_proba(frame)
    plain = OrdinalClassifier(**options).fit(x, y).predict_proba(x)
    assert framed == pytest.approx(plain, abs=1e-6)


def test_fit_with_missing_labels_raises_with_the_row():
    x, y = sample(300)
    texts = np.array(["a", "b", "c", "d"], dtype=object)[y]
    texts[5] = np.nan
    for labels in (
        texts,
        pd.Categorical(texts, categories=list("abcd"), ordered=True),
        np.where(np.arange(300) == 5, np.nan, y),
    ):
        with pytest.raises(InputError, match="^y: row 5"):
            OrdinalClassifier(**QUICK, classes=None if labels is not texts else list("abcd")).fit(x, labels)


def test_fit_and_predict_with_unusable_rows_raise():
    x, y = sample(300)
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(frame, y)
    with pytest.raises(InputError, match="^X:"):
        model.predict(frame[:0])
    with pytest.raises(InputError, match="^X: .*column 'site'"):
        OrdinalClassifier(**QUICK, module=torch.nn.Linear(5, 4)).fit(frame.assign(site="n"), y)
    with pytest.raises(InputError, match="^y: .*'a'"):
        OrdinalClassifier(**QUICK, classes=["a", "b"]).fit(x, np.array(["a"] * 300))
    integers = OrdinalClassifier(**QUICK, scale=3.0, calibrator=None).fit(x, pd.Series(y, dtype="Int64"))
    assert integers.classes_.tolist() == [0, 1, 2, 3]
    assert integers.classes_.dtype.kind == "i"
