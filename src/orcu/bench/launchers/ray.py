"""Runs over a Ray cluster, or a local one."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orcu.bench.launchers import LAUNCHERS
from orcu.bench.plan import Job
from orcu.bench.run import execute
from orcu.data.store import store_folder
from orcu.errors import require


@LAUNCHERS.register("ray")
def ray(
    todo: list[Job],
    results: Path,
    *,
    jobs: int,
    told: Callable[[Job, str], None],
    address: str | None = None,
) -> None:
    """Ray tasks, one per run, with as many CPUs as the run has threads; results come back through the store.

    The folders of results and data must be the same on all machines. When a machine fails, its runs are
    tried again elsewhere and go on from their checkpoints.

    Args:
        todo: the runs.
        results: the folder of results.
        jobs: CPUs of a local cluster, in runs.
        told: called with each run and how it ended.
        address: of a cluster; ``None`` starts one on this machine.
    """
    require("ray", extra="ray", what="the Ray launcher")
    library: Any = importlib.import_module("ray")
    threads = todo[0].threads
    local = {} if address else {"num_cpus": jobs * threads}
    # Workers may start in another folder, so they are told where the data are.
    there = {"env_vars": {"ORCU_DATA": str(store_folder().resolve())}}
    library.init(
        address=address, include_dashboard=False, log_to_driver=False, runtime_env=there, **local
    )
    try:
        remote = library.remote(num_cpus=threads, max_retries=3)(execute)
        folder = results.resolve()
        waiting = {remote.remote(job, folder): job for job in todo}
        while waiting:
            ready, _ = library.wait(list(waiting), num_returns=1)
            job = waiting.pop(ready[0])
            told(job, library.get(ready[0]))
    finally:
        library.shutdown()
