"""Every example runs as it stands, and shows what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

HANGS = 1800  # seconds: a bound on a hang, not on the machine
STUDY = Path(__file__).parents[1] / "benchmarks" / "calibration_study.py"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
PROMISED = {
    "huggingface_trainer": "words grades without reading trained mae rps unimodality wonderful",
    "lightning_module": "ce orcu accuracy mae sce rps unimodality",
    "onnx_export": "one file classes largest difference softmax SCE RPS unimodal lecturer",
    "skorch_classifier": "ce orcu accuracy MAE SCE unimodal RPS scale",
    "three_losses": "LEV SWD ESL ERA ce sord orcu accuracy MAE ECE SCE unimodal report.html",
    "torchmetrics_loop": "epoch val_accuracy val_sce val_unimodality state bits True",
}


@pytest.mark.examples
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    result = subprocess.run(
        [sys.executable, example], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=HANGS
    )
    assert result.returncode == 0, result.stderr
    for word in PROMISED[example.stem].split():
        assert word in result.stdout


@pytest.mark.slow
def test_the_calibration_study_runs(tmp_path):
    result = subprocess.run(
        [sys.executable, STUDY, "--quick"], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=HANGS
    )
    assert result.returncode == 0, result.stderr
    for word in ("LEV", "ce", "sord", "orcu", "gap+projection", "ordinal_dirichlet"):
        assert word in result.stdout
