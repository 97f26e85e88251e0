"""The command line as a test runs it: in this process, or in one of its own where the process is the point."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from unittest import mock

from orcu.cli import main

ORCU = Path(sys.executable).with_name("orcu")


def run(*arguments, cwd=None, width=100):
    """``orcu ARGUMENTS`` in this process: its exit code and what it printed, as a shell would see them."""
    settings = _environment(cwd, width)
    command = ["orcu", *map(str, arguments)]
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    where = contextlib.nullcontext() if cwd is None else contextlib.chdir(cwd)
    process = mock.patch.multiple(sys, argv=command, **streams)
    with mock.patch.dict(os.environ, settings, clear=True), process, where, warnings.catch_warnings():
        warnings.simplefilter("default")  # printed, as in a shell
        code = _exit_code()
    for stream in streams.values():
        stream.flush()
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in streams.values())
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def run_process(*arguments, cwd=None, width=100):
    """``orcu ARGUMENTS`` in a process of its own."""
    return subprocess.run(
        [ORCU, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, env=_environment(cwd, width)
    )


def _environment(cwd, width):
    """The tester's environment without settings of orcu's; a process in a folder has it as its home."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ORCU_")}
    settings |= {"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    return settings if cwd is None else settings | {"HOME": str(cwd)}


def _exit_code():
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
