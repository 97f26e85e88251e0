"""Every example runs as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


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
    assert result.stdout.strip()


@pytest.mark.examples
def test_the_demo_compares_three_losses_on_four_tables():
    demo = next(path for path in EXAMPLES if path.stem == "demo")
    result = subprocess.run(
        [sys.executable, demo], capture_output=True, text=True, check=True, timeout=300
    )
    for word in (
        "LEV",
        "SWD",
        "ESL",
        "ERA",
        "ce",
        "sord",
        "orcu",
        "accuracy",
        "MAE",
        "ECE",
        "SCE",
        "unimodal",
    ):
        assert word in result.stdout
