"""The package in ``examples/plugin`` installs, is found by its entry points, runs in a spec, keeps the contracts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plugins import EXAMPLE

HANGS = 1800  # seconds: a bound on a hang, not on the machine
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with the installed package on the path, and an empty store; the build needs no network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(EXAMPLE, folder / "source")
    command = [UV, "pip", "install", "--quiet", "--no-deps", "--target", folder / "site", source]
    subprocess.run(command, check=True, timeout=HANGS)
    assert not (folder / "site" / "orcu").exists()
    paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "160"}
    settings |= {"ORCU_DATA": str(folder / "data"), "ORCU_RESULTS": str(folder / "results")}
    return os.environ | settings


def python(*arguments, environment, cwd):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.examples
def test_its_spec_ends_in_a_table_with_its_loss_metric_and_calibrator(environment, tmp_path):
    spec = EXAMPLE / "spec.toml"
    python("-m", "orcu", "bench", "run", spec, environment=environment, cwd=tmp_path)
    table = python("-m", "orcu", "bench", "table", spec, environment=environment, cwd=tmp_path)
    for word in ("expected_distance", "with a barrier", "example_exams", "smoothing", "far_off"):
        assert word in table
    assert "…" not in table


@pytest.mark.examples
def test_its_own_tests_pass(environment, tmp_path):
    tests = shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    passed = python("-m", "pytest", "-q", "-p", "no:cacheprovider", tests, environment=environment, cwd=tmp_path)
    assert "passed" in passed
    assert "skipped" not in passed


@pytest.mark.examples
def test_its_docstrings_are_right(environment, tmp_path):
    site = environment["PYTHONPATH"].split(os.pathsep)[0]
    python(
        "-m",
        "pytest",
        "-q",
        "--doctest-modules",
        "-p",
        "no:cacheprovider",
        Path(site, "orcu_example_plugin"),
        environment=environment,
        cwd=tmp_path,
    )
