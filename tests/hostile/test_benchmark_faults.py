"""Faults injected into a benchmark: finished runs are not lost, damaged runs are not reported as finished."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import run, run_process

from conftest import SPEC
from orcu import bench

KINDS = ("result.json", "timings.json", "test.parquet", "validation.parquet", "curves.parquet", "run.json")


def finished(folder, results=None):
    """Results of all finished runs by run id."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCU_DATA", str(folder / "orcu_data"))
        plan = bench.status(folder / "small.toml", results=results or folder / "results")
    return {run.id: plan.file(run, "result.json").read_bytes() for run in plan.finished}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A complete benchmark: spec, data and results."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "small.toml").write_text(SPEC)
    result = run("bench", "run", "small.toml", "--devices", "cpu", "--jobs", 1, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert len(finished(folder)) == 4
    return folder


@pytest.fixture
def benchmark(reference, tmp_path, monkeypatch):
    """A copy of the benchmark for a test to damage."""
    shutil.copytree(reference, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "orcu_data"))
    return tmp_path


def rerun(folder):
    return run("bench", "run", "small.toml", "--devices", "cpu", "--jobs", 1, cwd=folder, width=300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [0, 0.5])
def test_truncated_result_file_is_detected_and_recomputed(kind, left, benchmark):
    expected = finished(benchmark)
    file = sorted((benchmark / "results" / "runs").glob(f"*/{kind}"))[0]
    content = file.read_bytes()
    file.write_bytes(content[: int(left * len(content))])
    table = run("bench", "table", "small.toml", "--format", "markdown", cwd=benchmark)
    assert table.returncode == 0, table.stderr
    if kind != "timings.json":  # timings.json only has the sizes of the others
        assert len(finished(benchmark)) == len(expected) - 1
        assert "incomplete" in run("bench", "status", "small.toml", cwd=benchmark, width=300).stdout
        assert "1 of 4" in table.stderr.replace("\n", " ")
    result = rerun(benchmark)
    assert result.returncode == 0, result.stderr
    assert finished(benchmark) == expected


def test_lock_with_a_future_time_is_ignored(benchmark):
    expected = finished(benchmark)
    name = sorted(expected)[0]
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / name)
    lock = runs / f"{name}.lock"
    lock.write_text("somebody")
    os.utime(lock, (time.time() + 3600, time.time() + 3600))
    assert rerun(benchmark).returncode == 0
    assert finished(benchmark) == expected


def test_run_that_another_process_seems_to_execute_is_named_and_not_a_failure(benchmark):
    name = sorted(finished(benchmark))[0]
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / name)
    (runs / f"{name}.lock").write_text("a process that was just killed")
    result = rerun(benchmark)
    assert result.returncode == 0
    assert "other processes execute 1 runs" in result.stdout


@pytest.mark.parametrize("left", [0, 0.5])
@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
def test_truncated_checkpoint_restarts_the_training(file, left, benchmark):
    from orcu.bench.execution import execute
    from orcu.training import loop

    expected = finished(benchmark)
    plan = bench.status(benchmark / "small.toml", results=benchmark / "results")
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / plan.runs[0].id)

    class InterruptedTrainingError(BaseException):
        pass

    def interrupt(*arguments, **options):
        save(*arguments, **options)
        raise InterruptedTrainingError

    save = loop.checkpoint.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.checkpoint, "save", interrupt)
        with pytest.raises(InterruptedTrainingError):
            execute(plan.runs[0].job, results=benchmark / "results")
    (path,) = runs.glob(f"*.work.*/training/checkpoint/{file}")
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content))])
    with pytest.warns(UserWarning, match=r"checkpoint: .*damaged"):
        execute(plan.runs[0].job, results=benchmark / "results")
    assert finished(benchmark) == expected


KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import torch
torch.set_num_threads(1)
from orcu import bench

def run_all(folder):
    os.environ["ORCU_DATA"] = str(folder / "orcu_data")
    bench.run(folder / "small.toml", results=folder / "results", jobs=1, devices="cpu")

def benchmark(folder, die_at):
    # Count the changes on disk, and die at one of them.
    count = 0
    def hook(event, arguments):
        nonlocal count
        writes = event in {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime"} or (
            event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa"))
        if writes:
            count += 1
            if count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    run_all(folder)
    return count

run_all(Path(sys.argv[1]))  # import everything once, for all children

for line in sys.stdin:
    folder, die_at = line.rsplit(" ", 1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(benchmark(Path(folder), int(die_at))).encode())
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), os.read(read, 20).decode() or 0, flush=True)
"""


@pytest.mark.slow
def test_killed_at_twenty_points_continues_to_the_same_results(reference, tmp_path):
    expected = finished(reference)

    def copy_without_results(name):
        folder = tmp_path / name
        shutil.copytree(reference, folder)
        shutil.rmtree(folder / "results")
        return folder

    command = [sys.executable, "-c", KILLED, str(copy_without_results("warm"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def killed(folder, die_at):
            server.stdin.write(f"{folder} {die_at}\n")
            server.stdin.flush()
            return map(int, server.stdout.readline().split())

        code, count = killed(copy_without_results("counting"), 0)
        assert code == 0
        assert count > 40
        for number, die_at in enumerate(np.random.default_rng(0).integers(1, count, size=20)):
            folder = copy_without_results(f"killed{number}")
            assert next(killed(folder, die_at)) == -9
            assert finished(folder).items() <= expected.items()
            for lock in (folder / "results").rglob("*.lock"):
                os.utime(lock, (0, 0))  # expired
            assert next(killed(folder, 0)) == 0
            assert finished(folder) == expected
            shutil.rmtree(folder)


def test_full_disk_is_an_error_and_keeps_finished_runs(reference, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options], capture_output=True, text=True, check=False)

    mounted = mount("-t", "tmpfs", "-o", "size=120k", "tmpfs", str(disk)) if shutil.which("mount") else None
    if mounted is None or mounted.returncode:
        pytest.skip("mounting a small disk is not allowed")
    try:
        expected = finished(reference)
        command = ("bench", "run", "small.toml", "--results", disk, "--devices", "cpu", "--jobs", 1)
        result = run(*command, cwd=reference, width=300)
        assert result.returncode == 3, result.stdout + result.stderr
        assert "disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        partial = finished(reference, results=disk)
        assert partial.items() <= expected.items()
        assert mount("-o", "remount,size=50m", str(disk)).returncode == 0
        result = run(*command, cwd=reference, width=300)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"{4 - len(partial)} done" in result.stdout
        assert finished(reference, results=disk) == expected
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_full_disk_fails_every_writer(reference, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full does not exist")
    table = "y,p_0,p_1\n" + "0,0.6,0.4\n1,0.3,0.7\n" * 20
    (tmp_path / "good.csv").write_text(table)
    for option in ("--json", "--report"):
        result = run_process(
            "evaluate", "good.csv", "--label", "y", "--probs", "p_*", option, "/dev/full/x", cwd=tmp_path
        )
        assert result.returncode in {2, 3}
        assert "Traceback" not in result.stderr
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["good.csv"]'
