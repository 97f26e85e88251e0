"""Parallel work in threads: numpy and pyarrow release the interpreter lock while they compute."""

import contextvars
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

CGROUP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
Item = TypeVar("Item")
Result = TypeVar("Result")
_limit: contextvars.ContextVar[int | None] = contextvars.ContextVar("orcu_threads", default=None)


def available_cpus() -> int:
    """Return the number of CPUs that this process may use, which can be fewer than the machine has.

    It is the smallest of the CPU affinity (taskset, Slurm's task plugin), ``SLURM_CPUS_PER_TASK``, and the CPU quota of
    the control group (containers).

    Example:
        >>> 1 <= available_cpus() <= os.cpu_count()
        True
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = (_positive(os.environ.get("SLURM_CPUS_PER_TASK", "")), _cgroup_cpus())
    return min(count, *(limit or count for limit in limits))


def cores() -> int:
    """Return the number of threads to use: that of `limit_threads`, or `available_cpus` and ``OMP_NUM_THREADS``.

    Example:
        >>> cores() >= 1
        True
    """
    limit = _limit.get()
    if limit is not None:
        return limit
    available = available_cpus()
    return min(available, _positive(os.environ.get("OMP_NUM_THREADS", "")) or available)


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Context in which `cores` is ``n_jobs``, also in the threads of `map_ordered`, and BLAS uses no more threads.

    As in scikit-learn, -1 is all CPUs, -2 all but one, and so on. ``None`` changes nothing.

    Example:
        >>> with limit_threads(1):
        ...     cores()
        1
    """
    if n_jobs is None:
        yield
        return
    threads = n_jobs if n_jobs > 0 else max(1, available_cpus() + 1 + n_jobs)
    token = _limit.set(threads)
    try:
        with _blas_controller().limit(limits=threads, user_api="blas"):
            yield
    finally:
        _limit.reset(token)


def _positive(text: str) -> int | None:
    """Parse a whole number above 0; ``None`` for any other text."""
    return int(text) if text.isdigit() and int(text) > 0 else None


@cache
def _cgroup_cpus() -> int | None:
    """Return the CPU quota of this process's control group (version 2), rounded up; ``None`` without a quota."""
    try:
        (group,) = (line[4:] for line in CGROUP.read_text().splitlines() if line.startswith("0::/"))
        quota, period = (CGROUPS / group / "cpu.max").read_text().split()
        return None if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # no control groups, or version 1
        return None


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
                context = contextvars.copy_context()  # with the limit of `limit_threads`
                pending.append(pool.submit(context.run, function, item))
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
