"""Launchers: parallel execution of independent jobs in processes or on a cluster, one module each.

A launcher is a context manager whose `Launcher.map_unordered` maps a function over items. The benchmark maps its runs,
`orcu.evaluate` the files of a folder.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

from orcu.errors import InputError
from orcu.registry import Registry

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Launcher(ABC):
    """Base class of the launchers.

    Args:
        jobs: number of parallel jobs on this machine.
        threads: number of threads of each job.
        gpus: numbers of the GPUs as torch counts them, assigned to the workers in turn; empty for CPU only.
    """

    def __init__(self, *, jobs: int, threads: int = 1, gpus: Sequence[int] = ()) -> None:
        self.jobs, self.threads, self.gpus = jobs, threads, tuple(gpus)

    @abstractmethod
    def map_unordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Index of each item and the function's result, in order of completion."""

    def map_ordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The function's results in the order of the items, each as soon as those before it are complete."""
        complete: dict[int, Result] = {}
        following = 0
        for index, result in self.map_unordered(function, items):
            complete[index] = result
            while following in complete:
                yield complete.pop(following)
                following += 1

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Release the workers."""


def device_names(gpus: Sequence[int]) -> list[str]:
    """Entries of ``CUDA_VISIBLE_DEVICES`` for the GPUs of these numbers, as torch counts them in this process.

    torch numbers the entries of the variable from 0. A worker inherits no numbering, so it gets the entry itself: a
    number, or the name of a GPU ("GPU-...") or of a slice of one ("MIG-...").

    Raises:
        InputError: if the variable has too few entries.

    Example:
        >>> from unittest import mock
        >>> with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="2,MIG-4a5b"):
        ...     device_names([1, 0])
        ['MIG-4a5b', '2']
    """
    variable = os.environ.get(VISIBLE_DEVICES)
    if variable is None:
        return [str(gpu) for gpu in gpus]
    entries = [entry.strip() for entry in variable.split(",") if entry.strip()]
    for gpu in gpus:
        if gpu >= len(entries):
            raise InputError(
                f"gpus: there is no GPU {gpu}; {VISIBLE_DEVICES}={variable!r} has {len(entries)}, numbered from 0."
            )
    return [entries[gpu] for gpu in gpus]


LAUNCHERS: Registry[Any] = Registry("launcher", package="orcu.launchers", plugins="orcu.launchers")
