"""Inputs that once gave a wrong number without a word: each is now right, or refused with the way on."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import orcu
from orcu import OrdinalClassifier, Predictions, calibrators, evaluate, metrics
from orcu.errors import InputError

NAMES = ["low", "medium", "high"]  # not in the order of the alphabet


@pytest.fixture(scope="module")
def graded():
    """Rows whose grades rise with the first column: features, and grades by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    codes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=240), [-0.6, 0.6])
    return X, np.array(NAMES)[codes]


def network(**options):
    plain = {
        "scale": 3.0,
        "hidden": (8,),
        "epochs": 15,
        "batch_size": 16,
        "learning_rate": 0.02,
        "calibrator": None,
        "random_state": 0,
        "classes": NAMES,
    }
    return OrdinalClassifier(**(plain | options))


def test_labels_encoded_by_the_alphabet_are_refused(graded):
    X, y = graded
    with pytest.raises(InputError, match=r"integers.*names.*cross_val_predict"):
        cross_val_predict(network(), X, y, method="predict_proba", cv=2)
    with pytest.raises(InputError, match=r"integers.*names"):
        VotingClassifier([("one", network()), ("two", network())], voting="soft").fit(X, y)
    with pytest.raises(InputError, match=r"integers.*names"):
        network().fit(X, np.arange(240) % 2 + 1)  # 1 and 2: positions, or numbers from 1?


def test_our_cross_validation_keeps_the_order(graded):
    X, y = graded
    probs = orcu.estimators.cross_val_predict(network(), X, y, cv=3)
    codes = pd.Categorical(y, categories=NAMES).codes.astype(np.int64)
    assert metrics.accuracy(probs, codes) > 0.75
    assert metrics.unimodality(probs) > 0.95
    decided = orcu.estimators.cross_val_predict(network(), X, y, cv=3, method="predict")
    assert (decided == np.array(NAMES)[probs.argmax(axis=1)]).all()


@pytest.mark.parametrize("name", ["rps", "accuracy", "overconfidence"])
def test_scorers_know_the_order_and_the_better_way(graded, name):
    X, y = graded
    model = network().fit(X, y)
    codes = pd.Categorical(y, categories=NAMES).codes.astype(np.int64)
    value = getattr(metrics, name)(model.predict_proba(X), codes)
    expected = {"rps": -value, "accuracy": value, "overconfidence": -abs(value)}[name]
    assert metrics.scorer(name)(model, X, y) == pytest.approx(expected, abs=1e-12)
    assert cross_val_score(network(), X, y, scoring=metrics.scorer(name), cv=2, error_score="raise").shape == (2,)


def test_a_grid_search_scores_by_an_ordinal_metric(graded):
    X, y = graded
    search = GridSearchCV(network(), {"epochs": [1, 15]}, scoring=metrics.scorer("rps"), cv=2, error_score="raise")
    assert search.fit(X, y).best_params_ == {"epochs": 15}


@pytest.mark.parametrize(("name", "missing"), [("None", None), ("nan", float("nan"))])
def test_missing_labels_are_no_class_of_that_name(name, missing, graded, tmp_path):
    y = np.array([name, "high", missing, "high"], dtype=object)
    with pytest.raises(InputError, match="row 2 has no label"):
        Predictions(probs=[[0.5, 0.5]] * 4, y=y, classes=[name, "high"])
    frame = pd.DataFrame({"p_a": [0.5] * 4, "p_b": [0.5] * 4, "y": [name, "high", None, "high"]})
    frame.to_parquet(tmp_path / "file.parquet")
    with pytest.raises(InputError, match="row 3 has no label"):
        Predictions.read(tmp_path / "file.parquet", label="y", probs="p_*", classes=[name, "high"])
    X = graded[0][:100]
    full = np.where(X[:, 0] > 0, "high", name).astype(object)
    model = network(classes=[name, "high"], validation_fraction=0, calibration_fraction=0, epochs=2).fit(X, full)
    full[3] = missing
    with pytest.raises(InputError, match="row 3 has no label"):
        model.score(X, full)


def test_what_stands_for_zero_is_a_fact_of_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=60).round(2)
    probs[:, 2] = 1 - probs[:, 0] - probs[:, 1]
    probs = np.clip(probs, 0, 1)
    probs[::5] = [0.0, 0.25, 0.75]
    frame = pd.DataFrame(probs, columns=["p_0", "p_1", "p_2"]).assign(y=rng.integers(3, size=60))
    frame.to_csv(tmp_path / "held.csv", index=False)
    reading = ("--label", "y", "--probs", "p_*")
    fit = run("calibrate", "fit", "held.csv", "-o", "fitted.json", "--method", "vector", *reading, cwd=tmp_path)
    assert fit.returncode == 0, fit.stderr
    assert json.loads((tmp_path / "fitted.json").read_text())["floor"] > 0
    moved = {}
    for company in ([0.5, 0.5, 0.0], [0.999999, 0.000001, 0.0]):  # the smallest positive value differs
        rows = pd.DataFrame([[0.0, 0.25, 0.75], company], columns=["p_0", "p_1", "p_2"])
        rows.to_csv(tmp_path / "new.csv", index=False)
        apply = run("calibrate", "apply", "new.csv", "fitted.json", "-o", "out.parquet", "--probs", "p_*", cwd=tmp_path)
        assert apply.returncode == 0, apply.stderr
        moved[company[0]] = Predictions.read(tmp_path / "out.parquet").probs[0]
    assert (moved[0.5] == moved[0.999999]).all()
    in_python = calibrators.create("vector").fit(probs=frame[["p_0", "p_1", "p_2"]], y=frame["y"].to_numpy())
    np.testing.assert_allclose(in_python.predict_proba(probs=[[0.0, 0.25, 0.75]])[0], moved[0.5], rtol=1e-6)


def test_zeros_have_no_logit_for_a_map_of_logits():
    fitted = calibrators.TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
    with pytest.raises(InputError, match=r"probability of 0.*fitted on logits"):
        Predictions(probs=[[1.0, 0.0]]).calibrated(fitted)


def test_a_warm_start_with_other_classes_is_refused(graded):
    X, y = graded
    model = network(warm_start=True, folds=1).fit(X, y)
    before = model.predict_proba(X)
    for classes in (["low", "high", "medium"], ["a", "b", "c"]):
        model.set_params(classes=classes)
        renamed = np.array(classes)[pd.Categorical(y, categories=NAMES).codes]
        with pytest.raises(InputError, match=r"warm_start.*other.*classes"):
            model.fit(X, renamed)
    assert (model.set_params(classes=NAMES).predict_proba(X) == before).all()


@pytest.mark.parametrize("factor", [1e-300, 1e-23, 1e-12, 1e13])
def test_weights_that_exact_sums_cannot_hold_are_refused(factor):
    with pytest.raises(InputError, match="A factor of all weights changes no result"):
        evaluate(probs=[[0.5, 0.5]] * 3, y=[0, 1, 0], weight=np.array([1.0, 2.0, 0.5]) * factor, bootstrap=0)


@pytest.mark.parametrize("factor", [1e-8, 1e9])
def test_the_size_of_weights_does_not_matter(factor):
    rng = np.random.default_rng(0)
    probs, y, weight = rng.dirichlet(np.ones(4), size=200), rng.integers(4, size=200), rng.uniform(0.5, 2, size=200)
    plain, scaled = (evaluate(probs=probs, y=y, weight=w, bootstrap=50) for w in (weight, weight * factor))
    for name, estimate in plain.metrics.items():
        assert scaled[name].value == pytest.approx(estimate.value, rel=1e-9), name
        assert scaled[name].low == pytest.approx(estimate.low, rel=1e-9, nan_ok=True), name


def test_columns_in_the_order_of_the_alphabet_are_refused(tmp_path):
    names = [f"p_{k}" for k in sorted(range(12), key=str)]
    frame = pd.DataFrame(np.full((4, 12), 1 / 12), columns=names).assign(y=["a", "b", "c", "d"])
    frame.to_csv(tmp_path / "file.csv", index=False)
    classes = ",".join("abcdefghijkl")
    result = run(
        "evaluate", "file.csv", "--label", "y", "--probs", "p_*", "--classes", classes, cwd=tmp_path, width=400
    )
    assert result.returncode == 3
    assert "not their numeric order" in result.stderr


def test_a_slip_in_the_names_of_classes_is_refused(tmp_path):
    frame = pd.DataFrame([[0.2, 0.5, 0.3]] * 3, columns=["p_high", "p_low", "p_mid"]).assign(y=["low", "mid", "high"])
    frame.to_csv(tmp_path / "file.csv", index=False)
    result = run(
        "evaluate", "file.csv", "--label", "y", "--probs", "p_*", "--classes", "low,mid,hihg", cwd=tmp_path, width=400
    )
    assert result.returncode == 3
    assert "only low, mid are classes" in result.stderr
    with pytest.raises(InputError, match="only low, mid are classes"):
        Predictions(probs=frame[["p_low", "p_mid", "p_high"]], y=frame["y"], classes=["low", "mid", "hihg"])


@pytest.mark.parametrize(("row", "words"), [([1, 1] + [0] * 23, "row 2 sums to 2"), ([0] * 25, "row 2 sums to 0")])
def test_few_printed_digits_are_no_excuse(row, words, tmp_path):
    frame = pd.DataFrame([[1] + [0] * 24, row], columns=[f"p_{k}" for k in range(25)]).assign(y=[0, 1])
    frame.to_csv(tmp_path / "file.csv", index=False)
    with pytest.raises(InputError, match=words):
        Predictions.read(tmp_path / "file.csv", label="y", probs="p_*")


@pytest.mark.parametrize("role", ["group", "subject"])
def test_only_labels_are_brought_into_one_form(role, tmp_path):
    marks = ["01", "1", "1e0", "NA", "1.0", "NA"]
    frame = pd.DataFrame({"p_0": [0.5] * 6, "p_1": [0.5] * 6, "y": ["01", "0", "1.0", "0", "1e0", "1"], role: marks})
    frame.to_csv(tmp_path / "file.csv", index=False)
    predictions = Predictions.read(tmp_path / "file.csv", label="y", probs="p_*", **{role: role})
    assert getattr(predictions, role).tolist() == marks
    assert predictions.y.tolist() == [1, 0, 1, 0, 1, 1]


def test_a_fit_that_diverges_leaves_the_model_as_it_was(graded):
    X, y = graded
    model = network().fit(X, y)
    before, seed = model.predict_proba(X), model.get_params()
    model.set_params(learning_rate=1e30)
    with pytest.raises(InputError, match="diverged"):
        model.fit(X * 1e18, y)
    model.set_params(**seed)
    assert (model.predict_proba(X) == before).all()


def test_a_part_that_cannot_be_read_is_no_part_less(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Predictions(probs=[[0.5, 0.5]] * 4, y=[0, 1, 0, 1]).write(tmp_path / name / "part.parquet")
    walk = orcu.predictions.predictions.os.walk

    def closed(folder, onerror, **options):
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "b")))
        return walk(folder, **options)

    monkeypatch.setattr("os.walk", closed)
    result = run("evaluate", tmp_path, width=300)
    assert result.returncode == 3
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_an_input_is_not_written_over(option, tmp_path):
    (tmp_path / "parts").mkdir()
    file = tmp_path / "parts" / "one.parquet"
    Predictions(probs=[[0.5, 0.5]] * 4, y=[0, 1, 0, 1]).write(file)
    before = file.read_bytes()
    result = run("evaluate", tmp_path / "parts", option, file, width=300)
    assert result.returncode == 2
    assert "lies in the input folder" in result.stderr
    assert file.read_bytes() == before


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
@pytest.mark.parametrize("name", ["temperature", "vector", "gap", "ordinal_dirichlet", "dirichlet"])
def test_rows_of_no_weight_are_no_rows(name):
    rng = np.random.default_rng(0)
    z, y = 2 * rng.normal(size=(200, 4)), rng.integers(4, size=200)
    counts = np.arange(200) < 10
    beside, alone = (
        calibrators.create(name).fit(z, y, weight=counts.astype(float)),
        calibrators.create(name).fit(z[counts], y[counts]),
    )
    assert beside.predict_logits(z) == pytest.approx(alone.predict_logits(z), abs=1e-9)


def test_uneven_weights_are_worth_fewer_rows():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(400, 3)), rng.integers(3, size=400)
    even, uneven = (
        calibrators.create("gap").fit(z, y, weight=weight)
        for weight in (np.ones(400), np.r_[np.full(5, 1e4), np.ones(395)])
    )
    assert uneven.share_for_all_ > 20 * even.share_for_all_


@pytest.mark.parametrize("columns", [[2, 1, 0], ["p_2", "p_1", "p_0"], ["p_1", "p_10", "p_2"]])
def test_numbered_columns_of_a_frame_stand_in_their_order(columns):
    frame, y = pd.DataFrame([[0.2, 0.3, 0.5]] * 3, columns=columns), [0, 1, 2]
    for judge in (lambda: evaluate(probs=frame, y=y), lambda: metrics.mae(frame, y)):
        with pytest.raises(InputError, match="not that of their numbers"):
            judge()
    with pytest.raises(InputError, match="not that of their numbers"):
        calibrators.create("temperature").fit(frame, y)


def test_names_in_the_order_of_the_alphabet_have_no_order(graded):
    X, y = graded
    plain = LogisticRegression()
    with pytest.raises(InputError, match=r"order of the alphabet.*CalibratedOrdinal"):
        cross_val_score(plain, X, y, scoring=metrics.scorer("rps"), cv=2, error_score="raise")
    with pytest.raises(InputError, match="order of the alphabet"):
        orcu.estimators.cross_val_predict(plain, X, y, cv=2)
    wrapped = make_pipeline(StandardScaler(), orcu.CalibratedOrdinal(plain, classes=NAMES, cv=2))
    assert cross_val_score(wrapped, X, y, scoring=metrics.scorer("rps"), cv=2, error_score="raise").shape == (2,)
    with pytest.raises(InputError, match="better neither high nor low"):
        metrics.scorer("sharpness")


def test_points_among_decimal_commas_are_refused(tmp_path):
    lines = ["y;p_0;p_1;w", "0;0,6;0,4;1.500", "1;0,3;0,7;900"]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"row 1 has '1.500', with a point.*decimal sign is a comma"):
        Predictions.read(tmp_path / "file.csv", label="y", probs="p_*", weight="w")


def test_a_star_takes_no_column_of_another_job(tmp_path):
    frame = pd.DataFrame({"z_0": [1.0, 0.0], "z_1": [0.0, 1.0], "z_true": [0, 1], "z_w": [1, 2], "z_id": [7, 8]})
    named = {"label": "z_true", "weight": "z_w", "id": "z_id"}
    assert Predictions.from_frame(frame, logits="z_*", **named).classes == ("0", "1")


def test_an_underscore_between_digits_is_a_name():
    frame = pd.DataFrame([[0.2, 0.3, 0.5]], columns=["p_0_2", "p_4_6", "p_8_13"])
    assert Predictions.from_frame(frame, probs="p_*").classes == ("0_2", "4_6", "8_13")
    odd = pd.DataFrame([[0.2, 0.3, 0.5]], columns=["p_¹", "p_²", "p_³"])
    assert Predictions.from_frame(odd, probs="p_*").classes == ("¹", "²", "³")


def test_what_was_calibrated_before_is_told(tmp_path):
    rng = np.random.default_rng(0)
    rows = Predictions(logits=rng.normal(size=(90, 3)), y=rng.integers(3, size=90), ids=range(90))
    rows[:30].write(tmp_path / "held.parquet")
    rows[30:60].write(tmp_path / "spare.parquet")
    rows[60:].write(tmp_path / "new.parquet")

    def apply(file, out):
        return run("calibrate", "apply", file, "t.json", "-o", out, cwd=tmp_path, width=300)

    fit = run("calibrate", "fit", "held.parquet", "--method", "temperature", "-o", "t.json", cwd=tmp_path)
    assert fit.returncode == 0, fit.stderr
    assert "WARNING" not in apply("spare.parquet", "moved.parquet").stdout
    assert "calibrated before (temperature)" in apply("moved.parquet", "twice.parquet").stdout
    assert run("sets", "fit", "moved.parquet", "-o", "sets.json", "--alpha", "0.5", cwd=tmp_path).returncode == 0
    plain = run("sets", "apply", "new.parquet", "sets.json", "-o", "sets.csv", cwd=tmp_path, width=300)
    assert "moved by temperature, these were moved by no calibrator" in plain.stdout


def test_logits_that_are_probabilities_are_doubted():
    with_note = evaluate(logits=[[0.7, 0.3], [0.4, 0.6]], y=[0, 1], bootstrap=0)
    assert any("are these probabilities?" in note for note in with_note.notes)


def test_a_failed_fit_of_the_wrapper_changes_nothing(graded):
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
def test_a_group_that_does_not_count_is_named(in_memory, tmp_path, monkeypatch):
    rows = Predictions(probs=[[0.6, 0.4]] * 6, y=[0, 1] * 3, group=list("aaaabb"), weight=[1, 1, 1, 1, 0, 0])
    rows.write(tmp_path / "file.parquet")
    if not in_memory:
        monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 4)
    with pytest.raises(InputError, match="no row of 'b' counts"):
        evaluate(orcu.predictions.open_predictions(tmp_path / "file.parquet"))


def test_the_table_of_a_weighted_fit_is_weighted(tmp_path):
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    frame = pd.DataFrame(probs, columns=["p_0", "p_1", "p_2"]).assign(y=y, w=(np.arange(60) < 30) * 1.0)
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:30].to_csv(tmp_path / "half.csv", index=False)
    reading = ("--label", "y", "--probs", "p_*", "--method", "temperature", "-o", "t.json")
    tables = [
        run("calibrate", "fit", file, *reading, *extra, cwd=tmp_path).stdout.split("as it was")[1]
        for file, extra in (("all.csv", ["--weight", "w"]), ("half.csv", []))
    ]
    assert tables[0] == tables[1]


def test_columns_that_stand_twice_in_parquet_are_named(tmp_path):
    table = pa.table([[0, 1], [0.5, 0.5], [0.5, 0.5]], names=["y", "p_0", "p_0"])
    pq.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="the column 'p_0' stands twice"):
        Predictions.read(tmp_path / "twice.parquet", label="y", probs="p_*")


def test_masked_entries_are_refused():
    with pytest.raises(InputError, match="some entries are masked"):
        metrics.mae(np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]), [0])
