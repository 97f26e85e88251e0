"""The wheel of this work tree, and environments of nothing but it and what it needs."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
VERSIONS = ("3.11", "3.12", "3.13")  # of the classifiers in pyproject.toml


def run(*command, cwd, check=True):
    # Not the work tree's environment: nothing but the wheel may be found.
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def build(out):
    """The wheel and the source archive, in a folder; the wheel's path."""
    pytest.importorskip("build")
    done = run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", out, ROOT, cwd=out, check=False)
    if done.returncode and "fetch" in done.stderr.lower():
        pytest.skip("the build's own requirements cannot be fetched: no network")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@functools.cache
def interpreter(version):
    """A Python of this version, such as "3.12": the tests' own, one on the path, or one of pyenv."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        if run(candidate, "-c", "", cwd=ROOT, check=False).returncode == 0:  # a shim may lead nowhere
            return str(candidate)
    pytest.skip(f"there is no Python {version} on this machine")


def installed(wheel, folder, extra="", python=sys.executable):
    """The Python of a fresh environment in a folder, with the wheel and what it needs."""
    run(UV, "venv", "--quiet", "--python", python, folder / "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    command = [UV, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "constraints.txt"]
    done = run(*command, f"orcu{extra} @ {wheel.as_uri()}", cwd=folder, check=False)
    if done.returncode and "fetch" in done.stderr.lower():
        pytest.skip("the wheel's requirements cannot be fetched: no network")
    assert done.returncode == 0, done.stderr
    return python
