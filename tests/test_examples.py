"""Every example runs as it stands, and shows what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[1] / "benchmarks" / "calibration_study.py"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
PROMISED = {
    "three_losses": "LEV SWD ESL ERA ce sord orcu accuracy MAE ECE SCE unimodal report.html"
}


@pytest.mark.examples
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    result = subprocess.run(
        [sys.executable, example],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    for word in PROMISED[example.stem].split():
        assert word in result.stdout


@pytest.mark.slow
def test_the_calibration_study_runs(tmp_path):
    result = subprocess.run(
        [sys.executable, STUDY, "--quick"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    for word in ("LEV", "ce", "sord", "orcu", "gap+projection", "ordinal_dirichlet"):
        assert word in result.stdout
