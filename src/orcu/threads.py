"""Parallel work in threads: numpy and pyarrow release the interpreter lock while they compute."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of threads to use: the cores available to this process, limited by ``OMP_NUM_THREADS``.

    Example:
        >>> cores() >= 1
        True
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """Apply a function to items in parallel threads, and yield the results in the order of the items.

    The items are iterated in the caller's thread, a few ahead, so a long stream needs little memory. Sums over the
    results in this order do not depend on the number of threads, `cores` by default; 1 is the caller's thread.

    Example:
        >>> list(map_ordered(abs, [-1, 2, -3]))
        [1, 2, 3]
    """
    threads = cores() if threads is None else threads
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, for later arrays; for commands, which end soon.

    glibc returns large arrays to the system at once, and fetching new pages takes a tenth of the time of reading a file
    in batches. Other C libraries are left unchanged.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # names of malloc.h
    mallopt(trim_threshold, 1 << 30)
    mallopt(top_pad, 1 << 26)
    mallopt(mmap_threshold, 1 << 26)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread, which is faster for small matrices.

    Example:
        >>> with one_blas_thread():
        ...     pass
    """
    return _blas_controller().limit(limits=1, user_api="blas")


@cache
def _blas_controller() -> ThreadpoolController:
    return ThreadpoolController()
