"""Execution of one run: training, predictions and their metrics."""

import errno
import math
import shutil
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orcu.bench.calibrated import compute_metrics, metrics_after
from orcu.bench.jobs import Job, Outcome
from orcu.bench.prepared import prepare_command, prepared_data
from orcu.bench.spec import EnsembleSpec, TwoStage
from orcu.bench.store import LostLockError, Store
from orcu.data.store import PreparedData
from orcu.ensemble.kinds import NETWORK, PRESETS
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.training.run import RunConfig

STORED = ("test.parquet", "validation.parquet", "train.parquet", "curves.parquet", "features.safetensors", "run.json")
MODEL = ("model.safetensors", "model.json")


def execute(job: Job, results: Path) -> Outcome:
    """Execute a run unless it is finished or another process executes it.

    An error of the training is recorded in the store and not raised; the next call tries again.

    Args:
        job: the run.
        results: folder of all results.

    Raises:
        InputError: if the data are not prepared, or the disk is full.
    """
    store = Store(results)
    prepared = prepared_data(job)
    if prepared is None:
        raise InputError(f"{job.data.title}: the data are not prepared; run `{prepare_command(job)}`.")
    run = job.id(prepared.manifest.digest)
    claim = store.claim(run)
    if claim is None:
        return Outcome.SKIPPED
    with claim:
        started = time.monotonic()
        try:
            files = claim.work / "finished"
            result = _train(job, prepared, claim.work, files)
            result = {"run": run, "manifest": prepared.manifest.digest, **result}
            claim.publish(files, result, time.monotonic() - started)
        except LostLockError:
            return Outcome.SKIPPED
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise InputError(
                    f"{results}: the disk is full. Free some space and run the command again; finished runs are kept."
                ) from None
            if not claim.is_owner():
                return Outcome.SKIPPED
            store.record_failure(run, f"{job.title}\n{traceback.format_exc()}")
            return Outcome.FAILED
    for calibrator in () if job.two_stage else job.calibrators:
        with suppress(InputError):  # raised again by the table that needs this calibrator
            metrics_after(store, run, calibrator)
    return Outcome.DONE


def run_config(job: Job) -> "RunConfig":
    """The training configuration of a job."""
    from orcu.training.run import RunConfig

    fields = job.data.model_dump(include={"backbone", "weights", "frozen", "size", "augment", "training"})
    sizes = tuple(job.data.hidden_layer_sizes)
    return RunConfig(loss=job.loss_spec or "sord", seed=job.seed, hidden_layer_sizes=sizes, **fields)


def _train(job: Job, prepared: PreparedData, work: Path, files: Path) -> dict[str, Any]:
    """Train a job and collect its files; returns the content of result.json."""
    import torch

    from orcu.training.auto_scale import has_auto_scale, train_with_scale
    from orcu.training.run import Run

    torch.set_num_threads(job.threads)
    prepared.decode(job.data.size, wait=True)
    config, splits = run_config(job), prepared.split(job.data.protocol, job.fold)
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    content: dict[str, Any] = {"job": job.hashed_fields()}
    if job.two_stage is not None:
        return content | _train_two_stages(job.two_stage, prepared, splits, config, work / "training", files)
    ensemble = EnsembleSpec.of(job.loss)
    if ensemble is not None:
        return content | _train_ensemble(ensemble, prepared, splits, config, work / "training", files)
    if has_auto_scale(config.loss):
        result, choice = train_with_scale(prepared, splits, config, work / "training")
        content["scale"] = choice.best.scale
        content["scales"] = {f"{trial.scale:g}": trial.value for trial in choice.trials}
    else:
        result = Run(prepared, splits, config).train(work / "training")
    for name in (*STORED, *(MODEL if job.keep_model else ())):
        shutil.copy2(result.folder / name, files / name)
    return content | {
        "epochs": len(result.curves),
        "test": compute_metrics(result.predictions["test"]),
        "validation": compute_metrics(result.predictions["validation"]),
        "training": asdict(result.train_config),
    }


def _train_ensemble(
    ensemble: EnsembleSpec, prepared: PreparedData, splits: Any, config: "RunConfig", work: Path, files: Path
) -> dict[str, Any]:
    """Train an ensemble on the rows of train and validation; calibrators see its out-of-fold predictions."""
    from orcu.data.base import TABLE
    from orcu.training.ensemble_run import EnsembleRun
    from orcu.training.run import Run

    config = replace(config, training=ensemble.training, loss=ensemble.losses[0])
    is_table = prepared.manifest.about.kind == TABLE
    kinds = ensemble.estimators or (PRESETS["default"].kinds if is_table else (NETWORK,))
    run = Run(prepared, splits, config, device="cpu")
    result, fitted = EnsembleRun(run, ensemble.losses, cv=ensemble.cv, estimators=kinds).train(work)
    shutil.copy2(work / "out_of_fold.parquet", files / "validation.parquet")
    shutil.copy2(work / "test.parquet", files / "test.parquet")
    return {
        "test": compute_metrics(result.predictions["test"]),
        "validation": compute_metrics(result.predictions["out_of_fold"]),
        "training": asdict(result.train_config),
        "weights": fitted.weights,
    }


def _train_two_stages(
    stages: TwoStage, prepared: PreparedData, splits: Any, config: Any, work: Path, files: Path
) -> dict[str, Any]:
    from orcu.training.two_stage import summary, two_stage

    curves = two_stage(prepared, splits, config, work, scale=stages.scale, epochs=stages.epochs)
    shutil.copy2(work / "two_stage.parquet", files / "two_stage.parquet")
    # Quantities that a branch without a regularizer does not have are NaN, which JSON cannot represent.
    branches = {
        row["branch"]: {name: value for name, value in row.items() if name != "branch" and math.isfinite(value)}
        for row in summary(curves)
    }
    return {"branches": branches, "feasible_share": curves[0]["feasible_share"]}
