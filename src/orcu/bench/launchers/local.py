"""Runs in processes of this machine."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from orcu.bench.launchers import LAUNCHERS
from orcu.bench.plan import Job
from orcu.bench.run import execute


@LAUNCHERS.register("local")
def local(todo: list[Job], results: Path, *, jobs: int, told: Callable[[Job, str], None]) -> None:
    """Spawned workers, as many as asked for; each run has its spec's threads.

    Args:
        todo: the runs.
        results: the folder of results.
        jobs: how many at once.
        told: called with each run and how it ended.
    """
    if jobs == 1:
        for job in todo:
            told(job, execute(job, results))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_alone, initargs=(todo[0].threads,)
    ) as pool:
        waiting = {pool.submit(execute, job, results): job for job in todo}
        try:
            for future in as_completed(waiting):
                told(waiting[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _alone(threads: int) -> None:
    """Keep the libraries of a worker to its share of the cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
