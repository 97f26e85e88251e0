"""The wheel: it installs into an empty environment on every Python, with and without torch, and does its work there."""

import tomllib
import zipfile

import pytest
from wheels import ROOT, VERSIONS, build, installed, interpreter, run

import orcu

JUDGING = """
import sys, pathlib, numpy as np, orcu
from orcu import evaluate, metrics
from orcu.calibrators import create
rng = np.random.default_rng(0)
z = rng.normal(size=(400, 4)); y = rng.integers(4, size=400)
evaluation = evaluate(logits=z, y=y, n_resamples=50)
assert 0 < evaluation["sce"].value < 1 and "<html" in evaluation.to_html()
assert metrics.unimodality(create("gap+projection").fit(z, y).predict_proba(z)) == 1
assert "torch" not in sys.modules
try:
    orcu.ORCULoss
except orcu.MissingExtraError as error:
    assert "orcu[train]" in str(error)
else:
    raise AssertionError("torch is here")
rows = ["y,p_0,p_1"] + [f"{k % 2},{p:.3f},{1 - p:.3f}" for k, p in enumerate(rng.random(200))]
pathlib.Path("preds.csv").write_text(chr(10).join(rows))
"""

TRAINING = """
import torch, numpy as np
from orcu import ORCULoss, OrdinalClassifier, metrics
z = torch.zeros(8, 5, requires_grad=True)
ORCULoss(num_classes=5)(z, torch.arange(8) % 5).backward()
assert torch.isfinite(z.grad).all()
rng = np.random.default_rng(0)
x = rng.normal(size=(500, 3)); y = np.digitize(x[:, 0] + rng.normal(size=500), [-1, 1])
model = OrdinalClassifier(hidden_layer_sizes=(8,), epochs=2, scale=3.0, random_state=0).fit(x, y)
assert metrics.unimodality(model.predict_proba(x)) == 1
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_what_is_in_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith(f"orcu-{orcu.__version__}-py3-none-any")
    assert len(list(wheel.parent.glob("*.tar.gz"))) == 1
    for needed in (
        "orcu/py.typed",
        "orcu/bench/configs/demo.toml",
        "orcu/bench/configs/results_tables.toml",
        "orcu/bench/paper_results.csv",
        "orcu/explore/model.js",
        f"orcu-{orcu.__version__}.dist-info/licenses/LICENSE",
    ):
        assert needed in names
    assert any(name.startswith("orcu/report/") and name.endswith(".j2") for name in names)
    strange = [name for name in names if not name.startswith(("orcu/", f"orcu-{orcu.__version__}.dist-info/"))]
    assert not strange
    assert wheel.stat().st_size < 2_000_000


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_judging_half_in_an_empty_environment(version, wheel, tmp_path):
    python = installed(wheel, tmp_path, python=interpreter(version))
    run(python, "-I", "-c", JUDGING, cwd=tmp_path)
    command = python.with_name("orcu")
    assert run(command, "--version", cwd=tmp_path).stdout.strip().endswith(orcu.__version__)
    judged = run(command, "evaluate", "preds.csv", "--label", "y", "--probs", "p_*", "--report", "r.html", cwd=tmp_path)
    assert "sce" in judged.stdout.lower()
    assert (tmp_path / "r.html").stat().st_size > 10_000
    run(command, "explore", "-o", "page.html", "--no-open", cwd=tmp_path)
    told = run(command, "bench", "plan", "demo", cwd=tmp_path, check=False)
    assert "Traceback" not in told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_training_half_in_an_empty_environment(version, wheel, tmp_path):
    python = installed(wheel, tmp_path, "[train]", python=interpreter(version))
    run(python, "-I", "-c", TRAINING, cwd=tmp_path)


def test_the_versions_of_python_that_are_promised_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert tuple(said) == VERSIONS
    assert project["requires-python"] == f">={VERSIONS[0]}"
