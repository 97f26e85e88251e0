"""Files that orcu 0.2 has written: prepared data, models and checkpoints give the same numbers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from orcu import Predictions, data
from orcu.training import loop
from orcu.training.model_file import load_model, save_model
from orcu.training.predict import predict
from orcu.training.run import Run, RunConfig, _upgrade

FILES = Path(__file__).parents[1] / "data" / "written_by_0_2" / "training"


def test_prepared_data_have_the_same_digest_clusters_and_folds(tmp_path):
    old = data.load(FILES / "prepared")
    assert old.manifest.about.options == {"label": "grade", "cluster": "who"}
    assert old.manifest.dataset().cluster == "who"
    assert old.manifest.column("cluster")[:3] == ["p0", "p0", "p1"]
    (tmp_path / "table").mkdir()
    shutil.copy(FILES / "cases.csv", tmp_path / "table")
    new, _ = data.prepare("table", tmp_path / "table", output=tmp_path / "new", options=old.manifest.about.options)
    assert "cluster" in pq.read_schema(new.folder / "manifest.parquet").names
    assert new.manifest.digest == old.manifest.digest
    assert new.folds.equals(old.folds)
    rewritten = tmp_path / "rewritten.parquet"
    old.manifest.write(rewritten)
    assert data.Manifest.read(rewritten).digest == old.manifest.digest


@pytest.mark.parametrize("name", ["single", "ensemble"])
def test_model_predicts_the_same_numbers(name):
    table = predict(FILES / name, FILES / "cases.csv", device="cpu").to_arrow()
    expected = pq.read_table(FILES / name / "expected.parquet")
    expected = expected.rename_columns({"predicted": "decision"})  # its name since 0.3
    assert table.column_names == expected.column_names
    for column in expected.column_names:
        values, old_values = table.column(column).to_pylist(), expected.column(column).to_pylist()
        if isinstance(old_values[0], float):
            np.testing.assert_allclose(values, old_values, rtol=1e-6, atol=1e-9)  # other machines round differently
        else:
            assert values == old_values


def test_model_with_several_losses_on_one_backbone_predicts_the_same_numbers():
    predictions = predict(FILES / "head", FILES / "cases.csv", device="cpu").predictions
    expected = Predictions.read(FILES / "head" / "expected.parquet")
    np.testing.assert_allclose(predictions.probs, expected.probs, rtol=1e-6, atol=1e-9)
    config = _upgrade(json.loads((FILES / "head" / "run.json").read_text())["spec"])["config"]
    assert config["loss"] == "ensemble"


def test_model_is_written_with_the_new_keys(tmp_path):
    model, config = load_model(FILES / "single")
    assert config.hidden_layer_sizes == [4]
    save_model(tmp_path, model, config)
    assert json.loads((tmp_path / "model.json").read_text())["hidden_layer_sizes"] == [4]
    again, same_config = load_model(tmp_path)
    assert same_config == config
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in model.state_dict().items())


def test_interrupted_training_continues_to_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 3600.0)
    shutil.copytree(FILES / "interrupted", tmp_path / "run")
    prepared = data.load(FILES / "prepared")
    training = {"epochs": 5, "select": "rps", "patience": 4, "plateau_patience": 0}
    config = RunConfig(loss="orcu", hidden_layer_sizes=(4,), training=training)
    first_epochs = []

    def record(progress):
        first_epochs.append(progress.epoch)

    run = Run(prepared, prepared.split("five_folds", 0), config, device="cpu")
    result = run.train(tmp_path / "run", progress=record)
    assert min(first_epochs) == 3  # three epochs were in the checkpoint
    assert len({frozenset(curve) for curve in result.curves}) == 1  # all epochs have the same keys
    weights, expected = (
        load_file(tmp_path / "run" / "model.safetensors"),
        load_file(FILES / "interrupted/expected.safetensors"),
    )
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=1e-5, atol=1e-7)


def test_run_json_of_an_ensemble_has_its_new_keys():
    spec = _upgrade(json.loads((FILES / "ensemble" / "run.json").read_text())["spec"])
    assert spec["config"]["hidden_layer_sizes"] == [4]
    assert spec["config"]["training"] == {"epochs": 3}
    assert spec["train_config"]["scheduler"] == "cosine"
    assert spec["train_config"]["patience"] == 10
    assert (spec["cv"], spec["boosting"]["n_estimators"], spec["boosting"]["num_leaves"]) == (2, 3, 2)
