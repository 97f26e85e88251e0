"""The guide to the paper's Table III on a GPU server, with a fake list of GPUs and small images."""

import importlib
import json
import os
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from command import ORCU, assert_data_error, assert_usage_error, run
from safetensors.torch import save_file

from orcu import bench, data
from orcu.bench import checks, probe
from orcu.bench.execution import execute, find_run, run_config
from orcu.bench.jobs import State, jobs
from orcu.bench.run import gpu_numbers, resources, weight_sources
from orcu.bench.spec import load_spec
from orcu.bench.store import Store
from orcu.bench.weights import WeightSources
from orcu.data.store import cache_folder
from orcu.errors import InputError
from orcu.io.files import file_lock
from orcu.models.backbones import ImageBackbone
from orcu.training.run import Run, claim

RUN = importlib.import_module("orcu.bench.run")  # orcu.bench.run is the function
SPEC = """
name = "mini"
losses = ["ce", "recorder.py:Recorder"]
columns = ["accuracy", "sce"]
paper = ["main"]

[[data]]
set = "folder"
prepared = "scans"
folds = [0]
backbone = "resnet18"
size = 32
training = { epochs = 1, batch_size = 8 }
"""
RECORDER = """
import os
from pathlib import Path

from torch import nn


class Recorder(nn.CrossEntropyLoss):
    def __init__(self):
        super().__init__()
        (Path(os.environ["RECORDS"]) / str(os.environ.get("CUDA_VISIBLE_DEVICES"))).touch()
"""


@pytest.fixture
def server(tmp_path, class_folders, monkeypatch):
    """A folder with a spec, prepared images and weights; torch reports the GPUs of CUDA_VISIBLE_DEVICES=2,MIG-41d8."""
    data.prepare("folder", class_folders, output=tmp_path / "orcu_data" / "scans")
    (tmp_path / "mini.toml").write_text(SPEC)
    (tmp_path / "recorder.py").write_text(RECORDER)
    (tmp_path / "records").mkdir()
    torch.manual_seed(0)
    state = ImageBackbone("resnet18", weights="random").body.state_dict()
    (tmp_path / "weights").mkdir()
    torch.save(state, tmp_path / "weights" / "resnet18-f37072fd.pth")
    save_file(state, tmp_path / "resnet18.safetensors")
    monkeypatch.setenv("RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,MIG-41d8")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda gpu: f"Fake {gpu}")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda gpu: SimpleNamespace(total_memory=40_000_000_000))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *arguments: None)
    return tmp_path


@pytest.fixture
def spec(server, monkeypatch):
    """The spec of the server, with its data."""
    monkeypatch.setenv("ORCU_DATA", str(server / "orcu_data"))
    return load_spec(server / "mini.toml")


@pytest.mark.slow
def test_guide_plan_run_resume_and_table(server):
    result = run("bench", "plan", "mini.toml", cwd=server, width=200)
    assert result.returncode == 1
    assert "prevents runs" in result.stdout
    assert "weights: resnet18: the pretrained weights of resnet18 are not on this machine" in result.stdout
    assert "0: Fake 0; 1: Fake 1" in result.stdout
    result = run("bench", "run", "mini.toml", cwd=server)
    assert_data_error(result, "resnet18", "--download", "--weights")
    assert not list((server / "orcu_data" / "scans").glob("cache_*"))  # nothing was decoded before the error

    ready = run("bench", "plan", "mini.toml", "--weights", "weights", cwd=server, width=200)
    assert ready.returncode == 0
    result = run("bench", "run", "mini.toml", "--weights", "weights", cwd=server)
    assert result.returncode == 0, result.stderr
    assert "starting 2 runs, 2 in parallel" in result.stderr
    records = {path.name for path in (server / "records").iterdir()}
    assert records - {"2,MIG-41d8"} <= {"2", "MIG-41d8"}  # the parent checks the loss, a worker sees one GPU
    assert len(records) >= 2

    # Other processes and later calls find the same runs, wherever the weights come from.
    assert "all 2 runs are finished" in run("bench", "run", "mini.toml", "--weights", "weights", cwd=server).stdout
    finished = run("bench", "plan", "mini.toml", cwd=server)
    assert (finished.returncode, "2 finished" in finished.stdout) == (0, True)
    assert "| scans | Recorder" in run("bench", "table", "mini.toml", "--format", "markdown", cwd=server).stdout
    again = run(
        "bench", "plan", "mini.toml", "--weights", "weights", "--set", "training.epochs=2", cwd=server, width=200
    )
    assert "2 pending" in again.stdout
    assert "hours of mini" not in again.stdout


def test_devices_are_numbered_as_in_torch(server, spec, monkeypatch):
    assert resources(spec)["gpus"] == [0, 1]
    assert resources(spec, devices="1") == {"jobs": 1, "threads": 1, "gpus": [1]}
    assert resources(spec, devices="cpu", jobs=3) == {"jobs": 3, "threads": 1, "gpus": []}
    with pytest.raises(InputError, match="below 2.*'2,MIG-41d8' is numbered from 0.*got '2'"):
        gpu_numbers("2")
    assert resources(spec, cluster=True) == {"jobs": None, "threads": 1, "gpus": None}
    with pytest.raises(InputError, match="^--devices: '1' .*cluster assigns"):
        resources(spec, devices="1", cluster=True)


def test_devices_cpu_leaves_the_environment_of_the_caller_unchanged(server, spec, monkeypatch):
    devices = []
    monkeypatch.setattr(RUN, "execute", lambda job, results, weights, device: devices.append(device) or "done")
    bench.run(spec, results=server / "results", weights=server / "weights", devices="cpu", jobs=1)
    assert devices == ["cpu", "cpu"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,MIG-41d8"


def test_parallel_runs_by_default_follow_the_available_cpus(spec, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(RUN, "available_cpus", lambda: 12)
    assert resources(spec.model_copy(update={"threads": 4}))["jobs"] == 3
    assert resources(spec.model_copy(update={"threads": 32}))["jobs"] == 1


def test_local_copies_of_weights_have_one_id_and_digest_in_every_format(server, spec):
    job = jobs(spec)[0]
    run_results = []
    for weights in (server / "weights", server / "resnet18.safetensors"):
        sources = weight_sources([job], weights=weights)
        results = server / f"results_{weights.name}"
        assert execute(job, results, weights=sources) == "done"
        (file,) = (results / "runs").glob("*/result.json")
        run_results.append((file.parent.name, json.loads(file.read_text())))
    assert run_results[0] == run_results[1]
    assert run_results[0][1]["job"]["data"]["weights"] == "pretrained"
    assert len(run_results[0][1]["pretrained"]) == 64


def test_resumed_run_may_take_the_weights_from_elsewhere_but_not_other_weights(server, spec):
    job, work = jobs(spec)[0], server / "work"
    prepared = data.load("scans")
    prepared.decode(32)
    splits = prepared.split("five_folds", 0)

    def specs(path, **options):
        return Run(prepared, splits, run_config(job, WeightSources({"resnet18": str(path)}, **options))).spec()

    first = specs(server / "weights" / "resnet18-f37072fd.pth")
    (work / "checkpoint").mkdir(parents=True)
    claim(work, first)
    claim(work, specs(server / "resnet18.safetensors", download=True))
    state = ImageBackbone("resnet18", weights="random").body.state_dict()
    save_file(state, server / "resnet18.other.safetensors")
    with pytest.raises(InputError, match="different pretrained weights"):
        claim(work, specs(server / "resnet18.other.safetensors"))
    earlier = json.loads((work / "run.json").read_text())
    del earlier["spec"]["pretrained"]  # as version 0.2 wrote it
    (work / "run.json").write_text(json.dumps(earlier))
    claim(work, first)


def test_table_warns_of_runs_that_started_from_different_weights(server, spec):
    results = server / "results"
    for weights, job in zip((server / "weights", server / "other"), jobs(spec), strict=True):
        if not weights.exists():
            weights.mkdir()
            save_file(ImageBackbone("resnet18", weights="random").body.state_dict(), weights / "resnet18.safetensors")
        execute(job, results, weights=weight_sources([job], weights=weights))
    assert bench.status(spec, results=results).mixed_weights == ["scans"]
    result = run("bench", "table", "mini.toml", cwd=server, width=200)
    assert "warning: scans: the runs started from different pretrained weights" in result.stderr


def test_download_fetches_missing_weights_once_before_the_runs(server, spec, monkeypatch):
    fetched = []

    def fetch(repository, file):
        fetched.append(repository)
        return str(server / "resnet18.safetensors")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    with pytest.raises(InputError, match=r"^scans: the pretrained weights of resnet18 .*--download.*--weights"):
        weight_sources(jobs(spec))
    assert fetched == []
    sources = weight_sources(jobs(spec), download=True)
    assert fetched == ["timm/resnet18.tv_in1k"]
    assert run_config(jobs(spec)[0], sources).download


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("nowhere", "--weights: .*nowhere: no such"),
        ("random", "--weights: .*--set weights=random"),
        ("records", "--weights: .*expected one copy of resnet18.*got none"),
        ("wrong", "weights of resnet18: these are the weights of another"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message, server, spec, monkeypatch):
    monkeypatch.chdir(server)
    (server / "wrong").mkdir()
    save_file({"a": torch.zeros(2)}, server / "wrong" / "resnet18.safetensors")
    with pytest.raises(InputError, match=message):
        weight_sources(jobs(spec), weights=weights)


def test_one_file_of_weights_for_two_backbones_is_refused(server, spec):
    entry = spec.data[0].model_copy(update={"name": "second", "backbone": "resnet34"})
    two = spec.model_copy(update={"data": [*spec.data, entry]})
    with pytest.raises(InputError, match="backbones resnet18, resnet34; give a folder"):
        weight_sources(jobs(two), weights=server / "resnet18.safetensors")


def test_missing_file_of_weights_in_the_spec_is_found_before_the_runs(spec):
    with pytest.raises(InputError, match=r"^scans: absent\.pth: file not found"):
        weight_sources(jobs(spec.with_overrides({"weights": "absent.pth"})))


def test_check_reports_disk_cpus_and_gpu_memory(server, spec, monkeypatch):
    plan = bench.plan(spec, results=server / "results")
    weights = server / "weights"

    def found(**options):
        return {check.subject: check for check in checks.check(plan, weights=weights, **options)}

    monkeypatch.setattr(checks, "available_cpus", lambda: 1)
    ready = found()
    assert ready["data: scans"].finding == "prepared, 60 rows"
    assert "request 2 CPUs" in ready["CPUs"].fix
    assert not any(check.prevents_runs for check in ready.values())
    needed = [check for subject, check in ready.items() if subject.startswith("disk")]
    assert "0.6 GB needed" in needed[0].finding  # 2 runs x 7 copies of 11.2 million parameters

    usage = SimpleNamespace(free=1_000_000)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda folder: usage)
    assert any(check.prevents_runs and "space" in check.fix for check in found().values())
    usage.free = 10**12
    steps = [probe.Probe("scans", 0.1, 30_000_000_000, 1.0)]
    assert not found(probes=steps)["GPU memory"].prevents_runs
    shared = found(probes=steps, jobs=4)["GPU memory"]
    assert (shared.prevents_runs, shared.fix) == (True, "use fewer --jobs")


def test_plan_of_missing_data_reports_everything_and_succeeds(server):
    result = run("bench", "plan", "main", cwd=server, width=200)
    assert result.returncode == 0
    assert "weights: resnet50: the pretrained weights of resnet50" in result.stdout
    assert "19." in result.stdout.partition("disk: results")[2][:20]  # 129,000 images of 224 pixels


def test_probe_measures_steps_of_the_real_size_and_computes_hours(server, spec, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    plan = bench.plan(spec, results=server / "results")
    (measured,) = probe.probe(plan, device="cpu")
    assert measured.problem == ""
    assert measured.seconds > 0
    assert measured.memory is None
    # 36 training rows in batches of 8 and 12 validation rows, one epoch, two runs
    assert measured.hours == pytest.approx(2 * (5 + 2 / 3) * measured.seconds / 3600)
    result = run("bench", "plan", "mini.toml", "--probe", "--weights", "weights", "--jobs", 2, cwd=server, width=200)
    assert "s per step" in result.stdout
    assert "hours of mini: from timed steps; runs in parallel: 2" in result.stdout


def test_probe_on_a_gpu_reports_memory_or_that_it_is_too_small(spec, server, monkeypatch):
    plan = bench.plan(spec, results=server / "results")

    def too_large(*arguments, **options):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(probe, "_measure", too_large)
    (measured,) = probe.probe(plan, device="cuda:0")
    assert "memory of cuda:0 is too small" in measured.problem
    config = SimpleNamespace(batch_size=8, epochs=100)
    monkeypatch.setattr(probe, "_measure", lambda *arguments: (config, 0.36, 9_100_000_000))
    result = run("bench", "plan", "mini.toml", "--probe", "--weights", "weights", cwd=server, width=200)
    # 2 runs x 100 epochs x (5 + 2 / 3) steps x 0.36 s / 2 GPUs = 0.0567 hours
    assert "0.1        0.36      9.1 GB" in result.stdout
    assert "hours of mini: from timed steps; GPUs: 2" in result.stdout
    assert "9.1 GB of 40.0 GB; runs on each GPU: 1" in result.stdout


def test_hours_of_finished_runs_are_divided_by_the_parallel_runs(server, spec, monkeypatch):
    plan = bench.plan(spec, results=server / "results")
    runs = [plan.runs[0], plan.runs[1]]
    runs[0] = replace(runs[0], state=State.FINISHED, seconds=7200.0)
    partly = replace(plan, runs=runs)
    assert [cost.hours for cost in partly.costs()] == [2.0]
    assert [cost.hours for cost in partly.costs(parallel=4)] == [0.5]


def test_log_lines_name_the_step_and_are_few(server, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr("orcu.data.cache.BLOCK", 2)  # thirty blocks of images
    monkeypatch.setattr(RUN, "execute", lambda job, results, weights, device: "done")
    result = run("bench", "run", "mini.toml", "--weights", "weights", "--jobs", 1, cwd=server)
    lines = result.stderr.splitlines()
    decoding = [line for line in lines if "decoding images" in line]
    assert decoding[0] == "scans: decoding images: 2 of 60"
    assert decoding[-1] == "scans: decoding images: 60 of 60"
    assert len(decoding) <= 11
    assert lines[len(decoding) :] == [
        "starting 2 runs, 1 in parallel",
        "1 of 2 runs: scans, fold 0, ce: done",
        "2 of 2 runs: scans, fold 0, Recorder: done",
    ]


MEETING = """
import os, time
from pathlib import Path

from torch import nn


class Meeting(nn.CrossEntropyLoss):
    def forward(self, logits, y):
        if len(logits) > 4:  # not the call that checks the loss
            folder = Path(os.environ["RECORDS"])
            (folder / str(os.getpid())).touch()
            deadline = time.monotonic() + 600
            while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
        return super().forward(logits, y)
"""


@pytest.mark.slow
def test_run_in_two_processes_at_once_executes_each_run_once(spec_file, tmp_path, monkeypatch):
    (tmp_path / "records").mkdir()
    monkeypatch.setenv("RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "meeting.py").write_text(MEETING)
    lines = spec_file.read_text().splitlines()
    text = "\n".join('losses = ["ce", "meeting.py:Meeting"]' if line.startswith("losses") else line for line in lines)
    (tmp_path / "array.toml").write_text(text)
    command = [ORCU, "bench", "run", "array.toml", "--jobs", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    tasks = [subprocess.Popen(command, cwd=tmp_path, **pipes) for _ in range(2)]
    outputs = [task.communicate(timeout=1200) for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], outputs
    assert len(list((tmp_path / "records").iterdir())) == 2  # each process waited in a run for the other one
    done = [line.partition("runs: ")[2] for _, log in outputs for line in log.splitlines() if line.endswith(": done")]
    assert sorted(done) == [f"lev, fold {fold}, {loss}: done" for fold in (0, 1) for loss in ("Meeting", "ce")]
    assert bench.status("array.toml", results="results").states == {State.FINISHED: 4}


def test_run_ends_without_error_when_other_processes_execute_the_rest(server, spec, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    digest = data.load("scans").manifest.digest
    claimed, other = (job.id(digest) for job in jobs(spec))
    store = Store(server / "results")
    options = ("bench", "run", "mini.toml", "--weights", "weights", "--jobs", 1)
    with store.claim(claimed):
        monkeypatch.setattr(RUN, "execute", partial(execute_only, other))
        result = run(*options, cwd=server)
        assert "other processes execute 1 runs; `orcu bench status mini.toml` shows their state." in result.stdout
        assert result.returncode == 0
    monkeypatch.setattr(RUN, "execute", lambda job, results, weights, device: "skipped")  # executed by a killed process
    result = run(*options, cwd=server)
    assert "1 runs are not finished; run the command again." in result.stdout
    assert result.returncode == 1


def execute_only(run_id, job, results, weights, device):
    """Execute a run if it has this id; another process has the others."""
    if find_run(job, data.load("scans").manifest.digest, Store(results)) != run_id:
        return "skipped"
    return execute(job, results, weights=weights, device=device)


def test_run_waits_while_another_process_decodes_the_images(server, spec, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(RUN, "execute", lambda job, results, weights, device: "done")
    prepared, waiting = data.load("scans"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with file_lock(cache_folder(prepared.derived, 32).with_name(".cache_32.lock")):
            summary = pool.submit(
                bench.run,
                spec,
                results=server / "results",
                weights=server / "weights",
                jobs=1,
                progress=lambda progress: waiting.set(),
            )
            assert waiting.wait(60)
            with pytest.raises(TimeoutError):
                summary.result(0.2)
        assert summary.result(60).outcomes == {"done": 2}


def test_terminal_bar_shows_the_step(server, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = []

    class Bar:
        is_shown = True

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_task(self, description, total):
            return 0

        def update(self, task, description, completed, total):
            shown.append((description, completed, total))

    monkeypatch.setattr("orcu.cli.bench.progress_bar", Bar)
    monkeypatch.setattr(RUN, "execute", lambda job, results, weights, device: "done")
    result = run("bench", "run", "mini.toml", "--weights", "weights", "--jobs", 1, cwd=server)
    assert shown[:3] == [
        ("scans: preparing", 0, None),
        ("scans: decoding images", 60, 60),
        ("starting 2 runs, 1 in parallel", 0, 2),
    ]
    assert shown[-1] == ("scans, fold 0, Recorder: done", 2, 2)
    assert "decoding" not in result.stderr  # a terminal has the bar only


def test_set_replaces_values_of_every_data_set_and_is_recorded(spec_file, tmp_path):
    changed = load_spec(spec_file, overrides={"training.epochs": 1, "folds": [0], "hidden_layer_sizes": [4]})
    assert changed.data[0].training == {"epochs": 1}
    assert changed.set_options == " --set training.epochs=1 --set 'folds=[0]' --set 'hidden_layer_sizes=[4]'"
    assert {job.id("rows") for job in jobs(changed)}.isdisjoint(job.id("rows") for job in jobs(load_spec(spec_file)))

    options = ("--set", "training.epochs=1", "--set", "folds=[0]")
    result = run("bench", "run", "small.toml", "--jobs", 1, *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "results" / "small" / "spec.json").read_text())
    assert written["set"] == {"training.epochs": 1, "folds": [0]}
    assert written["data"][0]["training"] == {"epochs": 1}
    assert len(json.loads((tmp_path / "results" / "small" / "runs.json").read_text())) == 2
    assert "4 pending" in run("bench", "status", "small.toml", cwd=tmp_path).stdout
    assert "2 finished" in run("bench", "status", "small.toml", *options, cwd=tmp_path).stdout
    for form, words in {
        "rich": "--set training.epochs=1",
        "markdown": "set in all runs: --set training.epochs=1",
        "latex": "% set in all runs: --set training.epochs=1",
        "html": "<!-- set in all runs: - -set training.epochs=1",
        "csv": "--set training.epochs=1 --set 'folds=[0]'",
    }.items():
        assert words in run("bench", "table", "small.toml", "--format", form, *options, cwd=tmp_path, width=200).stdout
    assert run("bench", "report", "small.toml", *options, cwd=tmp_path).returncode == 0
    page = (tmp_path / "results" / "small" / "report.html").read_text()
    assert "orcu bench report small.toml --set training.epochs=1" in page.replace("\n", " ")
    assert_data_error(run("bench", "table", "small.toml", "--set", "size=9", cwd=tmp_path), "small.toml --set size=9")


def test_set_of_a_wrong_key_or_value_is_refused(spec_file, tmp_path):
    for setting, word in {
        "recipe.epochs=2": "'training' since version 0.3",
        "trainin.epochs=2": "'training'",
        "size.x=2": "size is not a table",
        "size=large": "size: ",
        "training.epoch=2": "'epochs'",
    }.items():
        assert_data_error(run("bench", "plan", "small.toml", "--set", setting, cwd=tmp_path), word)
    assert_usage_error(run("bench", "plan", "small.toml", "--set", "size", cwd=tmp_path), "KEY=VALUE")
    assert_usage_error(run("bench", "plan", "small.toml", "--set", "folds=[0", cwd=tmp_path), "not a list")


def test_mixed_precision_trains_with_finite_losses(spec_file, tmp_path):
    summary = bench.run(spec_file, results=tmp_path / "results", jobs=1, overrides={"training.mixed_precision": True})
    assert summary.outcomes == Counter({"done": 4})
    results = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("runs/*/result.json")]
    assert all(result["training"]["mixed_precision"] for result in results)
