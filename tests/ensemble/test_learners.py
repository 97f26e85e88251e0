"""Base learners of tables: proportional odds, forests, CatBoost and estimators of other packages."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from orcu import OrdinalClassifier, metrics
from orcu.boosting.catboost import CatBoostLearner
from orcu.boosting.learner import BoostingConfig
from orcu.boosting.libraries import boosting_learner
from orcu.boosting.objective import objective
from orcu.ensemble import forest
from orcu.ensemble.estimator import EstimatorLearner
from orcu.ensemble.forest import FORESTS, TREES_AT_ONCE, ForestLearner
from orcu.ensemble.learner import Deadline, TrainingData, smoothed_log_probs
from orcu.ensemble.linear import PENALTIES, LinearLearner, fit_proportional_odds
from orcu.errors import InputError
from orcu.model_selection import cross_fit_folds
from orcu.preprocessing import Inputs, TableEncoder

OVER = Deadline(0.0)


def sample(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.digitize(x[:, 0] - 0.5 * x[:, 1] + 0.5 * rng.normal(size=rows), [-1, 0, 1])


def data(rows=300, sample_weight=None):
    x, y = sample(rows)
    table = {f"x{k}": x[:, k] for k in range(3)}
    return TrainingData(TableEncoder.fit(table).encode(table), y, 4, sample_weight)


def nll(log_probs, y):
    return -log_probs[np.arange(len(y)), y].mean()


# --- proportional odds ---


def test_linear_learner_beats_frequencies():
    rows = data()
    folds = cross_fit_folds(rows.y, 5)
    learner = LinearLearner().prepare(rows, folds, None, lambda: None)
    assert learner.penalty in PENALTIES
    (member,) = LinearLearner().cross_fit(rows, folds)
    frequencies = np.log(np.bincount(rows.y) / len(rows.y))
    assert nll(member.log_probs, rows.y) < 0.8 * -frequencies[rows.y].mean()


def test_proportional_odds_of_a_class_without_rows_is_finite():
    x, y = sample()
    model = fit_proportional_odds(x, np.where(y == 2, 1, y), 4, penalty=1.0)
    probs = np.exp(model.predict_log_proba(x))
    assert (np.diff(model.thresholds) > 0).all()
    assert 0 < probs[:, 2].max() < 0.1


def test_proportional_odds_count_sample_weights_as_rows():
    x, y = sample(60)
    twice = np.concatenate([np.arange(60), np.arange(30)])
    weight = np.where(np.arange(60) < 30, 2.0, 1.0)
    repeated = fit_proportional_odds(x[twice], y[twice], 4, penalty=1.0)
    weighted = fit_proportional_odds(x, y, 4, penalty=1.0, sample_weight=weight)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-3)


def test_proportional_odds_stops_at_the_deadline():
    x, y = sample()
    stopped = fit_proportional_odds(x, y, 4, penalty=1.0, deadline=OVER)
    complete = fit_proportional_odds(x, y, 4, penalty=1.0)
    assert nll(stopped.predict_log_proba(x), y) > nll(complete.predict_log_proba(x), y)


def test_linear_learner_reads_its_models_and_refuses_damaged_files(tmp_path):
    rows = data()
    folds = cross_fit_folds(rows.y, 3)
    (first,) = LinearLearner().cross_fit(rows, folds, folder=tmp_path)
    (again,) = LinearLearner().cross_fit(rows, folds, folder=tmp_path)
    assert (first.log_probs == again.log_probs).all()
    width = rows.inputs.features.shape[1]
    assert LinearLearner().load_all(tmp_path, 3, (width, 4)).models[1].coef == pytest.approx(first.models[1].coef)
    with pytest.raises(InputError, match="another model"):
        LinearLearner().load_all(tmp_path, 3, (width, 5))
    path = LinearLearner().path(tmp_path, 0)
    for content in (
        "{",
        "[]",
        '{"coef": [1], "thresholds": [2, 1]}',
        '{"coef": [NaN], "thresholds": [1]}',
        '{"coef": 1}',
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=path.name):
            LinearLearner().load(path)


# --- forests ---


@pytest.mark.parametrize(
    ("name", "make"), [("extra trees", ExtraTreesRegressor), ("random forest", RandomForestRegressor)]
)
def test_forest_learner_equals_the_cumulative_regression_of_scikit_learn(name, make):
    rows = data()
    fold = cross_fit_folds(rows.y, 3)[0]
    trees = ForestLearner(name, 7).fit(rows, fold)
    options = {"bootstrap": False} | FORESTS[name]
    regressor = make(n_estimators=len(trees), random_state=7, **options)
    training = fold.all_training
    regressor.fit(rows.inputs.codes[training], (rows.y[training, None] <= np.arange(3)).astype(float))
    below = regressor.predict(rows.inputs.codes)
    probs = np.diff(below, prepend=0.0, append=1.0, axis=1).clip(0)
    expected = smoothed_log_probs(probs, forest.SMOOTHING_TREES)
    np.testing.assert_allclose(ForestLearner(name).predict_log_proba(trees, rows.inputs), expected, atol=1e-10)


def test_forest_learner_accepts_missing_values_and_a_class_without_rows():
    rows = data()
    rows.inputs.codes[::7, 1] = np.nan
    rows.inputs.codes[3, 0] = 1e300  # more than float32 holds
    fold = cross_fit_folds(rows.y, 3)[0]
    few = TrainingData(rows.inputs, np.minimum(rows.y, 2), 4)
    log_probs = ForestLearner("extra trees").predict_log_proba(ForestLearner("extra trees").fit(few, fold), rows.inputs)
    assert np.isfinite(log_probs).all()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1)
    assert np.exp(log_probs[:, 3]).max() < 0.01


def test_forest_learner_of_two_classes_sums_to_one():
    rows = data()
    two = TrainingData(rows.inputs, np.minimum(rows.y, 1), 2)
    learner = ForestLearner("random forest")
    log_probs = learner.predict_log_proba(learner.fit(two, cross_fit_folds(two.y, 3)[0]), rows.inputs)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1)
    assert nll(log_probs, two.y) < 0.5


def test_forest_learner_large_tables_bound_the_rows_of_a_tree(monkeypatch):
    monkeypatch.setattr(forest, "MAX_ROWS", 50)
    rows = data()
    trees = ForestLearner("extra trees").fit(rows, cross_fit_folds(rows.y, 3)[0])
    assert max(nodes["n_node_samples"][0] for nodes, _ in trees.trees()) <= 50


def test_forest_predict_in_parts_equals_the_sum_of_its_trees(monkeypatch):
    rows = data()
    fitted = ForestLearner("extra trees").fit(rows, cross_fit_folds(rows.y, 3)[0], OVER)
    codes = rows.inputs.codes.astype(np.float32)
    total = fitted.predict(codes)
    for nodes, values in fitted.trees():
        node = np.zeros(len(codes), dtype=int)
        while (inner := nodes["left_child"][node] >= 0).any():
            at = nodes[node[inner]]
            is_left = codes[inner, at["feature"]] <= at["threshold"]
            node[inner] = np.where(is_left, at["left_child"], at["right_child"])
        total -= values[node]
    assert np.abs(total).max() < 1e-9
    whole = fitted.predict(codes)
    monkeypatch.setattr(forest, "VALUES_AT_ONCE", 1)
    assert (fitted.predict(codes) == whole).all()


def test_forest_learner_at_the_deadline_keeps_the_first_trees():
    rows = data()
    assert len(ForestLearner("random forest").fit(rows, cross_fit_folds(rows.y, 3)[0], OVER)) == TREES_AT_ONCE


def test_forest_learner_reads_its_trees_and_refuses_damaged_files(tmp_path):
    rows = data(120)
    folds = cross_fit_folds(rows.y, 3)
    learner = ForestLearner("random forest", 1)
    (first,) = learner.cross_fit(rows, folds, folder=tmp_path)
    (again,) = learner.cross_fit(rows, folds, folder=tmp_path)
    assert (first.log_probs == again.log_probs).all()
    assert learner.load_all(tmp_path, 3, (3, 4)).predict_log_proba(rows.inputs).shape == (3, 120, 4)
    with pytest.raises(InputError, match="another model"):
        learner.load_all(tmp_path, 3, (4, 4))
    path = learner.path(tmp_path, 0)
    with np.load(path) as arrays:
        content = {name: arrays[name] for name in arrays.files}

    def damaged(**changes):
        np.savez(path, **content | changes)
        with pytest.raises(InputError, match=path.name):
            learner.load(path)

    cycle, far = content["node_left_child"].copy(), content["node_right_child"].copy()
    cycle[cycle > 0] = 0
    far[far > 0] = 10**6
    damaged(node_left_child=cycle)  # an endless loop in the C code
    damaged(node_right_child=far)  # a read outside of the nodes
    damaged(node_feature=np.full_like(content["node_feature"], 99))
    damaged(node_count=content["node_count"][:-1])
    damaged(value=content["value"] * np.nan)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=path.name):
        learner.load(path)


# --- boosting at a deadline, CatBoost ---


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosting_learner_at_the_deadline_trains_one_round(library):
    pytest.importorskip(library)
    rows = data()
    config = BoostingConfig(library)
    learner = boosting_learner("ce trees", config, objective=objective("ce", num_classes=4))
    (member,) = learner.cross_fit(rows, cross_fit_folds(rows.y, 3), deadline=OVER)
    assert member.n_iter == 1
    assert np.isfinite(member.log_probs).all()


def test_catboost_learner_with_categories_is_written_and_read(tmp_path):
    pytest.importorskip("catboost", reason="pip install catboost")
    x, y = sample()
    table = {"a": x[:, 0], "site": np.where(x[:, 1] > 0, "n", "s").astype(object)}
    encoder = TableEncoder.fit(table)
    rows = TrainingData(encoder.encode(table), np.where(y == 3, 2, y), 4)
    folds = cross_fit_folds(rows.y, 3)
    learner = CatBoostLearner(tuple(encoder.categorical), 1)
    (first,) = learner.cross_fit(rows, folds, folder=tmp_path, deadline=OVER)
    assert first.n_iter == 1
    assert np.isfinite(first.log_probs).all()
    again = learner.load_all(tmp_path, 3, (2, 4))
    np.testing.assert_allclose(again.predict_log_proba(rows.inputs), first.predict_log_proba(rows.inputs))
    learner.path(tmp_path, 0).write_bytes(b"no model")
    with pytest.raises(InputError, match="cannot be read"):
        learner.load_all(tmp_path, 3, (2, 4))


# --- estimators of other packages ---


def test_estimator_learner_fills_classes_without_rows():
    rows = data()
    rows = TrainingData(Inputs(None, None, sample()[0]), np.minimum(rows.y, 2), 4)
    learner = EstimatorLearner("knn", KNeighborsClassifier(3))
    (member,) = learner.cross_fit(rows, cross_fit_folds(rows.y, 3))
    assert np.isfinite(member.log_probs).all()
    assert np.exp(member.log_probs[:, 3]).max() < 0.01


def test_ordinal_classifier_with_pairs_passes_frames_to_pipelines():
    x, y = sample()
    frame = pd.DataFrame({"site": np.where(x[:, 0] > 0, "north", "south"), "x": x[:, 0]})
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    model = OrdinalClassifier(estimators=[("logistic", pipeline), "linear"], random_state=0).fit(frame, y)
    assert list(model.weights_) == ["logistic", "linear"]
    assert metrics.unimodality(model.predict_proba(frame)) == 1
    array = OrdinalClassifier(estimators=("knn", KNeighborsClassifier()), random_state=0).fit(x, y)
    assert array.weights_ == {"knn": 1.0}
    weight = np.where(np.arange(len(y)) % 3, 1.0, 0.0)
    weighted = OrdinalClassifier(estimators=[("lr", LogisticRegression())], random_state=0).fit(x, y, weight)
    assert len(weighted.ensemble_.y) == np.count_nonzero(weight)
    with pytest.raises(InputError, match="^sample_weight: 'knn'"):
        array.fit(x, y, sample_weight=weight)


@pytest.mark.parametrize(
    "estimators",
    [
        [("ce", LogisticRegression())],
        [("lr", LogisticRegression)],
        [("lr", object())],
        [("a", LogisticRegression()), ("a", LogisticRegression())],
        ["linear", "linear"],
        [3],
        None,
    ],
)
def test_ordinal_classifier_with_wrong_pairs_raises(estimators):
    with pytest.raises(InputError, match="^estimators: "):
        OrdinalClassifier(estimators=estimators).fit(*sample(60))
