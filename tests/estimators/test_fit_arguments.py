"""Arguments of ``fit``: sample weights, groups, masked arrays, parameters, labels, columns that cannot be split."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from orcu import CalibratedOrdinal, OrdinalBoosting, OrdinalClassifier
from orcu.ensemble import forest
from orcu.errors import InputError
from orcu.estimators.validation import scaled_sample_weight

NETWORK = {"estimators": "network", "hidden_layer_sizes": (8,), "epochs": 3, "random_state": 0}
ESTIMATORS = {
    "ensemble": OrdinalClassifier(
        estimators=["linear", "forest", "network"],
        hidden_layer_sizes=(8,),
        epochs=3,
        cv=2,
        calibrator="temperature",
        random_state=0,
    ),
    "single": OrdinalClassifier("orcu", **NETWORK, cv=1, scale=3.0, calibrator="temperature"),
    "class_weight": OrdinalClassifier(
        estimators=["linear"], class_weight="balanced", cv=2, calibrator="temperature", random_state=0
    ),
    "pair": OrdinalClassifier(
        estimators=[("forest of sklearn", RandomForestClassifier(10, random_state=0))], cv=2, random_state=0
    ),
    "boosting": OrdinalBoosting(n_estimators=10, cv=2, random_state=0),
    "xgboost": OrdinalBoosting(library="xgboost", n_estimators=5, cv=2, random_state=0),
    "calibrated": CalibratedOrdinal(RandomForestClassifier(10, random_state=0), calibrator="temperature"),
    "calibrated linear": CalibratedOrdinal(LogisticRegression(), calibrator="temperature"),
}


@pytest.fixture(autouse=True)
def small_forests(monkeypatch):
    monkeypatch.setattr(forest, "MAX_TREES", 20)


def sample(rows=160, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = np.digitize(x[:, 0] + 0.7 * rng.normal(size=rows), [-0.8, 0.8])
    return x, y, rng.uniform(0.2, 5.0, size=rows)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "ensemble" else ()) for name in ESTIMATORS]
)
def test_fit_does_not_depend_on_a_common_factor_of_sample_weight(name):
    x, y, weight = sample()
    expected = ESTIMATORS[name].fit(x, y, sample_weight=weight).predict_proba(x)
    for factor in (1e-6, 1 / weight.sum(), 100.0):
        probs = ESTIMATORS[name].fit(x, y, sample_weight=factor * weight).predict_proba(x)
        assert np.abs(probs - expected).max() < 1e-12


def test_partial_fit_does_not_depend_on_a_common_factor_of_sample_weight():
    x, y, weight = sample()
    probs = [
        OrdinalClassifier("orcu", **NETWORK, cv=1).partial_fit(x, y, sample_weight=factor * weight).predict_proba(x)
        for factor in (1.0, 1e-6, 100.0)
    ]
    assert max(np.abs(other - probs[0]).max() for other in probs[1:]) < 1e-12


def test_class_weight_common_factor_does_not_change_boosting():
    x, y, _ = sample()
    probs = [
        OrdinalBoosting(n_estimators=10, cv=2, random_state=0, class_weight={0: 3 * factor, 1: factor, 2: factor})
        .fit(x, y)
        .predict_proba(x)
        for factor in (1.0, 1e-6)
    ]
    assert np.abs(probs[0] - probs[1]).max() < 1e-12


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1, 1], "row 1 has -1"),
        ([1, np.nan, 1], "row 1 has nan"),
        ([1, 1, np.inf], "row 2 has inf"),
        ([0, 0, 0], "every weight is zero"),
        ([1, 1], r"shape \(3,\)"),
        ([[1], [1], [1]], r"shape \(3,\)"),
        (["a", "b", "c"], "expected real numbers"),
        ([1, None, 1], "row 1 has None"),
        ([1, 1e-20, 1], "row 1 has 1e-20, less than 9.1e-13 times the mean"),
        (np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 0, 1]), "row 2 is masked"),
        (-1.0, "row 0 has -1"),
    ],
    ids=str,
)
def test_scaled_sample_weight_of_wrong_weights_raises(weight, message):
    with pytest.raises(InputError, match=f"^sample_weight: .*{message}"):
        scaled_sample_weight(weight, 3)


def test_scaled_sample_weight_accepts_extreme_common_factors_numbers_and_booleans():
    for factor in (1e-300, 1.0, 1e300):
        assert scaled_sample_weight(np.array([1.0, 2.0, 3.0]) * factor, 3).tolist() == [0.5, 1.0, 1.5]
    assert scaled_sample_weight(7, 2).tolist() == [1.0, 1.0]
    assert scaled_sample_weight([True, False], 2).tolist() == [1.0, 0.0]


@pytest.mark.filterwarnings("ignore::orcu.errors.CalibrationWarning")  # the calibrator has no row of the class either
@pytest.mark.parametrize("name", ["boosting", "calibrated", "single"])
def test_fit_with_a_class_of_weight_zero_keeps_the_class(name):
    x, y, weight = sample()
    weight[y == 2] = 0
    with pytest.warns(UserWarning, match="^sample_weight: every row of class 2 has weight 0"):
        model = ESTIMATORS[name].fit(x, y, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1, 2]
    probs = model.predict_proba(x)
    assert probs.shape == (160, 3)
    assert probs[:, 2].mean() < (0.3 if name == "single" else 0.1)  # the single network has three epochs


def test_fit_with_rows_of_weight_zero_equals_fit_without_them():
    x, y, weight = sample()
    has_weight = np.arange(160) % 4 > 0
    full = ESTIMATORS["ensemble"].fit(x, y, sample_weight=weight * has_weight).predict_proba(x)
    part = ESTIMATORS["ensemble"].fit(x[has_weight], y[has_weight], sample_weight=weight[has_weight]).predict_proba(x)
    assert (full == part).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.where(np.arange(160) == 7, np.nan, 1.0), "groups: row 7 is missing"),
        (pd.array([None if k == 7 else k % 9 for k in range(160)], dtype="Int64"), "groups: row 7 is missing"),
        (np.zeros((160, 2)), "groups: expected one entry per row"),
        (np.ma.masked_array(np.arange(160), mask=np.arange(160) == 3), "groups: row 3 is masked"),
    ],
    ids=["nan", "NA", "matrix", "masked"],
)
def test_fit_with_wrong_groups_names_groups(groups, message):
    x, y, _ = sample()
    with pytest.raises(InputError, match=f"^{message}"):
        ESTIMATORS["boosting"].fit(x, y, groups=groups)


def test_fit_with_masked_values_counts_them_as_missing_and_refuses_masked_labels():
    x, y, _ = sample()
    mask = np.zeros(x.shape, bool)
    mask[::5, 1] = True
    spoilt = np.where(mask, 1e6, x)
    model = ESTIMATORS["boosting"]
    expected = model.fit(np.where(mask, np.nan, x), y).predict_proba(np.where(mask, np.nan, x))
    masked = np.ma.masked_array(spoilt, mask=mask)
    assert (model.fit(masked, y).predict_proba(masked) == expected).all()
    labels = np.ma.masked_array(y, mask=np.arange(160) == 9)
    for estimator in (model, ESTIMATORS["calibrated"]):
        with pytest.raises(InputError, match="^y: row 9 is masked"):
            estimator.fit(x, labels)
    with pytest.raises(InputError, match="^X: row 0 is masked"):
        ESTIMATORS["calibrated"].fit(masked, y)


@pytest.mark.parametrize("name", ["boosting", "single", "calibrated"])
def test_fit_with_numbers_and_text_as_labels_raises_unless_classes_are_given(name):
    x, y, _ = sample()
    mixed = np.array([0, 1, "two"], dtype=object)[y]
    with pytest.raises(InputError, match="^y: labels are both numbers and text"):
        ESTIMATORS[name].fit(x, mixed)
    model = type(ESTIMATORS[name])(**ESTIMATORS[name].get_params(deep=False) | {"classes": [0, 1, "two"]})
    assert model.fit(x, mixed).predict_proba(x).shape == (160, 3)


def test_fit_of_a_frame_without_columns_or_with_equal_names_raises():
    x, y, _ = sample()
    for estimator in (ESTIMATORS["ensemble"], ESTIMATORS["boosting"]):
        with pytest.raises(InputError, match="^X: the frame has no columns"):
            estimator.fit(pd.DataFrame(index=range(160)), y)
        with pytest.raises(InputError, match="^X: two columns have the name 'a'"):
            estimator.fit(pd.DataFrame(x, columns=["a", "b", "a"]), y)


WRONG = {
    OrdinalClassifier: [
        ("patience", "x"),
        ("weight_decay", "x"),
        ("weight_decay", -1.0),
        ("learning_rate", "x"),
        ("validation_fraction", "x"),
        ("calibration_fraction", None),
        ("epochs", 2.5),
        ("scoring", ["qwk"]),
        ("presets", ["fast"]),
        ("class_weight", {0: "x"}),
        ("class_weight", {0: -1.0}),
        ("classes", 5),
        ("rule", 5),
        ("warm_start", "no"),
        ("random_state", "x"),
    ],
    OrdinalBoosting: [
        ("early_stopping_rounds", "x"),
        ("params", 5),
        ("params", {1: 2}),
        ("params", {"objective": "regression"}),
        ("params", {"max_depth": "x"}),
        ("params", {"monotone_constraints": [1]}),
        ("calibrator", 5),
        ("class_weight", 5),
        ("validation_fraction", "x"),
        ("cv", "x"),
    ],
    CalibratedOrdinal: [("calibrator", 5), ("calibrator", None), ("rule", 5), ("classes", 5), ("estimator", 5)],
}


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [(estimator, *pair) for estimator, pairs in WRONG.items() for pair in pairs],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_fit_with_a_wrong_parameter_raises_and_names_it(estimator, name, value):
    x, y, _ = sample()
    quick = {"estimator": LogisticRegression()} if estimator is CalibratedOrdinal else {"random_state": 0}
    words = {"presets": "preset", "scoring": "scoring"}.get(name, f"{name}:")
    with pytest.raises(InputError, match=f"{words}"):
        estimator(**quick | {name: value}).fit(x, y)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", ["constant", "missing", "rare"])
def test_ordinal_boosting_without_a_column_to_split_predicts_class_frequencies(library, kind):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [40, 80, 80])
    x = {
        "constant": np.ones((200, 2)),
        "missing": np.full((200, 2), np.nan),
        "rare": 1.0 * (rng.permutation(200)[:, None] < [2, 3]),
    }[kind]
    if library == "xgboost" and kind == "rare":
        pytest.skip("XGBoost splits leaves of single rows")
    model = OrdinalBoosting(["ce", "orcu"], library=library, n_estimators=5, random_state=0)
    with pytest.warns(UserWarning, match="^ce, orcu: no column"):
        model.fit(x, y)
    assert np.abs(model.predict_proba(x) - [0.2, 0.4, 0.4]).max() < 0.03
    assert "no column" in repr(model)
    assert (model.feature_importances_ == 0).all()


def test_ordinal_classifier_without_a_column_to_split_drops_boosting_and_keeps_the_others():
    rng = np.random.default_rng(0)
    x = 1.0 * (rng.permutation(200)[:, None] < [5, 6])
    model = OrdinalClassifier(estimators=["linear", "boosting"], presets="best", random_state=0)
    with pytest.warns(UserWarning, match="^ce trees, orcu trees: no column .* dropped from the ensemble"):
        model.fit(x, np.arange(200) % 3)
    assert model.weights_ == {"linear": 1.0, "ce trees": 0.0, "orcu trees": 0.0}
    assert "ce trees, orcu trees: no column" in repr(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_proba(x).shape == (200, 3)


@pytest.mark.parametrize("name", ["boosting", "single", "calibrated"])
def test_fit_of_integer_labels_in_an_object_array_equals_fit_of_integers(name):
    x, y, _ = sample()
    expected = ESTIMATORS[name].fit(x, y).predict_proba(x)
    model = ESTIMATORS[name].fit(x, y.astype(object))
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict_proba(x) == expected).all()


def test_fit_of_tensors_with_gradient_and_lazy_frames():
    import polars as pl
    import torch

    x, y, _ = sample()
    model = ESTIMATORS["boosting"]
    expected = model.fit(x, y).predict_proba(x)
    tensor = torch.tensor(x, requires_grad=True)
    assert (model.fit(tensor, torch.tensor(y)).predict_proba(tensor) == expected).all()
    with pytest.raises(InputError, match="^X: .* LazyFrame; call collect"):
        model.fit(pl.DataFrame(x).lazy(), y)


def test_calibrated_ordinal_with_one_class_raises():
    x, y, _ = sample()
    with pytest.raises(InputError, match="^y: every row has the same class"):
        ESTIMATORS["calibrated"].fit(x, 0 * y)
