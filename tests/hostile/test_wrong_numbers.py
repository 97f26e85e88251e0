"""Regression tests: inputs that gave a wrong number silently are handled or refused."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import orcu
from orcu import OrdinalClassifier, Predictions, calibrators, evaluate, metrics
from orcu.errors import InputError

NAMES = ["low", "medium", "high"]  # not alphabetical


@pytest.fixture(scope="module")
def graded():
    """Rows whose grades rise with the first column: features, and grades by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    codes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=240), [-0.6, 0.6])
    return X, np.array(NAMES)[codes]


def network(**options):
    plain = {
        "estimators": ["network"],
        "loss": "orcu",
        "cv": 2,
        "scale": 3.0,
        "hidden_layer_sizes": (8,),
        "epochs": 15,
        "batch_size": 16,
        "learning_rate": 0.02,
        "calibrator": None,
        "random_state": 0,
        "classes": NAMES,
    }
    return OrdinalClassifier(**(plain | options))


def test_classifier_fit_alphabetically_encoded_labels_raises(graded):
    X, y = graded
    with pytest.raises(InputError, match=r"integers.*names.*cross_val_predict"):
        cross_val_predict(network(), X, y, method="predict_proba", cv=2)
    with pytest.raises(InputError, match=r"integers.*names"):
        VotingClassifier([("one", network()), ("two", network())], voting="soft").fit(X, y)
    with pytest.raises(InputError, match=r"integers.*names"):
        network().fit(X, np.arange(240) % 2 + 1)  # 1 and 2: positions, or numbers from 1?


def test_cross_val_predict_keeps_the_class_order(graded):
    X, y = graded
    probs = orcu.model_selection.cross_val_predict(network(), X, y, cv=3)
    codes = pd.Categorical(y, categories=NAMES).codes.astype(np.int64)
    assert metrics.accuracy(probs, codes) > 0.75
    assert metrics.unimodality(probs) > 0.95
    predicted = orcu.model_selection.cross_val_predict(network(), X, y, cv=3, method="predict")
    assert (predicted == np.array(NAMES)[probs.argmax(axis=1)]).all()


@pytest.mark.parametrize("name", ["rps", "accuracy", "overconfidence"])
def test_scorer_uses_the_class_order_and_direction(graded, name):
    X, y = graded
    model = network().fit(X, y)
    codes = pd.Categorical(y, categories=NAMES).codes.astype(np.int64)
    value = getattr(metrics, name)(model.predict_proba(X), codes)
    expected = {"rps": -value, "accuracy": value, "overconfidence": -abs(value)}[name]
    assert metrics.scorer(name)(model, X, y) == pytest.approx(expected, abs=1e-12)
    assert cross_val_score(network(), X, y, scoring=metrics.scorer(name), cv=2, error_score="raise").shape == (2,)


def test_scorer_in_a_grid_search(graded):
    X, y = graded
    search = GridSearchCV(network(), {"epochs": [1, 15]}, scoring=metrics.scorer("rps"), cv=2, error_score="raise")
    assert search.fit(X, y).best_params_ == {"epochs": 15}


@pytest.mark.parametrize(("name", "missing"), [("None", None), ("nan", float("nan"))])
def test_missing_labels_raise_although_a_class_has_that_name(name, missing, graded, tmp_path):
    y = np.array([name, "high", missing, "high"], dtype=object)
    with pytest.raises(InputError, match="^y: row 2 "):
        Predictions(probs=[[0.5, 0.5]] * 4, y=y, classes=[name, "high"])
    frame = pd.DataFrame({"p_a": [0.5] * 4, "p_b": [0.5] * 4, "y": [name, "high", None, "high"]})
    frame.to_parquet(tmp_path / "file.parquet")
    with pytest.raises(InputError, match="^file.parquet: y: row 3 "):
        Predictions.read(tmp_path / "file.parquet", label="y", probs="p_*", classes=[name, "high"])
    X = graded[0][:100]
    full = np.where(X[:, 0] > 0, "high", name).astype(object)
    model = network(classes=[name, "high"], validation_fraction=0, calibration_fraction=0, epochs=2).fit(X, full)
    full[3] = missing
    with pytest.raises(InputError, match="^y: row 3 "):
        model.score(X, full)


def test_calibrator_replacement_of_zero_is_determined_in_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=60).round(2)
    probs[:, 2] = 1 - probs[:, 0] - probs[:, 1]
    probs = np.clip(probs, 0, 1)
    probs[::5] = [0.0, 0.25, 0.75]
    frame = pd.DataFrame(probs, columns=["p_0", "p_1", "p_2"]).assign(y=rng.integers(3, size=60))
    frame.to_csv(tmp_path / "held.csv", index=False)
    reading = ("--label", "y", "--probs", "p_*")
    fit = run("calibrate", "fit", "held.csv", "-o", "fitted.json", "--calibrator", "vector", *reading, cwd=tmp_path)
    assert fit.returncode == 0, fit.stderr
    assert json.loads((tmp_path / "fitted.json").read_text())["floor"] > 0
    moved = {}
    for other_row in ([0.5, 0.5, 0.0], [0.999999, 0.000001, 0.0]):  # the smallest positive value differs
        rows = pd.DataFrame([[0.0, 0.25, 0.75], other_row], columns=["p_0", "p_1", "p_2"])
        rows.to_csv(tmp_path / "new.csv", index=False)
        apply = run("calibrate", "apply", "new.csv", "fitted.json", "-o", "out.parquet", "--probs", "p_*", cwd=tmp_path)
        assert apply.returncode == 0, apply.stderr
        moved[other_row[0]] = Predictions.read(tmp_path / "out.parquet").probs[0]
    assert (moved[0.5] == moved[0.999999]).all()
    in_python = calibrators.create("vector").fit(probs=frame[["p_0", "p_1", "p_2"]], y=frame["y"].to_numpy())
    np.testing.assert_allclose(in_python.predict_proba(probs=[[0.0, 0.25, 0.75]])[0], moved[0.5], rtol=1e-6)


def test_calibrator_of_logits_refuses_zero_probabilities():
    fitted = calibrators.TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
    with pytest.raises(InputError, match=r"probability of 0.*fitted on logits"):
        Predictions(probs=[[1.0, 0.0]]).calibrated(fitted)


def test_classifier_warm_start_with_other_classes_raises(graded):
    X, y = graded
    model = network(warm_start=True, cv=1).fit(X, y)
    before = model.predict_proba(X)
    for classes in (["low", "high", "medium"], ["a", "b", "c"]):
        model.set_params(classes=classes)
        renamed = np.array(classes)[pd.Categorical(y, categories=NAMES).codes]
        with pytest.raises(InputError, match=r"warm_start.*other.*classes"):
            model.fit(X, renamed)
    assert (model.set_params(classes=NAMES).predict_proba(X) == before).all()


@pytest.mark.parametrize("factor", [1e-300, 1e-23, 1e-12, 1e13])
def test_evaluate_weights_out_of_range_raise(factor):
    with pytest.raises(InputError, match=r"^sample_weight: row \d has .*Rescale"):
        evaluate(probs=[[0.5, 0.5]] * 3, y=[0, 1, 0], sample_weight=np.array([1.0, 2.0, 0.5]) * factor, n_resamples=0)


@pytest.mark.parametrize("factor", [1e-8, 1e9])
def test_evaluate_scale_of_weights_does_not_matter(factor):
    rng = np.random.default_rng(0)
    probs, y, weight = rng.dirichlet(np.ones(4), size=200), rng.integers(4, size=200), rng.uniform(0.5, 2, size=200)
    plain, scaled = (evaluate(probs=probs, y=y, sample_weight=w, n_resamples=50) for w in (weight, weight * factor))
    for name, estimate in plain.metrics.items():
        assert scaled[name].value == pytest.approx(estimate.value, rel=1e-9), name
        assert scaled[name].low == pytest.approx(estimate.low, rel=1e-9, nan_ok=True), name


def test_evaluate_alphabetical_columns_fail(tmp_path):
    names = [f"p_{k}" for k in sorted(range(12), key=str)]
    frame = pd.DataFrame(np.full((4, 12), 1 / 12), columns=names).assign(y=["a", "b", "c", "d"])
    frame.to_csv(tmp_path / "file.csv", index=False)
    classes = ",".join("abcdefghijkl")
    result = run(
        "evaluate", "file.csv", "--label", "y", "--probs", "p_*", "--classes", classes, cwd=tmp_path, width=400
    )
    assert result.returncode == 3
    assert "0, 1, 10" in result.stderr


def test_evaluate_misspelt_class_name_fails(tmp_path):
    frame = pd.DataFrame([[0.2, 0.5, 0.3]] * 3, columns=["p_high", "p_low", "p_mid"]).assign(y=["low", "mid", "high"])
    frame.to_csv(tmp_path / "file.csv", index=False)
    result = run(
        "evaluate", "file.csv", "--label", "y", "--probs", "p_*", "--classes", "low,mid,hihg", cwd=tmp_path, width=400
    )
    assert result.returncode == 3
    assert "only low, mid" in result.stderr
    with pytest.raises(InputError, match="^probs: .*only low, mid"):
        Predictions(probs=frame[["p_low", "p_mid", "p_high"]], y=frame["y"], classes=["low", "mid", "hihg"])


@pytest.mark.parametrize(("row", "words"), [([1, 1] + [0] * 23, "row 2 sums to 2"), ([0] * 25, "row 2 sums to 0")])
def test_predictions_read_row_sums_far_from_one_raise(row, words, tmp_path):
    frame = pd.DataFrame([[1] + [0] * 24, row], columns=[f"p_{k}" for k in range(25)]).assign(y=[0, 1])
    frame.to_csv(tmp_path / "file.csv", index=False)
    with pytest.raises(InputError, match=words):
        Predictions.read(tmp_path / "file.csv", label="y", probs="p_*")


@pytest.mark.parametrize("role", ["subgroup", "cluster"])
def test_predictions_read_normalises_only_labels(role, tmp_path):
    marks = ["01", "1", "1e0", "NA", "1.0", "NA"]
    frame = pd.DataFrame({"p_0": [0.5] * 6, "p_1": [0.5] * 6, "y": ["01", "0", "1.0", "0", "1e0", "1"], role: marks})
    frame.to_csv(tmp_path / "file.csv", index=False)
    predictions = Predictions.read(tmp_path / "file.csv", label="y", probs="p_*", **{role: role})
    assert getattr(predictions, role).tolist() == marks
    assert predictions.y.tolist() == [1, 0, 1, 0, 1, 1]


def test_classifier_diverging_fit_keeps_the_model(graded):
    X, y = graded
    model = network().fit(X, y)
    before, seed = model.predict_proba(X), model.get_params()
    model.set_params(learning_rate=1e30)
    with pytest.raises(InputError, match="diverged"):
        model.fit(X * 1e18, y)
    model.set_params(**seed)
    assert (model.predict_proba(X) == before).all()


def test_evaluate_folder_with_unreadable_part_fails(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Predictions(probs=[[0.5, 0.5]] * 4, y=[0, 1, 0, 1]).write(tmp_path / name / "part.parquet")
    walk = orcu.predictions.source.os.walk

    def closed(folder, onerror, **options):
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "b")))
        return walk(folder, **options)

    monkeypatch.setattr("os.walk", closed)
    result = run("evaluate", tmp_path, width=300)
    assert result.returncode == 3
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_evaluate_does_not_overwrite_its_input(option, tmp_path):
    (tmp_path / "parts").mkdir()
    file = tmp_path / "parts" / "one.parquet"
    Predictions(probs=[[0.5, 0.5]] * 4, y=[0, 1, 0, 1]).write(file)
    before = file.read_bytes()
    result = run("evaluate", tmp_path / "parts", option, file, width=300)
    assert result.returncode == 2
    assert "input folder" in result.stderr
    assert file.read_bytes() == before


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
@pytest.mark.parametrize("name", ["temperature", "vector", "gap", "ordinal_dirichlet", "dirichlet"])
def test_calibrator_ignores_rows_of_zero_weight(name):
    rng = np.random.default_rng(0)
    z, y = 2 * rng.normal(size=(200, 4)), rng.integers(4, size=200)
    counts = np.arange(200) < 10
    beside, alone = (
        calibrators.create(name).fit(z, y, sample_weight=counts.astype(float)),
        calibrators.create(name).fit(z[counts], y[counts]),
    )
    assert beside.predict_logits(z) == pytest.approx(alone.predict_logits(z), abs=1e-9)


def test_calibrator_uneven_weights_have_a_smaller_effective_sample_size():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(400, 3)), rng.integers(3, size=400)
    even, uneven = (
        calibrators.create("gap").fit(z, y, sample_weight=weight)
        for weight in (np.ones(400), np.r_[np.full(5, 1e4), np.ones(395)])
    )
    assert uneven.uniform_share_ > 20 * even.uniform_share_


@pytest.mark.parametrize("columns", [[2, 1, 0], ["p_2", "p_1", "p_0"], ["p_1", "p_10", "p_2"]])
def test_numbered_columns_out_of_order_raise(columns):
    frame, y = pd.DataFrame([[0.2, 0.3, 0.5]] * 3, columns=columns), [0, 1, 2]
    for function in (lambda: evaluate(probs=frame, y=y), lambda: metrics.mae(frame, y)):
        with pytest.raises(InputError, match="^probs: .*numeric order"):
            function()
    with pytest.raises(InputError, match="^logits: .*numeric order"):
        calibrators.create("temperature").fit(frame, y)


def test_scorer_alphabetical_classes_raise(graded):
    X, y = graded
    plain = LogisticRegression()
    with pytest.raises(InputError, match=r"^classes: .*alphabetical.*CalibratedOrdinal"):
        cross_val_score(plain, X, y, scoring=metrics.scorer("rps"), cv=2, error_score="raise")
    with pytest.raises(InputError, match="^classes: .*alphabetical"):
        orcu.model_selection.cross_val_predict(plain, X, y, cv=2)
    wrapped = make_pipeline(StandardScaler(), orcu.CalibratedOrdinal(plain, classes=NAMES, cv=2))
    assert cross_val_score(wrapped, X, y, scoring=metrics.scorer("rps"), cv=2, error_score="raise").shape == (2,)
    with pytest.raises(InputError, match="^scorer: sharpness"):
        metrics.scorer("sharpness")


GRADES = ["none", "mild", "severe"]  # not alphabetical
SKLEARN_SCORERS = ["neg_log_loss", "roc_auc_ovr", "roc_auc_ovo_weighted", "neg_brier_score", "d2_log_loss_score"]


@pytest.fixture(scope="module")
def three_estimators(graded):
    """Estimators of named classes by class name, features, and grades."""
    X, y = graded
    y = np.array(GRADES)[[NAMES.index(name) for name in y]]
    models = {
        "OrdinalClassifier": OrdinalClassifier(estimators="linear", cv=2, classes=GRADES, random_state=0),
        "OrdinalBoosting": orcu.OrdinalBoosting("ce", cv=2, n_estimators=5, num_leaves=4, classes=GRADES),
        "CalibratedOrdinal": orcu.CalibratedOrdinal(LogisticRegression(), classes=GRADES, cv=2),
    }
    return models, X, y


@pytest.mark.parametrize("scoring", SKLEARN_SCORERS)
def test_predict_proba_sklearn_scorer_that_sorts_the_classes_raises(three_estimators, scoring):
    models, X, y = three_estimators
    for model in (models["CalibratedOrdinal"], make_pipeline(StandardScaler(), models["CalibratedOrdinal"])):
        with pytest.raises(InputError, match=r"scoring: .*none, mild, severe.*scorer\('nll'\)"):
            cross_val_score(model, X, y, scoring=scoring, cv=2, error_score="raise")


@pytest.mark.parametrize("name", ["OrdinalClassifier", "OrdinalBoosting", "CalibratedOrdinal"])
def test_estimator_scored_by_neg_log_loss_raises_and_by_orcu_gives_the_log_loss(three_estimators, name):
    models, X, y = three_estimators
    model = clone(models[name]).fit(X, y)
    with pytest.raises(InputError, match="^scoring: log_loss"):
        get_scorer("neg_log_loss")(model, X, y)
    in_sorted_order = model.predict_proba(X)[:, np.argsort(model.classes_)]
    assert metrics.scorer("nll")(model, X, y) == pytest.approx(-log_loss(y, in_sorted_order))
    assert get_scorer("accuracy")(model, X, y) == pytest.approx(np.mean(model.predict(X) == y))
    as_integers = clone(model).set_params(classes=None).fit(X, np.searchsorted([-0.6, 0.6], X[:, 0]))
    assert np.isfinite(get_scorer("neg_log_loss")(as_integers, X, np.searchsorted([-0.6, 0.6], X[:, 0])))


@pytest.mark.parametrize("name", ["OrdinalClassifier", "OrdinalBoosting", "CalibratedOrdinal"])
def test_predict_proba_for_log_loss_by_hand_warns(three_estimators, name):
    models, X, y = three_estimators
    model = clone(models[name]).fit(X, y)
    with pytest.warns(UserWarning, match="log_loss of scikit-learn .* none, mild, severe; with these labels") as caught:
        wrong = log_loss(y, model.predict_proba(X))
    assert caught[0].filename == __file__
    assert wrong > 1.5 * -metrics.scorer("nll")(model, X, y)
    piped = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    with pytest.warns(UserWarning, match="log_loss of scikit-learn"):
        piped.predict_proba(X)


CALLS = {
    "attribute": "import sklearn.metrics\nsklearn.metrics.log_loss(y, model.predict_proba(X))",
    "module": "from sklearn import metrics\nmetrics.log_loss(y, model.predict_proba(X))",
    "function": "def f():\n    from sklearn.metrics import log_loss\n    log_loss(y, model.predict_proba(X))\nf()",
    "next cell": "probs = model.predict_proba(X)",
    "area under the curve": "from sklearn.metrics import roc_auc_score\nprobs = model.predict_proba(X)",
}


@pytest.mark.parametrize("source", CALLS.values(), ids=CALLS)
def test_predict_proba_where_a_sorting_metric_is_used_warns(three_estimators, source):
    models, X, y = three_estimators
    variables = {"model": clone(models["CalibratedOrdinal"]).fit(X, y), "X": X, "y": y, "__name__": "__main__"}
    if source == CALLS["next cell"]:
        exec("from sklearn.metrics import log_loss", variables)
    with pytest.warns(UserWarning, match="of scikit-learn expects the columns in alphabetical order"):
        exec(source, variables)


def test_predict_proba_without_a_sorting_metric_does_not_warn(three_estimators):
    models, X, y = three_estimators
    model = clone(models["CalibratedOrdinal"]).fit(X, y)
    assert model.predict_proba(X).shape == (240, 3)  # log_loss is imported in this file, but not used here
    source = "from sklearn.metrics import log_loss\nlog_loss(y, model.predict_proba(X)[:, model.classes_.argsort()])"
    exec(source, {"model": model, "X": X, "y": y, "__name__": "__main__"})
    own = "def log_loss(y, p): return 0\nlog_loss(y, model.predict_proba(X))"
    exec(own, {"model": model, "X": X, "y": y, "__name__": "__main__"})


def test_predict_proba_of_integers_for_log_loss_does_not_warn(three_estimators):
    models, X, _ = three_estimators
    codes = np.searchsorted([-0.6, 0.6], X[:, 0])
    model = clone(models["CalibratedOrdinal"]).set_params(classes=None).fit(X, codes)
    assert log_loss(codes, model.predict_proba(X)) == pytest.approx(-metrics.scorer("nll")(model, X, codes))


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_grid_search_neg_log_loss_of_named_classes_warns_and_scores_nan(three_estimators):
    models, X, y = three_estimators
    search = GridSearchCV(models["CalibratedOrdinal"], {"cv": [2, 3]}, scoring="neg_log_loss", cv=2, refit=False)
    with pytest.warns(UserWarning, match="order of the classes is none, mild, severe"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


def test_custom_scorer_of_probabilities_does_not_hide_log_loss_behind_its_cache(three_estimators):
    models, X, y = three_estimators
    scoring = {"own": make_scorer(lambda y, probs: probs.max(), response_method="predict_proba"), "nll": "neg_log_loss"}
    with pytest.raises(InputError, match="^scoring: .*none, mild, severe"):
        cross_validate(models["CalibratedOrdinal"], X, y, scoring=scoring, cv=2, error_score="raise")


def test_binary_roc_auc_of_reversed_names_raises(graded):
    X, _ = graded
    y = np.where(X[:, 0] > 0, "high", "low")
    model = orcu.CalibratedOrdinal(LogisticRegression(), classes=["low", "high"], cv=2).fit(X, y)
    with pytest.raises(InputError, match="^scoring: roc_auc_score .*low, high"):
        get_scorer("roc_auc")(model, X, y)


def test_calibrated_classifier_cv_of_named_classes_gives_the_true_log_loss(three_estimators):
    models, X, y = three_estimators
    for name in ("OrdinalClassifier", "CalibratedOrdinal"):
        wrapped = CalibratedClassifierCV(models[name], cv=2).fit(X, y)
        assert list(wrapped.classes_) == sorted(GRADES)
        score = get_scorer("neg_log_loss")(wrapped, X, y)
        truth = wrapped.predict_proba(X)[np.arange(len(y)), np.searchsorted(sorted(GRADES), y)]
        assert score == pytest.approx(np.log(truth).mean())
        assert score > -0.7  # the class frequencies have -1.09


def test_stacking_of_named_classes_raises(three_estimators):
    models, X, y = three_estimators
    stack = StackingClassifier([("orcu", models["OrdinalClassifier"])], cv=2)
    with pytest.raises(InputError, match=r"integers.*names.*StackingClassifier"):
        stack.fit(X, y)


def test_predictions_read_points_among_decimal_commas_raise(tmp_path):
    lines = ["y;p_0;p_1;w", "0;0,6;0,4;1.500", "1;0,3;0,7;900"]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"column 'w': row 1 has '1.500'.*--decimal"):
        Predictions.read(tmp_path / "file.csv", label="y", probs="p_*", sample_weight="w")


def test_predictions_from_frame_pattern_omits_columns_of_other_roles(tmp_path):
    frame = pd.DataFrame({"z_0": [1.0, 0.0], "z_1": [0.0, 1.0], "z_true": [0, 1], "z_w": [1, 2], "z_id": [7, 8]})
    named = {"label": "z_true", "sample_weight": "z_w", "id": "z_id"}
    assert Predictions.from_frame(frame, logits="z_*", **named).classes == ("0", "1")


def test_predictions_from_frame_underscore_between_digits_is_a_name():
    frame = pd.DataFrame([[0.2, 0.3, 0.5]], columns=["p_0_2", "p_4_6", "p_8_13"])
    assert Predictions.from_frame(frame, probs="p_*").classes == ("0_2", "4_6", "8_13")
    odd = pd.DataFrame([[0.2, 0.3, 0.5]], columns=["p_¹", "p_²", "p_³"])
    assert Predictions.from_frame(odd, probs="p_*").classes == ("¹", "²", "³")


def test_calibrate_apply_warns_about_calibrated_predictions(tmp_path):
    rng = np.random.default_rng(0)
    rows = Predictions(logits=rng.normal(size=(90, 3)), y=rng.integers(3, size=90), ids=range(90))
    rows[:30].write(tmp_path / "held.parquet")
    rows[30:60].write(tmp_path / "spare.parquet")
    rows[60:].write(tmp_path / "new.parquet")

    def apply(file, out):
        return run("calibrate", "apply", file, "t.json", "-o", out, cwd=tmp_path, width=300)

    fit = run("calibrate", "fit", "held.parquet", "--calibrator", "temperature", "-o", "t.json", cwd=tmp_path)
    assert fit.returncode == 0, fit.stderr
    assert "WARNING" not in apply("spare.parquet", "moved.parquet").stdout
    assert "already calibrated (temperature)" in apply("moved.parquet", "twice.parquet").stdout
    assert run("sets", "fit", "moved.parquet", "-o", "sets.json", "--alpha", "0.5", cwd=tmp_path).returncode == 0
    plain = run("sets", "apply", "new.parquet", "sets.json", "-o", "sets.csv", cwd=tmp_path, width=300)
    assert "predictions of temperature, these come from no calibrator" in plain.stdout


def test_evaluate_logits_that_look_like_probabilities_are_noted():
    with_note = evaluate(logits=[[0.7, 0.3], [0.4, 0.6]], y=[0, 1], n_resamples=0)
    assert any("--probs" in note for note in with_note.notes)


def test_calibrated_ordinal_failed_fit_changes_nothing(graded):
    X, y = graded
    model = orcu.CalibratedOrdinal(LogisticRegression(), classes=NAMES, cv=2).fit(X, y)
    before = model.predict(X)
    broken = X.copy()
    broken[0, 0] = np.nan
    model.set_params(classes=["high", "medium", "low"])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, y)
    assert (model.predict(X) == before).all()


@pytest.mark.parametrize("in_memory", [True, False])
def test_evaluate_subgroup_without_weight_raises(in_memory, tmp_path, monkeypatch):
    rows = Predictions(probs=[[0.6, 0.4]] * 6, y=[0, 1] * 3, subgroup=list("aaaabb"), sample_weight=[1, 1, 1, 1, 0, 0])
    rows.write(tmp_path / "file.parquet")
    if not in_memory:
        monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 4)
    with pytest.raises(InputError, match="^subgroup: .*'b'"):
        evaluate(orcu.predictions.open_predictions(tmp_path / "file.parquet"))


def test_calibrate_fit_table_is_weighted(tmp_path):
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    frame = pd.DataFrame(probs, columns=["p_0", "p_1", "p_2"]).assign(y=y, w=(np.arange(60) < 30) * 1.0)
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:30].to_csv(tmp_path / "half.csv", index=False)
    reading = ("--label", "y", "--probs", "p_*", "--calibrator", "temperature", "-o", "t.json")
    tables = [
        run("calibrate", "fit", file, *reading, *extra, cwd=tmp_path).stdout.split("uncalibrated")[1]
        for file, extra in (("all.csv", ["--sample-weight", "w"]), ("half.csv", []))
    ]
    assert tables[0] == tables[1]


def test_predictions_read_duplicate_columns_raise(tmp_path):
    table = pa.table([[0, 1], [0.5, 0.5], [0.5, 0.5]], names=["y", "p_0", "p_0"])
    pq.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="duplicate column 'p_0'"):
        Predictions.read(tmp_path / "twice.parquet", label="y", probs="p_*")


def test_metrics_masked_entries_raise():
    with pytest.raises(InputError, match="^probs: .*masked"):
        metrics.mae(np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]), [0])
