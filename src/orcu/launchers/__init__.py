"""Launchers: how independent pieces of work are spread over processes and machines, one file each.

A launcher is a context; within it `Launcher.results` maps a function over items and gives the results
as they come. The benchmark maps its runs, `orcu.evaluate` the files of a folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from orcu.registry import Registry

Item = TypeVar("Item")
Result = TypeVar("Result")


class Launcher(ABC):
    """What does the work.

    Args:
        jobs: how many pieces at once, on this machine.
        threads: of each piece.
        gpus: numbers of the graphics cards, dealt to the workers in turn; none for work on the CPU.
    """

    def __init__(self, *, jobs: int, threads: int = 1, gpus: Sequence[int] = ()) -> None:
        self.jobs, self.threads, self.gpus = jobs, threads, tuple(gpus)

    @abstractmethod
    def results(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """The position of each item and the function's result, in the order in which they are ready."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the workers."""

    def map_ordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of the items, each as soon as those before it are ready."""
        ready: dict[int, Result] = {}
        wanted = 0
        for position, result in self.results(function, items):
            ready[position] = result
            while wanted in ready:
                yield ready.pop(wanted)
                wanted += 1


LAUNCHERS: Registry[Any] = Registry("launcher", package="orcu.launchers", plugins="orcu.launchers")
