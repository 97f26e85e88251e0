"""Launcher for processes of this machine."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Self

from orcu.errors import InputError
from orcu.launchers import LAUNCHERS, VISIBLE_DEVICES, Item, Launcher, Result, device_names

GRACE_PERIOD = 5.0  # seconds that a worker has to stop
MAX_POOLS = 3  # process pools that may break before the launcher gives up
_STOPPING = threading.Event()


@LAUNCHERS.register("local")
class Local(Launcher):
    """Spawned worker processes; a single job without GPUs runs in the current process.

    Each worker uses its number of threads and sees one GPU, if there are any, as its device 0.

    Example:
        >>> with Local(jobs=1) as launcher:
        ...     list(launcher.map_ordered(abs, [-3, 2]))
        [3, 2]
    """

    _pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.jobs > 1 or self.gpus:
            self._pool = self._start_pool()
        return self

    def _start_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        devices, names = context.Queue(), device_names(self.gpus)
        for worker in range(self.jobs):
            devices.put(names[worker % len(names)] if names else None)
        return ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_start_worker, initargs=(self.threads, devices, os.getpid())
        )

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Wait for the workers; after an error, stop them."""
        if self._pool is None:
            return
        if error is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:  # they release their locks and keep their checkpoints
                process.terminate()
        self._pool.shutdown(wait=True)

    def map_unordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Index and result of each item in order of completion; items of a killed worker run again.

        Raises:
            InputError: if workers are killed repeatedly.
        """
        if self._pool is None:
            yield from ((index, function(item)) for index, item in enumerate(items))
            return
        remaining = dict(enumerate(items))
        for _ in range(MAX_POOLS):
            futures = {self._pool.submit(_run, function, item): index for index, item in remaining.items()}
            try:
                for future in as_completed(futures):
                    result = future.result()
                    del remaining[futures[future]]
                    yield futures[future], result
                return
            except BrokenProcessPool:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = self._start_pool()
        raise InputError(
            f"jobs: worker processes were killed {MAX_POOLS} times, possibly for lack of memory; use fewer than "
            f'{self.jobs} jobs. A script that starts workers must do so under `if __name__ == "__main__":`.'
        )


def _start_worker(threads: int, devices: Any, parent: int) -> None:
    """Set the threads and the GPU of a worker, and make it stop on request or when its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_exit_without_parent, args=(parent,), daemon=True).start()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    device = devices.get()
    if device is not None:
        os.environ[VISIBLE_DEVICES] = device


def _stop(number: int, frame: Any) -> None:
    _STOPPING.set()
    timer = threading.Timer(GRACE_PERIOD, os._exit, (128 + number,))  # if the exit below does not take effect
    timer.daemon = True
    timer.start()
    sys.exit(128 + number)


def _run(function: Callable[[Item], Result], item: Item) -> Result:
    """The function's result; a worker that is stopping does not start another item."""
    if _STOPPING.is_set():
        sys.exit()
    return function(item)


def _exit_without_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
