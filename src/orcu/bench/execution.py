"""Doing one run: from the prepared data to stored predictions and their metrics."""

import errno
import math
import shutil
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orcu.bench.calibrated import values, values_after
from orcu.bench.jobs import Job
from orcu.bench.prepared import how_to_prepare, prepared_for
from orcu.bench.spec import EnsembleSpec, TwoStage
from orcu.bench.states import Outcome
from orcu.bench.store import LostLockError, Store
from orcu.data.store import Prepared
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.training.run import RunConfig

KEPT = ("test.parquet", "validation.parquet", "train.parquet", "curves.parquet", "features.safetensors", "run.json")
MODEL = ("model.safetensors", "model.json")


def execute(job: Job, results: Path) -> Outcome:
    """Do a run unless it is finished or under way elsewhere.

    A failure is noted in the store, with its error, and not raised; asking again tries again.

    Args:
        job: the run.
        results: the folder of all results.

    Raises:
        InputError: if the data are not prepared, or the disk is full.
    """
    store = Store(results)
    prepared = prepared_for(job)
    if prepared is None:
        raise InputError(f"{job.data.title} is not prepared; run `{how_to_prepare(job)}`.")
    run = job.id(prepared.manifest.digest)
    claim = store.claim(run)
    if claim is None:
        return Outcome.SKIPPED
    with claim:
        started = time.monotonic()
        try:
            files = claim.work / "finished"
            result = _result(job, prepared, claim.work, files)
            claim.finish(
                files, {"run": run, "manifest": prepared.manifest.digest, **result}, time.monotonic() - started
            )
        except LostLockError:
            return Outcome.SKIPPED
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise InputError(
                    f"{results}: the disk is full. Make room and run again: what is finished is kept, the rest goes on."
                ) from None
            if not claim.is_mine():
                return Outcome.SKIPPED
            store.fail(run, f"{job.title}\n{traceback.format_exc()}")
            return Outcome.FAILED
    for calibrator in () if job.two_stage else job.calibrators:
        with suppress(InputError):  # a table that asks for it says what is wrong; the run is fine
            values_after(store, run, calibrator)
    return Outcome.DONE


def settings_of(job: Job) -> "RunConfig":
    """What a job says of its training."""
    from orcu.training.run import RunConfig

    data = job.data
    return RunConfig(
        loss=job.loss_spec or "sord",
        backbone=data.backbone,
        weights=data.weights,
        frozen=data.frozen,
        hidden=tuple(data.hidden),
        size=data.size,
        augment=data.augment,
        recipe=data.recipe,
        seed=job.seed,
    )


def _result(job: Job, prepared: Prepared, work: Path, files: Path) -> dict[str, Any]:
    import torch

    from orcu.training.auto_scale import is_auto, train_with_scale
    from orcu.training.run import Run

    torch.set_num_threads(job.threads)
    data = job.data
    prepared.decode(data.size, wait=True)
    settings, splits = settings_of(job), prepared.split(data.protocol, job.fold)
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    about: dict[str, Any] = {"job": job.described()}
    if job.two_stage is not None:
        return about | _both_stages(job.two_stage, prepared, splits, settings, work / "training", files)
    ensemble = EnsembleSpec.of(job.loss)
    if ensemble is not None:
        return about | _ensemble(ensemble, prepared, splits, settings, work / "training", files)
    if is_auto(settings.loss):
        result, choice = train_with_scale(prepared, splits, settings, work / "training")
        about["scale"] = choice.best.scale
        about["scales"] = {f"{trial.scale:g}": trial.value for trial in choice.trials}
    else:
        result = Run(prepared, splits, settings).train(work / "training")
    for name in (*KEPT, *(MODEL if job.keep_model else ())):
        shutil.copy2(result.folder / name, files / name)
    held, test = result.predictions["validation"], result.predictions["test"]
    return about | {
        "epochs": len(result.curves),
        "test": values(test),
        "validation": values(held),
        "recipe": asdict(result.recipe),
    }


def _ensemble(
    ensemble: EnsembleSpec, prepared: Prepared, splits: Any, settings: "RunConfig", work: Path, files: Path
) -> dict[str, Any]:
    """An ensemble on the rows of train and validation; what it says of them out of fold is what calibrators see."""
    from orcu.data.base import TABLE
    from orcu.training.ensemble_run import ensemble_run

    settings = replace(settings, recipe=ensemble.recipe)
    kinds = ensemble.members or (["boosting", "network"] if prepared.manifest.about.kind == TABLE else ["network"])
    run = ensemble_run(prepared, splits, settings, ensemble.losses, folds=ensemble.folds, kinds=kinds, device="cpu")
    result, together = run.train(work)
    shutil.copy2(work / "out_of_fold.parquet", files / "validation.parquet")
    shutil.copy2(work / "test.parquet", files / "test.parquet")
    return {
        "test": values(result.predictions["test"]),
        "validation": values(result.predictions["out_of_fold"]),
        "recipe": asdict(result.recipe),
        "weights": together.weights,
    }


def _both_stages(
    stages: TwoStage, prepared: Prepared, splits: Any, settings: Any, work: Path, files: Path
) -> dict[str, Any]:
    from orcu.training.two_stage import summary, two_stage

    curves = two_stage(prepared, splits, settings, work, scale=stages.scale, epochs=stages.epochs)
    shutil.copy2(work / "two_stage.parquet", files / "two_stage.parquet")
    last = {row.pop("branch"): row for row in summary(curves)}
    # What a branch without a regularizer does not have is left out: JSON knows no NaN.
    finite = {
        branch: {name: value for name, value in row.items() if math.isfinite(value)} for branch, row in last.items()
    }
    return {"branches": finite, "feasible_share": curves[0]["feasible_share"]}
