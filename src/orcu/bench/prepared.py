"""Data of a job: whether they are prepared, how to prepare them, and work that its runs share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from orcu.bench.jobs import Job
from orcu.data.base import DATASETS
from orcu.data.prepare import prepare
from orcu.data.store import MANIFEST, PreparedData, load, store_folder
from orcu.io.files import file_lock

if TYPE_CHECKING:
    from orcu.training.run import RunConfig


def is_prepared(job: Job) -> bool:
    """Whether the job's data are in the store."""
    return (store_folder() / job.data.store / MANIFEST).exists()


def is_packaged(job: Job) -> bool:
    """Whether the job's data come with a Python package, so that they can be prepared without a download."""
    return DATASETS.get(job.data.set).card.package is not None


def prepared_data(job: Job) -> PreparedData | None:
    """The job's prepared data, or ``None``; packaged data are prepared first."""
    folder = store_folder() / job.data.store
    if not is_prepared(job):
        if not is_packaged(job):
            return None
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.parent / f".{job.data.store}.lock", wait=True):
            if not is_prepared(job):  # another process may have prepared them in the meantime
                prepare(job.data.set, output=folder, options=job.data.options)
    return load(folder)


def prepare_command(job: Job) -> str:
    """The command that prepares the job's data."""
    options = "".join(f" --set {key}={value}" for key, value in job.data.options.items())
    return f"orcu data prepare {job.data.set} --root DIR{options} -o {store_folder() / job.data.store}"


def prepare_shared(job: Job, config: "RunConfig", device: str, progress: Callable[[str, str, int, int], None]) -> None:
    """Decode images and compute the features of a frozen backbone, once for all runs on a job's data.

    Args:
        job: one of the runs.
        config: its training configuration.
        device: device that computes the features.
        progress: callback that receives the step, the unit of its items, and the number of finished and of all items.
    """
    from orcu.training.run import Run

    prepared, data = prepared_data(job), job.data
    if prepared is None:
        return
    # Processes that start together, such as the tasks of a job array, wait for the one that decodes.
    prepared.decode(data.size, wait=True, progress=lambda _, *counts: progress("decoding images", "images", *counts))
    if data.frozen:
        run = Run(prepared, prepared.split(data.protocol, job.fold), replace(config, loss="ce"), device=device)
        run.features(partial(progress, "computing features", "batches"))
