"""Execution of a benchmark: all unfinished runs, several at a time."""

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from orcu.bench.execution import execute
from orcu.bench.jobs import Job, Outcome, State
from orcu.bench.plan import Benchmark, Plan, plan, planned_runs
from orcu.bench.prepared import prepare_shared
from orcu.bench.spec import Spec
from orcu.bench.store import Store
from orcu.errors import InputError
from orcu.figures.sources import INDEX
from orcu.io.files import atomic_write
from orcu.launchers import LAUNCHERS, Launcher


@dataclass(frozen=True)
class BenchProgress:
    """Progress of a benchmark.

    Attributes:
        description: current step.
        done: number of finished items: images or batches of shared work, then runs.
        total: number of all items; ``None`` while it is unknown.
        outcomes: number of runs by outcome so far.
    """

    description: str
    done: int
    total: int | None
    outcomes: Counter[Outcome]


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
    progress: Callable[[BenchProgress], None] | None = None,
) -> RunSummary:
    """Execute all unfinished runs, including failed ones; runs without data are skipped.

    Several processes may work on one results folder, and an interrupted run continues from its checkpoint. In a
    script, call it under ``if __name__ == "__main__":`` because it starts processes; with ``jobs=1`` and no GPU it
    starts none.

    Args:
        spec: a spec or plan, as for `status`; likewise ``results`` and ``extra``.
        results: folder of all results.
        extra: name of one of the spec's lists of extra losses.
        launcher: "local", "ray", or a launcher with its own number of jobs and devices.
        jobs: number of parallel runs; by default one for each GPU, or as many as the CPU cores allow.
        devices: GPUs to use, such as "0,1", or "cpu"; all GPUs by default.
        progress: callback that receives the progress.

    Raises:
        InputError: if the spec is not valid, or none of its data are prepared.
    """
    planned = plan(spec, results=results, extra=extra)
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
        _prepare_shared(pending, report)
        Store(folder).create()
    write_index(planned.spec, folder)
    if pending:
        report(BenchProgress("runs", 0, len(pending), outcomes.copy()))
        with workers:
            for position, outcome in workers.map_unordered(partial(execute, results=folder), pending):
                outcomes[outcome] += 1
                description = f"{pending[position].title}: {outcome}"
                report(BenchProgress(description, outcomes.total(), len(pending), outcomes.copy()))
    return RunSummary(planned, outcomes)


def write_index(spec: Spec, results: Path) -> None:
    """Write the list of a spec's runs to its folder; figures and reports find their runs in it."""
    entries = [
        {"run": run.id, "data": run.job.data.title, "loss": run.job.loss_name, "fold": run.job.fold}
        | {"seed": run.job.seed}
        for run in planned_runs(spec, results)
        if run.id is not None
    ]
    folder = results / spec.name
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n")


def resources(spec: Spec, *, jobs: int | None = None, devices: str | None = None) -> dict[str, Any]:
    """Options of a launcher for a benchmark: jobs, threads and gpus.

    Raises:
        InputError: if ``devices`` is neither "cpu" nor a list of GPU numbers.
    """
    gpus = _gpu_numbers(devices)
    parallel = jobs or len(gpus) or max(1, (os.cpu_count() or 1) // spec.threads)
    return {"jobs": parallel, "threads": spec.threads, "gpus": gpus}


def _gpu_numbers(devices: str | None) -> list[int]:
    if devices == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # for this process and its workers
        return []
    import torch

    count = torch.cuda.device_count()
    if devices is None:
        return list(range(count))
    numbers = [part.strip() for part in devices.split(",")]
    if not all(number.isdigit() and int(number) < count for number in numbers):
        raise InputError(
            f"--devices: expected cpu or GPU numbers below {count}, the number of GPUs here, such as 0,1; got "
            f"{devices!r}."
        )
    return [int(number) for number in numbers]


def _prepare_shared(pending: list[Job], report: Callable[[BenchProgress], None]) -> None:
    """Prepare the shared inputs of each data set once, before the runs start."""
    first_jobs: dict[str, Job] = {}
    for job in pending:
        first_jobs.setdefault(job.data.title, job)
    for title, job in first_jobs.items():
        step = partial(BenchProgress, f"{title}: preparing shared inputs", outcomes=Counter())
        report(step(done=0, total=None))
        prepare_shared(job, lambda done, total, step=step: report(step(done=done, total=total)))  # type: ignore[misc]
