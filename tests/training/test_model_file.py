"""Files of a model folder: SHA-256 of every file in model.json, and the structure of files without one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from orcu.errors import InputError
from orcu.training import experiment
from orcu.training.experiment import train
from orcu.training.model_file import load_members
from orcu.training.predict import predict

pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
OLD = Path(__file__).parents[1] / "data" / "written_by_0_2" / "training"
SETTINGS = {"training": {"epochs": 2}, "device": "cpu", "cv": 2, "calibrator": "temperature"}
SETTINGS |= {"estimators": ["linear", "boosting", "network"], "hidden_layer_sizes": (4,)}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A table whose label is linear in one column and jumps in another, so that all kinds of members get a weight."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 2))
    y = np.digitize(x[:, 0] + np.sign(x[:, 1]) + 0.5 * rng.normal(size=160), [-1, 1])
    (folder / "rows").mkdir()
    lines = [f"{a:.3f},{b:.3f},{k}\n" for (a, b), k in zip(x, y, strict=True)]
    (folder / "rows" / "t.csv").write_text("a,b,grade\n" + "".join(lines))
    (folder / "new.csv").write_text("a,b\n0.1,0.2\n-3,3\n")
    return folder


@pytest.fixture(scope="module")
def trained(rows):
    train("table", rows / "model", root=rows / "rows", options={"label": "grade"}, **SETTINGS)
    return rows / "model"


@pytest.fixture
def model(trained, tmp_path):
    """A copy of the trained model."""
    return Path(shutil.copytree(trained, tmp_path / "model"))


def member_files(folder):
    config = json.loads((folder / "model.json").read_text())
    names = [f"{entry['name'].replace(' ', '_')}.{fold}" for entry in config["estimators"] for fold in range(2)]
    return [name for name in config["files"] if Path(name).stem in names]


def test_model_json_lists_the_sha256_of_every_file_of_the_model(trained):
    files = json.loads((trained / "model.json").read_text())["files"]
    assert {"model.safetensors", "calibrator.json", "sets.json", "members/0.safetensors"} <= set(files)
    assert {"linear/linear.0.json", "trees/ce_trees.0.txt", "trees/ce_trees.1.txt"} <= set(files)
    assert len(member_files(trained)) >= 2


@pytest.mark.parametrize("change", ["byte", "extra", "missing"])
def test_predict_with_a_changed_extra_or_missing_byte_names_the_file(model, rows, change):
    for name in ["model.safetensors", "calibrator.json", "sets.json", *member_files(model)]:
        path = model / name
        content = path.read_bytes()
        if change == "missing":
            path.unlink()
        else:
            path.write_bytes(
                content + b"\n" if change == "extra" else content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
            )
        with pytest.raises(InputError, match=rf"{path.name}: .*Copy the whole folder") as error:
            predict(model, rows / "new.csv", device="cpu")
        assert ("file not found" if change == "missing" else "was changed") in str(error.value)
        path.write_bytes(content)
    predict(model, rows / "new.csv", device="cpu")


def test_predict_with_swapped_folds_names_the_first_file(model, rows):
    """Files of two folds have the same shape, so only their digests differ."""
    name = next(name for name in member_files(model) if ".0." in name)
    first, second = model / name, model / name.replace(".0.", ".1.")
    first.rename(model / "swap")
    second.rename(first)
    (model / "swap").rename(second)
    with pytest.raises(InputError, match=rf"{first.name}: .*another model or fold"):
        predict(model, rows / "new.csv", device="cpu")


def test_predict_with_a_changed_model_json_or_an_unlisted_file_raises(model, rows):
    path = model / "model.json"
    content = path.read_text()
    config = json.loads(content)
    path.write_text(json.dumps(config | {"classes": config["classes"][::-1]}))
    with pytest.raises(InputError, match=r"model\.json: was changed after the training"):
        predict(model, rows / "new.csv", device="cpu")
    path.write_text(json.dumps({key: value for key, value in config.items() if key != "files"}))
    with pytest.raises(InputError, match=r"model\.json: was changed"):
        predict(model, rows / "new.csv", device="cpu")
    path.write_text(json.dumps(dict(reversed(config.items()))))  # the order of the entries does not matter
    predict(model, rows / "new.csv", device="cpu")
    single = Path(shutil.copytree(OLD / "single", model / "single"))
    network, config, _ = load_members(single)
    from orcu.training.model_file import save_model

    (single / "calibrator.json").rename(model / "kept.json")
    save_model(single, network, config)
    (model / "kept.json").rename(single / "calibrator.json")
    with pytest.raises(InputError, match=r"calibrator\.json: does not belong to this model"):
        predict(single, OLD / "cases.csv", device="cpu")


def test_train_again_with_a_changed_member_raises_and_fits_it_after_deletion(model, rows):
    path = model / "trees" / "ce_trees.0.txt"
    before = path.read_bytes()
    path.write_bytes((model / "trees" / "ce_trees.1.txt").read_bytes())
    options = {"root": rows / "rows", "options": {"label": "grade"}}
    with pytest.raises(InputError, match=r"ce_trees\.0\.txt: .*Delete this file"):
        train("table", model, **options, **SETTINGS)
    path.unlink()
    train("table", model, **options, **SETTINGS)
    assert path.read_bytes() == before


def test_train_that_stops_before_the_calibrator_leaves_no_model(rows, trained, tmp_path, monkeypatch):
    """Before, model.json was written first: the folder predicted without its calibrator and without a warning."""

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "evaluate", stop)
    for cv in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            train(trained / "data", tmp_path / str(cv), **SETTINGS | {"cv": cv, "estimators": ["network"]})
        with pytest.raises(InputError, match=r"model\.json is missing"):
            predict(tmp_path / str(cv), rows / "new.csv", device="cpu")


def test_train_in_a_folder_with_members_of_another_seed_raises(trained, tmp_path, monkeypatch):
    """Before, members of other settings were read if the networks were not trained yet."""
    from orcu.training.networks import PerceptronLearner

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(PerceptronLearner, "_train", stop)
    with pytest.raises(KeyboardInterrupt):
        train(trained / "data", tmp_path / "m", **SETTINGS)
    assert (tmp_path / "m" / "linear").exists()
    with pytest.raises(InputError, match="seed"):
        train(trained / "data", tmp_path / "m", seed=1, **SETTINGS)


def test_load_model_with_weights_that_are_not_finite_raises(tmp_path):
    single = Path(shutil.copytree(OLD / "single", tmp_path / "single"))
    tensors = load_file(single / "model.safetensors")
    name = next(iter(tensors))
    save_file(tensors | {name: torch.full_like(tensors[name], float("nan"))}, single / "model.safetensors")
    with pytest.raises(InputError, match=rf"model\.safetensors: the weights {name}"):
        load_members(single)


@pytest.mark.parametrize(
    ("key", "value"),
    [("columns", [{"name": "x"}]), ("trees", ["ce"]), ("weights", [0.5]), ("trees", [{"name": "ce", "weight": 1.0}])],
)
def test_load_model_of_0_2_with_damaged_entries_raises(tmp_path, key, value):
    folder = Path(shutil.copytree(OLD / "ensemble", tmp_path / "model"))
    config = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(InputError, match=r"model\.json: "):
        load_members(folder)


def test_trees_of_0_2_with_a_wrong_structure_name_the_file(tmp_path):
    """LightGBM reads such a file without an error and walks in a circle."""
    folder = Path(shutil.copytree(OLD / "ensemble", tmp_path / "model"))
    path = folder / "trees" / "ce_trees.1.txt"
    text = path.read_text()
    path.write_text(text.replace("left_child=-1", "left_child=00", 1))
    with pytest.raises(InputError, match=r"ce_trees\.1\.txt: .*tree 0: the children .*Copy the whole folder"):
        predict(folder, OLD / "cases.csv", device="cpu")
