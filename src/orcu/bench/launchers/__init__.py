"""Launchers: how the runs of a spec are spread over processes and machines, one file each."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from orcu.bench.plan import Job
from orcu.registry import Registry

Told = Callable[[Job, str], None]


class Launcher(Protocol):
    """What does the runs."""

    def __call__(self, todo: list[Job], results: Path, *, jobs: int, told: Told) -> None:
        """Do the runs; ``told`` is called with each and how it ended."""


LAUNCHERS: Registry[Launcher] = Registry("launcher", package="orcu.bench.launchers")
