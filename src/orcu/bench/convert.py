"""Results of version 0.1.0, where each spec had runs of its own: taken over into the runs that all specs share."""

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcu.bench.calibrated import values
from orcu.bench.jobs import run_id
from orcu.bench.store import RESULT, Store
from orcu.errors import InputError
from orcu.figures.sources import INDEX
from orcu.io.files import atomic_write
from orcu.predictions.predictions import Predictions


@dataclass(frozen=True)
class Conversion:
    """What `convert` did.

    Attributes:
        taken: runs that are shared now.
        doubles: runs that were there already, from another spec.
    """

    taken: int
    doubles: int


def old_runs(results: Path) -> list[Path]:
    """The runs of version 0.1.0 in a folder of results.

    Example:
        >>> old_runs(Path("nowhere"))
        []
    """
    return sorted(file.parent for file in results.glob(f"*/runs/*/{RESULT}"))


def refuse_old(folder: Path) -> None:
    """Refuse a spec's folder of version 0.1.0.

    Raises:
        InputError: which says how to go on.
    """
    if (folder / "runs").is_dir():
        raise InputError(
            f"{folder}: holds runs of version 0.1.0, which every spec kept for itself; `orcu bench convert --results "
            f"{folder.parent}` takes them over, without training anything again."
        )


def convert(results: Path) -> Conversion:
    """Move the runs of version 0.1.0 to where all specs share them; what is not finished is left out.

    Predictions, curves and models stay as they are. Values after calibrators are computed anew when a table asks, by
    the calibrators of this version.

    Raises:
        InputError: if there are none.
    """
    runs, store, taken = old_runs(results), Store(results), 0
    if not runs:
        raise InputError(f"{results}: there are no runs of version 0.1.0.")
    store.make()
    for old in runs:
        result = json.loads((old / RESULT).read_text())
        job = _job(result["job"])
        run = run_id(job, result["manifest"])
        if store.is_finished(run):
            continue
        new = store.runs / f"{run}.converted.{uuid.uuid4().hex}"
        shutil.copytree(old, new)
        changed = {key: value for key, value in result.items() if key not in {"data", "loss"}}
        changed |= {"run": run, "job": job}
        if "test" in result:
            before = result["test"].get("none")
            changed["test"] = before if before is not None else values(Predictions.read(old / "test.parquet"))
        with atomic_write(new / RESULT) as temporary:
            temporary.write_text(json.dumps(changed, indent=1, sort_keys=True) + "\n")
        _note_size(new)
        new.rename(store.runs / run)
        taken += 1
    for folder in sorted({old.parents[1] for old in runs}):
        (folder / "runs").rename(folder / "runs_of_0.1.0")  # nothing is deleted
        (folder / INDEX).unlink(missing_ok=True)
    return Conversion(taken, len(runs) - taken)


def _job(described: dict[str, Any]) -> dict[str, Any]:
    """What a run depends on, as this version says it."""
    job = {key: value for key, value in described.items() if key != "calibrators"}
    loss = job.get("loss")
    if isinstance(loss, dict) and loss.keys() == {"name"}:
        job["loss"] = loss["name"]
    return job


def _note_size(folder: Path) -> None:
    """The result has been rewritten: so is its size, by which a cut-off file is recognised."""
    file = folder / "timings.json"
    timings = json.loads(file.read_text()) if file.exists() else {}
    if "sizes" in timings:
        timings["sizes"][RESULT] = (folder / RESULT).stat().st_size
        file.write_text(json.dumps(timings) + "\n")
