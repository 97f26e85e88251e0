"""Runs of the ``orcu`` command for tests: in this process, or in a new process where that matters."""

import contextlib
import io
import os
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from unittest import mock

from orcu.cli import main

ORCU = Path(sys.executable).with_name("orcu")


def run(*arguments, cwd=None, width=100):
    """Run ``orcu ARGUMENTS`` in this process; returns exit code and output as a shell would see them."""
    environment = _environment(cwd, width)
    command = ["orcu", *map(str, arguments)]
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    folder = contextlib.nullcontext() if cwd is None else contextlib.chdir(cwd)
    process = mock.patch.multiple(sys, argv=command, **streams)
    with mock.patch.dict(os.environ, environment, clear=True), process, folder, warnings.catch_warnings():
        warnings.simplefilter("default")  # printed, as in a shell
        code = _exit_code()
    for stream in streams.values():
        stream.flush()
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in streams.values())
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def run_process(*arguments, cwd=None, width=100):
    """Run ``orcu ARGUMENTS`` in a new process."""
    return subprocess.run(
        [ORCU, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, env=_environment(cwd, width)
    )


def plain(text):
    """The text on one line, without the box that typer draws around usage errors."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def assert_usage_error(result, *words):
    """Exit code 2, the usage of the command, a message with these words, no output."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Usage: orcu" in result.stderr
    _assert_message(result, words)


def assert_data_error(result, *words):
    """Exit code 3, one line that starts with "error:" and has these words."""
    assert result.returncode == 3, result.stdout + result.stderr
    errors = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1, result.stderr
    assert errors[0].startswith("error: ")
    _assert_message(result, words)


def _assert_message(result, words):
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in plain(result.stderr)


def _environment(cwd, width):
    """The environment without ORCU_* variables; a run in a folder has that folder as its home."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ORCU_")}
    variables |= {"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    return variables if cwd is None else variables | {"HOME": str(cwd)}


def _exit_code():
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
