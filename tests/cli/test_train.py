"""``orcu train``, ``orcu predict`` and ``orcu two-stage``."""

import errno
import importlib.util
import json
import shutil
import subprocess
import time
from dataclasses import fields

import numpy as np
import pytest
from command import ORCU, assert_data_error, assert_usage_error, plain, run, run_process
from PIL import Image

from orcu import Predictions
from orcu.cli.options import key_values, names
from orcu.cli.train import split_settings
from orcu.data.base import DATASETS
from orcu.errors import InputError
from orcu.registry import accepted_parameters
from orcu.training.config import TrainConfig
from orcu.training.predict import predict

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


@pytest.mark.slow
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
    assert (scans / "new.csv").read_text().splitlines()[0].endswith('"decision","confidence","set_low","set_high"')
    (scans / "scans" / "none" / "bad.png").unlink()


def test_train_table_warns_of_small_classes_and_refuses_changed_data(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal(k % 3):.3f},{'n' if k % 2 else 's'},{k % 3}\n" for k in range(45)]
    (tmp_path / "t.csv").write_text("x,site,grade\n" + "".join(rows))
    settings = ("--set", "label=grade", "--set", "file=t.csv", "--set", "epochs=3")
    train = ("train", "--data", "table", "--root", ".", *settings, *QUICK, "--estimators", "linear,network", "-o", "m")
    result = run(*train, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "warning: class 0 (15) has fewer than 20 rows" in result.stderr
    result = run("predict", "m", "t.csv", "-o", "p.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("t.csv", "p.csv"))
    assert after[0].startswith("x,site,grade,prob_0,prob_1,prob_2,decision,confidence")
    assert all(new.startswith(f"{old},") for old, new in zip(before, after, strict=True))  # rows are as they were
    assert run("predict", "m", "t.csv", "-o", "p.parquet", cwd=tmp_path).returncode == 0
    assert Predictions.read(tmp_path / "p.parquet").classes == ("0", "1", "2")
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


def test_train_on_a_column_of_numbers_and_text_warns_once_when_the_table_is_prepared(tmp_path):
    rows = [f"{2 + n % 4 if n % 4 < 3 else '5more'},{n % 3}\n" for n in range(120)]
    (tmp_path / "t.csv").write_text("doors,grade\n" + "".join(rows))
    prepare = ("data", "prepare", "table", "--root", ".", "--set", "label=grade", "-o", "store/cars")
    warning = "warning: column 'doors': 90 of 120 values are numbers, but others are not, such as '5more'"
    assert run(*prepare, cwd=tmp_path).stderr.count(warning) == 1
    settings = ("--set", "epochs=1", *QUICK, "--estimators", "linear,network", "--loss", "ce", "--cv", "2")
    result = run("train", "--data", "store/cars", *settings, "-o", "m", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "are numbers" not in result.stderr


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
        (
            ["train", "--data", "table", "--root", ".", "--label", "grade", "-o", "m"],
            assert_usage_error,
            ["--label grade:", "label or votes", "--set label=grade"],
        ),
        (
            ["train", "--data", "table", "--root", "t.csv", "--set", "label=grade", "-o", "m"],
            assert_data_error,
            ["t.csv: is a file", "--set file=t.csv"],
        ),
        (["predict", "nothing", "x", "-o", "p.csv"], assert_data_error, ["nothing", "orcu train"]),
    ],
)
def test_train_errors(arguments, check, words, tmp_path):
    run("data", "prepare", "lev", cwd=tmp_path)
    (tmp_path / "t.csv").write_text("x,grade\n1,0\n2,1\n")
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


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A table of 90 rows and a linear model of it."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    (folder / "rows").mkdir()
    rows = "".join(f"{rng.normal(k % 3):.3f},{rng.normal():.3f},{k % 3}\n" for k in range(90))
    (folder / "rows" / "t.csv").write_text("a,b,grade\n" + rows)
    result = run(*LINEAR, "-o", "model", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


LINEAR = ("train", "--data", "table", "--root", "rows", "--set", "label=grade", "--estimators", "linear", "--cv", 2)
LINEAR = (*LINEAR, *QUICK)


@pytest.mark.parametrize("writes", [1, 8])
def test_train_on_a_full_disk_is_one_sentence_and_the_training_resumes(small, tmp_path, monkeypatch, writes):
    from orcu.io import files

    done, mkstemp = [], files.tempfile.mkstemp

    def full(*arguments, **options):
        done.append(1)
        if len(done) > writes:
            raise OSError(errno.ENOSPC, "No space left on device", "x.part")
        return mkstemp(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(files.tempfile, "mkstemp", full)
        result = run(*LINEAR, "-o", tmp_path / "m", cwd=small)
    assert_data_error(result, "the disk is full" if writes > 1 else "No space left")
    assert_data_error(run("predict", tmp_path / "m", "rows/t.csv", "-o", tmp_path / "p.csv", cwd=small), "model.json")
    assert run(*LINEAR, "-o", tmp_path / "m", cwd=small).returncode == 0
    first, second = (
        Predictions.read(folder / "test_calibrated.parquet") for folder in (small / "model", tmp_path / "m")
    )
    np.testing.assert_array_equal(first.probs, second.probs)


def test_predict_on_a_full_disk_or_to_a_file_in_place_of_a_folder_is_one_sentence(small, monkeypatch):
    from orcu.io import extending

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device", "p.csv")

    with monkeypatch.context() as patch:
        patch.setattr(extending, "atomic_write", full)
        result = run("predict", "model", "rows/t.csv", "-o", "p.csv", cwd=small)
    assert_data_error(result, "p.csv: the disk is full")
    (small / "file").write_text("not a folder")
    assert_usage_error(run("predict", "model", "rows/t.csv", "-o", "file/p.csv", cwd=small), "folder does not exist")
    assert_data_error(run(*LINEAR, "-o", "file", cwd=small), "file/data: cannot be written")
    assert_data_error(run("predict", "file", "rows/t.csv", "-o", "p.csv", cwd=small), "file: not a model")


def test_train_in_a_folder_that_cannot_be_written_is_one_sentence(small, monkeypatch):
    """The tests run as root, which may write everywhere."""
    from orcu.training import run as run_module

    def read_only(path, *arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "write_json", read_only)
        result = run(*LINEAR, "-o", "other", cwd=small)
    assert_data_error(result, "other/run.json: cannot be read or written (Read-only file system)")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("a,b\n1,inf\n", ["new.csv: column 'b': row 0 (from 0) is inf"]),
        ("a,c\n1,2\n", ["new.csv: the table has no column 'b'", "It has 'a', 'c'."]),
        ("A,b\n1,2\n", ["no column 'a'", "Is it 'A'?"]),
        ("a,b\n2020-01-01,1\n", ["new.csv: column 'a': row 0 (from 0) has", "expected a number as in training"]),
    ],
)
def test_predict_of_a_table_that_does_not_fit_the_model_is_a_data_error(small, table, words):
    (small / "new.csv").write_text(table)
    assert_data_error(run("predict", "model", "new.csv", "-o", "p.csv", cwd=small), *words)


def test_predict_warns_of_missing_values_and_of_numbers_outside_of_the_training_range(small):
    (small / "new.csv").write_text("a,b\n1e30,\n1,2\n")
    result = run("predict", "model", "new.csv", "-o", "p.csv", cwd=small)
    assert result.returncode == 0
    assert "warning: column 'a': 1 of 2 values, such as 1e+30" in plain(result.stderr)
    assert "warning: column 'b': 1 of 2 values are missing, but none was missing in training" in plain(result.stderr)
    probs = Predictions.read(small / "p.csv", probs="prob_*").probs
    assert np.isfinite(probs).all()


def test_predict_keeps_ids_with_leading_zeros(small):
    (small / "new.csv").write_text("id,a,b\n007,1,2\n7,2,1\n")
    result = run("predict", "model", "new.csv", "-o", "p.parquet", cwd=small)
    assert result.returncode == 0, result.stderr
    assert Predictions.read(small / "p.parquet").ids.tolist() == ["007", "7"]
    assert predict(small / "model", small / "new.csv").predictions.ids.tolist() == ["007", "7"]


def test_train_on_repeated_rows_prints_the_number_of_copies(small, tmp_path):
    text = (small / "rows" / "t.csv").read_text().splitlines()
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "t.csv").write_text("\n".join([text[0], *text[1:] * 5]) + "\n")
    result = run(*LINEAR, "-o", "m", cwd=tmp_path)
    assert "450 of 450 rows are copies of other rows; copies are kept in one split" in plain(result.stdout)


@pytest.mark.slow
def test_train_that_is_killed_leaves_no_half_model_and_resumes_to_the_same_predictions(small, tmp_path):
    """A folder predicts only when it is complete; three kills at random times lose nothing."""
    shutil.copytree(small / "rows", tmp_path / "rows")
    settings = ("train", "--data", "table", "--root", "rows", "--set", "label=grade", "--set", "epochs=20", "--cv", 2)
    train = (*settings, *QUICK, "--estimators", "linear,network")
    start = time.monotonic()
    assert run_process(*train, "-o", "reference", cwd=tmp_path).returncode == 0
    duration = time.monotonic() - start
    reference = Predictions.read(tmp_path / "reference" / "test_calibrated.parquet").probs
    rng = np.random.default_rng(0)
    for _ in range(3):
        process = subprocess.Popen([ORCU, *map(str, train), "-o", "model"], cwd=tmp_path, stdout=subprocess.DEVNULL)
        time.sleep(float(rng.uniform(0.4, 1.0)) * duration)
        process.kill()
        process.wait()
        result = run("predict", "model", "rows/t.csv", "-o", "p.csv", cwd=tmp_path)
        if result.returncode:
            assert_data_error(result, "model.json is missing")
        else:
            probs = Predictions.read(tmp_path / "model" / "test_calibrated.parquet").probs
            np.testing.assert_array_equal(probs, reference)
    assert run_process(*train, "-o", "model", cwd=tmp_path).returncode == 0
    probs = Predictions.read(tmp_path / "model" / "test_calibrated.parquet").probs
    np.testing.assert_array_equal(probs, reference)
