"""Launcher for a Ray cluster, or a local Ray instance."""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from orcu.errors import require
from orcu.launchers import LAUNCHERS, VISIBLE_DEVICES, Item, Launcher, Result, device_names


@LAUNCHERS.register("ray")
class Ray(Launcher):
    """One Ray task per item.

    The folders that items refer to must exist on all machines. When a machine fails, its items are tried again on
    others; benchmark runs continue from their checkpoints. Ray sets ``CUDA_VISIBLE_DEVICES`` of each task.

    Args:
        jobs: number of parallel tasks on a local instance. On a cluster, ``None`` stands for one for each GPU, or for
            as many as the CPUs allow; a larger number lets tasks share GPUs.
        threads: number of CPUs of each task.
        gpus: numbers of the GPUs of a local instance, as torch counts them. A cluster assigns its own GPUs: ``None``
            uses them, an empty sequence does not.
        address: address of a cluster; ``None`` starts a local instance.
    """

    def __init__(
        self, *, jobs: int | None, threads: int = 1, gpus: Sequence[int] | None = (), address: str | None = None
    ) -> None:
        super().__init__(jobs=jobs or 0, threads=threads, gpus=gpus or ())
        require("ray", extra="ray", feature="the Ray launcher")
        self.address = address
        self.uses_gpus = gpus is None or len(gpus) > 0
        self._gpu_share = 0.0
        self._ray: Any = importlib.import_module("ray")

    def __enter__(self) -> Self:
        # workers may start in another folder, so they need the absolute path of the data
        variables = {"ORCU_DATA": str(Path(os.environ.get("ORCU_DATA", "orcu_data")).resolve())}
        start = partial(
            self._ray.init,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": variables},
            logging_level="ERROR",
        )
        if self.address is None:
            with _visible_devices(self.gpus):
                start(num_cpus=self.jobs * self.threads, num_gpus=len(self.gpus))
            n_gpus = len(self.gpus)
        else:
            start(address=self.address)
            total = self._ray.cluster_resources()
            n_gpus = int(total.get("GPU", 0)) if self.uses_gpus else 0
            self.jobs = self.jobs or n_gpus or max(1, int(total.get("CPU", 1)) // self.threads)
        self._gpu_share = min(1.0, n_gpus / self.jobs)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Disconnect from the cluster; a local instance stops."""
        self._ray.shutdown()

    def map_unordered(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Index and result of each item in order of completion; errors of the function are raised unchanged."""
        task = self._ray.remote(num_cpus=self.threads, num_gpus=self._gpu_share, max_retries=3)(_call)
        shared = self._ray.put(function)
        pending = {task.remote(shared, item): index for index, item in enumerate(items)}
        while pending:
            (done,), _ = self._ray.wait(list(pending), num_returns=1)
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            yield pending.pop(done), result


@contextmanager
def _visible_devices(gpus: Sequence[int]) -> Iterator[None]:
    """Let Ray see only these GPUs: it assigns the first entries of ``CUDA_VISIBLE_DEVICES`` at its start."""
    before = os.environ.get(VISIBLE_DEVICES)
    os.environ[VISIBLE_DEVICES] = ",".join(device_names(gpus))
    try:
        yield
    finally:
        if before is None:
            del os.environ[VISIBLE_DEVICES]
        else:
            os.environ[VISIBLE_DEVICES] = before


def _call(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)
