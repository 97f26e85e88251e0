"""``orcu train``, ``predict`` and ``two-stage`` as a user meets them."""

import importlib.util
import json

import numpy as np
import pytest
from command import run
from PIL import Image

from orcu import Predictions


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Images whose brightness is their grade, two of each of forty patients."""
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


def test_a_hospitals_images_become_a_judged_model(scans):
    told = run(
        "train",
        "--data",
        "folder",
        "--root",
        "scans",
        "--option",
        "classes=none,mild,severe",
        "--subject-from",
        r"(patient\d+)_",
        "--backbone",
        "test_resnet",
        "--weights",
        "random",
        "--size",
        24,
        "--set",
        "epochs=2",
        "--set",
        "batch_size=16",
        "-o",
        "model",
        "--calibrator",
        "temperature",
        cwd=scans,
    )
    assert told.returncode == 0, told.stderr
    assert "the rows of a subject stay together" in told.stdout
    assert "to train; --frozen is quicker on a CPU" in " ".join(told.stdout.split())
    assert "wrote model" in told.stdout
    card = json.loads((scans / "model" / "card.json").read_text())
    assert card["data"]["subject_exclusive"] is True
    people = [
        {str(name).split("_")[0].split("/")[-1] for name in Predictions.read(scans / "model" / f"{part}.parquet").ids}
        for part in ("train", "validation", "test")
    ]
    assert not people[0] & people[1]
    assert not (people[0] | people[1]) & people[2]
    told = run("predict", "model", "scans/none", "-o", "new.parquet", cwd=scans)
    assert told.returncode == 0, told.stderr
    new = Predictions.read(scans / "new.parquet")
    assert new.classes == ("none", "mild", "severe")
    assert len(new) == 28
    (scans / "scans" / "none" / "bad.png").write_text("no image")
    told = run("predict", "model", "scans/none", "-o", "new.csv", cwd=scans)
    assert told.returncode == 3
    assert "1 of 29 images: bad.png: is no image" in told.stderr
    told = run("predict", "model", "scans/none", "-o", "new.csv", "--skip-bad", cwd=scans)
    assert "left out: bad.png: is no image" in told.stdout
    assert (scans / "new.csv").read_text().splitlines()[0].endswith('"predicted","confidence"')
    (scans / "scans" / "none" / "bad.png").unlink()


def test_small_classes_are_warned_of_and_tables_train(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal(k % 3):.3f},{'n' if k % 2 else 's'},{k % 3}\n" for k in range(45)]
    (tmp_path / "t.csv").write_text("x,site,grade\n" + "".join(rows))
    told = run(
        "train",
        "--data",
        "table",
        "--root",
        ".",
        "--option",
        "label=grade",
        "--option",
        "file=t.csv",
        "--set",
        "epochs=3",
        "-o",
        "m",
        "--calibrator",
        "temperature",
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stderr
    assert "class 0 (15) has fewer than 20 rows" in told.stdout
    told = run("predict", "m", "t.csv", "-o", "p.csv", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    (tmp_path / "new.csv").write_text("site,x\nabroad,1.0\n")
    told = run("predict", "m", "new.csv", "-o", "p2.csv", cwd=tmp_path)
    assert "1 of 1 values were not seen in training" in " ".join(told.stdout.split())
    before = (tmp_path / "m" / "data" / "manifest.parquet").read_bytes()
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("n,0", "s,0", 1))
    told = run(
        "train",
        "--data",
        "table",
        "--root",
        ".",
        "--option",
        "label=grade",
        "--option",
        "file=t.csv",
        "--set",
        "epochs=3",
        "-o",
        "m",
        "--calibrator",
        "temperature",
        cwd=tmp_path,
    )
    assert told.returncode == 3
    assert "was made from other data" in told.stderr
    assert (tmp_path / "m" / "data" / "manifest.parquet").read_bytes() == before


def test_two_stage_prints_its_table(tmp_path):
    run("data", "prepare", "lev", cwd=tmp_path)
    told = run(
        "two-stage",
        "--data",
        "lev",
        "--protocol",
        "five_folds",
        "--folds",
        1,
        "--epochs",
        "4/3",
        "-o",
        "ts",
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stderr
    assert "A_TF" in told.stdout
    assert "F holds" in told.stdout
    assert (tmp_path / "ts" / "table.csv").read_text().startswith('"branch","feasible_active"')


def test_mistakes_are_one_line(tmp_path, scans):
    run("data", "prepare", "lev", cwd=tmp_path)
    for arguments, message in (
        (["train", "--data", "lev", "-o", "m", "--set", "epoch=3"], "Did you mean 'epochs'"),
        (["train", "--data", "lev", "-o", "m", "--split", "80/20"], "three shares"),
        (["train", "--data", "levv", "-o", "m"], "Did you mean 'lev'"),
        (["train", "--data", str(scans / "scans"), "-o", "m"], "say --data folder --root"),
        (["two-stage", "--data", "lev", "--protocol", "papr", "-o", "m"], "unknown protocol"),
        (["predict", "nothing", "x", "-o", "p.csv"], "no model of `orcu train`"),
    ):
        told = run(*arguments, cwd=tmp_path)
        assert told.returncode == 3, told.stdout + told.stderr
        assert message in " ".join(told.stderr.split())
        assert "Traceback" not in told.stderr


def test_tensorboard_gets_the_curves_where_it_is_installed(tmp_path):
    (tmp_path / "t.csv").write_text("x,grade\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(60)))
    rows = ("--data", "table", "--root", ".", "--option", "label=grade", "--calibrator", "temperature")
    told = run("train", *rows, "-o", "m", "--tensorboard", "--members", "network", "--set", "epochs=1", cwd=tmp_path)
    if importlib.util.find_spec("tensorboard") is None:
        assert told.returncode == 3
        assert "pip install tensorboard" in told.stderr
    else:
        assert told.returncode == 0, told.stderr
        assert list((tmp_path / "m" / "tensorboard").glob("events.*"))


def test_weights_that_are_not_at_hand_stop_the_command(scans):
    told = run(
        "train",
        "--data",
        "folder",
        "--root",
        "scans",
        "--option",
        "classes=none,mild,severe",
        "--backbone",
        "resnet50",
        "--fine-tune",
        "--size",
        24,
        "-o",
        "other",
        cwd=scans,
    )
    assert told.returncode == 3
    assert "--download" in told.stderr
    assert "--weights" in told.stderr
