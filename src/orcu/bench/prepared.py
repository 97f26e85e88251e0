"""The data of a job: prepared, carried by a package, or still to be brought; and the work that runs on them share."""

from collections.abc import Callable

from orcu.bench.jobs import Job
from orcu.data.base import DATASETS
from orcu.data.prepare import prepare
from orcu.data.store import MANIFEST, Prepared, load, store_folder
from orcu.io.files import locked


def is_prepared(job: Job) -> bool:
    """Whether the job's data are in the store."""
    return (store_folder() / job.data.store / MANIFEST).exists()


def is_carried(job: Job) -> bool:
    """Whether a package carries the job's data, which are then prepared on the spot."""
    return DATASETS.get(job.data.set).card.package is not None


def prepared_for(job: Job) -> Prepared | None:
    """The job's data, if they are prepared; those that a package carries are prepared on the spot."""
    folder = store_folder() / job.data.store
    if not is_prepared(job):
        if not is_carried(job):
            return None
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f".{job.data.store}.lock", wait=True):
            if not is_prepared(job):  # another process may have done it meanwhile
                prepare(job.data.set, out=folder, options=job.data.options)
    return load(folder)


def how_to_prepare(job: Job) -> str:
    """The command that brings a job's data."""
    options = "".join(f" --option {key}={value}" for key, value in job.data.options.items())
    return f"orcu data prepare {job.data.set} --root DIR{options} -o {store_folder() / job.data.store}"


def share(job: Job, progress: Callable[[int, int], None]) -> None:
    """Prepare what all runs on a job's data need, once: decoded images and the features of a frozen backbone.

    Args:
        job: one of those runs.
        progress: told what is done of how much.
    """
    from orcu.training.run import Run, RunConfig

    prepared, data = prepared_for(job), job.data
    if prepared is None:
        return
    prepared.decode(data.size, progress=lambda _, done, total: progress(done, total))
    if data.frozen:
        settings = RunConfig(backbone=data.backbone, weights=data.weights, frozen=True, size=data.size)
        Run(prepared, prepared.split(data.protocol, job.fold), settings).features(progress)
