"""``orcu train``, ``orcu predict`` and ``orcu two-stage``."""

import importlib.util
import json
from dataclasses import fields

import numpy as np
import pytest
from command import assert_data_error, assert_usage_error, plain, run
from PIL import Image

from orcu import Predictions
from orcu.cli.options import key_values, names
from orcu.cli.train import split_settings
from orcu.data.base import DATASETS
from orcu.errors import InputError
from orcu.registry import accepted_parameters
from orcu.training.config import TrainConfig

QUICK = ("--calibrator", "temperature")


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Images whose brightness depends on the grade, two for each of forty patients."""
    folder = tmp_path_factory.mktemp("scans")
    rng = np.random.default_rng(0)
    for patient in range(40):
        grade = ("none", "mild", "severe")[patient % 3]
        for eye in ("left", "right"):
            level = 40 + 80 * (patient % 3) + rng.normal(scale=10)
            pixels = np.clip(rng.normal(level, 8, size=(24, 24, 3)), 0, 255).astype(np.uint8)
            path = folder / "scans" / grade / f"patient{patient}_{eye}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return folder


def test_train_and_predict_images_with_clusters(scans):
    data = ("--data", "folder", "--root", "scans", "--set", "classes=none,mild,severe")
    model = ("--backbone", "test_resnet", "--weights", "random", "--size", 24)
    training = ("--set", "epochs=2", "--set", "batch_size=16")
    options = (*data, "--cluster-from", r"(patient\d+)_", *model, *training, *QUICK, "-o", "model")
    result = run("train", *options, cwd=scans)
    assert result.returncode == 0, result.stderr
    assert "clusters" in result.stdout
    assert "--frozen" in result.stdout
    assert "wrote model" in result.stdout
    card = json.loads((scans / "model" / "card.json").read_text())
    assert card["data"]["cluster_exclusive"] is True
    train, validation, test = (
        {str(name).split("_")[0].split("/")[-1] for name in Predictions.read(scans / "model" / f"{part}.parquet").ids}
        for part in ("train", "validation", "test")
    )
    assert not train & validation
    assert not (train | validation) & test
    result = run("predict", "model", "scans/none", "-o", "new.parquet", cwd=scans)
    assert result.returncode == 0, result.stderr
    predictions = Predictions.read(scans / "new.parquet")
    assert predictions.classes == ("none", "mild", "severe")
    assert len(predictions) == 28
    (scans / "scans" / "none" / "bad.png").write_text("no image")
    assert_data_error(run("predict", "model", "scans/none", "-o", "new.csv", cwd=scans), "bad.png", "29", "--skip-bad")
    result = run("predict", "model", "scans/none", "-o", "new.csv", "--skip-bad", cwd=scans)
    assert "bad.png" in result.stdout
    assert (scans / "new.csv").read_text().splitlines()[0].endswith('"predicted","confidence"')
    (scans / "scans" / "none" / "bad.png").unlink()


def test_train_table_warns_of_small_classes_and_refuses_changed_data(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal(k % 3):.3f},{'n' if k % 2 else 's'},{k % 3}\n" for k in range(45)]
    (tmp_path / "t.csv").write_text("x,site,grade\n" + "".join(rows))
    settings = ("--set", "label=grade", "--set", "file=t.csv", "--set", "epochs=3")
    train = ("train", "--data", "table", "--root", ".", *settings, *QUICK, "-o", "m")
    result = run(*train, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "warning: class 0 (15) has fewer than 20 rows" in result.stderr
    result = run("predict", "m", "t.csv", "-o", "p.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (tmp_path / "new.csv").write_text("site,x\nabroad,1.0\n")
    result = run("predict", "m", "new.csv", "-o", "p2.csv", cwd=tmp_path)
    assert "1 of 1 values" in plain(result.stdout)
    before = (tmp_path / "m" / "data" / "manifest.parquet").read_bytes()
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("n,0", "s,0", 1))
    assert_data_error(run(*train, cwd=tmp_path), "m:")
    assert (tmp_path / "m" / "data" / "manifest.parquet").read_bytes() == before


def test_two_stage_prints_its_table(tmp_path):
    run("data", "prepare", "lev", cwd=tmp_path)
    options = ("--protocol", "five_folds", "--max-folds", 1, "--epochs", "4/3", "-o", "ts")
    result = run("two-stage", "--data", "lev", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "A_TF" in result.stdout
    assert "feasible set F" in result.stdout
    assert (tmp_path / "ts" / "table.csv").read_text().startswith('"branch","feasible_active"')


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (
            ["train", "--data", "lev", "-o", "m", "--set", "epoch=3"],
            assert_usage_error,
            ["--set:", "'epoch'", "epochs"],
        ),
        (["train", "--data", "lev", "-o", "m", "--split", "80/20"], assert_usage_error, ["split:", "'80/20'"]),
        (["two-stage", "--data", "lev", "-o", "m", "--epochs", "5"], assert_usage_error, ["--epochs:", "'5'"]),
        (["train", "--data", "levv", "-o", "m"], assert_data_error, ["'levv'", "Did you mean 'lev'"]),
        (["train", "--data", ".", "-o", "m"], assert_data_error, ["--data folder --root"]),
        (["two-stage", "--data", "lev", "--protocol", "papr", "-o", "m"], assert_data_error, ["'papr'"]),
        (["predict", "nothing", "x", "-o", "p.csv"], assert_data_error, ["nothing", "orcu train"]),
    ],
)
def test_train_errors(arguments, check, words, tmp_path):
    run("data", "prepare", "lev", cwd=tmp_path)
    check(run(*arguments, cwd=tmp_path), *words)


def test_train_tensorboard_writes_curves(tmp_path):
    (tmp_path / "t.csv").write_text("x,grade\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(60)))
    data = ("--data", "table", "--root", ".", "--set", "label=grade")
    options = (*data, *QUICK, "--estimators", "network", "--set", "epochs=1", "--tensorboard", "-o", "m")
    result = run("train", *options, cwd=tmp_path)
    if importlib.util.find_spec("tensorboard") is None:
        assert_usage_error(result, "--tensorboard:", "pip install tensorboard")
    else:
        assert result.returncode == 0, result.stderr
        assert list((tmp_path / "m" / "tensorboard").glob("events.*"))


def test_train_without_downloaded_weights_is_a_data_error(scans):
    data = ("--data", "folder", "--root", "scans", "--set", "classes=none,mild,severe")
    result = run("train", *data, "--backbone", "resnet50", "--fine-tune", "--size", 24, "-o", "other", cwd=scans)
    assert_data_error(result, "--download", "--weights")


def test_no_data_set_has_an_option_with_the_name_of_a_training_setting():
    settings = {field.name for field in fields(TrainConfig)}
    for name in DATASETS.names():
        assert not settings & set(accepted_parameters(DATASETS.get(name))), name


def test_split_settings_converts_training_settings_and_keeps_options():
    settings = {"epochs": "20", "max_grad_norm": "1.5", "patience": "none", "label": "grade"}
    training = {"epochs": 20, "max_grad_norm": 1.5, "patience": None}
    assert split_settings(settings, "table") == (training, {"label": "grade"})


def test_key_values_and_names_split_texts():
    assert key_values(["scale=5", "title=a=b"]) == {"scale": "5", "title": "a=b"}
    assert names("none, mild,,severe") == ["none", "mild", "severe"]


def test_split_settings_names_the_nearest_keys_of_both_kinds():
    with pytest.raises(InputError, match=r"'clases'.*training settings: .*options of the data set 'table': classes"):
        split_settings({"clases": "a,b"}, "table")
    with pytest.raises(InputError, match=r"'epoch'.*training settings: epochs.*options of the data set 'lev': none"):
        split_settings({"epoch": "3"}, "lev")
