"""Execution of a benchmark: all unfinished runs, several at a time."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orcu.bench.execution import execute, run_config
from orcu.bench.jobs import Job, Outcome, State
from orcu.bench.plan import Benchmark, Plan, plan, planned_runs
from orcu.bench.prepared import prepare_shared
from orcu.bench.spec import Spec
from orcu.bench.store import Store
from orcu.bench.weights import WeightSources, find_copies, missing_weights
from orcu.errors import InputError
from orcu.figures.sources import INDEX, SPEC
from orcu.io.files import atomic_write
from orcu.launchers import LAUNCHERS, VISIBLE_DEVICES, Launcher
from orcu.threads import available_cpus

CPU, RUNS = "cpu", "runs"


@dataclass(frozen=True)
class BenchProgress:
    """Progress of a benchmark.

    Attributes:
        description: current step, such as "adience: decoding images", or the last finished run.
        done: number of finished items.
        total: number of all items; ``None`` while it is unknown.
        unit: the items: "images" or "batches" of shared inputs, or "runs".
        outcomes: number of runs by outcome so far.
    """

    description: str
    done: int
    total: int | None
    unit: str = RUNS
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    @property
    def line(self) -> str:
        """The progress as a line of a log.

        Example:
            >>> BenchProgress("adience: decoding images", 256, 400, "images").line
            'adience: decoding images: 256 of 400'
            >>> BenchProgress("adience, fold 0, ce: done", 1, 24).line
            '1 of 24 runs: adience, fold 0, ce: done'
        """
        if self.total is None or (self.unit == RUNS and not self.done):
            return self.description
        counts = f"{self.done} of {self.total}"
        return f"{counts} runs: {self.description}" if self.unit == RUNS else f"{self.description}: {counts}"


@dataclass(frozen=True)
class RunSummary:
    """Result of `run`.

    Attributes:
        plan: the plan before the runs.
        outcomes: number of runs by outcome; `status` has the error messages.
    """

    plan: Plan
    outcomes: Counter[Outcome]


def run(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    launcher: str | Launcher = "local",
    jobs: int | None = None,
    devices: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    download: bool = False,
    overrides: Mapping[str, Any] | None = None,
    progress: Callable[[BenchProgress], None] | None = None,
) -> RunSummary:
    """Execute all unfinished runs, including failed ones; runs without data are skipped.

    Several processes may work on one results folder, and an interrupted run continues from its checkpoint. In a
    script, call it under ``if __name__ == "__main__":`` because it starts processes; with ``jobs=1`` and no GPU it
    starts none.

    Args:
        spec: a spec or plan, as for `status`; likewise ``results``, ``extra`` and ``overrides``.
        results: folder of all results.
        extra: name of one of the spec's lists of extra losses.
        launcher: "local", "ray", or a launcher with its own number of jobs and devices.
        jobs: number of parallel runs; by default one for each GPU, or as many as the CPU cores allow.
        devices: GPUs to use, such as "0,1", or "cpu"; all GPUs by default. The numbers are those of torch: with
            ``CUDA_VISIBLE_DEVICES=2,3``, "0" is the GPU 2.
        weights: file or folder with local copies of the pretrained weights. The run ids do not depend on it.
        download: whether pretrained weights that are not on this machine may be downloaded.
        overrides: values that replace those of every data set.
        progress: callback that receives the progress.

    Raises:
        InputError: if the spec is not valid, or data or weights are missing.
    """
    planned = plan(spec, results=results, extra=extra, overrides=overrides)
    report = progress or (lambda _: None)
    pending, folder = planned.pending_jobs, planned.results.resolve()  # workers may have another working directory
    workers: Launcher = (
        LAUNCHERS.create(launcher, **resources(planned.spec, jobs=jobs, devices=devices))
        if isinstance(launcher, str)
        else launcher
    )
    if planned.states[State.NO_DATA] == len(planned.runs):
        commands = ", ".join(f"`{command}`" for command in planned.prepare_commands)
        raise InputError(f"{planned.spec.name}: none of the data are prepared; prepare them with {commands}.")
    outcomes: Counter[Outcome] = Counter()
    if pending:
        sources = weight_sources(pending, weights=weights, download=download)
        _prepare_shared(pending, sources, _shared_device(workers, devices), report)
        Store(folder).create()
    write_index(planned.spec, folder)
    if pending:
        work = partial(execute, results=folder, weights=sources, device="cpu" if devices == CPU else "auto")
        with workers:
            start = f"starting {len(pending)} runs, {min(workers.jobs, len(pending))} in parallel"
            report(BenchProgress(start, 0, len(pending)))
            for position, outcome in workers.map_unordered(work, pending):
                outcomes[outcome] += 1
                description = f"{pending[position].title}: {outcome}"
                report(BenchProgress(description, outcomes.total(), len(pending), outcomes=outcomes.copy()))
    return RunSummary(planned, outcomes)


def weight_sources(
    pending: list[Job], *, weights: str | os.PathLike[str] | None = None, download: bool = False
) -> WeightSources:
    """Where the weights of runs come from, after a check that all are there; ``download`` fetches missing ones.

    Raises:
        InputError: if weights are missing.
    """
    data = list({job.data.title: job.data for job in pending}.values())
    sources = WeightSources(find_copies(data, weights), download)
    for entry in data:
        if problem := missing_weights(entry, sources):
            raise InputError(f"{entry.title}: {problem}")
    return sources


def write_index(spec: Spec, results: Path) -> None:
    """Write the list of a spec's runs and the spec to its folder; figures and reports find their runs in the list."""
    entries = [
        {"run": run.id, "data": run.job.data.title, "loss": run.job.loss_name, "fold": run.job.fold}
        | {"seed": run.job.seed, "select": run.job.data.select}
        for run in planned_runs(spec, results)
        if run.id is not None
    ]
    folder = results / spec.name
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n")
    content = {"set": spec.overrides, **spec.model_dump(mode="json", exclude_unset=True)}
    with atomic_write(folder / SPEC) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")


def resources(
    spec: Spec, *, jobs: int | None = None, devices: str | None = None, cluster: bool = False
) -> dict[str, Any]:
    """Options of a launcher for a benchmark: jobs, threads and gpus.

    Args:
        spec: the benchmark.
        jobs: number of parallel runs; by default one for each GPU, or as many as the available CPUs allow.
        devices: "cpu", or numbers of GPUs as torch counts them; all GPUs by default.
        cluster: whether the runs are on other machines, which assign their own GPUs.

    Raises:
        InputError: if ``devices`` is neither "cpu" nor a list of GPU numbers, or has numbers for a cluster.
    """
    if cluster:
        if devices not in {None, CPU}:
            raise InputError(
                f"--devices: {devices!r} are numbers of this machine; a cluster assigns its own GPUs. Leave it out, or "
                "give cpu."
            )
        return {"jobs": jobs, "threads": spec.threads, "gpus": () if devices == CPU else None}
    gpus = gpu_numbers(devices)
    parallel = jobs or len(gpus) or max(1, available_cpus() // spec.threads)
    return {"jobs": parallel, "threads": spec.threads, "gpus": gpus}


def gpu_numbers(devices: str | None) -> list[int]:
    """The GPUs of ``--devices`` by their numbers in torch; empty for "cpu" and on a machine without GPUs.

    Raises:
        InputError: if a number is not a GPU of this machine.
    """
    if devices == CPU or find_spec("torch") is None:
        return []
    import torch

    count = torch.cuda.device_count()
    if devices is None:
        return list(range(count))
    numbers = [part.strip() for part in devices.split(",")]
    if not all(number.isdigit() and int(number) < count for number in numbers):
        visible = os.environ.get(VISIBLE_DEVICES)
        entries = "" if visible is None else f" ({VISIBLE_DEVICES}={visible!r} is numbered from 0)"
        raise InputError(
            f"--devices: expected cpu or GPU numbers below {count}, the number of GPUs here{entries}, such as 0,1; got "
            f"{devices!r}."
        )
    return [int(number) for number in numbers]


def _shared_device(workers: Launcher, devices: str | None) -> str:
    """Device of this process for inputs that all runs share: the first of the chosen GPUs."""
    if devices == CPU:
        return CPU
    return f"cuda:{workers.gpus[0]}" if workers.gpus else "auto"


def _prepare_shared(
    pending: list[Job], sources: WeightSources, device: str, report: Callable[[BenchProgress], None]
) -> None:
    """Prepare the shared inputs of each data set once, before the runs start."""
    first_jobs: dict[str, Job] = {}
    for job in pending:
        first_jobs.setdefault(job.data.title, job)
    for title, job in first_jobs.items():
        report(BenchProgress(f"{title}: preparing", 0, None))

        def show(step: str, unit: str, done: int, total: int, title: str = title) -> None:
            report(BenchProgress(f"{title}: {step}", done, total, unit))

        prepare_shared(job, run_config(job, sources), device, show)
