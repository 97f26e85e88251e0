"""Doing a benchmark: what is not finished, several runs at once."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from orcu.bench.execution import execute
from orcu.bench.index import write_index
from orcu.bench.jobs import Job
from orcu.bench.plan import Benchmark, Plan, plan, planned
from orcu.bench.prepared import share
from orcu.bench.spec import Spec
from orcu.bench.states import Outcome, State
from orcu.bench.store import Store
from orcu.errors import InputError
from orcu.launchers import LAUNCHERS, Launcher

__all__ = ["Moment", "Summary", "execute", "resources", "run"]


@dataclass(frozen=True)
class Moment:
    """How far a benchmark is.

    Attributes:
        what: is being done, in words.
        done: how much of it: images or batches of the work that runs share, then runs.
        total: how much there is of it; ``None`` as long as that is not known.
        outcomes: how many runs ended how, so far.
    """

    what: str
    done: int
    total: int | None
    outcomes: Counter[Outcome]


@dataclass(frozen=True)
class Summary:
    """What `run` did.

    Attributes:
        plan: as it stood before.
        outcomes: how many runs ended how; `status` has the errors of those that failed.
    """

    plan: Plan
    outcomes: Counter[Outcome]


def run(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    more: str | None = None,
    launcher: str | Launcher = "local",
    jobs: int | None = None,
    devices: str | None = None,
    progress: Callable[[Moment], None] | None = None,
) -> Summary:
    """Do what is not finished; failed runs are tried again, those without data left out.

    A run is done once, whoever asks: any number of processes may work on one folder of results, and what was cut off
    goes on where it was. In a script call it under ``if __name__ == "__main__":``, as everything that starts
    processes; with ``jobs=1`` and no GPU there are none.

    Args:
        spec: a TOML file, the name of a spec that comes with orcu, a spec, or a plan.
        results: the folder of all results; ``$ORCU_RESULTS``, or ``results`` by default.
        more: the name of further losses in the spec, such as grid of ablation.
        launcher: "local", "ray", or a launcher, which knows its jobs and devices itself.
        jobs: runs at once; by default one per GPU, or as the cores allow.
        devices: GPUs to use, such as "0,1", or "cpu"; by default all there are.
        progress: told as the work goes on.

    Raises:
        InputError: if the spec cannot be used, or none of its data are prepared.
    """
    whole = plan(spec, results=results, more=more)
    tell, to_do, folder = progress or _silent, whole.to_do, whole.results.resolve()  # workers may start elsewhere
    spread: Launcher = (
        LAUNCHERS.create(launcher, **resources(whole.spec, jobs=jobs, devices=devices))
        if isinstance(launcher, str)
        else launcher
    )
    if whole.states[State.NO_DATA] == len(whole.runs):
        commands = ", ".join(f"`{command}`" for command in whole.missing_data)
        raise InputError(f"none of the data are prepared; bring them by {commands}.")
    outcomes: Counter[Outcome] = Counter()
    if to_do:
        _share(to_do, tell)
        Store(folder).make()
    known = planned(whole.spec, folder)  # all data are prepared now, so that every run has its id
    write_index(folder / whole.spec.name, [(one.run, one.job) for one in known if one.run is not None])
    if to_do:
        tell(Moment("runs", 0, len(to_do), outcomes.copy()))
        with spread as workers:
            for position, outcome in workers.results(partial(execute, results=folder), to_do):
                outcomes[outcome] += 1
                what = f"{to_do[position].title}: {outcome}"
                tell(Moment(what, outcomes.total(), len(to_do), outcomes.copy()))
    return Summary(whole, outcomes)


def resources(spec: Spec, *, jobs: int | None = None, devices: str | None = None) -> dict[str, Any]:
    """What a launcher of a benchmark's runs is made with: jobs, threads and gpus, as far as the user left them open.

    Raises:
        InputError: if devices are neither "cpu" nor numbers of GPUs.
    """
    gpus = _gpus(devices)
    at_once = jobs or len(gpus) or max(1, (os.cpu_count() or 1) // spec.threads)
    return {"jobs": at_once, "threads": spec.threads, "gpus": gpus}


def _gpus(devices: str | None) -> list[int]:
    """The numbers of the graphics cards to use."""
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
            f"--devices: expected cpu, or numbers of GPUs such as 0,1, of which there are {count} here; got "
            f"{devices!r}."
        )
    return [int(number) for number in numbers]


def _share(to_do: list[Job], tell: Callable[[Moment], None]) -> None:
    """Do what several runs need once, before they start."""
    first: dict[str, Job] = {}
    for job in to_do:
        first.setdefault(job.data.title, job)
    for title, job in first.items():
        what = f"{title}: shared work"
        tell(Moment(what, 0, None, Counter()))
        share(job, lambda done, total, what=what: tell(Moment(what, done, total, Counter())))  # type: ignore[misc]


def _silent(moment: Moment) -> None:
    pass
