"""The scripts beside the package: what they import is there, and each says how it is called."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.parent.name}/{script.name}")
def test_a_script_imports_what_is_there(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    names = runpy.run_path(str(script), run_name="imported")
    assert names["__doc__"]
