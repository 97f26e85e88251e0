"""Execution of one run: training, predictions and their metrics."""

import errno
import json
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
from orcu.bench.store import FEATURES, LostLockError, Store
from orcu.bench.weights import WeightSources, pretrained_backbone
from orcu.data.store import PreparedData
from orcu.ensemble.kinds import NETWORK, PRESETS
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.training.run import RunConfig

STORED = ("test.parquet", "validation.parquet", "train.parquet", "curves.parquet", FEATURES, "run.json")
PACKAGED = WeightSources()  # weights of packages and of the local hub cache


def execute(job: Job, results: Path, *, weights: WeightSources = PACKAGED, device: str = "auto") -> Outcome:
    """Execute a run unless it is finished or another process executes it.

    An error of the training is recorded in the store and not raised; the next call tries again.

    Args:
        job: the run.
        results: folder of all results.
        weights: where pretrained weights come from.
        device: "cpu", "cuda" or "mps"; "auto" for the best available.

    Raises:
        InputError: if the data are not prepared, or the disk is full.
    """
    store = Store(results)
    prepared = prepared_data(job)
    if prepared is None:
        raise InputError(f"{job.data.title}: the data are not prepared; run `{prepare_command(job)}`.")
    run = find_run(job, prepared.manifest.digest, store)
    claim = store.claim(run, job.files)
    if claim is None:
        return Outcome.SKIPPED
    with claim:
        started = time.monotonic()
        try:
            files = claim.work / "finished"
            result = _train(job, prepared, claim.work, files, run_config(job, weights), device)
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


def find_run(job: Job, manifest: str, store: Store) -> str:
    """Id of a job's run in a store; a run whose model version 0.2 has kept is found by its former id."""
    run, former = job.id(manifest), job.id_with_model(manifest)
    return former if not store.is_finished(run, job.files) and store.is_finished(former, job.files) else run


def run_config(job: Job, weights: WeightSources = PACKAGED) -> "RunConfig":
    """The training configuration of a job; ``weights`` says where pretrained weights come from."""
    from orcu.training.run import RunConfig

    names = {"backbone", "weights", "frozen", "size", "augment", "rotation_border", "training", "label"}
    fields = job.data.model_dump(include=names)
    sizes = tuple(job.data.hidden_layer_sizes)
    return RunConfig(
        loss=job.loss_spec or "sord",
        head=job.head,
        seed=job.seed,
        hidden_layer_sizes=sizes,
        download=weights.download,
        pretrained_path=weights.copies.get(pretrained_backbone(job.data), ""),
        **fields,
    )


def _train(
    job: Job, prepared: PreparedData, work: Path, files: Path, config: "RunConfig", device: str
) -> dict[str, Any]:
    """Train a job and collect its files; returns the content of result.json."""
    import torch

    from orcu.training.auto_scale import has_auto_scale, train_with_scale
    from orcu.training.run import Run

    torch.set_num_threads(job.threads)
    prepared.decode(job.data.size, wait=True)
    splits = prepared.split(job.data.protocol, job.fold)
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    content: dict[str, Any] = {"job": job.hashed_fields()}
    if job.two_stage is not None:
        return content | _train_two_stages(job.two_stage, prepared, splits, config, work / "training", files, device)
    ensemble = EnsembleSpec.of(job.loss)
    if ensemble is not None:
        return content | _train_ensemble(ensemble, prepared, splits, config, work / "training", files)
    if has_auto_scale(config.loss):
        result, choice = train_with_scale(prepared, splits, config, work / "training", device=device)
        content["scale"] = choice.best.scale
        content["scales"] = {f"{trial.scale:g}": trial.value for trial in choice.trials}
    else:
        result = Run(prepared, splits, config, device=device).train(work / "training")
    recorded = json.loads((result.folder / "run.json").read_text())["spec"]
    if "pretrained" in recorded:
        content["pretrained"] = recorded["pretrained"]
    for name in (*STORED, *job.files):
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
    stages: TwoStage, prepared: PreparedData, splits: Any, config: Any, work: Path, files: Path, device: str
) -> dict[str, Any]:
    from orcu.training.two_stage import summary, two_stage

    curves = two_stage(prepared, splits, config, work, scale=stages.scale, epochs=stages.epochs, device=device)
    shutil.copy2(work / "two_stage.parquet", files / "two_stage.parquet")
    # Quantities that a branch without a regularizer does not have are NaN, which JSON cannot represent.
    branches = {
        row["branch"]: {name: value for name, value in row.items() if name != "branch" and math.isfinite(value)}
        for row in summary(curves)
    }
    return {"branches": branches, "feasible_share": curves[0]["feasible_share"]}
