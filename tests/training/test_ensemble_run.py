"""An ensemble in a folder: what is written, what goes on, what is missing."""

import json

import numpy as np
import pytest
import torch

from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError
from orcu.predictions.predictions import Predictions
from orcu.training.experiment import train
from orcu.training.model_file import load_model
from orcu.training.predict import answer, predict_new

SHORT = {"recipe": {"epochs": 3}, "device": "cpu", "split": (60, 20, 20), "members": ["network"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table whose rows come in pairs of one subject."""
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
    options = {"label": "grade", "subject": "who"}
    return train("table", folder / "model", root=folder / "rows", options=options, **SHORT)


def test_the_folder_holds_the_members_and_says_what_was_chosen(folder, trained):
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
    said = Predictions.read(folder / "model" / "out_of_fold.parquet")
    assert len(said) == 240
    test = Predictions.read(folder / "model" / "test.parquet")
    assert not set(said.ids) & set(test.ids)


def test_subjects_stay_in_a_fold(folder, trained):
    """Labels of a subject's rows do not change what is said of them out of fold."""
    from orcu.training.ensemble_run import ensemble_run
    from orcu.training.run import RunConfig

    ensemble = ensemble_run(trained.prepared, trained.splits, RunConfig(), ["ce"], folds=5, device="cpu")
    subjects = trained.prepared.manifest.column("subject")
    for fold in ensemble.dealt:
        held = {subjects[row] for row in ensemble.rows[fold.held]}
        assert not held & {subjects[row] for row in ensemble.rows[np.concatenate([fold.train, fold.stop])]}


def test_new_cases_get_probabilities_a_decision_a_set_and_what_members_disagree_about(folder, trained):
    answers = answer(folder / "model", folder / "new.csv", device="cpu")
    table = answers.to_arrow().to_pylist()
    assert list(table[0]) == [
        "id",
        "prob_0",
        "prob_1",
        "prob_2",
        "predicted",
        "confidence",
        "set_low",
        "set_high",
        "epistemic",
    ]
    for row in table:
        assert row["set_low"] <= row["predicted"] <= row["set_high"]
        assert row["confidence"] == max(row[f"prob_{k}"] for k in range(3))
    alone = predict_new(folder / "model", folder / "new.csv", device="cpu")
    np.testing.assert_array_equal(alone.probs, answers.predictions.probs)
    # the same as the rows of the training were answered with
    model, _ = load_model(folder / "model")
    with torch.no_grad():
        logits = model(torch.zeros(4, 2)).logits
    assert logits.shape == (4, 3)
    wide = answer(folder / "model", folder / "new.csv", alpha=0.02, device="cpu")
    assert (wide.low <= answers.low).all()
    assert (wide.high >= answers.high).all()
    with pytest.raises(InputError, match="too few for 0.001"):
        answer(folder / "model", folder / "new.csv", alpha=0.001, device="cpu")


def test_a_training_that_was_cut_off_goes_on_loss_by_loss(folder, trained, monkeypatch):
    from orcu.training import ensemble_run

    calls = []
    real = ensemble_run.train_together

    def counted(criteria, *args, **kwargs):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(list(criteria))
        return real(criteria, *args, **kwargs)

    monkeypatch.setattr(ensemble_run, "train_together", counted)
    data = folder / "model" / "data"
    with pytest.raises(KeyboardInterrupt):
        train(data, folder / "cut", **SHORT)
    monkeypatch.setattr(
        ensemble_run,
        "train_together",
        lambda criteria, *a, **k: (calls.append(list(criteria)), real(criteria, *a, **k))[1],
    )
    train(data, folder / "cut", **SHORT)
    assert calls == [["ce"], ["sord"], ["orcu"]]
    first, second = (Predictions.read(folder / name / "test_calibrated.parquet").probs for name in ("model", "cut"))
    np.testing.assert_allclose(first, second, atol=1e-6)
    with pytest.raises(InputError, match="holds a run with another loss"):
        train(data, folder / "cut", loss=["ce"], **SHORT)
    (folder / "cut" / "members" / "1.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match="cannot be read; delete it, and its loss is trained again"):
        train(data, folder / "cut", **SHORT)


def test_a_folder_without_its_sets_or_members_is_refused(folder, trained, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder / "model", copy)
    (copy / "sets.json").unlink()
    with pytest.raises(InputError, match="sets.json: is missing"):
        answer(copy, folder / "new.csv", device="cpu")
    plan = json.loads((copy / "model.json").read_text())
    plan["weights"] = plan["weights"] + [0.0]
    (copy / "model.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="not the weights of the model"):
        answer(copy, folder / "new.csv", device="cpu")
    (tmp_path / "sets.json").write_text('{"prediction_sets": "ordinal"}')
    with pytest.raises(InputError, match="no prediction sets of an ensemble"):
        CrossConformalSets.load(tmp_path / "sets.json")


def test_what_cannot_be_a_ensemble_is_told(folder, trained):
    data = folder / "model" / "data"
    with pytest.raises(InputError, match="poe cannot be part of an ensemble; use --folds 1 --loss poe"):
        train(data, folder / "m", loss="poe", folds=3, **SHORT)
    with pytest.raises(InputError, match="a single network has one loss"):
        train(data, folder / "m", loss=["ce", "sord"], folds=1, **SHORT)
    with pytest.raises(InputError, match="ce stands twice"):
        train(data, folder / "m", loss=["ce", "ce"], **SHORT)
    with pytest.raises(InputError, match="cannot be dealt into 500 folds"):
        train(data, folder / "m", folds=500, **SHORT)
    assert train(data, folder / "poe", loss="poe", **SHORT).choice == ""  # by itself a single network


def test_on_a_table_the_default_grows_trees_keeps_them_as_text_and_asks_them(folder, trained, monkeypatch):
    lgb = pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
    data, out = folder / "model" / "data", folder / "trees"
    plain = SHORT | {"members": None}
    experiment = train(data, out, **plain)
    plan = experiment.result.plan
    shares = [tree["weight"] for tree in plan.trees]
    assert shares
    assert min(shares) > 0
    card = json.loads((out / "card.json").read_text())
    assert sum(card["training"]["weights"].values()) == pytest.approx(1)
    assert list(card["training"]["weights"]) == ["ce trees", "orcu trees", "ce", "sord", "orcu"]
    assert len(list((out / "trees").glob("*.txt"))) == 10
    assert lgb.Booster(model_file=str(out / "trees" / "ce_trees.0.txt")).num_feature() == 2
    with pytest.raises(InputError, match="trees are part of this ensemble"):
        load_model(out)
    # the test rows as new cases: the same answers
    manifest, test = experiment.prepared.manifest, experiment.splits["test"]
    columns = [[manifest.feature(name)[row] for row in test] for name in ("a", "b")]
    lines = [f"{manifest.ids[row]},{a},{b}\n" for row, a, b in zip(test, *columns, strict=True)]
    (folder / "test.csv").write_text("id,a,b\n" + "".join(lines))
    answers = answer(out, folder / "test.csv", device="cpu")
    kept = Predictions.read(out / "test_calibrated.parquet").probs
    np.testing.assert_allclose(answers.predictions.probs, kept, atol=1e-6)
    assert answers.epistemic.min() >= 0
    assert (answers.low <= answers.high).all()
    # a training that was cut off grows only what is missing
    (out / "trees" / "orcu_trees.3.txt").unlink()
    grown = []
    real = lgb.train
    monkeypatch.setattr(lgb, "train", lambda *a, **k: (grown.append(1), real(*a, **k))[1])
    train(data, out, **plain)
    assert len(grown) == 1
    name = f"{plan.trees[0]['name'].replace(' ', '_')}.1.txt"
    rng = np.random.default_rng(0)
    other = lgb.train({"verbosity": -1}, lgb.Dataset(rng.normal(size=(50, 5)), rng.normal(size=50)), 2)
    (out / "trees" / name).write_text(other.model_to_string())
    with pytest.raises(
        InputError, match="is of another model: it has 5 columns and 1 classes, expected 2 columns and 3"
    ):
        answer(out, folder / "test.csv", device="cpu")
    (out / "trees" / name).write_text("half of a tree")
    with pytest.raises(InputError, match="_trees.1.txt: cannot be read"):
        answer(out, folder / "test.csv", device="cpu")


def test_trees_where_there_can_be_none_are_told(folder, trained):
    data = folder / "model" / "data"
    with pytest.raises(InputError, match="trees are grown on tables, in two folds or more"):
        train(data, folder / "m", **SHORT | {"members": ["boosting"]}, folds=1)
    with pytest.raises(InputError, match="kind of member"):
        train(data, folder / "m", **SHORT | {"members": ["forest"]})
    with pytest.raises(InputError, match="members: expected some of boosting, network"):
        train(data, folder / "m", **SHORT | {"members": []})
    with pytest.raises(InputError, match="loss: is that of the networks, and --members names none"):
        train(data, folder / "m", **SHORT | {"members": ["boosting"]}, loss=["ce"])
