"""Launcher for a Ray cluster, or a local Ray instance."""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from orcu.errors import require
from orcu.launchers import LAUNCHERS, Item, Launcher, Result


@LAUNCHERS.register("ray")
class Ray(Launcher):
    """One Ray task per item.

    The folders that items refer to must exist on all machines. When a machine fails, its items are tried again on
    others; benchmark runs continue from their checkpoints.

    Args:
        jobs: number of parallel tasks on a local instance.
        threads: number of CPUs of each task.
        gpus: numbers of the GPUs; each task requests its share of one.
        address: address of a cluster; ``None`` starts a local instance.
    """

    def __init__(self, *, jobs: int, threads: int = 1, gpus: Sequence[int] = (), address: str | None = None) -> None:
        super().__init__(jobs=jobs, threads=threads, gpus=gpus)
        require("ray", extra="ray", feature="the Ray launcher")
        self.address = address
        self._ray: Any = importlib.import_module("ray")

    def __enter__(self) -> Self:
        local = {"num_cpus": self.jobs * self.threads, "num_gpus": len(self.gpus)}
        # workers may start in another folder, so they need the absolute path of the data
        variables = {"ORCU_DATA": str(Path(os.environ.get("ORCU_DATA", "orcu_data")).resolve())}
        self._ray.init(
            address=self.address,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": variables},
            logging_level="ERROR",
            **({} if self.address else local),
        )
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Disconnect from the cluster; a local instance stops."""
        self._ray.shutdown()

    def map_unordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Index and result of each item in order of completion; errors of the function are raised unchanged."""
        gpu_share = min(1.0, len(self.gpus) / self.jobs)
        task = self._ray.remote(num_cpus=self.threads, num_gpus=gpu_share, max_retries=3)(_call)
        shared = self._ray.put(function)
        pending = {task.remote(shared, item): index for index, item in enumerate(items)}
        while pending:
            (done,), _ = self._ray.wait(list(pending), num_returns=1)
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            yield pending.pop(done), result


def _call(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)
