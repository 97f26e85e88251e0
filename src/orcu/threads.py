"""Work on several cores within one process: numpy and pyarrow let other threads run while they compute."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many threads work at once: the cores this process may use, or fewer by ``OMP_NUM_THREADS``.

    Example:
        >>> cores() >= 1
        True
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(usable, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else usable


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """What a function makes of each item, in their order, several at a time.

    Only a few items more than there are threads are taken at once, so that a long stream needs no memory. Whoever adds
    the results up in this order gets the same bits whatever the number of threads.

    Args:
        function: must not depend on the other items.
        items: are taken in the caller's thread.
        threads: as many as there are `cores` by default; one means none beside the caller's.

    Example:
        >>> list(map_ordered(abs, [-1, 2, -3]))
        [1, 2, 3]
    """
    threads = cores() if threads is None else threads
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, for the arrays that follow; for commands, which end soon.

    glibc gives large arrays back to the system at once and fetches them anew, page by page: a tenth of the time of
    work that goes through a file part by part. Elsewhere this does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # names of malloc.h
    mallopt(trim_threshold, 1 << 30)
    mallopt(top_pad, 1 << 26)
    mallopt(mmap_threshold, 1 << 26)
