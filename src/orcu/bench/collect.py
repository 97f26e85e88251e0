"""Collecting: the finished runs of a spec as records, sorted, without clock or host."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcu.bench.plan import Job, jobs
from orcu.bench.run import how_to_prepare
from orcu.bench.spec import Spec
from orcu.bench.store import Store
from orcu.data.store import MANIFEST, load, store_folder

FINISHED, RUNNING, FAILED, WAITING, NO_DATA = "finished", "running", "failed", "waiting", "no data"


@dataclass(frozen=True)
class Planned:
    """A run of the plan and where it stands."""

    job: Job
    state: str
    run: str | None = None  # its id, once the data are there
    seconds: float | None = None
    why: str = ""  # the error, or the command that brings the data


def planned(spec: Spec, results: Path) -> list[Planned]:
    """Every run of a spec and where it stands; works before any data are there."""
    store = Store(results)
    digests: dict[str, str | None] = {}
    found = []
    for job in jobs(spec):
        folder = store_folder() / job.data.store
        if job.data.store not in digests:
            there = (folder / MANIFEST).exists()
            digests[job.data.store] = load(folder).manifest.digest if there else None
        digest = digests[job.data.store]
        if digest is None:
            carried = _carried(job)
            found.append(Planned(job, WAITING if carried else NO_DATA, why="" if carried else how_to_prepare(job)))
            continue
        run = job.id(digest)
        if store.is_finished(run):
            found.append(Planned(job, FINISHED, run, store.seconds(run)))
        elif store.is_held(run):
            found.append(Planned(job, RUNNING, run))
        else:
            error = store.failure(run)
            found.append(Planned(job, WAITING if error is None else FAILED, run, why=error or ""))
    return found


def records(spec: Spec, results: Path, *, rows: str | None = None) -> list[dict[str, Any]]:
    """One record for each finished run and calibrator: data, loss, calibrator, fold, seed, metrics.

    Args:
        spec: the benchmark.
        results: its folder of results.
        rows: "test" or "validation" (before calibrators, which are fitted there); as in the spec by default.
    """
    store, found = Store(results), []
    for one in planned(spec, results):
        if one.state != FINISHED or one.run is None:
            continue
        result = store.result(one.run)
        if "branches" in result:
            told = [(branch, "none", values) for branch, values in result["branches"].items()]
        elif (rows or spec.rows) == "validation":
            told = [(one.job.loss_name, "none", result["validation"])]
        else:
            told = [(one.job.loss_name, name, values) for name, values in result["test"].items()]
        for loss, calibrator, values in told:
            found.append(
                {
                    "data": one.job.data.title,
                    "backbone": one.job.data.backbone,
                    "loss": loss,
                    "calibrator": calibrator,
                    "fold": one.job.fold,
                    "seed": one.job.seed,
                    "run": one.run,
                    **values,
                }
            )
    return sorted(found, key=lambda r: (r["data"], r["loss"], r["calibrator"], r["fold"], r["seed"]))


def _carried(job: Job) -> bool:
    from orcu.data.base import DATASETS

    return DATASETS.get(job.data.set).card.package is not None
