"""Which of the shared runs belong to a spec, and what it calls them: kept in the spec's own folder."""

import json
from pathlib import Path

from orcu.bench.jobs import Job
from orcu.figures.sources import INDEX
from orcu.io.files import atomic_write


def write_index(folder: Path, runs: list[tuple[str, Job]]) -> None:
    """Write the list of a spec's runs.

    Args:
        folder: the spec's own, beside the shared runs.
        runs: ids and jobs.
    """
    entries = [
        {"run": run, "data": job.data.title, "loss": job.loss_name, "fold": job.fold, "seed": job.seed}
        for run, job in runs
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n")
