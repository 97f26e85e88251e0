"""The command line in a process of its own, as a user's shell runs it."""

import os
import subprocess
import sys
from pathlib import Path

ORCU = Path(sys.executable).with_name("orcu")


def run(*arguments, cwd=None, width=100):
    """``orcu ARGUMENTS`` in an environment without the tester's own settings."""
    env = {"COLUMNS": str(width), "PATH": os.defpath, "PYTHONIOENCODING": "utf-8"}
    if cwd is not None:
        env["HOME"] = str(cwd)
    return subprocess.run([ORCU, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, env=env)
