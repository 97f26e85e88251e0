"""ONNX export of models of tables: encoder, members, pool and calibrator, compared with orcu."""

import json
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from command import assert_data_error, run
from onnx import TensorProto, helper
from sklearn.dummy import DummyClassifier

import orcu
from orcu import OrdinalBoosting, OrdinalClassifier
from orcu.boosting.catboost import CatBoostLearner
from orcu.ensemble.forest import ForestLearner
from orcu.ensemble.learner import CrossFitted, Deadline, TrainingData
from orcu.ensemble.linear import LinearLearner
from orcu.errors import InputError
from orcu.integrations import onnx_tables
from orcu.integrations.onnx import model_to_onnx
from orcu.integrations.onnx_graph import TREES_DOMAIN, TREES_OPSET, Graph, add_encoder
from orcu.integrations.onnx_members import add_member
from orcu.io.frames import columns_from_frame
from orcu.model_selection import cross_fit_folds
from orcu.preprocessing import TableEncoder
from orcu.training.predict import TableModel

EXACT = 1e-12
UNSEEN = "not in training"


def grades(n=300, seed=0):
    """A frame with gaps, 40 categories, two categories without gaps, whole numbers, and a constant; and its grades."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n),
            "site": rng.choice([f"s{k}" for k in range(40)], n),
            "score": rng.normal(size=n),
            "sex": rng.choice(["m", "f"], n),
            "visits": rng.integers(0, 5, n).astype(float),
            "constant": np.ones(n),
        }
    )
    latent = frame["age"] / 15 + 2 * frame["score"] + frame["site"].str[1:].astype(int) % 3 + (frame["sex"] == "m")
    y = np.digitize(latent + rng.normal(scale=0.5, size=n), [3, 4.5, 6])
    frame.loc[rng.random(n) < 0.1, "score"] = np.nan
    frame.loc[rng.random(n) < 0.1, "site"] = None
    return frame, y


def hostile(encoder, thresholds=(), n=400):
    """Columns of numbers at, next to and far from thresholds, of missing values, and of unseen categories."""
    rng = np.random.default_rng(1)
    table = {}
    for column in encoder.columns:
        if column.categories is None:
            special = np.array([np.nan, 0.0, -0.0, 1e-36, -1e-36, 1e-34, 1e300, -1e300, 5e-324, column.center])
            edges = np.array([*column.edges, *thresholds, column.low, column.high])
            edges = edges[np.isfinite(edges)]
            near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
            table[column.name] = rng.choice(np.concatenate([special, near]), n)
        else:
            names = [*column.categories, None, "(missing)", UNSEEN, "", " ", "é"]
            table[column.name] = rng.choice(np.array(names, dtype=object), n)
    return table


def missing_as_none(table):
    """The empty text stands for a missing one, where it is not a category."""
    return {
        name: values if values.dtype.kind == "f" else np.array([None if v == "" else v for v in values], dtype=object)
        for name, values in table.items()
    }


def run_graph(encoder, table, add, *, features=True):
    """Values of a graph of the encoder and of what ``add`` adds to it."""
    graph = Graph("test/")
    encoded = add_encoder(graph, encoder, features=features, matrix=None)
    outputs = add(graph, encoded)
    types = [TensorProto.BOOL if name == encoded.unusable else TensorProto.DOUBLE for name in outputs]
    values = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, types, strict=True)]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(TREES_DOMAIN, TREES_OPSET)]
    parts = helper.make_graph(graph.nodes, "test", encoded.inputs, values, graph.constants)
    model = helper.make_model(parts, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(outputs, onnx_tables.session_inputs(encoder, table, matrix=False))


def encode(encoder, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return encoder.encode(missing_as_none(table))


def assert_member_is_equal(encoder, member, table):
    (log_probs,) = run_graph(encoder, table, lambda graph, encoded: [add_member(graph, member, encoded)])
    expected = member.predict_log_proba(encode(encoder, table)).mean(axis=0)
    np.testing.assert_allclose(log_probs, expected, atol=EXACT, rtol=EXACT)
    assert len(np.unique(expected.round(6), axis=0)) > 1


@pytest.mark.parametrize("robust", [True, False])
def test_encoder_graph_equals_the_encoder(robust):
    encoder = TableEncoder.fit(columns_from_frame(grades()[0]), robust=robust)
    table = hostile(encoder)
    if not robust:  # the encoder refuses numbers that networks cannot compute with
        table = {name: np.clip(v, -1e9, 1e9) if v.dtype.kind == "f" else v for name, v in table.items()}

    def add(graph, encoded):
        return [encoded.codes, graph.cast(encoded.features, TensorProto.DOUBLE), encoded.unusable]

    codes, features, unusable = run_graph(encoder, table, add)
    expected = encode(encoder, table)
    np.testing.assert_array_equal(codes, expected.codes)
    np.testing.assert_allclose(features, expected.features, rtol=2e-7)  # a last digit of float32
    assert not unusable.any()


def test_encoder_graph_marks_rows_that_the_encoder_refuses():
    frame, _ = grades()
    encoder = TableEncoder.fit(columns_from_frame(frame), robust=False)
    table = columns_from_frame(frame[:4])
    table["age"], table["visits"] = np.array([np.inf, 1.0, -np.inf, 30.0]), np.array([1.0, 1e30, 1.0, 2.0])
    (unusable,) = run_graph(encoder, table, lambda graph, encoded: [encoded.unusable])
    assert unusable.tolist() == [True, True, True, False]


def test_encoder_graph_of_categories_only_has_no_unusable_rows():
    encoder = TableEncoder.fit({"site": ["n", "", None, "s"]})  # the empty text is a category here
    table = {"site": np.array(["", "n", "s", UNSEEN], dtype=object)}
    codes, features = run_graph(
        encoder, table, lambda graph, encoded: [encoded.codes, graph.cast(encoded.features, TensorProto.DOUBLE)]
    )
    expected = encoder.encode(table)
    np.testing.assert_array_equal(codes, expected.codes)
    np.testing.assert_array_equal(features, expected.features)


@pytest.mark.parametrize(
    "params",
    [{}, {"zero_as_missing": True}, {"use_missing": False}, {"max_cat_to_onehot": 1}, {"extra_trees": True}],
    ids=lambda params: "".join(params) or "default",
)
def test_lightgbm_graph_equals_lightgbm(params):
    frame, y = grades()
    if "zero_as_missing" in params:
        frame.loc[::3, "score"] = 0.0
    model = OrdinalBoosting(loss="ce", cv=2, n_estimators=12, params=params, calibrator=None, random_state=0)
    model.fit(frame, y)
    (member,) = model.ensemble_.members
    thresholds = [
        node
        for booster in member.models
        for node in booster.trees_to_dataframe()["threshold"].dropna()
        if not isinstance(node, str)
    ]
    assert_member_is_equal(model.encoder_, member, hostile(model.encoder_, thresholds))
    for column in frame:  # every row has a missing value, or an unseen category
        table = columns_from_frame(frame)
        missing = np.full(len(y), np.nan) if table[column].dtype.kind == "f" else np.full(len(y), UNSEEN, dtype=object)
        assert_member_is_equal(model.encoder_, member, table | {column: missing})


def test_lightgbm_graph_of_trees_without_a_split_equals_lightgbm():
    frame, y = grades()
    params = {"min_gain_to_split": 8.0}
    model = OrdinalBoosting(loss="ce", cv=2, n_estimators=30, calibrator=None, random_state=0, params=params)
    (member,) = model.fit(frame[["age", "score"]], y).ensemble_.members
    texts = [booster.model_to_string() for booster in member.models]
    assert any("num_leaves=1\n" in text for text in texts)
    assert any("num_leaves=2\n" in text for text in texts)
    assert_member_is_equal(model.encoder_, member, hostile(model.encoder_))


@pytest.mark.parametrize("num_classes", [2, 4])
def test_forest_and_linear_graphs_equal_the_members(num_classes, monkeypatch):
    monkeypatch.setattr("orcu.ensemble.forest.MAX_TREES", 20)
    frame, y = grades()
    encoder = TableEncoder.fit(columns_from_frame(frame))
    y = np.minimum(y, num_classes - 1)
    data = TrainingData(encoder.encode(columns_from_frame(frame)), y, num_classes)
    folds = cross_fit_folds(y, 2, random_state=0)
    for learner in (ForestLearner("extra trees"), ForestLearner("random forest"), LinearLearner()):
        (member,) = learner.cross_fit(data, folds)
        thresholds = []
        if isinstance(learner, ForestLearner):
            thresholds = [nodes["threshold"][:20] for forest in member.models for nodes, _ in forest.trees()]
            thresholds = np.concatenate(thresholds)
        assert_member_is_equal(encoder, member, hostile(encoder, thresholds))


def test_forest_graph_of_trees_without_a_split_equals_the_member():
    encoder = TableEncoder.fit({"x": [0.0, 1.0, 2.0]})
    data = TrainingData(encoder.encode({"x": np.zeros(8)}), np.arange(8) % 2, 2)
    (member,) = ForestLearner("random forest").cross_fit(data, cross_fit_folds(data.y, 2), deadline=Deadline(0.0))
    table = {"x": np.array([0.0, 1.0])}
    (log_probs,) = run_graph(encoder, table, lambda graph, encoded: [add_member(graph, member, encoded)])
    np.testing.assert_allclose(log_probs, member.predict_log_proba(encoder.encode(table)).mean(axis=0), atol=EXACT)


def test_model_to_onnx_writes_a_matrix_graph_with_metadata(tmp_path):
    frame, y = grades()
    x = frame.select_dtypes("number").to_numpy()
    names = np.array(["none", "mild", "moderate", "severe"])
    model = OrdinalBoosting(
        loss="ce", cv=2, n_estimators=5, calibrator="temperature", classes=names.tolist(), random_state=0
    ).fit(x, names[y])
    file = model_to_onnx(model, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    session = onnxruntime.InferenceSession(file)
    rows = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected, logits = model.predict_proba(rows), model.predict_logits(rows)
    outputs = session.run(["probs", "logits"], {"inputs": rows})
    np.testing.assert_allclose(outputs[0], expected, atol=EXACT)
    np.testing.assert_allclose(outputs[1], logits, atol=EXACT)
    assert outputs[0].dtype == np.float64
    rows[0, 0] = np.inf  # refused by orcu
    with_infinity = session.run(["probs"], {"inputs": rows})[0]
    assert np.isnan(with_infinity[0]).all()
    np.testing.assert_array_equal(with_infinity[1:], outputs[0][1:])
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["orcu.classes"]) == names.tolist()
    assert meta["orcu.version"] == orcu.__version__
    assert "TemperatureScaling" in meta["orcu.calibrator"]
    assert len(meta["orcu.graph_sha256"]) == 64
    onnx.checker.check_model(str(file))
    assert b".py" not in file.read_bytes()  # no paths of the exporting machine


def test_model_to_onnx_of_an_array_with_categories_has_an_input_per_column(tmp_path):
    frame, y = grades()
    cells = frame[["age", "sex"]].astype(object).to_numpy()
    model = OrdinalClassifier(estimators="linear", cv=2, calibrator=None, random_state=0).fit(cells, y)
    session = onnxruntime.InferenceSession(model_to_onnx(model, tmp_path / "model.onnx"))
    assert {value.name: value.type for value in session.get_inputs()} == {
        "x0": "tensor(double)",
        "x1": "tensor(string)",
    }
    columns = {"x0": frame["age"].to_numpy(), "x1": frame["sex"].to_numpy(dtype=object)}
    np.testing.assert_allclose(session.run(["probs"], columns)[0], model.predict_proba(cells), atol=EXACT)


def test_model_to_onnx_of_another_prediction_raises(tmp_path, monkeypatch):
    frame, y = grades()
    model = OrdinalClassifier(estimators="linear", cv=2, calibrator=None, random_state=0).fit(frame[["age"]], y)
    model.ensemble_.factors["linear"] *= 1 + 1e-3
    factors = dict(model.ensemble_.factors)
    build = onnx_tables._build

    def changed(table_model, matrix):
        proto = build(table_model, matrix)
        model.ensemble_.factors["linear"] *= 1.01
        return proto

    monkeypatch.setattr(onnx_tables, "_build", changed)
    with pytest.raises(
        InputError, match=r"^model\.onnx: the probabilities of onnxruntime differ from orcu's by .*1e-06"
    ):
        model_to_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    model.ensemble_.factors.update(factors)


def test_model_to_onnx_refuses_what_cannot_be_exported(tmp_path):
    frame, y = grades()
    x = frame[["age", "visits"]]
    file = tmp_path / "model.onnx"

    def linear(rows, **options):
        return OrdinalClassifier(estimators="linear", cv=2, calibrator=None, **options).fit(rows, y)

    pair = OrdinalClassifier(estimators=[("own", DummyClassifier())], cv=2, calibrator=None).fit(x, y)
    for model, options, message in (
        (DummyClassifier(), {}, "^model: expected an OrdinalClassifier, .* got DummyClassifier"),
        (OrdinalClassifier(), {}, r"^model: this OrdinalClassifier is not fitted; call fit"),
        (pair, {}, "^model: the member 'own' is an estimator of another package"),
        (linear(frame[["site", "age"]]), {"matrix": True}, "^matrix: column 'site' holds categories"),
        (linear(x.rename(columns={"age": "probs"})), {}, "^column 'probs': cannot be the name of an input"),
        (linear(x), {"tolerance": 0}, "^tolerance:"),
        (tmp_path, {}, "model.json is missing"),
    ):
        with pytest.raises(InputError, match=message):
            model_to_onnx(model, file, **options)
    assert not list(tmp_path.iterdir())


def test_model_to_onnx_refuses_xgboost_by_name(tmp_path):
    pytest.importorskip("xgboost", reason="pip install xgboost")
    frame, y = grades()
    model = OrdinalBoosting(loss="ce", library="xgboost", cv=2, n_estimators=2, calibrator=None)
    with pytest.raises(InputError, match="^model: the member 'ce' is of xgboost, .*library='lightgbm'"):
        model_to_onnx(model.fit(frame[["age"]], y), tmp_path / "model.onnx")


def test_add_member_refuses_catboost_by_name():
    member = CrossFitted("catboost", CatBoostLearner(), [], np.zeros((0, 3)))
    with pytest.raises(InputError, match="^model: the member 'catboost' is of CatBoost, .*presets='default'"):
        add_member(Graph("test/"), member, None)


@pytest.mark.slow
def test_model_to_onnx_of_the_default_ensemble_and_of_one_network(tmp_path):
    frame, y = grades(500)
    new, _ = grades(1000, seed=1)
    new.loc[:50, "site"], new.loc[40:80, "age"], new.loc[70:90, "sex"] = UNSEEN, np.nan, None
    for options in ({"epochs": 5, "cv": 3}, {"epochs": 5, "cv": 1, "loss": "orcu", "head": "cumulative"}):
        model = OrdinalClassifier(random_state=0, verbose=-1, **options).fit(frame, y)
        session = onnxruntime.InferenceSession(model_to_onnx(model, tmp_path / "model.onnx"))
        inputs = onnx_tables.session_inputs(model.encoder_, columns_from_frame(new), matrix=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            expected = model.predict_proba(new)
        for rows in (slice(None), slice(1)):
            probs = session.run(["probs"], {name: values[rows] for name, values in inputs.items()})[0]
            np.testing.assert_allclose(probs, expected[rows], atol=1e-6)


@pytest.mark.slow
def test_export_of_a_folder_equals_its_predictions(tmp_path):
    frame, y = grades(400)
    frame.assign(grade=np.array(list("abcd"))[y]).to_csv(tmp_path / "table.csv", index=False)
    frame.to_csv(tmp_path / "new.csv", index=False)
    data = (
        "--data",
        "table",
        "--root",
        ".",
        "--set",
        "file=table.csv",
        "--set",
        "label=grade",
        "--set",
        "classes=a,b,c,d",
    )
    training = ("--set", "epochs=3", "--estimators", "linear,network,boosting", "--cv", 3)
    result = run("train", *data, *training, "--calibrator", "gap+projection", "-o", "model", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    result = run("export", "model", "-o", "model.onnx", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "inputs: 4 of numbers, 2 of texts\nclasses: a, b, c, d\nwrote model.onnx" in result.stdout
    assert run("predict", "model", "new.csv", "-o", "predictions.csv", cwd=tmp_path).returncode == 0
    predictions = pd.read_csv(tmp_path / "predictions.csv")
    expected = predictions.filter(like="prob_").to_numpy()

    loaded = TableModel.load(tmp_path / "model")
    new = pd.read_csv(tmp_path / "new.csv")
    np.testing.assert_allclose(loaded.predict_proba(new), expected, atol=EXACT)
    low, high = loaded.predict_sets(new)
    assert [loaded.classes[k] for k in low] == predictions["set_low"].tolist()
    assert [loaded.classes[k] for k in high] == predictions["set_high"].tolist()
    with pytest.raises(InputError, match="^table: expected columns of one length"):
        loaded.predict_proba(columns_from_frame(new) | {"age": np.ones(2)})

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    inputs = onnx_tables.session_inputs(loaded.encoder, columns_from_frame(new), matrix=False)
    np.testing.assert_allclose(session.run(["probs"], inputs)[0], expected, atol=1e-6)
    digest = json.loads((tmp_path / "model" / "model.json").read_text())["sha256"]
    assert session.get_modelmeta().custom_metadata_map["orcu.model_sha256"] == digest
    assert_data_error(run("export", "model", "-o", "x.onnx", "--matrix", cwd=tmp_path), "matrix: column 'site'")
    assert_data_error(run("export", ".", "-o", "x.onnx", cwd=tmp_path), "model.json is missing")
