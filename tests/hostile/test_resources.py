"""Requests that would exhaust memory or time, names that are too long, and damaged models: an error, not a crash."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from command import run

from orcu import Predictions, bench, calibrators, resampling
from orcu.errors import InputError

READING = ("--label", "y", "--probs", "p_*")
LONG = "n" * 300


@pytest.fixture
def folder(tmp_path):
    """A good file of predictions with ids that are spreadsheet formulas."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.dirichlet(np.ones(3), size=50), columns=["p_0", "p_1", "p_2"])
    frame = frame.assign(y=rng.integers(3, size=50), id=[f"=cmd|'{k}'" for k in range(50)], site=[LONG, "NA"] * 25)
    frame.to_csv(tmp_path / "good.csv", index=False)
    return tmp_path


# options of `orcu evaluate good.csv` -> exit code, and a part of the message
EXCESSIVE_OPTIONS = {
    "too many bins": (["--n-bins", 10**9], 3, "1 to 10,000"),
    "no bins": (["--n-bins", 0], 2, ""),
    "a negative seed": (["--seed", -1], 2, "--seed"),
    "negative resamples": (["--n-resamples", -5], 2, "--n-resamples"),
    "too many resamples": (["--n-resamples", 10**12], 3, "n_resamples"),
    "a report with a long name": (["--report", f"{LONG}.html"], 2, f"{LONG}.html"),
    "a report in a missing folder": (["--report", "nowhere/x.html"], 2, "nowhere"),
    "a missing column": (["--subgroup", LONG], 3, f"no column '{LONG}'"),
    "an infinite bound": (["--fail-if", f"sce>{'9' * 400}"], 2, "sce>999"),
    "an unknown metric": (["--fail-if", "speed>1"], 2, "speed"),
}


@pytest.mark.parametrize("name", EXCESSIVE_OPTIONS)
def test_evaluate_with_excessive_options_fails_with_a_message(name, folder):
    options, code, message = EXCESSIVE_OPTIONS[name]
    result = run("evaluate", "good.csv", *READING, *options, cwd=folder, width=900)
    assert result.returncode == code, result.stdout + result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_evaluate_accepts_subgroups_with_long_names_or_called_na(folder):
    result = run("evaluate", "good.csv", *READING, "--subgroup", "site", "--json", "out.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert set(json.loads((folder / "out.json").read_text())["subgroups"]) == {LONG, "NA"}


@pytest.mark.slow
def test_evaluate_many_classes_takes_bounded_memory_and_time(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.dirichlet(np.ones(1000), size=50), columns=[f"p_{k}" for k in range(1000)])
    frame.assign(y=rng.integers(1000, size=50)).to_csv(tmp_path / "wide.csv", index=False)
    result = run("evaluate", "wide.csv", *READING, "--report", "wide.html", "--json", "wide.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    evaluation = json.loads((tmp_path / "wide.json").read_text())
    assert evaluation["bootstrap"]["n_resamples"] * 1000**2 <= resampling.MAX_CELLS
    assert len(evaluation["per_class"]) == 1000
    page = (tmp_path / "wide.html").read_text()
    assert "of 1000 classes" in page
    assert page.count("<svg") < 50
    assert len(page) < 4_000_000


def test_evaluate_folder_with_a_missing_weight_column_names_the_file(folder):
    frame = pd.read_csv(folder / "good.csv")
    (folder / "parts").mkdir()
    frame.assign(w=1.0).to_parquet(folder / "parts" / "a.parquet")
    frame.to_parquet(folder / "parts" / "b.parquet")
    result = run("evaluate", "parts", *READING, "--sample-weight", "w", cwd=folder, width=300)
    assert result.returncode == 3
    assert "b.parquet: there is no column 'w'" in result.stderr


def test_calibrate_apply_escapes_formulas(folder):
    rng = np.random.default_rng(0)
    calibrators.create("temperature").fit(rng.normal(size=(50, 3)), rng.integers(3, size=50)).save(folder / "t.json")
    apply = ("calibrate", "apply", "good.csv", "t.json", "-o", "out.csv", "--id", "id", *READING)
    assert run(*apply, cwd=folder).returncode == 0
    assert pd.read_csv(folder / "out.csv")["id"][0] == "=cmd|'0'"
    assert run(*apply, "--escape-formulas", cwd=folder).returncode == 0
    escaped = pd.read_csv(folder / "out.csv")
    assert escaped["id"][0] == "'=cmd|'0'"
    assert escaped["p_0"].dtype == np.float64


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
@pytest.mark.parametrize("name", ["temperature", "vector", "gap", "ordinal_dirichlet", "dirichlet", "gap+projection"])
def test_calibrators_extreme_logits_give_distributions(name):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    z[5] = [1e308, -1e308, 0]
    for fitted in (calibrators.create(name).fit(z, y), calibrators.create(name).fit(z[10:], y[10:])):
        probs = fitted.predict_proba(z)
        assert np.isfinite(probs).all()
        assert probs.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("prepared", ["../x", "/tmp/x", "a/b", ".."])
def test_plan_rejects_paths_outside_the_store(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(
        f'name = "s"\nlosses = ["ce"]\n[[data]]\nset = "lev"\nprepared = "{prepared}"\n', encoding="utf-8"
    )
    with pytest.raises(InputError, match="prepared"):
        bench.plan("spec.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a trained model, and a table of new rows."""
    where = tmp_path_factory.mktemp("trained")
    result = run("train", "--data", "lev", "-o", "model", "--set", "epochs=1", cwd=where)
    assert result.returncode == 0, result.stderr
    columns = json.loads((where / "model" / "model.json").read_text())["columns"]
    pd.DataFrame({column["name"]: [1.0, 2.0] for column in columns}).to_csv(where / "new.csv", index=False)
    assert run("predict", "model", "new.csv", "-o", "out.csv", cwd=where).returncode == 0
    return where


def cut(share):
    return lambda content: content[: int(share * len(content))]


def changed(**fields):
    """Other entries in a model.json without SHA-256, as of orcu 0.2."""

    def change(content):
        entries = {key: value for key, value in json.loads(content).items() if key not in ("files", "sha256")}
        return json.dumps(entries | {"version": 1} | fields).encode()

    return change


# file, damage, and a part of the message
DAMAGED_MODELS = {
    "no weights left": ("model.safetensors", cut(0), "model.safetensors"),
    "half the weights": ("model.safetensors", cut(0.5), "model.safetensors"),
    "other weights": ("model.safetensors", lambda content: content[:8] + b"x" + content[9:], "model.safetensors"),
    "no plan left": ("model.json", cut(0), "model.json"),
    "half the plan": ("model.json", cut(0.5), "model.json"),
    "a plan that is a list": ("model.json", lambda content: b"[]", "JSON"),
    "another version": ("model.json", changed(version=9), "version"),
    "a changed entry": (
        "model.json",
        lambda content: content.replace(b'"frozen": false', b'"frozen": true'),
        "SHA-256",
    ),
    "another kind": ("model.json", changed(kind="sounds"), "kind"),
    "another head": ("model.json", changed(head="../x"), "head"),
    "endless layers": ("model.json", changed(hidden_layer_sizes=[10**12]), "hidden_layer_sizes"),
    "other layers": ("model.json", changed(hidden_layer_sizes=[3]), "model.safetensors"),
    "one class": ("model.json", changed(classes=["a"]), "classes"),
    "other classes": ("model.json", changed(classes=["a", "b"]), "start value for each class"),
    "columns that are none": ("model.json", changed(columns=[{"name": 3}]), "columns"),
    "no calibrator left": ("calibrator.json", cut(0), "calibrator.json"),
    "half the calibrator": ("calibrator.json", cut(0.5), "calibrator.json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED_MODELS)
def test_predict_with_a_damaged_model_fails_and_writes_nothing(name, trained, tmp_path):
    file, damage, message = DAMAGED_MODELS[name]
    shutil.copytree(trained / "model", tmp_path / "model")
    (tmp_path / "model" / file).write_bytes(damage((tmp_path / "model" / file).read_bytes()))
    shutil.copy(trained / "new.csv", tmp_path)
    result = run("predict", "model", "new.csv", "-o", "out.csv", cwd=tmp_path, width=600)
    assert result.returncode == 3, result.stdout + result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
def test_predict_with_a_missing_calibrator_fails_and_writes_nothing(trained, tmp_path):
    shutil.copytree(trained / "model", tmp_path / "model")
    (tmp_path / "model" / "calibrator.json").unlink()
    result = run("predict", "model", trained / "new.csv", "-o", "out.csv", cwd=tmp_path, width=300)
    assert result.returncode == 3
    assert "calibrator.json" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_write_parquet_does_not_escape_formulas(tmp_path):
    Predictions(probs=[[0.5, 0.5]], ids=["=cmd"]).write(tmp_path / "x.parquet", escape_formulas=True)
    assert Predictions.read(tmp_path / "x.parquet").ids.tolist() == ["=cmd"]
