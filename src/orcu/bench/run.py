"""Doing one run: from the prepared data to the metrics of every calibrator."""

import math
import shutil
import time
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orcu import calibrators
from orcu.bench.plan import Job
from orcu.bench.spec import Spec, TwoStage
from orcu.bench.store import LostLockError, Store
from orcu.data.base import DATASETS, TABLE
from orcu.data.prepare import prepare
from orcu.data.store import MANIFEST, Prepared, load, store_folder
from orcu.errors import InputError
from orcu.evaluation.evidence import gather
from orcu.metrics.base import all_metrics
from orcu.predictions.predictions import Predictions
from orcu.tables.files import only_one

if TYPE_CHECKING:
    from orcu.training.run import Settings

BINS = 15
DONE, SKIPPED, FAILED = "done", "skipped", "failed"
KEPT = ("test.parquet", "validation.parquet", "train.parquet", "curves.parquet", "features.safetensors", "run.json")
MODEL = ("model.safetensors", "model.json")


def prepared_for(job: Job) -> Prepared | None:
    """The job's data, if they are prepared; those that a package carries are prepared on the spot."""
    folder = store_folder() / job.data.store
    if (folder / MANIFEST).exists():
        return load(folder)
    if DATASETS.get(job.data.set).card.package is None:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with only_one(folder.parent / f".{job.data.store}.lock", wait=True):
        if not (folder / MANIFEST).exists():  # another process may have done it meanwhile
            prepare(job.data.set, out=folder, options=job.data.options)
    return load(folder)


def how_to_prepare(job: Job) -> str:
    """The command that brings a job's data."""
    options = "".join(f" --option {key}={value}" for key, value in job.data.options.items())
    return f"orcu data prepare {job.data.set} --root DIR{options} -o {store_folder() / job.data.store}"


def check_parts(spec: Spec) -> None:
    """Make every loss, calibrator and recipe once, so that a mistake is told before the runs.

    Raises:
        InputError: if one cannot be made.
    """
    from orcu import losses
    from orcu.training.auto_scale import is_auto
    from orcu.training.recipes import RECIPES

    for data in spec.data:
        kind = DATASETS.create(data.set, **data.options).card.kind
        if kind == TABLE and (data.backbone or data.frozen):
            raise InputError(f"{data.title}: a table has no backbone; leave out backbone and frozen.")
        RECIPES["frozen" if data.frozen else kind].but(**data.recipe)
    for loss in [*spec.losses, *(loss for more in spec.more.values() for loss in more)]:
        told: Any = loss
        if isinstance(loss, dict):
            left_out = {"label", "scale"} if is_auto(loss) else {"label"}
            told = {key: value for key, value in loss.items() if key not in left_out}
        losses.create(told, num_classes=5)
    for calibrator in spec.calibrators:
        if calibrator != "none":
            calibrators.create(calibrator)


def execute(job: Job, results: Path) -> str:
    """Do a run unless it is finished or under way elsewhere; "done", "skipped" or "failed".

    A failure is noted in the store, with its error, and not raised; asking again tries again.
    """
    store = Store(results)
    prepared = prepared_for(job)
    if prepared is None:
        raise InputError(f"{job.data.title} is not prepared; run `{how_to_prepare(job)}`.")
    run = job.id(prepared.manifest.digest)
    claim = store.claim(run)
    if claim is None:
        return SKIPPED
    with claim:
        started = time.monotonic()
        try:
            files = claim.work / "finished"
            result = _done(job, prepared, claim.work, files)
            claim.finish(
                files, {"run": run, "manifest": prepared.manifest.digest, **result}, time.monotonic() - started
            )
        except LostLockError:
            return SKIPPED
        except Exception:
            if not claim.is_mine():
                return SKIPPED
            store.fail(run, f"{job.title}\n{traceback.format_exc()}")
            return FAILED
    return DONE


def settings_of(job: Job) -> "Settings":
    """What a job says of its training."""
    from orcu.training.run import Settings

    data = job.data
    return Settings(
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


def _done(job: Job, prepared: Prepared, work: Path, files: Path) -> dict[str, Any]:
    import torch

    from orcu.data.base import IMAGES
    from orcu.data.cache import build
    from orcu.data.store import cache_folder
    from orcu.training.auto_scale import is_auto, train_with_scale
    from orcu.training.run import Run

    torch.set_num_threads(job.threads)
    data = job.data
    if prepared.manifest.about.kind == IMAGES:
        build(prepared.manifest, cache_folder(prepared.folder, data.size), data.size, wait=True)
    settings, splits = settings_of(job), prepared.split(data.protocol, job.fold)
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    about: dict[str, Any] = {"job": job.described(), "data": data.title, "loss": job.loss_name}
    if job.two_stage is not None:
        return about | _both_stages(job.two_stage, prepared, splits, settings, work / "training", files)
    if is_auto(settings.loss):
        result, found = train_with_scale(prepared, splits, settings, work / "training")
        about["scale"] = found.best.scale
        about["scales"] = {f"{trial.scale:g}": trial.value for trial in found.trials}
    else:
        result = Run(prepared, splits, settings).train(work / "training")
    for name in (*KEPT, *(MODEL if job.keep_model else ())):
        shutil.copy2(result.folder / name, files / name)
    told = result.predictions
    return about | {
        "epochs": len(result.curves),
        "test": {name: _values(calibrated(name, told["validation"], told["test"])) for name in job.calibrators},
        "validation": _values(told["validation"]),
        "recipe": asdict(result.recipe),
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


def calibrated(calibrator: str, held: Predictions, test: Predictions) -> Predictions:
    """The test rows after a calibrator that was fitted on validation rows; "none" leaves them."""
    if calibrator == "none":
        return test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)
        made = calibrators.create(calibrator).fit(held.as_logits()[0], held.labels, ids=held.ids)
    return test.calibrated(made)


def _values(told: Predictions) -> dict[str, float]:
    """Every metric that is defined on these rows."""
    evidence, _ = gather(told, bins=BINS)
    tables = evidence.layout.tables(evidence.vector)
    values = {metric.name: float(metric(tables)) for metric in all_metrics()}
    return {name: value for name, value in sorted(values.items()) if math.isfinite(value)}
