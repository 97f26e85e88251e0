"""`EnsembleRun`: files of an ensemble, resuming, damaged folders."""

import json

import numpy as np
import pytest
import torch

from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError
from orcu.predictions import Predictions
from orcu.training.experiment import train
from orcu.training.model_file import load_model
from orcu.training.predict import predict

FILES = {"trees": "txt", "forests": "npz", "linear": "json"}
SHORT = {"training": {"epochs": 3}, "device": "cpu", "split": (60, 20, 20), "estimators": ["network"]}


def edit_config(folder, change):
    """Change model.json and remove its digests, as in a folder of orcu 0.2."""
    config = json.loads((folder / "model.json").read_text())
    for key in ("files", "sha256"):
        config.pop(key, None)
    (folder / "model.json").write_text(json.dumps(change(config) | {"version": 1}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with two rows per patient."""
    path = tmp_path_factory.mktemp("ensemble")
    rng = np.random.default_rng(0)
    lines = []
    for k in range(300):
        x = rng.normal(size=2)
        lines.append(f"{x[0]:.3f},{x[1]:.3f},p{k // 2},{np.digitize(x[0] - x[1] + 0.5 * rng.normal(), [-1, 1])}\n")
    (path / "rows").mkdir()
    (path / "rows" / "t.csv").write_text("a,b,who,grade\n" + "".join(lines))
    (path / "new.csv").write_text("a,b\n0.1,0.2\n-3,3\n50,-50\n")
    return path


@pytest.fixture(scope="module")
def trained(folder):
    options = {"label": "grade", "cluster": "who"}
    return train("table", folder / "model", root=folder / "rows", options=options, **SHORT)


def test_train_writes_members_weights_and_the_calibrator_choice(folder, trained):
    model, plan = load_model(folder / "model")
    assert len(plan.weights) == len(model.members)
    assert min(plan.weights) > 0
    card = json.loads((folder / "model" / "card.json").read_text())
    assert card["calibrator"]["fitted_on"] == "out of fold"
    assert card["calibrator"]["rows"] == 240
    assert set(card["training"]["weights"]) == {"ce", "sord", "orcu"}
    assert "5 folds; weights" in card["calibrator"]["choice"]
    assert "An ensemble of 5 folds" in (folder / "model" / "report.html").read_text()
    assert trained.evaluation.rows == 60
    out_of_fold = Predictions.read(folder / "model" / "out_of_fold.parquet")
    assert len(out_of_fold) == 240
    test = Predictions.read(folder / "model" / "test.parquet")
    assert not set(out_of_fold.ids) & set(test.ids)


def test_ensemble_run_keeps_clusters_in_one_fold(folder, trained):
    from orcu.training.ensemble_run import EnsembleRun
    from orcu.training.run import Run, RunConfig

    run = EnsembleRun(Run(trained.prepared, trained.splits, RunConfig(loss="ce"), device="cpu"), ["ce"], cv=5)
    clusters = trained.prepared.manifest.column("cluster")
    for fold in run.folds:
        tested = {clusters[row] for row in run.rows[fold.test]}
        assert not tested & {clusters[row] for row in run.rows[np.concatenate([fold.train, fold.early_stopping])]}


def test_predict_of_an_ensemble_gives_probabilities_sets_and_epistemic_uncertainty(folder, trained):
    result = predict(folder / "model", folder / "new.csv", device="cpu")
    table = result.to_arrow().to_pylist()
    assert list(table[0]) == [
        "id",
        "prob_0",
        "prob_1",
        "prob_2",
        "decision",
        "confidence",
        "set_low",
        "set_high",
        "epistemic",
    ]
    for row in table:
        assert row["set_low"] <= row["decision"] <= row["set_high"]
        assert row["confidence"] == max(row[f"prob_{k}"] for k in range(3))
    alone = predict(folder / "model", folder / "new.csv", device="cpu").predictions
    np.testing.assert_array_equal(alone.probs, result.predictions.probs)
    # the same as the rows of the training were answered with
    model, _ = load_model(folder / "model")
    with torch.no_grad():
        logits = model(torch.zeros(4, model.backbone.width)).logits
    assert logits.shape == (4, 3)
    wide = predict(folder / "model", folder / "new.csv", alpha=0.02, device="cpu")
    assert (wide.low <= result.low).all()
    assert (wide.high >= result.high).all()
    with pytest.raises(InputError, match="^alpha: .*0.001"):
        predict(folder / "model", folder / "new.csv", alpha=0.001, device="cpu")


def test_train_after_an_interruption_trains_only_the_missing_losses(folder, trained, monkeypatch):
    from orcu.training.networks import PerceptronLearner

    calls, train_stack = [], PerceptronLearner._train

    def interrupted(learner, *args):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.extend(learner.criteria)
        return train_stack(learner, *args)

    monkeypatch.setattr(PerceptronLearner, "_train", interrupted)
    data = folder / "model" / "data"
    with pytest.raises(KeyboardInterrupt):
        train(data, folder / "cut", **SHORT)
    monkeypatch.setattr(
        PerceptronLearner,
        "_train",
        lambda learner, *args: calls.extend(learner.criteria) or train_stack(learner, *args),
    )
    train(data, folder / "cut", **SHORT)
    assert calls == ["ce", "sord", "orcu"]
    first, second = (Predictions.read(folder / name / "test_calibrated.parquet").probs for name in ("model", "cut"))
    np.testing.assert_allclose(first, second, atol=1e-6)
    with pytest.raises(InputError, match="cut: .*loss"):
        train(data, folder / "cut", loss=["ce"], **SHORT)
    (folder / "cut" / "members" / "1.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=r"1\.safetensors:"):
        train(data, folder / "cut", **SHORT)


def test_predict_with_missing_sets_or_wrong_weights_raises(folder, trained, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder / "model", copy)
    (copy / "sets.json").unlink()
    with pytest.raises(InputError, match="sets.json:"):
        predict(copy, folder / "new.csv", device="cpu")
    edit_config(copy, lambda config: config | {"weights": config["weights"] + [0.0] * 5})
    with pytest.raises(InputError, match="model.safetensors:"):
        predict(copy, folder / "new.csv", device="cpu")
    (tmp_path / "sets.json").write_text('{"prediction_sets": "ordinal"}')
    with pytest.raises(InputError, match="sets.json:"):
        CrossConformalSets.load(tmp_path / "sets.json")


def test_train_with_losses_or_folds_that_cannot_be_an_ensemble_raises(folder, trained):
    data = folder / "model" / "data"
    with pytest.raises(InputError, match="^loss: poe .*--cv 1 --loss poe"):
        train(data, folder / "m", loss="poe", cv=3, **SHORT)
    with pytest.raises(InputError, match="^loss:"):
        train(data, folder / "m", loss=["ce", "sord"], cv=1, **SHORT)
    with pytest.raises(InputError, match="^loss: .*'ce'"):
        train(data, folder / "m", loss=["ce", "ce"], **SHORT)
    with pytest.raises(InputError, match="^cv: .* 500 folds"):
        train(data, folder / "m", cv=500, **SHORT)
    assert train(data, folder / "poe", loss="poe", **SHORT).summary == ""  # by itself a single network


@pytest.mark.slow
def test_train_on_a_table_fits_the_default_estimators_and_predict_uses_them(folder, trained, monkeypatch):
    lgb = pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
    data, out = folder / "model" / "data", folder / "trees"
    plain = SHORT | {"estimators": None}
    experiment = train(data, out, **plain)
    plan = experiment.result.model_config
    assert {entry["kind"] for entry in plan.estimators} <= {"linear", "forest", "boosting"}
    assert min(entry["weight"] for entry in plan.estimators) > 0
    card = json.loads((out / "card.json").read_text())
    assert sum(card["training"]["weights"].values()) == pytest.approx(1)
    assert list(card["training"]["weights"]) == [
        "linear",
        "extra trees",
        "random forest",
        "ce trees",
        "ce",
        "sord",
        "orcu",
    ]
    files = {folder: len(list((out / folder).glob(f"*.{suffix}"))) for folder, suffix in FILES.items()}
    assert files == {"trees": 5, "forests": 10, "linear": 6}  # the penalty of the linear models is in a file too
    assert lgb.Booster(model_file=str(out / "trees" / "ce_trees.0.txt")).num_feature() == 2
    with pytest.raises(InputError, match="--estimators network"):
        load_model(out)
    # the test rows as new rows: the same predictions
    manifest, test = experiment.prepared.manifest, experiment.splits["test"]
    columns = [[manifest.feature(name)[row] for row in test] for name in ("a", "b")]
    lines = [f"{manifest.ids[row]},{a},{b}\n" for row, a, b in zip(test, *columns, strict=True)]
    (folder / "test.csv").write_text("id,a,b\n" + "".join(lines))
    result = predict(out, folder / "test.csv", device="cpu")
    expected = Predictions.read(out / "test_calibrated.parquet").probs
    np.testing.assert_allclose(result.predictions.probs, expected, atol=1e-6)
    assert result.epistemic.min() >= 0
    assert (result.low <= result.high).all()
    # an interrupted training trains only the missing boosters
    (out / "trees" / "ce_trees.3.txt").unlink()
    calls, lgb_train = [], lgb.train
    monkeypatch.setattr(lgb, "train", lambda *args, **options: calls.append(1) or lgb_train(*args, **options))
    train(data, out, **plain)
    assert len(calls) == 1
    # files of another model and damaged files
    trees = {"kind": "boosting", "name": "ce trees", "weight": 1.0, "library": "lightgbm", "start": [0.0, 0.0, 0.0]}
    edit_config(out, lambda config: config | {"estimators": [trees]})
    name = "ce_trees.1.txt"
    rng = np.random.default_rng(0)
    other = lgb.train({"verbosity": -1}, lgb.Dataset(rng.normal(size=(50, 5)), rng.normal(size=50)), 2)
    (out / "trees" / name).write_text(other.model_to_string())
    with pytest.raises(InputError, match="5 columns and 1 classes, expected 2 columns and 3"):
        predict(out, folder / "test.csv", device="cpu")
    (out / "trees" / name).write_text("half of a tree")
    with pytest.raises(InputError, match="_trees.1.txt:"):
        predict(out, folder / "test.csv", device="cpu")


def test_train_with_estimators_that_cannot_be_used_raises(folder, trained):
    data = folder / "model" / "data"
    with pytest.raises(InputError, match="^estimators: "):
        train(data, folder / "m", **SHORT | {"estimators": ["boosting"]}, cv=1)
    with pytest.raises(InputError, match="estimator 'forests'"):
        train(data, folder / "m", **SHORT | {"estimators": ["forests"]})
    with pytest.raises(InputError, match="^estimators: "):
        train(data, folder / "m", **SHORT | {"estimators": []})
    with pytest.raises(InputError, match="^loss: "):
        train(data, folder / "m", **SHORT | {"estimators": ["boosting"]}, loss=["ce"])
