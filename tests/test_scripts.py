"""Scripts of benchmarks/ and tools/: they can be imported and have a docstring."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.parent.name}/{script.name}")
def test_script_can_be_imported(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    names = runpy.run_path(str(script), run_name="imported")
    assert names["__doc__"]
