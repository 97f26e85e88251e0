"""Importance, partial dependence and Shapley values, beside scikit-learn, shap and independent computations."""

import itertools
import json
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import inspection
from sklearn.linear_model import LogisticRegression

from orcu import CalibratedOrdinal, OrdinalBoosting, OrdinalLogistic, explain, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.explain.cells import stack_rows, take_cells

CLASSES = ["none", "mild", "severe"]


def sample(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, rows).round(),
            "site": pd.Categorical(rng.choice(["north", "south", "west"], rows)),
            "dose": rng.normal(size=rows),
        }
    )
    risk = frame["age"] / 20 + 1.5 * (frame["site"] == "south") + rng.logistic(scale=0.5, size=rows)
    return frame, np.array(CLASSES)[np.digitize(risk, [2.2, 3.6])]


@pytest.fixture(scope="module")
def fitted():
    frame, y = sample()
    return OrdinalLogistic(classes=CLASSES).fit(frame, y), frame, y


def row_rps(probs, y):
    """RPS of each row, from its definition."""
    codes = np.array([CLASSES.index(label) for label in y])
    below = probs.cumsum(axis=1)[:, :-1]
    return ((below - (codes[:, None] <= np.arange(2))) ** 2).sum(axis=1)


class Linear:
    """A classifier of three classes whose probabilities are linear in the columns."""

    def __init__(self, slopes):
        self.slopes, self.classes_ = np.asarray(slopes, dtype=float), np.arange(3)

    def predict_proba(self, X):
        high = 0.3 + 0.002 * np.asarray(X, dtype=float) @ self.slopes
        return np.stack([0.5 - high / 2, 0.5 - high / 2, high], axis=1)


def test_permutation_importance_equals_scikit_learn(fitted):
    model, frame, y = fitted
    ours = explain.permutation_importance(model, frame, y, n_repeats=4, random_state=3)
    theirs = inspection.permutation_importance(
        model, frame, y, scoring=metrics.scorer("rps"), n_repeats=4, random_state=3
    )
    columns = [list(frame.columns).index(name) for name in ours.names]
    assert ours.names == ("age", "site", "dose")
    np.testing.assert_allclose(ours.repeats, theirs.importances[columns], atol=1e-12)
    np.testing.assert_allclose(ours.importance, theirs.importances_mean[columns], atol=1e-12)
    assert ours.rps == pytest.approx(row_rps(model.predict_proba(frame), y).mean())


def test_permutation_importance_of_a_group_permutes_its_columns_together(fitted):
    model, frame, y = fitted
    everything = explain.permutation_importance(model, frame, y, columns={"all": list(frame.columns)}, n_repeats=2)
    # All columns together: the rows keep their values, and only the labels are permuted.
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max + 1)
    rng, order, shuffled = np.random.RandomState(seed), np.arange(len(y)), np.arange(len(y))
    probs, expected = model.predict_proba(frame), []
    for _ in range(2):
        rng.shuffle(shuffled)
        order = order[shuffled]
        expected.append(row_rps(probs[order], y).mean() - row_rps(probs, y).mean())
    np.testing.assert_allclose(everything.repeats[0], expected, atol=1e-12)
    pair = explain.permutation_importance(model, frame, y, columns={"both": ["age", 1], "dose": ["dose"]}, n_repeats=2)
    assert set(pair.names) == {"both", "dose"}


def test_permutation_importance_interval_covers_rows_and_repeats():
    """Over new rows and permutations, the standard error is the standard deviation of the importance."""
    model = OrdinalLogistic(classes=CLASSES).fit(*sample(2000))
    results = [
        explain.permutation_importance(model, *sample(100, seed=seed), columns=["age"], n_repeats=3, random_state=seed)
        for seed in range(1, 121)
    ]
    values = np.array([result.importance[0] for result in results])
    errors = np.array([result.std_error[0] for result in results])
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.25)
    covered = [result.low[0] < values.mean() < result.high[0] for result in results]
    assert np.mean(covered) > 0.88


def test_permutation_importance_with_clusters_of_copies_has_the_errors_of_the_distinct_rows(fitted):
    model, frame, y = fitted
    single = explain.permutation_importance(model, frame, y, n_repeats=2)
    twice = pd.concat([frame, frame], ignore_index=True)
    cluster = np.tile(np.arange(len(frame)), 2)
    clustered = explain.permutation_importance(model, twice, np.tile(y, 2), cluster=cluster, n_repeats=2)
    plain = explain.permutation_importance(model, twice, np.tile(y, 2), n_repeats=2)
    assert clustered.clusters == len(frame)
    assert clustered.std_error[0] == pytest.approx(single.std_error[0], rel=0.25)
    assert plain.std_error[0] < 0.85 * clustered.std_error[0]


def test_permutation_importance_with_weights_equals_repeated_rows_in_expectation(fitted):
    model, frame, y = fitted
    weight = np.r_[np.ones(150), np.zeros(150)]
    result = explain.permutation_importance(model, frame, y, sample_weight=weight, n_repeats=2)
    assert result.rps == pytest.approx(row_rps(model.predict_proba(frame[:150]), y[:150]).mean())


def test_permutation_importance_prints_and_converts(fitted):
    model, frame, y = fitted
    result = explain.permutation_importance(model, frame, y, n_repeats=2)
    assert "age" in str(result)
    assert "importance is its rise" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["columns"][0]["name"] == "age"
    assert result.to_arrow().column_names == ["name", "importance", "low", "high"]


def test_permutation_importance_with_invalid_arguments_raises(fitted):
    model, frame, y = fitted
    with pytest.raises(UnknownNameError, match="column 'sex'"):
        explain.permutation_importance(model, frame, y, columns=["sex"])
    with pytest.raises(InputError, match="n_repeats"):
        explain.permutation_importance(model, frame, y, n_repeats=1)
    with pytest.raises(InputError, match="columns: expected a list"):
        explain.permutation_importance(model, frame, y, columns="age")
    with pytest.raises(InputError, match="columns: expected at least one column in 'empty'"):
        explain.permutation_importance(model, frame, y, columns={"empty": []})
    with pytest.raises(InputError, match="cluster: every row has the same"):
        explain.permutation_importance(model, frame, y, cluster=np.zeros(len(y)))
    with pytest.raises(InputError, match="alphabetical order"):
        explain.permutation_importance(LogisticRegression().fit(frame[["age"]], y), frame[["age"]], y)
    with pytest.raises(InputError, match="estimator: expected a fitted classifier"):
        explain.permutation_importance(object(), frame, y)
    with pytest.raises(InputError, match="X: expected a frame or an array"):
        explain.permutation_importance(model, np.zeros(3), y)
    with pytest.raises(InputError, match="feature_names: 1 names for 2 columns"):
        explain.permutation_importance(Linear([1, 2]), np.zeros((4, 2)), [0, 1, 2, 0], feature_names=["a"])


@pytest.mark.parametrize("column", ["age", "site"])
def test_partial_dependence_equals_scikit_learn(fitted, column):
    model, frame, _ = fitted
    ours = explain.partial_dependence(model, frame, column, grid_size=100)
    categorical = {"categorical_features": ["site"]} if column == "site" else {}
    theirs = inspection.partial_dependence(
        model, frame, [column], kind="both", grid_resolution=100, response_method="predict_proba", **categorical
    )
    assert ours.values.tolist() == theirs["grid_values"][0].tolist()
    np.testing.assert_allclose(ours.expected_grade, np.arange(3) @ theirs["average"], atol=1e-12)
    np.testing.assert_allclose(ours.at_least[:, 1], theirs["average"][2], atol=1e-12)
    np.testing.assert_allclose(ours.at_least[:, 0], theirs["average"][1:].sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(ours.individual, np.tensordot(np.arange(3), theirs["individual"], 1), atol=1e-12)
    np.testing.assert_allclose(ours.individual_at_least[:, :, 1], theirs["individual"][2], atol=1e-12)
    assert json.loads(json.dumps(ours.to_dict()))["at_least"].keys() == {"mild", "severe"}


def test_partial_dependence_grid_has_values_of_the_rows_from_5_to_95_percent(fitted):
    model, frame, _ = fitted
    curve = explain.partial_dependence(model, frame, "dose", grid_size=7, max_rows=200)
    assert len(curve.values) == 7
    assert set(curve.values) <= set(frame["dose"])
    assert np.quantile(curve.observed, 0.03) < curve.values[0] < curve.values[-1] < np.quantile(curve.observed, 0.97)
    assert curve.probs.shape == (200, 7, 3)


def test_partial_dependence_of_numeric_labels_has_their_scale():
    x = np.random.default_rng(0).normal(size=(200, 1))
    y = 3 + np.digitize(x[:, 0] + np.random.default_rng(1).logistic(size=200), [-1, 1])
    curve = explain.partial_dependence(OrdinalLogistic().fit(x, y), x, 0)
    assert curve.grades.tolist() == [3.0, 4.0, 5.0]
    assert 3 < curve.expected_grade[0] < curve.expected_grade[-1] < 5


def test_partial_dependence_of_missing_values_and_polars_frames():
    frame, y = sample()
    model = CalibratedOrdinal(OrdinalBoosting(n_estimators=5, cv=2, random_state=0), classes=None, cv=2)
    codes = np.array([CLASSES.index(label) for label in y])
    frame = frame.assign(dose=frame["dose"].where(frame["dose"] < 1), site=frame["site"].astype(object))
    frame.loc[::5, "site"] = None
    model.fit(frame, codes)
    curve = explain.partial_dependence(model, frame, "site", max_rows=50)
    assert curve.values.tolist() == ["(missing)", "north", "south", "west"]
    assert np.isfinite(explain.partial_dependence(model, frame, "dose", max_rows=50).values).all()
    polars = pl.DataFrame(sample(100)[0].assign(site=lambda f: f["site"].astype(str)).to_dict("list"))
    logistic = OrdinalLogistic(classes=CLASSES).fit(polars, sample(100)[1])
    assert explain.partial_dependence(logistic, polars, "site").values.tolist() == ["north", "south", "west"]
    assert explain.permutation_importance(logistic, polars, sample(100)[1], n_repeats=2).names[0] == "age"
    row = logistic.explain_row(polars[3])
    assert row.expected_grade == pytest.approx(float(logistic.predict_proba(polars[3])[0] @ np.arange(3)))


def brute_force_shapley(value, width):
    """Mean marginal contribution over all orders of the columns, from the definition."""
    total = np.zeros(width)
    for order in itertools.permutations(range(width)):
        inside = np.zeros(width, dtype=bool)
        for column in order:
            before = value(inside)
            inside[column] = True
            total[column] += value(inside) - before
    return total / math.factorial(width)


def test_explain_row_equals_shapley_values_of_all_orders(fitted):
    model, frame, _ = fitted
    background, row = frame[:20], frame.iloc[[7]]
    result = explain.explain_row(model, row, background)

    def value(inside):
        mixed = background.copy()
        for name in frame.columns[inside]:
            mixed[name] = row[name].iloc[0]
        mixed["site"] = pd.Categorical(mixed["site"], categories=frame["site"].cat.categories)
        return float((model.predict_proba(mixed) @ np.arange(3)).mean())

    expected = dict(zip(frame.columns, brute_force_shapley(value, 3), strict=True))
    assert result.grade_contributions == pytest.approx([expected[name] for name in result.columns], abs=1e-12)
    assert result.about.startswith("Exact")


@pytest.mark.parametrize("width", [4, 12])
def test_explain_row_contributions_sum_to_the_difference_from_the_mean_prediction(width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, width))
    y = np.digitize(x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * rng.logistic(size=400), [-1, 1])
    model = OrdinalLogistic().fit(x, y)
    result = model.explain_row(x[5])
    background = model._background
    np.testing.assert_allclose(result.mean_probs, model.predict_proba(background).mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.probs - result.mean_probs, atol=1e-12)
    assert result.grade_contributions.sum() == pytest.approx(result.expected_grade - result.mean_grade, abs=1e-12)
    assert (result.std_error > 0).any() == (width > 8)


def test_explain_row_of_a_linear_function_is_the_slope_times_the_distance_from_the_mean():
    slopes = np.arange(1.0, 11.0)
    x = np.random.default_rng(0).normal(size=(50, 10))
    result = explain.explain_row(Linear(slopes), x[0], x)
    order = [int(name[1:]) for name in result.columns]
    # The expected grade is linear in the highest probability: 0.5 + 1.5 * high.
    np.testing.assert_allclose(result.grade_contributions, (1.5 * 0.002 * slopes * (x[0] - x.mean(axis=0)))[order])
    assert "40 orders of the columns" in result.about


def test_explain_row_in_words_names_columns_and_values(fitted):
    model, frame, _ = fitted
    row = frame.assign(age=80.0, site=pd.Categorical(["south"] * len(frame), categories=["north", "south", "west"]))
    text = str(model.explain_row(row.iloc[[0]]))
    assert text.startswith("The most likely class is severe (")
    assert ", above the average of" in text
    assert "Moved up by age = 80 (+" in text
    assert "site = south (+" in text
    same = model.explain_row(row.iloc[0]), model.explain_row({"age": 80.0, "site": "south", "dose": row["dose"][0]})
    assert {str(result) for result in same} == {text}
    assert json.loads(json.dumps(same[0].to_dict()))["columns"][0]["name"] in {"age", "site"}
    html = same[0]._repr_html_()
    assert "<svg" in html
    assert "var(--" not in html


def test_explain_row_escapes_names_of_columns():
    x = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(x, columns=["<script>alert(1)</script>", "b\x1b[31m"])
    model = OrdinalLogistic().fit(frame, np.digitize(x[:, 0] + np.random.default_rng(1).logistic(size=60), [-1, 1]))
    result = model.explain_row(frame.iloc[[0]])
    assert "<script>" not in result._repr_html_()
    assert "\x1b" not in str(result)


def test_explain_row_of_a_saved_model_needs_background_rows(fitted):
    model, frame, _ = fitted
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(InputError, match="background: this model has no training rows"):
        loaded.explain_row(frame.iloc[[0]])
    assert loaded.explain_row(frame.iloc[[0]], frame).probs == pytest.approx(model.predict_proba(frame[:1])[0])


def test_explain_row_with_invalid_rows_raises(fitted):
    model, frame, _ = fitted
    with pytest.raises(InputError, match="x: expected one row, got a frame of 2 rows"):
        model.explain_row(frame[:2])
    with pytest.raises(InputError, match="x: has no column 'site'"):
        model.explain_row({"age": 30.0, "dose": 0.0})
    with pytest.raises(InputError, match="x: expected one row of 3 columns"):
        model.explain_row([1.0, 2.0])
    with pytest.raises(InputError, match="x: expected one row of 2 columns"):
        explain.explain_row(Linear([1, 2]), np.zeros((2, 2)), np.zeros((5, 2)))


def test_explain_row_of_calibrated_ordinal_uses_its_probabilities():
    x = np.random.default_rng(0).normal(size=(200, 2))
    y = np.digitize(x[:, 0] + np.random.default_rng(1).logistic(size=200), [-1, 1])
    model = CalibratedOrdinal(LogisticRegression(), cv=2).fit(x, y)
    assert model.explain_row(x[0]).probs == pytest.approx(model.predict_proba(x[:1])[0])


def test_stack_rows_and_take_cells_keep_types_of_columns():
    frame = pd.DataFrame({"n": [1, 2], "c": pd.Categorical(["a", "b"]), "s": ["x", None]})
    other = pd.DataFrame({"n": [3], "c": pd.Categorical(["z"]), "s": ["y"]})
    stacked = stack_rows(frame, other)
    assert stacked["c"].tolist() == ["a", "b", "z"]
    assert stacked["c"].dtype.name == "category"
    assert stacked["n"].dtype == frame["n"].dtype
    mixed = take_cells(stacked, np.array([[2, 0, 1], [0, 2, 2]]))
    assert mixed["n"].tolist() == [3, 1]
    assert mixed["c"].tolist() == ["a", "z"]
    assert mixed["s"].isna().tolist() == [True, False]


@pytest.mark.slow  # numba compiles
@pytest.mark.filterwarnings("ignore")  # of numba and shap
def test_shap_values_equal_exact_shapley_values_on_a_frame_with_categories(fitted):
    pytest.importorskip("shap", reason="pip install 'orcu[explain]'")
    model, frame, _ = fitted
    explanation = explain.shap_values(model, frame[:4], frame[:30])
    assert explanation.feature_names == ["age", "site", "dose"]
    assert explanation.data[0, 1] == frame["site"].iloc[0]
    expected = model.predict_proba(frame[:4]) @ np.arange(3)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, expected, atol=1e-10)
    for row in range(4):
        ours = explain.explain_row(model, frame.iloc[[row]], frame[:30])
        theirs = dict(zip(explanation.feature_names, explanation.values[row], strict=True))
        assert ours.grade_contributions == pytest.approx([theirs[name] for name in ours.columns], abs=1e-10)


@pytest.mark.slow  # numba compiles
@pytest.mark.filterwarnings("ignore")  # of numba and shap
def test_tree_explainer_takes_the_codes_of_a_frame_with_categories():
    """Boosters are trained on the codes of the encoder, so that TreeExplainer needs them too."""
    shap = pytest.importorskip("shap", reason="pip install 'orcu[explain]'")
    frame, y = sample()
    model = OrdinalBoosting("ce", n_estimators=5, cv=2, classes=CLASSES, random_state=0).fit(frame, y)
    codes = model.encoder_.encode(frame, features=False).codes
    booster = model.boosters_["ce"][0]
    values = np.asarray(shap.TreeExplainer(booster).shap_values(codes))
    assert values.shape == (300, 3, 3)
    own = booster.predict(codes, pred_contrib=True).reshape(300, 3, 4)
    np.testing.assert_allclose(values, own[:, :, :3].transpose(0, 2, 1), atol=1e-9)


def test_scikit_learn_partial_dependence_display_works_with_our_estimators(fitted):
    import matplotlib as mpl
    from matplotlib.figure import Figure

    model, frame, _ = fitted
    with mpl.rc_context({"backend": "agg"}):
        display = inspection.PartialDependenceDisplay.from_estimator(
            model,
            frame,
            ["age", "site"],
            categorical_features=["site"],
            target="severe",
            kind="average",
            grid_resolution=5,
            ax=Figure().add_subplot(),
        )
    assert len(display.axes_.ravel()) == 2


def test_explain_model_draws_curves_of_important_columns_only(fitted):
    model, frame, y = fitted
    explanation = explain.explain_model(model, frame, y)
    assert [curve.column for curve in explanation.dependence] == ["age", "site"]
    assert json.loads(json.dumps(explanation.to_dict()))["importance"]["rows"] == 300
    constant = Linear([0, 0])
    x = np.random.default_rng(0).normal(size=(40, 2))
    assert explain.explain_model(constant, x, np.arange(40) % 3).dependence == ()
