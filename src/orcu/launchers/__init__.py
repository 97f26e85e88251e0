"""Launchers: parallel execution of independent jobs in processes or on a cluster, one module each.

A launcher is a context manager whose `Launcher.map_unordered` maps a function over items. The benchmark maps its runs,
`orcu.evaluate` the files of a folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

from orcu.registry import Registry

Item = TypeVar("Item")
Result = TypeVar("Result")


class Launcher(ABC):
    """Base class of the launchers.

    Args:
        jobs: number of parallel jobs on this machine.
        threads: number of threads of each job.
        gpus: numbers of the GPUs, assigned to the workers in turn; empty for CPU only.
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


LAUNCHERS: Registry[Any] = Registry("launcher", package="orcu.launchers", plugins="orcu.launchers")
