"""Work over a Ray cluster, or a local one."""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orcu.errors import require
from orcu.launchers import LAUNCHERS, Item, Launcher, Result


@LAUNCHERS.register("ray")
class Ray(Launcher):
    """Ray tasks, one per item, with as many CPUs as it has threads.

    The folders that the items name must be the same on all machines. When a machine fails, its items
    are tried again elsewhere; runs of the benchmark go on from their checkpoints.

    Args:
        jobs: pieces at once on a cluster of this machine.
        threads: CPUs of each.
        gpus: if any are named, each task asks for its share of a graphics card.
        address: of a cluster; ``None`` starts one on this machine.
    """

    def __init__(self, *, jobs: int, threads: int = 1, gpus: Sequence[int] = (), address: str | None = None) -> None:
        super().__init__(jobs=jobs, threads=threads, gpus=gpus)
        require("ray", extra="ray", what="the Ray launcher")
        self.address = address
        self._ray: Any = importlib.import_module("ray")

    def __enter__(self) -> Self:
        own_cluster = {"num_cpus": self.jobs * self.threads, "num_gpus": len(self.gpus)}
        # Workers may start in another folder, so they are told where the data are.
        folders = {"ORCU_DATA": str(Path(os.environ.get("ORCU_DATA", "orcu_data")).resolve())}
        self._ray.init(
            address=self.address,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": folders},
            logging_level="ERROR",
            **({} if self.address else own_cluster),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster; one of this machine stops."""
        self._ray.shutdown()

    def results(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """The results as they are ready; an error of the function is raised as it was."""
        share = min(1.0, len(self.gpus) / self.jobs)
        remote = self._ray.remote(num_cpus=self.threads, num_gpus=share, max_retries=3)(_called)
        shared = self._ray.put(function)
        waiting = {remote.remote(shared, item): at for at, item in enumerate(items)}
        while waiting:
            ready, _ = self._ray.wait(list(waiting), num_returns=1)
            try:
                result = self._ray.get(ready[0])
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            yield waiting.pop(ready[0]), result


def _called(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)
