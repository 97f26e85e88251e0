"""Work in processes of this machine."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Self

from orcu.errors import InputError
from orcu.launchers import LAUNCHERS, Item, Launcher, Result

GRACE = 5.0  # seconds that a worker has to stop
MOST_DEATHS = 3  # of workers, before the work is given up


@LAUNCHERS.register("local")
class Local(Launcher):
    """Spawned workers, as many as asked for; with one, the work is done in this process.

    Each worker keeps to its threads and sees one graphics card, if there are any.

    Example:
        >>> with Local(jobs=1) as launcher:
        ...     list(launcher.map_ordered(abs, [-3, 2]))
        [3, 2]
    """

    _pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.jobs > 1 or self.gpus:
            self._pool = self._workers()
        return self

    def _workers(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        cards = context.Queue()
        for worker in range(self.jobs):
            cards.put(self.gpus[worker % len(self.gpus)] if self.gpus else None)
        return ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_start_worker, initargs=(self.threads, cards, os.getpid())
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the workers, or stop them when something went wrong."""
        if self._pool is None:
            return
        if error is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:  # they let go of their locks; their checkpoints stay
                process.terminate()
        self._pool.shutdown(wait=True)

    def results(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """The results as they are ready; when a worker dies, the others' items are done all the same.

        Raises:
            InputError: if workers keep dying.
        """
        if self._pool is None:
            yield from ((position, function(item)) for position, item in enumerate(items))
            return
        left = dict(enumerate(items))
        for _ in range(MOST_DEATHS):
            waiting = {self._pool.submit(_unless_stopping, function, item): at for at, item in left.items()}
            try:
                for future in as_completed(waiting):
                    result = future.result()
                    del left[waiting[future]]
                    yield waiting[future], result
                return
            except BrokenProcessPool:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = self._workers()
        raise InputError(
            f"jobs: worker processes were killed {MOST_DEATHS} times, perhaps for want of memory; "
            f"try fewer at once than {self.jobs}. If a script of yours started them: let it do so under "
            '`if __name__ == "__main__":`.'
        )


def _start_worker(threads: int, cards: Any, parent: int) -> None:
    """Keep a worker to its share of the cores and its card; it stops when its parent says so, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    card = cards.get()
    if card is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(card)


_STOPPING = threading.Event()


def _stop(number: int, frame: Any) -> None:
    _STOPPING.set()
    last_resort = threading.Timer(GRACE, os._exit, (128 + number,))  # for what does not listen
    last_resort.daemon = True
    last_resort.start()
    sys.exit(128 + number)


def _unless_stopping(function: Callable[[Item], Result], item: Item) -> Result:
    """The function's result; a worker that was told to stop begins nothing new."""
    if _STOPPING.is_set():
        sys.exit()
    return function(item)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
