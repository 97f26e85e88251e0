"""``orcu calibrate`` and ``orcu sets`` as a user meets them."""

import json

import numpy as np
import pandas as pd
import pytest
from command import run

from orcu import Predictions, metrics
from orcu.calibrators import UnimodalProjection

CLASSES = ["none", "mild", "moderate", "severe"]
BASIC = ("--label", "grade", "--logits", "z_*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    rng = np.random.default_rng(0)
    sizes = (("val", 500, 4), ("test", 800, 4), ("spare", 400, 4), ("small_val", 100, 3), ("small_test", 100, 3))
    for name, rows, size in sizes:
        logits = -((np.arange(size) - rng.uniform(-0.5, size - 0.5, size=(rows, 1))) ** 2)
        logits += rng.normal(scale=0.4, size=logits.shape)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        y = (rng.random((rows, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        data = pd.DataFrame(3 * logits, columns=[f"z_{c}" for c in CLASSES[:size]])
        data["grade"], data["image"] = np.array(CLASSES)[y], [f"{name}{i}" for i in range(rows)]
        data.to_parquet(folder / f"{name}.parquet")
    return folder


def test_fit_apply_evaluate(folder):
    result = run("calibrate", "fit", "val.parquet", *BASIC, "--method", "gap+projection", "-o", "gap.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "on the fitting rows, which flatters it" in result.stdout
    assert json.loads((folder / "gap.json").read_text())["classes"] == CLASSES
    result = run(
        "calibrate", "apply", "test.parquet", "gap.json", *BASIC, "--id", "image", "-o", "out.parquet", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    before = Predictions.read(folder / "test.parquet", label="grade", logits="z_*")
    after = Predictions.read(folder / "out.parquet")
    assert metrics.nll(logits=after.logits, y=after.y) < metrics.nll(logits=before.logits, y=before.y) - 0.1
    assert metrics.unimodality(after.probs) == 1
    assert after.ids[0] == "test0"
    assert after.history[0]["method"] == "chain"
    result = run("evaluate", "out.parquet", "--bootstrap", "50", cwd=folder)
    assert result.returncode == 0, result.stderr


def test_groups_get_a_turn_each(folder):
    for name in ("val", "test"):
        data = pd.read_parquet(folder / f"{name}.parquet")
        data["site"] = np.where(np.arange(len(data)) % 2, "the northern hospital", "the southern clinic")
        columns = [column for column in data if column.startswith("z_")]
        data.loc[data["site"] == "the southern clinic", columns] /= 3
        data.to_parquet(folder / f"sites_{name}.parquet")
    options = (*BASIC, "--group", "site")
    result = run("evaluate", "sites_test.parquet", *options, "--bootstrap", "50", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "(orcu calibrate fit --group)" in " ".join(result.stdout.split())
    assert "the northern hospital  400" in result.stdout  # whole, however narrow the terminal
    fitted = run("calibrate", "fit", "sites_val.parquet", *options, "-o", "sites.json", cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    assert "2 groups have a turn of their own" in " ".join(fitted.stdout.split())
    assert "auto, by group" in fitted.stdout
    applied = ("calibrate", "apply", "sites_test.parquet", "sites.json", *BASIC)
    result = run(*applied, "-o", "sites_out.parquet", cwd=folder)
    assert result.returncode == 3
    assert "name the column of groups" in " ".join(result.stderr.split())
    result = run(*applied, "--group", "site", "-o", "sites_out.parquet", cwd=folder)
    assert result.returncode == 0, result.stderr
    after = Predictions.read(folder / "sites_out.parquet")
    for site in set(after.group.tolist()):
        mine = after.group == site
        assert abs(metrics.overconfidence(after.probs[mine], after.labels[mine])) < 0.07


def test_new_cases_need_no_labels(folder):
    data = pd.read_parquet(folder / "test.parquet").drop(columns="grade")
    data.to_csv(folder / "new.csv", index=False)
    run("calibrate", "fit", "val.parquet", *BASIC, "--method", "temperature", "-o", "t.json", cwd=folder)
    result = run("calibrate", "apply", "new.csv", "t.json", "--logits", "z_*", "-o", "new_out.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "label" not in pd.read_csv(folder / "new_out.csv").columns
    result = run("calibrate", "fit", "new.csv", "--logits", "z_*", "-o", "x.json", cwd=folder)
    assert result.returncode == 3
    assert "no labels" in result.stderr
    assert not (folder / "x.json").exists()


def test_an_unfitted_projection_is_applied(folder):
    UnimodalProjection().save(folder / "p.json")
    result = run("calibrate", "apply", "test.parquet", "p.json", *BASIC, "-o", "shaped.parquet", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert metrics.unimodality(Predictions.read(folder / "shaped.parquet").probs) == 1


def test_compare_prints_every_method_and_writes_a_page(folder):
    files = ("small_val.parquet", "--test", "small_test.parquet", *BASIC)
    result = run("calibrate", "compare", *files, "--report", "c.html", cwd=folder)
    assert result.returncode == 0, result.stderr
    for name in ("none", "temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap", "gap+projection"):
        assert name in result.stdout
    assert "fitted on small_val.parquet, judged on small_test.parquet" in result.stdout
    assert "chosen on small_val.parquet by this rule" in result.stdout
    assert "<svg" in (folder / "c.html").read_text()


def test_sets_keep_their_promise_and_rows_have_one_job(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "-o", "gap2.json", cwd=folder)
    for name in ("val", "test", "spare"):
        run("calibrate", "apply", f"{name}.parquet", "gap2.json", *BASIC, "-o", f"{name}_cal.parquet", cwd=folder)
    reused = run("sets", "fit", "val_cal.parquet", "-o", "s.json", cwd=folder)
    assert reused.returncode == 3
    assert "500 of the 500 rows have fitted the calibrator" in reused.stderr
    result = run("sets", "fit", "spare_cal.parquet", "--alpha", "0.1", "-o", "s.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    result = run("sets", "apply", "test_cal.parquet", "s.json", "-o", "sets.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    coverage = float(result.stdout.split("coverage ")[1].split("%")[0])
    assert 85 < coverage < 97
    sets = pd.read_csv(folder / "sets.csv")
    assert len(sets) == 800
    place = {name: k for k, name in enumerate(CLASSES)}
    assert (sets["highest"].map(place) - sets["lowest"].map(place) + 1 == sets["size"]).all()
    again = run("sets", "apply", "spare_cal.parquet", "s.json", "-o", "x.csv", cwd=folder)
    assert again.returncode == 3
    assert "have fitted these sets" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["calibrate", "fit", "val.parquet", *BASIC, "--method", "gapp", "-o", "x.json"], 2, "Did you mean 'gap'"),
        (["calibrate", "fit", "absent.parquet", *BASIC, "-o", "x.json"], 2, "there is no such file"),
        (["calibrate", "fit", "val.parquet", *BASIC, "-o", "val.parquet"], 2, "is an input"),
        (["calibrate", "apply", "test.parquet", "val.parquet", *BASIC, "-o", "x.csv"], 3, "not a JSON file"),
        (["calibrate", "compare", "val.parquet", *BASIC, "--report", "x.html"], 2, "needs --test"),
        (["sets", "fit", "val.parquet", *BASIC, "--alpha", "2", "-o", "x.json"], 3, "alpha: expected a number"),
    ],
)
def test_mistakes_are_one_line(arguments, code, message, folder):
    result = run(*arguments, cwd=folder)
    assert result.returncode == code, result.stdout + result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_other_classes_are_refused(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "--method", "temperature", "-o", "t2.json", cwd=folder)
    data = pd.read_parquet(folder / "test.parquet").rename(columns={"z_none": "z_well"}).drop(columns="grade")
    data.to_parquet(folder / "other.parquet")
    result = run("calibrate", "apply", "other.parquet", "t2.json", "--logits", "z_*", "-o", "x.csv", cwd=folder)
    assert result.returncode == 3
    assert "its classes are well, mild" in result.stderr


def test_a_csv_needs_to_be_told_the_calibrator(folder):
    named = (*BASIC, "--id", "image")
    run("calibrate", "fit", "val.parquet", *named, "--method", "temperature", "-o", "t2.json", cwd=folder)
    moved = run("calibrate", "apply", "val.parquet", "t2.json", *named, "-o", "v.csv", cwd=folder)
    assert "a CSV file cannot tell" in " ".join(moved.stdout.split())
    reading = ("--label", "label", "--logits", "logit_*", "--id", "id")
    told = run("sets", "fit", "v.csv", *reading, "--calibrator", "t2.json", "-o", "s2.json", cwd=folder)
    assert told.returncode == 3
    assert "500 of the 500 rows (first: id 'val0') have fitted the calibrator" in told.stderr


def test_compare_refuses_a_test_file_with_the_same_rows(folder):
    told = run("calibrate", "compare", "val.parquet", "--test", "val.parquet", *BASIC, cwd=folder)
    assert told.returncode == 3
    assert "500 of the 500 rows of val.parquet are in val.parquet too" in told.stderr


def test_a_wrong_id_column_is_told(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "--method", "temperature", "-o", "t3.json", cwd=folder)
    run("calibrate", "apply", "spare.parquet", "t3.json", *BASIC, "-o", "s3.parquet", cwd=folder)
    told = run("sets", "fit", "s3.parquet", "--id", "nonsense", "-o", "s3.json", cwd=folder)
    assert told.returncode == 3
    assert "'nonsense'" in told.stderr
