"""Faults injected into a benchmark: nothing finished is lost, nothing broken is called finished."""

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
    """The results of all runs that are called finished, by run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCU_DATA", str(folder / "orcu_data"))
        plan = bench.status(folder / "small.toml", results=results or folder / "results")
    return {one.run: plan.file(one, "result.json").read_bytes() for one in plan.finished}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A benchmark that is whole: its spec, data and results."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "small.toml").write_text(SPEC)
    result = run("bench", "run", "small.toml", "--devices", "cpu", "--jobs", 1, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert len(finished(folder)) == 4
    return folder


@pytest.fixture
def benchmark(reference, tmp_path, monkeypatch):
    """A copy of it that may be damaged."""
    shutil.copytree(reference, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "orcu_data"))
    return tmp_path


def again(folder):
    return run("bench", "run", "small.toml", "--devices", "cpu", "--jobs", 1, cwd=folder, width=300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_file_that_was_cut_off_is_seen_and_made_again(kind, left, benchmark):
    whole = finished(benchmark)
    victim = sorted((benchmark / "results" / "runs").glob(f"*/{kind}"))[0]
    content = victim.read_bytes()
    victim.write_bytes(content[: int(left * len(content))])
    table = run("bench", "table", "small.toml", "--format", "markdown", cwd=benchmark)
    assert table.returncode == 0, table.stderr
    if kind != "timings.json":  # which only tells the sizes of the others
        assert len(finished(benchmark)) == len(whole) - 1
        assert "damaged" in run("bench", "status", "small.toml", cwd=benchmark, width=300).stdout
        assert "1 of 4 runs" in table.stderr.replace("\n", " ")
    result = again(benchmark)
    assert result.returncode == 0, result.stderr
    assert finished(benchmark) == whole


def test_a_lock_from_the_future_is_no_lock(benchmark):
    whole = finished(benchmark)
    name = sorted(whole)[0]
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / name)
    lock = runs / f"{name}.lock"
    lock.write_text("somebody")
    os.utime(lock, (time.time() + 3600, time.time() + 3600))
    assert again(benchmark).returncode == 0
    assert finished(benchmark) == whole


def test_the_exit_code_says_that_runs_are_left(benchmark):
    whole = finished(benchmark)
    name = sorted(whole)[0]
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / name)
    (runs / f"{name}.lock").write_text("a process that was killed a moment ago")
    result = again(benchmark)
    assert result.returncode == 1
    assert "1 runs are not finished" in result.stdout


@pytest.mark.parametrize("left", [0, 0.5])
@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
def test_a_checkpoint_that_was_cut_off_starts_the_training_afresh(file, left, benchmark):
    from orcu.bench.execution import execute
    from orcu.training import loop

    whole = finished(benchmark)
    plan = bench.status(benchmark / "small.toml", results=benchmark / "results")
    runs = benchmark / "results" / "runs"
    shutil.rmtree(runs / plan.runs[0].run)

    class CutOffError(BaseException):
        pass

    def cut_off(*arguments, **options):
        save(*arguments, **options)
        raise CutOffError

    save = loop.checkpoint.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.checkpoint, "save", cut_off)
        with pytest.raises(CutOffError):
            execute(plan.runs[0].job, results=benchmark / "results")
    (victim,) = runs.glob(f"*.work.*/training/checkpoint/{file}")
    content = victim.read_bytes()
    victim.write_bytes(content[: int(left * len(content))])
    with pytest.warns(UserWarning, match=r"damaged.*starts afresh"):
        execute(plan.runs[0].job, results=benchmark / "results")
    assert finished(benchmark) == whole


KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import torch
torch.set_num_threads(1)
from orcu import bench

def whole(folder):
    os.environ["ORCU_DATA"] = str(folder / "orcu_data")
    bench.run(folder / "small.toml", results=folder / "results", jobs=1, devices="cpu")

def benchmark(folder, die_at):
    # Count what touches the disk, and die at one of these moments.
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
    whole(folder)
    return count

whole(Path(sys.argv[1]))  # what is imported on the way need not be imported in every child

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
def test_killed_at_twenty_moments(reference, tmp_path):
    whole = finished(reference)

    def fresh(name):
        folder = tmp_path / name
        shutil.copytree(reference, folder)
        shutil.rmtree(folder / "results")
        return folder

    command = [sys.executable, "-c", KILLED, str(fresh("warm"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def killed(folder, die_at):
            server.stdin.write(f"{folder} {die_at}\n")
            server.stdin.flush()
            return map(int, server.stdout.readline().split())

        code, moments = killed(fresh("counting"), 0)
        assert code == 0
        assert moments > 40
        for number, die_at in enumerate(np.random.default_rng(0).integers(1, moments, size=20)):
            folder = fresh(f"killed{number}")
            assert next(killed(folder, die_at)) == -9
            assert finished(folder).items() <= whole.items()  # what is called finished is whole
            for lock in (folder / "results").rglob("*.lock"):
                os.utime(lock, (0, 0))  # a minute later
            assert next(killed(folder, 0)) == 0
            assert finished(folder) == whole
            shutil.rmtree(folder)


def test_a_full_disk_is_told_and_what_is_finished_is_kept(reference, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options], capture_output=True, text=True, check=False)

    made = mount("-t", "tmpfs", "-o", "size=120k", "tmpfs", str(disk)) if shutil.which("mount") else None
    if made is None or made.returncode:
        pytest.skip("a small disk cannot be made here: mounting is not allowed")
    try:
        whole = finished(reference)
        command = ("bench", "run", "small.toml", "--results", disk, "--devices", "cpu", "--jobs", 1)
        result = run(*command, cwd=reference, width=300)
        assert result.returncode == 3, result.stdout + result.stderr
        assert "the disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        kept = finished(reference, results=disk)
        assert kept.items() <= whole.items()
        assert mount("-o", "remount,size=50m", str(disk)).returncode == 0
        result = run(*command, cwd=reference, width=300)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"{4 - len(kept)} done" in result.stdout
        assert finished(reference, results=disk) == whole
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_a_full_disk_stops_every_writer(reference, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    table = "y,p_0,p_1\n" + "0,0.6,0.4\n1,0.3,0.7\n" * 20
    (tmp_path / "good.csv").write_text(table)
    for option in ("--json", "--report"):
        result = run_process(
            "evaluate", "good.csv", "--label", "y", "--probs", "p_*", option, "/dev/full/x", cwd=tmp_path
        )
        assert result.returncode in {2, 3}
        assert "Traceback" not in result.stderr
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["good.csv"]'
