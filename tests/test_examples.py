"""Every example runs as it stands, and shows what it promises."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HANGS = 1800  # seconds: a bound on a hang, not on the machine
STUDY = Path(__file__).parents[1] / "benchmarks" / "calibration_study.py"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
PROMISED = {
    "huggingface_trainer": "words grades without reading trained mae rps unimodality wonderful",
    "lightning_module": "ce orcu accuracy mae sce rps unimodality",
    "onnx_export": "one file classes largest difference softmax SCE RPS unimodal lecturer",
    "serve_fastapi": "north none mild severe largest difference status 422 Field required",
    "skorch_classifier": "ce orcu accuracy MAE SCE unimodal RPS scale",
    "three_losses": "LEV SWD ESL ERA ce sord orcu accuracy MAE ECE SCE unimodal report.html",
    "torchmetrics_loop": "epoch val_accuracy val_sce val_unimodality state bits True",
}


@pytest.mark.examples
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    if example.stem == "serve_fastapi":
        needs_fastapi()
    result = subprocess.run(
        [sys.executable, example], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=HANGS
    )
    assert result.returncode == 0, result.stderr
    for word in PROMISED[example.stem].split():
        assert word in result.stdout


@pytest.mark.examples
def test_serve_fastapi_of_a_folder_equals_its_onnx_file(tmp_path):
    needs_fastapi()
    from fastapi.testclient import TestClient

    from orcu.integrations.onnx import model_to_onnx
    from orcu.training.experiment import train

    rng = np.random.default_rng(0)
    ages, sites = rng.uniform(20, 80, 200), rng.choice(["n", "s"], 200)
    grades = np.digitize(ages + rng.normal(scale=8, size=200), [40, 60])
    lines = [f"{age},{site},{grade}\n" for age, site, grade in zip(ages, sites, grades, strict=True)]
    (tmp_path / "table.csv").write_text("age,site,grade\n" + "".join(lines))
    options = {"file": "table.csv", "label": "grade"}
    train("table", tmp_path / "model", root=tmp_path, options=options, estimators=["linear"], cv=2)
    create_app = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "serve_fastapi.py"))["create_app"]
    clients = [
        TestClient(create_app(path))
        for path in (tmp_path / "model", model_to_onnx(tmp_path / "model", tmp_path / "model.onnx"))
    ]
    rows = [{"age": 30.5, "site": "n"}, {"age": 70, "site": "s"}]
    replies = [client.post("/predict", json=rows).json() for client in clients]
    assert replies[0]["classes"] == replies[1]["classes"] == ["0", "1", "2"]
    np.testing.assert_allclose(replies[0]["probs"], replies[1]["probs"], atol=1e-9)
    assert np.argmax(replies[0]["probs"], axis=1).tolist() == [0, 2]
    for client in clients:
        assert client.post("/predict", content='[{"age": 1e999, "site": "n"}]').status_code == 422
        assert client.post("/predict", json=rows * 501).status_code == 422


def needs_fastapi():
    for package in ("fastapi", "httpx2"):
        pytest.importorskip(package, reason=f"pip install {package}")


@pytest.mark.slow
def test_the_calibration_study_runs(tmp_path):
    result = subprocess.run(
        [sys.executable, STUDY, "--quick"], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=HANGS
    )
    assert result.returncode == 0, result.stderr
    for word in ("LEV", "ce", "sord", "orcu", "gap+projection", "ordinal_dirichlet"):
        assert word in result.stdout
