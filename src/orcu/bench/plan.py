"""Plan of a benchmark: its runs, their states, and the expected cost of the remaining ones."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orcu.bench.calibrated import check_calibrator, metrics_after
from orcu.bench.execution import find_run
from orcu.bench.jobs import Job, State, jobs, run_id
from orcu.bench.prepared import is_packaged, is_prepared, prepare_command
from orcu.bench.spec import EnsembleSpec, Spec, load_spec, loss_name
from orcu.bench.store import Store
from orcu.bench.versions import package_versions
from orcu.data.base import DATASETS
from orcu.data.store import load, store_folder
from orcu.ensemble.kinds import NETWORK
from orcu.errors import InputError, first_line

DAMAGED = "the stored result is incomplete (full disk, interrupted copy); it will be run again"
WITHOUT_MODEL = "the stored result has no model, which the spec keeps; it will be run again and replaced"


@dataclass(frozen=True)
class PlannedRun:
    """A run of the plan and its state."""

    job: Job
    state: State
    id: str | None = None  # known once the data are prepared
    seconds: float | None = None
    reason: str = ""  # error message, why it will be run again, or the command that prepares the data


@dataclass(frozen=True)
class Cost:
    """Number of runs on a data set, and the expected hours of the remaining ones, if they can be estimated."""

    data: str
    runs: int
    finished: int
    hours: float | None

    @property
    def remaining(self) -> int:
        """Number of unfinished runs."""
        return self.runs - self.finished


@dataclass(frozen=True, repr=False)
class Plan:
    """The runs of a benchmark with their states at the time of planning.

    Attributes:
        spec: the benchmark.
        results: folder of all results.
        runs: runs in execution order.
        argument: the spec as the user gave it, for suggested commands.
    """

    spec: Spec
    results: Path
    runs: list[PlannedRun]
    argument: str

    def __repr__(self) -> str:
        return f"Plan({self.spec.name}: {', '.join(f'{count} {state}' for state, count in self.states.items())})"

    @property
    def folder(self) -> Path:
        """Folder with the list of this benchmark's runs and its report."""
        return self.results / self.spec.name

    @property
    def states(self) -> Counter[State]:
        """Number of runs in each state."""
        return Counter(run.state for run in self.runs)

    @property
    def pending_jobs(self) -> list[Job]:
        """Unfinished jobs whose data are available."""
        return [run.job for run in self.runs if run.state not in {State.FINISHED, State.NO_DATA}]

    @property
    def prepare_commands(self) -> list[str]:
        """Commands that prepare the missing data."""
        return list(dict.fromkeys(run.reason for run in self.runs if run.state is State.NO_DATA))

    @property
    def finished(self) -> list[PlannedRun]:
        """Runs with a result."""
        return [run for run in self.runs if run.state is State.FINISHED]

    def require_finished(self) -> list[PlannedRun]:
        """`finished`, checked not to be empty.

        Raises:
            InputError: if no run is finished.
        """
        if not self.finished:
            raise InputError(
                f"{self.spec.name}: no run is finished yet; start them with `orcu bench run {self.argument}`."
            )
        return self.finished

    @property
    def mixed_weights(self) -> list[str]:
        """Data sets whose finished runs started from different pretrained weights, by their recorded digests."""
        store, digests = Store(self.results), dict[str, set[str]]()
        for run in self.finished:
            digest = store.result(str(run.id)).get("pretrained")
            digests.setdefault(run.job.data.title, set()).update([digest] if digest else [])
        return [data for data, entries in digests.items() if len(entries) > 1]

    @property
    def provenance(self) -> dict[str, str]:
        """Where the numbers of a table come from: spec, runs, seeds and versions, without dates and paths."""
        store = Store(self.results)
        recorded = {_join_versions(store.versions(str(run.id))) for run in self.finished}
        return {
            "spec": self.spec.name,
            **({"set in all runs": self.spec.set_options.strip()} if self.spec.overrides else {}),
            "runs": f"{len(self.finished)} of {len(self.runs)}",
            "seeds": " ".join(map(str, sorted({run.job.seed for run in self.finished}))),
            "versions of the runs": " or ".join(sorted(text or "not recorded" for text in recorded)),
            "versions of the table": _join_versions(package_versions()),
        }

    def file(self, run: PlannedRun, name: str) -> Path:
        """Path of a file of a finished run."""
        return Store(self.results).runs / str(run.id) / name

    def costs(self, *, parallel: int = 1) -> list[Cost]:
        """Cost of each data set; without a finished run its runs are assumed to take as long as the others.

        Args:
            parallel: number of runs at a time, by which the hours are divided.
        """
        all_seconds = [run.seconds for run in self.finished if run.seconds is not None]
        costs = []
        for data in dict.fromkeys(run.job.data.title for run in self.runs):
            count = sum(run.job.data.title == data for run in self.runs)
            finished = [run.seconds for run in self.finished if run.job.data.title == data]
            seconds = [duration for duration in finished if duration is not None] or all_seconds
            remaining = count - len(finished)
            hours = remaining * sum(seconds) / len(seconds) / 3600 / parallel if seconds else None
            costs.append(Cost(data, count, len(finished), hours))
        return costs

    def records(self, split: str | None = None) -> list[dict[str, Any]]:
        """One record for each finished run and calibrator: data, loss, calibrator, fold, seed and metrics.

        Args:
            split: "test" or "validation" (before calibrators, which are fitted there); the spec's by default.
        """
        store, records = Store(self.results), []
        for run in self.finished:
            result = store.result(str(run.id))
            if "branches" in result:
                blocks = [(branch, "none", metrics) for branch, metrics in result["branches"].items()]
            elif (split or self.spec.split) == "validation":
                blocks = [(run.job.loss_name, "none", result["validation"])]
            else:
                calibrators = zip(self.spec.calibrator_names, self.spec.calibrators, strict=True)
                blocks = [
                    (run.job.loss_name, name, metrics_after(store, str(run.id), calibrator))
                    for name, calibrator in calibrators
                ]
            for loss, calibrator, metrics in blocks:
                records.append(
                    {
                        "data": run.job.data.title,
                        "backbone": run.job.data.backbone,
                        "loss": loss,
                        "calibrator": calibrator,
                        "fold": run.job.fold,
                        "seed": run.job.seed,
                        "run": run.id,
                        **metrics,
                    }
                )
        return sorted(records, key=lambda r: (r["data"], r["loss"], r["calibrator"], r["fold"], r["seed"]))


def _join_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def count_distinct(plans: Iterable[Plan]) -> tuple[int, int]:
    """Number of distinct runs in several benchmarks, and how many of them are finished.

    Example:
        >>> count_distinct([plan("main", results="nowhere"), plan("posthoc", results="nowhere")])
        (275, 0)
    """
    finished: dict[str, bool] = {}
    for run in (run for each in plans for run in each.runs):
        key = run_id(run.job.hashed_fields(), run.job.data.store)
        finished[key] = finished.get(key, False) or run.state is State.FINISHED
    return len(finished), sum(finished.values())


Benchmark = str | os.PathLike[str] | Spec | Plan


def status(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Plan:
    """State of every run of a benchmark; works before any data are prepared.

    Args:
        spec: TOML file, name of a spec that comes with orcu, or a spec; a plan is returned unchanged.
        results: folder of all results; ``$ORCU_RESULTS``, or ``results`` by default.
        extra: name of one of the spec's lists of extra losses, such as "grid" of the ablation.
        overrides: values that replace those of every data set, such as ``{"training.epochs": 2}``.

    Raises:
        InputError: if the spec is not valid, or the folder has results of version 0.1.
    """
    if isinstance(spec, Plan):
        return spec
    loaded = load_spec(spec, extra=extra, overrides=overrides)
    folder = Path(results or os.environ.get("ORCU_RESULTS", "results"))
    if (folder / loaded.name / "runs").is_dir():
        raise InputError(
            f"{folder / loaded.name}: results of orcu 0.1 are not supported; choose another folder (--results)."
        )
    argument = (loaded.name if isinstance(spec, Spec) else str(spec)) + loaded.set_options
    return Plan(loaded, folder, planned_runs(loaded, folder), argument)


def plan(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Plan:
    """`status`, after a check of all losses, calibrators and training settings.

    The check of losses needs torch and is skipped without it.

    Example:
        >>> main = plan("main", results="nowhere")
        >>> len(main.runs), main.costs()[0].runs
        (275, 55)
    """
    if isinstance(spec, Plan):
        return spec
    result = status(spec, results=results, extra=extra, overrides=overrides)
    if find_spec("torch") is not None:
        check_parts(result.spec)
    return result


def planned_runs(spec: Spec, results: Path) -> list[PlannedRun]:
    """Every run of a spec with its state.

    Args:
        spec: the benchmark.
        results: folder of all results.
    """
    store = Store(results)
    digests: dict[str, str | None] = {}
    runs = []
    for job in jobs(spec):
        name = job.data.store
        if name not in digests:
            digests[name] = load(store_folder() / name).manifest.digest if is_prepared(job) else None
        digest = digests[name]
        if digest is not None:
            runs.append(_run_state(job, find_run(job, digest, store), store))
        elif is_packaged(job):
            runs.append(PlannedRun(job, State.PENDING))
        else:
            runs.append(PlannedRun(job, State.NO_DATA, reason=prepare_command(job)))
    return runs


def _run_state(job: Job, run: str, store: Store) -> PlannedRun:
    if store.is_finished(run, job.files):
        return PlannedRun(job, State.FINISHED, run, store.seconds(run))
    if store.is_locked(run):
        return PlannedRun(job, State.RUNNING, run)
    if store.is_damaged(run):
        return PlannedRun(job, State.PENDING, run, reason=DAMAGED)
    error = store.failure(run)
    if error is not None:
        return PlannedRun(job, State.FAILED, run, reason=error)
    return PlannedRun(job, State.PENDING, run, reason=WITHOUT_MODEL if store.is_finished(run) else "")


def check_parts(spec: Spec) -> None:
    """Construct every loss, calibrator and training configuration once, so that mistakes appear before the runs.

    Raises:
        InputError: if one of them is not valid.
    """
    from orcu import losses
    from orcu.models.heads import check_head
    from orcu.models.kinds import model_kind
    from orcu.training.auto_scale import has_auto_scale
    from orcu.training.config import TRAIN_CONFIGS

    for data in spec.data:
        kind = DATASETS.create(data.set, **data.options).card.kind
        if not model_kind(kind).has_backbone and (data.backbone or data.frozen):
            raise InputError(f"{data.title}: a {kind} has no backbone; remove backbone and frozen.")
        TRAIN_CONFIGS["frozen" if data.frozen else kind].replace(**data.training)
    for loss in [*spec.losses, *(loss for extra in spec.extra.values() for loss in extra)]:
        ensemble = EnsembleSpec.of(loss)
        if ensemble is not None:
            _check_ensemble(ensemble, loss_name(loss), spec)
            continue
        head = ""
        if isinstance(loss, dict):
            head = str(loss.get("head", ""))
            ignored = {"label", "head", "scale"} if has_auto_scale(loss) else {"label", "head"}
            loss = {key: value for key, value in loss.items() if key not in ignored}
        criterion = losses.create(loss, num_classes=5)
        check_head(head or criterion.head, criterion, loss_name(loss))
        if isinstance(loss, dict) and "source" in loss:
            _check_file_loss(criterion, loss_name(loss))
    for calibrator in spec.calibrators:
        check_calibrator(calibrator)


def _check_file_loss(criterion: Any, name: str) -> None:
    """Call a loss of the user's file once; the registered losses have tests.

    Raises:
        InputError: if the call fails, or the loss or its gradient is not finite.
    """
    import torch

    if criterion.needs_head:
        return
    logits = torch.linspace(-1.0, 1.0, 20).reshape(4, 5).requires_grad_()
    try:
        value = criterion(logits, torch.tensor([0, 2, 3, 4]))
        value.backward()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"losses: {name}: {type(error).__name__}: {first_line(error)}") from error
    if logits.grad is None or not torch.isfinite(logits.grad).all() or not torch.isfinite(value):
        raise InputError(f"losses: {name}: the loss of logits in [-1, 1], or its gradient, is not finite.")


def _check_ensemble(ensemble: EnsembleSpec, name: str, spec: Spec) -> None:
    from orcu import losses
    from orcu.models.kinds import model_kind
    from orcu.training.config import TrainConfig
    from orcu.training.networks import is_batchable

    TrainConfig().replace(**ensemble.training)
    for loss in ensemble.losses:
        if not is_batchable(losses.create(loss, num_classes=5)):
            raise InputError(f"losses: {loss} cannot be part of an ensemble.")
    for data in spec.data:
        kind = model_kind(DATASETS.create(data.set, **data.options).card.kind)
        if name in data.exclude or not kind.has_backbone:
            continue
        if not data.frozen:
            raise InputError(f"{data.title}: an ensemble needs a frozen backbone; set frozen = true.")
        if set(ensemble.estimators or ()) - {NETWORK}:
            raise InputError(
                f'{data.title}: estimators other than "network" need a table; set estimators = ["network"].'
            )
