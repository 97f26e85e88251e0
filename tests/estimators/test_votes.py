"""Estimators trained on votes of several raters."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier

from orcu import CalibratedOrdinal, OrdinalBoosting, OrdinalClassifier, geometry
from orcu.errors import InputError

NUM_CLASSES = 4
FAST = {"n_jobs": 1, "random_state": 0, "verbose": -1}


def true_probs(X):
    return geometry.probs(-1.5 * (np.arange(NUM_CLASSES) - 1.5 - 1.2 * X[:, :1]) ** 2)


@pytest.fixture(scope="module")
def rated():
    """Rows and the votes of ten raters, whose distribution depends on the first column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, np.stack([rng.multinomial(10, probs) for probs in true_probs(X)])


def distance(model, X):
    """Mean squared distance of the predicted and the true cumulative distribution."""
    return ((np.cumsum(model.predict_proba(X) - true_probs(X), axis=1)) ** 2).sum(axis=1).mean()


MODELS = {
    "linear": lambda **options: OrdinalClassifier(estimators=["linear"], cv=2, **FAST, **options),
    "forest": lambda **options: OrdinalClassifier(estimators=["forest"], cv=2, **FAST, **options),
    "networks": lambda **options: OrdinalClassifier(estimators=["network"], cv=2, epochs=15, **FAST, **options),
    "pair": lambda **options: OrdinalClassifier(estimators=[("lr", LogisticRegression())], cv=2, **FAST, **options),
    "single": lambda **options: OrdinalClassifier(
        cv=1, epochs=30, scale=3.0, calibration_fraction=0.2, **FAST, **options
    ),
    "calibrated": lambda **options: CalibratedOrdinal(LogisticRegression(), **options),
    "lightgbm": lambda **options: OrdinalBoosting("ce", cv=2, n_estimators=20, num_leaves=7, **FAST, **options),
    "xgboost": lambda **options: OrdinalBoosting(
        "orcu", library="xgboost", cv=2, n_estimators=20, num_leaves=7, **FAST, **options
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_estimator_trained_on_votes_is_closer_to_the_distribution_of_votes(rated, name):
    if name in ("lightgbm", "xgboost"):
        pytest.importorskip(name)
    X, votes = rated
    new = np.random.default_rng(1).normal(size=(300, 3))
    by_votes, by_majority = (MODELS[name]().fit(X, y) for y in (votes, votes.argmax(axis=1)))
    assert distance(by_votes, new) < 0.8 * distance(by_majority, new)
    assert 0.3 < by_votes.score(X, votes) < by_votes.score(X, votes.argmax(axis=1))


def test_catboost_trained_on_votes_is_closer_to_the_distribution_of_votes(rated):
    pytest.importorskip("catboost", reason="pip install catboost")
    X, votes = rated
    new = np.random.default_rng(1).normal(size=(300, 3))
    options = {"estimators": ["catboost"], "cv": 2, "calibrator": "temperature", "random_state": 0}
    by_votes, by_majority = (OrdinalClassifier(**options).fit(X, y) for y in (votes, votes.argmax(axis=1)))
    assert distance(by_votes, new) < 0.8 * distance(by_majority, new)


@pytest.mark.parametrize("name", ["linear", "forest", "networks", "pair", "single", "calibrated"])
def test_one_vote_per_row_gives_the_model_of_labels(rated, name):
    X, votes = rated
    y = votes.argmax(axis=1)
    by_label, by_vote = (MODELS[name]().fit(X, target) for target in (y, np.eye(NUM_CLASSES)[y]))
    atol = 2e-4 if name in ("networks", "single") else 1e-9  # losses of distributions round differently
    assert np.allclose(by_label.predict_proba(X), by_vote.predict_proba(X), atol=atol)
    assert by_label.score(X, y) == pytest.approx(by_vote.score(X, np.eye(NUM_CLASSES)[y]))


def test_shares_and_repeated_counts_give_the_same_model(rated):
    X, votes = rated
    counts, shares, repeated = (MODELS["linear"]().fit(X, y).predict_proba(X) for y in (votes, votes / 10, 3 * votes))
    assert np.allclose(counts, shares, atol=1e-6)
    assert np.array_equal(counts, repeated)


def test_prediction_sets_of_votes_are_larger_than_those_of_the_majority(rated):
    X, votes = rated
    for model in (MODELS["linear"](), MODELS["linear"](sets="split", calibration_fraction=0.3)):
        model.fit(X, votes)
        sizes = [np.diff(model.predict_sets(X, 0.2, target=target)).mean() for target in ("vote", "majority")]
        assert sizes[0] > sizes[1]
        with pytest.raises(InputError, match="target of prediction sets"):
            model.predict_sets(X, target="median")


def test_frame_of_votes_gives_class_names_in_the_order_of_numbers_or_classes(rated):
    X, votes = rated
    frame = pd.DataFrame(votes[:, [2, 0, 3, 1]], columns=[3, 1, 4, 2])
    model = MODELS["linear"]().fit(X, frame)
    assert model.classes_.tolist() == [1, 2, 3, 4]
    expected = MODELS["linear"]().fit(X, votes)
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))
    named = pd.DataFrame(votes, columns=["none", "mild", "severe", "worst"])
    with pytest.raises(InputError, match="alphabetical order may be wrong"):
        MODELS["linear"]().fit(X, named)
    model = MODELS["linear"](classes=list(named)).fit(X, named[["worst", "mild", "none", "severe"]])
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, named) == expected.score(X, votes)
    with pytest.raises(InputError, match="the columns of votes are none, mild, severe, worst; expected one column"):
        MODELS["linear"](classes=["none", "mild", "severe", "fatal"]).fit(X, named)


def test_class_weight_applies_to_each_vote(rated):
    X, votes = rated
    options = {"estimators": ["linear"], "cv": KFold(2), **FAST}  # strata would differ between the two
    products = votes * np.array([1, 1, 1, 5])
    weighted = OrdinalClassifier(class_weight={3: 5.0}, **options).fit(X, votes)
    by_hand = OrdinalClassifier(**options).fit(X, products, sample_weight=products.sum(axis=1))
    assert np.allclose(weighted.predict_proba(X), by_hand.predict_proba(X), atol=1e-3)
    assert not np.allclose(
        weighted.predict_proba(X), OrdinalClassifier(**options).fit(X, votes).predict_proba(X), atol=1e-2
    )
    assert MODELS["linear"](class_weight="balanced").fit(X, votes).predict_proba(X).shape == (200, 4)


def test_rows_of_weight_zero_and_groups_are_used_with_votes(rated):
    X, votes = rated
    weight = (np.arange(200) < 150).astype(float)
    groups = np.arange(200) // 2
    part = MODELS["linear"]().fit(X[:150], votes[:150], groups=groups[:150])
    assert np.allclose(
        MODELS["linear"]().fit(X, votes, weight, groups).predict_proba(X), part.predict_proba(X), atol=1e-9
    )


def test_diagnose_and_partial_fit_accept_votes(rated):
    X, votes = rated
    model = MODELS["networks"]().fit(X, votes)
    assert model.diagnose().rows == 200
    single = OrdinalClassifier(cv=1, **FAST).partial_fit(X, votes).partial_fit(X, votes)
    assert single.predict_proba(X).shape == (200, 4)


def test_loss_without_label_distributions_is_refused(rated):
    X, votes = rated
    with pytest.raises(InputError, match="takes integer labels, not label distributions"):
        OrdinalClassifier("flsd", estimators=["network"], cv=2, epochs=2, **FAST).fit(X, votes)


def test_estimator_without_sample_weight_is_refused(rated):
    X, votes = rated
    with pytest.raises(InputError, match=r"y: 'knn' \(KNeighborsClassifier\) does not take weights"):
        OrdinalClassifier(estimators=[("knn", KNeighborsClassifier())], cv=2, **FAST).fit(X, votes)
    with pytest.raises(InputError, match="KNeighborsClassifier does not take sample_weight"):
        CalibratedOrdinal(KNeighborsClassifier()).fit(X, votes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda votes: -votes, "row 0 has -[0-9]+ votes"),
        (lambda votes: votes * np.nan, "row 0 has nan"),
        (lambda votes: np.where(np.arange(200)[:, None] == 7, 0, votes), "row 7 has no vote"),
        (lambda votes: votes / 9, "expected shares that sum to 1"),
        (lambda votes: np.where(np.arange(200)[:, None] < 7, votes / 10, votes), "row 7 sums to 10"),
        (lambda votes: votes.astype(str).astype(object), "y"),
        (lambda votes: votes[:9], "inconsistent numbers of samples|rows"),
    ],
)
def test_invalid_votes_are_refused_by_every_estimator(rated, change, message):
    X, votes = rated
    for name in ("linear", "calibrated", "lightgbm"):
        with pytest.raises(ValueError, match=message):
            MODELS[name]().fit(X, change(votes))


def test_number_of_columns_other_than_the_classes_is_refused(rated):
    X, votes = rated
    for name in ("linear", "calibrated"):
        with pytest.raises(InputError, match="votes have 4 columns, expected 3"):
            MODELS[name](classes=[0, 1, 2]).fit(X, votes)
        model = MODELS[name]().fit(X, votes)
        with pytest.raises(InputError, match="votes have 3 columns, expected 4"):
            model.score(X, votes[:, :3])


def test_single_column_stays_a_column_of_labels(rated):
    X, votes = rated
    y = votes.argmax(axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MODELS["linear"]().fit(X, y[:, None])
    assert any("column-vector" in str(warning.message) for warning in caught)
    assert np.array_equal(model.predict_proba(X), MODELS["linear"]().fit(X, y).predict_proba(X))
