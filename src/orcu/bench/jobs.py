"""The jobs of a spec: its runs, known before any data are there."""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from orcu.bench.spec import CalibratorSpec, DataSpec, Spec, TwoStage, loss_name
from orcu.data.base import DATASETS
from orcu.errors import InputError, UnknownNameError


@dataclass(frozen=True)
class Job:
    """One run: a loss (or the two-stage diagnostic), a fold of a data set, a seed.

    The calibrators that follow are no part of what the run is: it is shared by all that ask for the same training.
    """

    data: DataSpec
    loss: Any
    fold: int
    seed: int
    calibrators: tuple[CalibratorSpec, ...]
    threads: int
    keep_model: bool = False
    two_stage: TwoStage | None = None

    @property
    def loss_name(self) -> str:
        """How the loss is called in tables."""
        return "two stages" if self.two_stage else loss_name(self.loss)

    @property
    def loss_spec(self) -> Any:
        """What `orcu.losses.create` takes."""
        if isinstance(self.loss, str):
            return self.loss
        options = {key: value for key, value in self.loss.items() if key != "label"}
        return options["name"] if options.keys() == {"name"} else options

    @property
    def title(self) -> str:
        """For people."""
        seed = f", seed {self.seed}" if self.seed else ""
        return f"{self.data.title}, fold {self.fold}, {self.loss_name}{seed}"

    def described(self) -> dict[str, Any]:
        """What the result depends on, as plain data; the manifest's digest joins when the run starts."""
        parts = {
            "data": self.data.model_dump(exclude={"name", "prepared", "folds", "seeds", "without", "select"}),
            "loss": self.loss_spec,
            "fold": self.fold,
            "seed": self.seed,
            "threads": self.threads,
        }
        if self.keep_model:
            parts["keep_model"] = True
        if self.two_stage is not None:
            parts["two_stage"] = self.two_stage.model_dump()
        return parts

    def id(self, manifest: str) -> str:
        """The run's id, from what it depends on and the rows it is run on."""
        return run_id(self.described(), manifest)


def run_id(described: dict[str, Any], manifest: str) -> str:
    """The id of a run that depends on this, as `Job.described` says it, and these rows.

    Example:
        >>> run_id({"loss": "ce"}, "digest of the rows")
        '88264f9c4fefeb3c47bc'
    """
    text = json.dumps([described, manifest], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:20]


def jobs(spec: Spec) -> list[Job]:
    """All runs of a spec, in the order in which they are done.

    Raises:
        InputError: if a data set, protocol or fold does not exist.
    """
    every = []
    for data in spec.data:
        protocols = DATASETS.create(data.set, **data.options).protocols
        if data.protocol not in protocols:
            raise UnknownNameError(f"protocol of {data.set}", data.protocol, protocols)
        count = protocols[data.protocol].num_folds
        folds = range(count) if data.folds is None else data.folds
        for fold in folds:
            if not 0 <= fold < count:
                raise InputError(f"{data.title}: {data.protocol} has folds 0..{count - 1}, got {fold}.")
            for seed in data.seeds or spec.seeds:
                here = [
                    Job(data, loss, fold, seed, tuple(spec.calibrators), spec.threads, spec.keep_models, spec.two_stage)
                    for loss in spec.losses or [""]
                ]
                every += [job for job in here if job.loss_name not in data.without]
    return every
