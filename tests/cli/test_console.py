"""Printed output of all commands: no control characters from names in files, one way to print, closed pipes."""

import ast
import errno
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
from command import ORCU, _environment, assert_data_error, assert_usage_error, plain, run

from orcu import Predictions, cli
from orcu.cli.console import PIPE_CLOSED, escape, printable

HOSTILE = "north\x1b[2J\x1b[H\n::error::x\r\x9b1m\u202e\x07"
SHOWN = r"north\x1b[2J\x1b[H\n::error::x\r\x9b1m\u202e\x07"
READING = ("--label", "y", "--probs", "p_*", "--classes", f"low,{HOSTILE},high")


def assert_harmless(result):
    """No control characters, and no line that a CI system would execute."""
    output = result.stdout + result.stderr
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", output), repr(output)
    assert not any(line.strip().startswith("::error::x") for line in output.splitlines()), output
    assert "Traceback" not in output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Predictions whose file name, class, subgroups, clusters and ids have control characters."""
    where = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    y = rng.choice(["low", HOSTILE, "high"], size=120)
    for name in ("first", "second"):
        probs = rng.dirichlet(np.ones(3), size=120)
        frame = pd.DataFrame(probs, columns=["p_low", f"p_{HOSTILE}", "p_high"])
        site, ids = [HOSTILE, "south"] * 60, [f"{HOSTILE}{name}{k}" for k in range(120)]
        frame.assign(y=y, site=site, id=ids).to_parquet(where / f"{name}{HOSTILE.replace('/', '')}.parquet")
    return where


def file_of(folder, name):
    return next(path.name for path in folder.iterdir() if path.name.startswith(name))


def test_printable_escapes_control_characters_and_surrogates():
    assert printable(HOSTILE) == SHOWN
    assert printable("a\tb\n", keep="\n") == "a\\tb\n"
    assert printable("\ud800x") == r"\ud800x"
    assert printable("Größe 東京 😀 نص") == "Größe 東京 😀 نص"
    assert escape("[red]\x1b") == r"\[red]\x1b"


@pytest.mark.parametrize("form", ["text", "github", "junit"])
def test_evaluate_hostile_names_are_escaped(form, folder, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    first, second = file_of(folder, "first"), file_of(folder, "second")
    options = ("--subgroup", "site", "--n-resamples", "30", "--fail-if", "*: sce>0.01", "--format", form)
    result = run("evaluate", first, *READING, *options, "--json", f"{HOSTILE}.json", cwd=folder, width=300)
    assert result.returncode == 4, result.stderr
    assert_harmless(result)
    compared = run("evaluate", first, second, *READING, "--n-resamples", "0", "--format", form, cwd=folder)
    assert compared.returncode == 0, compared.stderr
    assert_harmless(compared)
    (folder / f"{HOSTILE}.json").unlink()


def test_commands_on_hostile_files_print_no_control_characters(folder, tmp_path):
    first, second = file_of(folder, "first"), file_of(folder, "second")
    out = tmp_path / f"out{HOSTILE.replace('/', '')}"
    commands = [
        ("calibrate", "fit", first, *READING, "--subgroup", "site", "-o", f"{out}.json", "--calibrator", "temperature"),
        ("calibrate", "apply", second, f"{out}.json", *READING, "--subgroup", "site", "-o", f"{out}.csv"),
        ("calibrate", "compare", first, *READING, "--test", second),
        ("sets", "fit", first, *READING, "-o", f"{out}.sets.json"),
        ("sets", "apply", second, f"{out}.sets.json", *READING, "--subgroup", "site", "-o", f"{out}.sets.csv"),
        ("decide", second, *READING, "-o", f"{out}.d.csv"),
        ("monitor", "add", second, *READING, "--log", f"{out}.log", "--day", "2026-01-05"),
        ("monitor", "check", f"{out}.log"),
        ("explore", "--no-open", "-o", f"{out}.html"),
    ]
    for command in commands:
        result = run(*command, cwd=folder, width=250)
        assert result.returncode in (0, 4), (command, result.stdout, result.stderr)
        assert_harmless(result)


def all_commands(command, path=()):
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from all_commands(inner, (*path, name))
    else:
        yield path, command


COMMANDS = dict(all_commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_escapes_hostile_arguments(path, tmp_path):
    if path in {("theory",), ("data", "list"), ("data", "table"), ("bench", "list")}:
        pytest.skip("takes no name")
    arguments = []
    for parameter in COMMANDS[path].params:
        if parameter.param_type_name == "argument":
            arguments.append(HOSTILE)
        elif parameter.required:
            arguments += [parameter.opts[0], HOSTILE]
    for extra in ([], [f"--{HOSTILE}"], [HOSTILE, HOSTILE]):
        result = run(*path, *arguments, *extra, cwd=tmp_path)
        assert_harmless(result)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "orcu-explore.html"])


def test_cli_modules_print_only_through_the_console():
    """Other ways to print would not escape names; rich's own escape keeps control characters."""
    forbidden_calls = {"print", "echo_via_pager", "secho", "Console", "write_text_to_stdout"}
    for path in sorted(Path(cli.__file__).parent.glob("*.py")):
        if path.name == "console.py":
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {"rich.markup", "rich.console", "rich.text", "rich"}, where
            elif isinstance(node, ast.Import):
                assert not {name.name for name in node.names} & {"rich", "logging"}, where
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called.rpartition(".")[2] not in forbidden_calls, where
                assert called not in {"typer.echo", "click.echo"}, where
                assert not re.search(r"\b(stdout|stderr)\.(write|buffer)", called), where
                assert not called.endswith(".console.print"), where


def write_inputs(where):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        probs = rng.dirichlet(np.ones(3), size=60)
        Predictions(probs=probs, y=rng.integers(3, size=60)).write(where / f"{name}.parquet")
    fit = ("calibrate", "fit", "a.parquet", "--calibrator", "temperature", "-o", "t.json")
    assert run(*fit, cwd=where).returncode == 0
    assert run("sets", "fit", "a.parquet", "-o", "s.json", cwd=where).returncode == 0


WRITING = {
    "calibrate fit": ("calibrate", "fit", "a.parquet", "--calibrator", "temperature", "-o", "OUT.json"),
    "calibrate apply": ("calibrate", "apply", "b.parquet", "t.json", "-o", "OUT.csv"),
    "sets fit": ("sets", "fit", "a.parquet", "-o", "OUT.json"),
    "sets apply": ("sets", "apply", "b.parquet", "s.json", "-o", "OUT.parquet"),
    "decide": ("decide", "b.parquet", "-o", "OUT.csv.gz"),
    "evaluate": ("evaluate", "b.parquet", "--n-resamples", "0", "--json", "OUT.json"),
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_commands_full_disk_is_one_sentence_and_keeps_the_earlier_file(number, tmp_path, monkeypatch):
    write_inputs(tmp_path)

    def fail(self, target):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "replace", fail)  # the last step of every write
    for command in WRITING.values():
        output = next(tmp_path / word for word in command if word.startswith("OUT"))
        output.write_text("earlier")
        result = run(*command, cwd=tmp_path, width=200)
        assert_usage_error(result, output.name, os.strerror(number))
        assert output.read_text() == "earlier"
        assert ".part" not in result.stderr
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("name", WRITING)
def test_command_with_a_file_in_place_of_a_folder_is_one_sentence(name, tmp_path):
    write_inputs(tmp_path)
    command = [word.replace("OUT", "t.json/out") for word in WRITING[name]]
    before = (tmp_path / "t.json").read_bytes()
    result = run(*command, cwd=tmp_path, width=200)
    assert_usage_error(result, "t.json/out")
    assert (tmp_path / "t.json").read_bytes() == before


@pytest.mark.parametrize(("gate", "code"), [("sce>2e-9", 4), ("sce>0.99", PIPE_CLOSED)])
def test_command_whose_output_is_not_read_finishes_quietly(gate, code, tmp_path):
    rng = np.random.default_rng(0)
    Predictions(probs=rng.dirichlet(np.ones(3), size=60), y=rng.integers(3, size=60)).write(tmp_path / "a.parquet")
    command = [str(ORCU), "evaluate", "a.parquet", "--n-resamples", "0", "--fail-if", gate, "--json", "out.json"]
    reader, writer = os.pipe()
    os.close(reader)  # as if `head` had ended
    process = subprocess.run(
        command,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=_environment(tmp_path, 100),
        check=False,
    )
    os.close(writer)
    assert process.returncode == code, process.stderr
    assert process.stderr == ""
    assert json.loads((tmp_path / "out.json").read_text())["rows"] == 60


def test_warning_with_control_characters_is_escaped(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda **_: __import__("warnings").warn(HOSTILE, stacklevel=1))
    result = run("x")
    assert f"warning: {SHOWN}" in plain(result.stderr)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("evaluate", "a.parquet", "--json", "x.pdf"), ["x.pdf", "JSON", ".json"]),
        (("calibrate", "fit", "a.parquet", "-o", "x.csv"), ["x.csv", "JSON"]),
        (("sets", "fit", "a.parquet", "-o", "x.parquet"), ["x.parquet", "JSON"]),
        (("decide", "a.parquet", "-o", "x.json"), ["x.json", ".parquet, .csv"]),
    ],
)
def test_output_with_the_ending_of_another_format_is_a_usage_error(command, words, tmp_path):
    result = run(*command, cwd=tmp_path, width=200)
    assert result.returncode == 2
    (tmp_path / "a.parquet").write_bytes(b"not read: names are checked first")
    assert_usage_error(run(*command, cwd=tmp_path, width=200), *words)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_evaluate_file_name_that_is_not_utf8_is_a_data_error(suffix, tmp_path):
    name = os.fsdecode(b"caf\xe9") + suffix
    rng = np.random.default_rng(0)
    Predictions(probs=rng.dirichlet(np.ones(3), size=60), y=rng.integers(3, size=60)).write(tmp_path / "a.parquet")
    try:
        (tmp_path / "a.parquet").rename(tmp_path / name)
    except OSError:
        pytest.skip("the file system does not take such names")
    result = run("evaluate", name, "--n-resamples", "0", cwd=tmp_path)
    assert_data_error(result, rf"caf\udce9{suffix}: the path is not valid UTF-8; rename")


def test_command_prints_where_the_encoding_lacks_characters(tmp_path):
    environment = _environment(tmp_path, 100) | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run([ORCU, "theory"], capture_output=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert b"30 passed" in result.stdout
