"""What pip would bring: the extras are all described, and resolve on every system and Python."""

import re
import subprocess
import sys
import tomllib

import pytest
from wheels import ROOT, UV, VERSIONS

sys.path.insert(0, str(ROOT / "tools"))
import extras

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_extra_has_a_line_with_its_size():
    expected = {extra for extra in PROJECT["optional-dependencies"] if extra != "dev"}
    assert set(extras.PURPOSE) - {""} == expected
    page = (ROOT / "docs" / "install.md").read_text()
    lines = dict(re.findall(r"^\| `orcu(?:\[(\w+)\])?` .* \| +([\d,]+) \| [\d, ]*\|$", page, re.MULTILINE))
    assert lines.keys() == set(extras.PURPOSE)
    megabytes = {extra: int(size.replace(",", "")) for extra, size in lines.items()}
    assert 0 < megabytes[""] < megabytes["train"] < megabytes["all"]
    assert re.search(r"Measured on \d{4}-\d\d-\d\d .* by `python tools/extras.py --write`", page)


def test_all_brings_what_it_says():
    everything = set(re.findall(r"\w+", PROJECT["optional-dependencies"]["all"][0])) - {"orcu"}
    assert everything == set(extras.PURPOSE) - {"", "inspect", "mlflow", "deepeval", "all"}


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("system", ["linux", "macos", "windows"])
@pytest.mark.parametrize("extra", ["", "train", "all"])
def test_it_resolves_on_every_system(extra, system, version, tmp_path):
    command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:"] if extra != "all" else []  # skordinal has wheels for Linux alone
    command += ["--python-platform", system, "--python-version", version, ROOT / "pyproject.toml"]
    command += ["--extra", extra] if extra else []
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=tmp_path)
    if done.returncode and re.search("fetch|connect|dns", done.stderr, re.IGNORECASE):
        pytest.skip("the package index cannot be reached: no network")
    assert done.returncode == 0, done.stderr
    names = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert {"numpy", "scipy", "pyarrow", "scikit-learn"} <= names
    assert ("torch" in names) == (extra in {"train", "all"})
    assert system == "linux" or not [name for name in names if name.startswith("nvidia-")]
