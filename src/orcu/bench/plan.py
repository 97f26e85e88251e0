"""The plan of a benchmark: its runs, where each stands, what the rest will cost."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orcu.bench.calibrated import check_calibrator, values_after
from orcu.bench.convert import refuse_old
from orcu.bench.jobs import Job, jobs, run_id
from orcu.bench.prepared import how_to_prepare, is_carried, is_prepared
from orcu.bench.spec import EnsembleSpec, Spec, load_spec, loss_name
from orcu.bench.states import State
from orcu.bench.store import Store
from orcu.data.base import DATASETS
from orcu.data.store import load, store_folder
from orcu.errors import InputError

__all__ = ["Cost", "Job", "Plan", "Planned", "check_parts", "distinct", "jobs", "plan", "planned", "status"]

DAMAGED = "its result is damaged, as a full disk or a broken copy leaves it; it is done again"


@dataclass(frozen=True)
class Planned:
    """A run of the plan and where it stands."""

    job: Job
    state: State
    run: str | None = None  # its id, once the data are there
    seconds: float | None = None
    why: str = ""  # the error, or the command that brings the data


@dataclass(frozen=True)
class Cost:
    """How much of a data set's runs is done, and how many hours the rest will take, if that can be foretold."""

    data: str
    runs: int
    finished: int
    hours: float | None

    @property
    def to_do(self) -> int:
        """How many runs are not finished."""
        return self.runs - self.finished


@dataclass(frozen=True, repr=False)
class Plan:
    """The runs of a benchmark and where each stood when the plan was made.

    Attributes:
        spec: the benchmark.
        results: the folder of all results.
        runs: in the order in which they are done.
        called: what the user calls the spec.
    """

    spec: Spec
    results: Path
    runs: list[Planned]
    called: str

    def __repr__(self) -> str:
        return f"Plan({self.spec.name}: {', '.join(f'{count} {state}' for state, count in self.states.items())})"

    @property
    def folder(self) -> Path:
        """What belongs to this benchmark alone: the list of its runs, its report."""
        return self.results / self.spec.name

    @property
    def states(self) -> Counter[State]:
        """How many runs stand where."""
        return Counter(run.state for run in self.runs)

    @property
    def to_do(self) -> list[Job]:
        """The jobs that are not finished and whose data are there."""
        return [run.job for run in self.runs if run.state not in {State.FINISHED, State.NO_DATA}]

    @property
    def missing_data(self) -> list[str]:
        """The commands that bring the data that are not there."""
        return list(dict.fromkeys(run.why for run in self.runs if run.state is State.NO_DATA))

    @property
    def finished(self) -> list[Planned]:
        """The runs with a result."""
        return [run for run in self.runs if run.state is State.FINISHED]

    def some_finished(self) -> list[Planned]:
        """`finished`, of which there must be some.

        Raises:
            InputError: if there is none.
        """
        if not self.finished:
            raise InputError(f"no run of {self.spec.name} is finished yet; `orcu bench run {self.called}` does them.")
        return self.finished

    def file(self, run: Planned, name: str) -> Path:
        """A file of a finished run."""
        return Store(self.results).runs / str(run.run) / name

    def costs(self) -> list[Cost]:
        """What each data set costs; runs of a set without any finished one are taken to be as long as the others."""
        known = [run.seconds for run in self.finished if run.seconds is not None]
        costs = []
        for data in dict.fromkeys(run.job.data.title for run in self.runs):
            count = sum(run.job.data.title == data for run in self.runs)
            done = [run.seconds for run in self.finished if run.job.data.title == data]
            seconds = [one for one in done if one is not None] or known
            left = count - len(done)
            costs.append(Cost(data, count, len(done), left * sum(seconds) / len(seconds) / 3600 if seconds else None))
        return costs

    def records(self, rows: str | None = None) -> list[dict[str, Any]]:
        """One record for each finished run and calibrator: data, loss, calibrator, fold, seed, metrics.

        Args:
            rows: "test" or "validation" (before calibrators, which are fitted there); as in the spec by default.
        """
        store, records = Store(self.results), []
        for run in self.finished:
            result = store.result(str(run.run))
            if "branches" in result:
                blocks = [(branch, "none", values) for branch, values in result["branches"].items()]
            elif (rows or self.spec.rows) == "validation":
                blocks = [(run.job.loss_name, "none", result["validation"])]
            else:
                calibrators = zip(self.spec.calibrator_names, self.spec.calibrators, strict=True)
                blocks = [
                    (run.job.loss_name, called, values_after(store, str(run.run), calibrator))
                    for called, calibrator in calibrators
                ]
            for loss, calibrator, values in blocks:
                records.append(
                    {
                        "data": run.job.data.title,
                        "backbone": run.job.data.backbone,
                        "loss": loss,
                        "calibrator": calibrator,
                        "fold": run.job.fold,
                        "seed": run.job.seed,
                        "run": run.run,
                        **values,
                    }
                )
        return sorted(records, key=lambda r: (r["data"], r["loss"], r["calibrator"], r["fold"], r["seed"]))


def distinct(plans: Iterable[Plan]) -> tuple[int, int]:
    """How many different runs several benchmarks have together, and how many of these are finished.

    Example:
        >>> distinct([plan("main", results="nowhere"), plan("posthoc", results="nowhere")])
        (275, 0)
    """
    finished: dict[str, bool] = {}
    for one in plans:
        for run in one.runs:
            key = run_id(run.job.described(), run.job.data.store)
            finished[key] = finished.get(key, False) or run.state is State.FINISHED
    return len(finished), sum(finished.values())


Benchmark = str | os.PathLike[str] | Spec | Plan


def status(spec: Benchmark, *, results: str | os.PathLike[str] | None = None, more: str | None = None) -> Plan:
    """Where each run of a benchmark stands; works before any data are there.

    Args:
        spec: a TOML file, the name of a spec that comes with orcu, or a spec. A plan is taken as it is.
        results: the folder of all results; ``$ORCU_RESULTS``, or ``results`` by default.
        more: the name of further losses in the spec, such as grid of ablation.

    Raises:
        InputError: if the spec cannot be used.
    """
    if isinstance(spec, Plan):
        return spec
    described = load_spec(spec, more=more)
    folder = Path(results or os.environ.get("ORCU_RESULTS", "results"))
    refuse_old(folder / described.name)
    called = described.name if isinstance(spec, Spec) else str(spec)
    return Plan(described, folder, planned(described, folder), called)


def plan(spec: Benchmark, *, results: str | os.PathLike[str] | None = None, more: str | None = None) -> Plan:
    """The runs of a benchmark; a mistake in its losses, calibrators or recipes is told before the first of them.

    Arguments and errors as for `status`. Losses are made of torch: without it they are not looked at.

    Example:
        >>> main = plan("main", results="nowhere")
        >>> len(main.runs), main.costs()[0].runs
        (275, 55)
    """
    if isinstance(spec, Plan):
        return spec
    whole = status(spec, results=results, more=more)
    if find_spec("torch") is not None:
        check_parts(whole.spec)
    return whole


def planned(spec: Spec, results: Path) -> list[Planned]:
    """Every run of a spec and where it stands; works before any data are there.

    Args:
        spec: the benchmark.
        results: the folder of all results.
    """
    store = Store(results)
    digests: dict[str, str | None] = {}
    runs = []
    for job in jobs(spec):
        name = job.data.store
        if name not in digests:
            digests[name] = load(store_folder() / name).manifest.digest if is_prepared(job) else None
        digest = digests[name]
        runs.append(_without_data(job) if digest is None else _standing(job, job.id(digest), store))
    return runs


def _without_data(job: Job) -> Planned:
    if is_carried(job):
        return Planned(job, State.WAITING)
    return Planned(job, State.NO_DATA, why=how_to_prepare(job))


def _standing(job: Job, run: str, store: Store) -> Planned:
    if store.is_finished(run):
        return Planned(job, State.FINISHED, run, store.seconds(run))
    if store.is_held(run):
        return Planned(job, State.RUNNING, run)
    if store.is_damaged(run):
        return Planned(job, State.WAITING, run, why=DAMAGED)
    error = store.failure(run)
    return Planned(job, State.WAITING if error is None else State.FAILED, run, why=error or "")


def check_parts(spec: Spec) -> None:
    """Make every loss, calibrator and recipe once, so that a mistake is told before the runs.

    Raises:
        InputError: if one cannot be made.
    """
    from orcu import losses
    from orcu.models.kinds import model_kind
    from orcu.training.auto_scale import is_auto
    from orcu.training.config import TRAIN_CONFIGS

    for data in spec.data:
        kind = DATASETS.create(data.set, **data.options).card.kind
        if not model_kind(kind).has_backbone and (data.backbone or data.frozen):
            raise InputError(f"{data.title}: a {kind} has no backbone; leave out backbone and frozen.")
        TRAIN_CONFIGS["frozen" if data.frozen else kind].but(**data.recipe)
    for loss in [*spec.losses, *(loss for more in spec.more.values() for loss in more)]:
        ensemble = EnsembleSpec.of(loss)
        if ensemble is not None:
            _check_ensemble(ensemble, loss_name(loss), spec)
            continue
        parts: Any = loss
        if isinstance(loss, dict):
            left_out = {"label", "scale"} if is_auto(loss) else {"label"}
            parts = {key: value for key, value in loss.items() if key not in left_out}
        losses.create(parts, num_classes=5)
    for calibrator in spec.calibrators:
        check_calibrator(calibrator)


def _check_ensemble(ensemble: EnsembleSpec, called: str, spec: Spec) -> None:
    from orcu import losses
    from orcu.models.kinds import model_kind
    from orcu.training.config import TrainConfig
    from orcu.training.cross_fitting import stacks

    TrainConfig().but(**ensemble.recipe)
    for loss in ensemble.losses:
        if not stacks(losses.create(loss, num_classes=5)):
            raise InputError(f"losses: {loss} cannot be part of an ensemble.")
    for data in spec.data:
        kind = model_kind(DATASETS.create(data.set, **data.options).card.kind)
        if called in data.without:
            continue
        if kind.has_backbone and not data.frozen:
            raise InputError(f"{data.title}: an ensemble in folds needs a frozen backbone; say frozen = true.")
        if kind.has_backbone and "boosting" in (ensemble.members or ()):
            raise InputError(f'{data.title}: trees are grown on tables; say members = ["network"].')
