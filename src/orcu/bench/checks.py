"""Checks before the first run of a benchmark: data, weights, devices, CPUs and free disk space."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from orcu.bench.jobs import Job, State
from orcu.bench.plan import Plan, PlannedRun
from orcu.bench.prepared import is_packaged, is_prepared, prepare_command
from orcu.bench.probe import Probe
from orcu.bench.run import resources
from orcu.bench.spec import DataSpec
from orcu.bench.store import Store
from orcu.bench.weights import WeightSources, find_copies, missing_weights, pretrained_backbone
from orcu.data.base import DATASETS, IMAGES
from orcu.data.store import cache_folder, load, store_folder
from orcu.threads import available_cpus

CHECKPOINT_COPIES = 7  # of the weights: two checkpoints (one is being written) of weights and two moments, the model
ROW_BYTES, RUN_BYTES = 200, 100_000  # of the predictions of a row; of the other files of a run
GB = 1e9


@dataclass(frozen=True)
class Check:
    """One finding about a benchmark.

    Attributes:
        subject: what was checked, such as "weights of resnet50".
        finding: the result.
        fix: how to fix a problem; empty if there is none.
        prevents_runs: whether runs whose data are available cannot start.
    """

    subject: str
    finding: str
    fix: str = ""
    prevents_runs: bool = False


def check(
    plan: Plan,
    *,
    jobs: int | None = None,
    devices: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    download: bool = False,
    probes: Sequence[Probe] = (),
) -> list[Check]:
    """Check everything that the unfinished runs of a benchmark need; the arguments are those of `orcu.bench.run`.

    Args:
        plan: the benchmark.
        jobs: number of parallel runs.
        devices: GPUs to use, or "cpu".
        weights: file or folder with local copies of the pretrained weights.
        download: whether weights may be downloaded; this function does not.
        probes: measured steps, as of `orcu.bench.probe.probe`.

    Raises:
        InputError: if ``devices`` or ``weights`` is not valid.
    """
    unfinished = [run for run in plan.runs if run.state is not State.FINISHED]
    if not unfinished:
        return []
    if find_spec("torch") is None:
        pending = any(run.state is not State.NO_DATA for run in unfinished)
        return [*_data(unfinished), Check("torch", "not installed", "pip install 'orcu[train]'", pending)]
    options = resources(plan.spec, jobs=jobs, devices=devices)
    parallel, gpus = options["jobs"], options["gpus"]
    return [
        *_data(unfinished),
        *_weights(unfinished, WeightSources(find_copies([run.job.data for run in unfinished], weights), download)),
        _devices(unfinished, gpus),
        _cpus(parallel, plan.spec.threads),
        *_memory(probes, gpus, parallel),
        *_disk(plan, unfinished, parallel),
    ]


def _first_jobs(runs: Sequence[PlannedRun]) -> list[Job]:
    """One job of each data set."""
    return list({run.job.data.title: run.job for run in reversed(runs)}.values())[::-1]


def _data(runs: Sequence[PlannedRun]) -> list[Check]:
    checks = []
    for job in _first_jobs(runs):
        subject = f"data: {job.data.title}"
        if is_prepared(job):
            rows = len(load(store_folder() / job.data.store).manifest)
            checks.append(Check(subject, f"prepared, {rows:,} rows"))
        elif is_packaged(job):
            checks.append(Check(subject, "in a package; prepared by `orcu bench run`"))
        else:
            checks.append(Check(subject, "not prepared; its runs are skipped", prepare_command(job)))
    return checks


def _weights(runs: Sequence[PlannedRun], sources: WeightSources) -> list[Check]:
    checks: dict[str, Check] = {}
    pending = {run.job.data.title for run in runs if run.state is not State.NO_DATA}
    for data in (job.data for job in _first_jobs(runs)):
        name = pretrained_backbone(data) or data.weights
        problem = missing_weights(data, WeightSources(sources.copies))
        subject = f"weights: {name}"
        if problem and sources.download and pretrained_backbone(data):
            checks.setdefault(subject, Check(subject, "downloaded by `orcu bench run --download`"))
        elif problem:
            earlier = checks.get(subject)
            prevents = data.title in pending or (earlier is not None and earlier.prevents_runs)
            checks[subject] = Check(subject, "missing", problem, prevents)
        elif pretrained_backbone(data):
            checks.setdefault(subject, Check(subject, sources.copies.get(name, "on this machine")))
    return list(checks.values())


def _devices(runs: Sequence[PlannedRun], gpus: Sequence[int]) -> Check:
    import torch

    if gpus:
        names = (f"{gpu}: {torch.cuda.get_device_name(gpu)}" for gpu in gpus)
        return Check("devices", "; ".join(names))
    is_slow = any(_trains_images(run.job.data) for run in runs)
    fix = "training a whole image network on a CPU can take hours; use a machine with GPUs" if is_slow else ""
    return Check("devices", "CPU only", fix)


def _cpus(parallel: int, threads: int) -> Check:
    available, needed = available_cpus(), parallel * threads
    fewer = ", or use fewer --jobs" if parallel > 1 else ""
    fix = f"the runs are slower; request {needed} CPUs{fewer}" if needed > available else ""
    return Check("CPUs", f"{available} available; runs in parallel: {parallel}, threads of each: {threads}", fix)


def _memory(probes: Sequence[Probe], gpus: Sequence[int], parallel: int) -> list[Check]:
    import torch

    checks = [Check(f"steps: {probe.data}", "not measured", probe.problem) for probe in probes if probe.problem]
    used = max((probe.memory for probe in probes if probe.memory is not None), default=None)
    if used is not None and gpus:
        total = min(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus)
        sharing = -(-parallel // len(gpus))
        is_short = sharing * used > total
        fix = (
            "use fewer --jobs" if sharing > 1 else "use --set training.mixed_precision=true, which changes the results"
        )
        finding = f"{sharing * used / GB:.1f} GB of {total / GB:.1f} GB; runs on each GPU: {sharing}"
        checks.append(Check("GPU memory", finding, fix if is_short else "", is_short))
    return checks


def _disk(plan: Plan, runs: Sequence[PlannedRun], parallel: int) -> list[Check]:
    """Free space for decoded images, and for the results of prepared data, whose number of rows is known."""
    results, caches, network = 0.0, 0.0, 0.0
    store = Store(plan.results)
    for job in _first_jobs(runs):
        count = sum(run.job.data.title == job.data.title for run in runs)
        sizes = [store.size(str(run.id)) for run in plan.finished if run.job.data.title == job.data.title]
        if not is_prepared(job):
            dataset = DATASETS.create(job.data.set, **job.data.options)
            if dataset.card.kind == IMAGES:
                caches += sum(dataset.counts or ()) * 3 * job.data.size**2
            continue
        prepared = load(store_folder() / job.data.store)
        width, parameters = _network_size(job.data)
        splits = prepared.split(job.data.protocol, job.fold)
        rows = len(splits["validation"]) + len(splits["test"])
        per_run = rows * (4 * width + ROW_BYTES) + RUN_BYTES + (4 * parameters if job.keep_model else 0)
        results += count * (sum(sizes) / len(sizes) if sizes else per_run)
        network = max(network, 4 * parameters)
        if prepared.has_images and not cache_folder(prepared.derived, job.data.size).exists():
            caches += len(prepared.manifest) * 3 * job.data.size**2
    results += parallel * CHECKPOINT_COPIES * network
    needs = {plan.results: results, store_folder(): caches}
    if _disk_of(plan.results) == _disk_of(store_folder()):
        needs = {plan.results: results + caches}
    checks = []
    for folder, needed in needs.items():
        free = shutil.disk_usage(_existing(folder)).free
        fix = "free some space, or choose another folder (--results, ORCU_DATA)" if needed > free else ""
        finding = f"{_gigabytes(needed)} needed, {_gigabytes(free)} free"
        if needed:
            prevents = bool(fix) and any(run.state is not State.NO_DATA for run in runs)
            checks.append(Check(f"disk: {folder}", finding, fix, prevents))
    return checks


def _gigabytes(count: float) -> str:
    return f"{count / GB:.1f} GB" if count >= GB / 10 else "less than 0.1 GB"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _disk_of(folder: Path) -> int:
    return _existing(folder).stat().st_dev


def _trains_images(data: DataSpec) -> bool:
    return DATASETS.get(data.set).card.kind == IMAGES and not data.frozen


def _network_size(data: DataSpec) -> tuple[int, int]:
    """Number of features that a run stores for each row, and number of parameters of an image network."""
    if not _trains_images(data):
        return data.hidden_layer_sizes[-1] if data.hidden_layer_sizes else 0, 0
    import torch

    from orcu.models.backbones import RANDOM, ImageBackbone
    from orcu.models.kinds import model_kind

    with torch.device("meta"):  # shapes without memory
        backbone = ImageBackbone(data.backbone or model_kind(IMAGES).default_backbone, weights=RANDOM)
    return backbone.width, sum(parameter.numel() for parameter in backbone.parameters())
