"""Duration and memory of a benchmark's trainings, from a few timed steps on synthetic images."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from orcu.bench.execution import run_config
from orcu.bench.jobs import Job, State
from orcu.bench.plan import Plan
from orcu.bench.prepared import is_prepared
from orcu.bench.spec import EnsembleSpec
from orcu.data.base import DATASETS, IMAGES
from orcu.data.store import PreparedData, load, store_folder
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.training.config import TrainConfig

GPU_STEPS, CPU_STEPS = (3, 10), (1, 2)  # steps before the clock starts, and timed steps
FORWARD = 1 / 3  # share of a forward pass in a training step; the backward pass takes twice as long


@dataclass(frozen=True)
class Probe:
    """Measured training steps of a data set's network.

    Attributes:
        data: name of the data set.
        seconds: duration of a step; ``None`` if it was not measured.
        memory: largest memory of the GPU during the steps, in bytes; ``None`` on a CPU.
        hours: expected duration of all unfinished runs, one after another; ``None`` if it is unknown.
        problem: why it was not measured; empty if it was.
    """

    data: str
    seconds: float | None = None
    memory: int | None = None
    hours: float | None = None
    problem: str = ""


def probe(plan: Plan, *, device: str) -> list[Probe]:
    """Time training steps of each data set with unfinished runs, with its batch size, image size and precision.

    Images and weights are random, so neither data nor downloads are needed. Texts and tables need prepared data. The
    hours are epochs times steps times seconds; a validation step counts as a third of a training step. They need
    prepared data, which have the number of rows.

    Args:
        plan: the benchmark.
        device: "cpu" or a GPU such as "cuda:0".
    """
    jobs: dict[str, list[Job]] = {}
    for run in plan.runs:
        if run.state is not State.FINISHED:
            jobs.setdefault(run.job.data.title, []).append(run.job)
    return [_probe(title, group, device) for title, group in jobs.items()]


def _probe(title: str, jobs: list[Job], device: str) -> Probe:
    import torch

    from orcu.training.auto_scale import has_auto_scale

    single = [job for job in jobs if EnsembleSpec.of(job.loss) is None]
    if not single or single[0].data.frozen:
        return Probe(title, problem="no whole network is trained; its runs take minutes")
    job = single[0]
    prepared = load(store_folder() / job.data.store) if is_prepared(job) else None
    torch.set_num_threads(job.threads)
    try:
        config, seconds, memory = _measure(job, prepared, device)
    except torch.OutOfMemoryError:
        problem = (
            f"the memory of {device} is too small for the batch size; use --set training.mixed_precision=true or a "
            "smaller training.batch_size, which change the results"
        )
        return Probe(title, problem=problem)
    except InputError as error:
        return Probe(title, problem=str(error))
    hours = None
    if prepared is not None and single == jobs and not any(has_auto_scale(job.loss) for job in jobs):
        hours = sum(_seconds(job, prepared, config, seconds) for job in jobs) / 3600
    return Probe(title, seconds, memory, hours)


def _seconds(job: Job, prepared: PreparedData, config: "TrainConfig", step: float) -> float:
    """Expected duration of a run."""
    splits = prepared.split(job.data.protocol, job.fold)
    steps = {name: -(-len(rows) // config.batch_size) for name, rows in splits.items()}
    epochs = config.epochs
    if job.two_stage is not None:
        from orcu.training.two_stage import branches

        epochs = job.two_stage.epochs[0] + len(branches(job.two_stage.scale)) * job.two_stage.epochs[1]
    return epochs * (steps["train"] + FORWARD * steps["validation"]) * step


def _measure(job: Job, prepared: PreparedData | None, device: str) -> tuple["TrainConfig", float, int | None]:
    """Hyperparameters of the training, seconds of a step, and largest memory of the GPU in bytes."""
    import torch

    from orcu.models.backbones import RANDOM
    from orcu.training.config import TRAIN_CONFIGS
    from orcu.training.loop import TrainingProgress, fit
    from orcu.training.run import Run

    is_gpu = device.startswith("cuda")
    warm_up, timed = GPU_STEPS if is_gpu else CPU_STEPS
    kind = DATASETS.get(job.data.set).card.kind
    train_config = TRAIN_CONFIGS[kind].replace(**job.data.training)
    batches: Any
    if kind == IMAGES:
        model, criterion, batches = _synthetic(job, prepared, train_config, warm_up + timed, device)
    elif prepared is None:
        raise InputError("the data are not prepared")
    else:
        splits = prepared.split(job.data.protocol, job.fold)
        run = Run(prepared, splits, replace(run_config(job), weights=RANDOM), device=device)
        model, criterion, batches = run.model, run.criterion, run.batches("train", train=True)
    times = [time.perf_counter()]

    def record(progress: TrainingProgress) -> None:
        if progress.curve is None:
            if is_gpu:
                torch.cuda.synchronize(device)
            times.append(time.perf_counter())

    if is_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    steps = _FirstBatches(batches, warm_up + timed)
    short = train_config.replace(epochs=1, select=None, patience=None)
    fit(model, criterion, steps, None, short, device=device, progress=record)  # type: ignore[arg-type]
    timed = min(timed, len(times) - 1)  # a small table may have a single batch
    seconds = (times[-1] - times[-1 - timed]) / timed
    return train_config, seconds, torch.cuda.max_memory_allocated(device) if is_gpu else None


def _synthetic(
    job: Job, prepared: PreparedData | None, train_config: "TrainConfig", steps: int, device: str
) -> tuple[Any, Any, Any]:
    """Network, loss and batches of random images, with the real augmentation."""
    from orcu import losses
    from orcu.data.batches import ImageBatches
    from orcu.data.transforms import Augmentation
    from orcu.models.backbones import RANDOM
    from orcu.models.kinds import ModelConfig, model_kind

    data = job.data
    classes = DATASETS.create(data.set, **data.options).classes if prepared is None else prepared.manifest.classes
    classes = list(classes) or [str(k) for k in range(5)]  # a folder that is not prepared
    loss = job.loss_spec or "sord"
    if isinstance(loss, dict) and loss.get("scale") == "auto":
        loss = {key: value for key, value in loss.items() if key != "scale"}
    criterion = losses.create(loss, num_classes=len(classes))
    backbone = data.backbone or model_kind(IMAGES).default_backbone
    mean, std = [0.5] * 3, [0.25] * 3
    config = ModelConfig(IMAGES, classes, backbone, criterion.head, size=data.size, mean=mean, std=std)
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(steps * train_config.batch_size, 3, data.size, data.size), dtype=np.uint8)
    cache: Any = SimpleNamespace(images=pixels)
    batches = ImageBatches(
        cache,
        np.arange(len(pixels)),
        rng.integers(len(classes), size=len(pixels)),
        mean=np.array(mean),
        std=np.array(std),
        augmentation=Augmentation() if data.augment else None,
        batch_size=train_config.batch_size,
        shuffle=True,
        device=device,
    )
    return config.build(weights=RANDOM), criterion, batches


class _FirstBatches:
    """The first batches of an epoch."""

    def __init__(self, batches: Any, count: int) -> None:
        self._batches, self._count = batches, min(count, len(batches))

    def __len__(self) -> int:
        return self._count

    def epoch(self, number: int) -> Iterator[tuple[Any, ...]]:
        """The batches."""
        return (batch for _, batch in zip(range(self._count), self._batches.epoch(number), strict=False))
