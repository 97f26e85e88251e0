"""Jobs: the runs of a spec, their states and ids."""

import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from orcu.bench.spec import CalibratorSpec, DataSpec, EnsembleSpec, Spec, TwoStage, loss_name
from orcu.data.base import DATASETS, TABLE
from orcu.errors import InputError, UnknownNameError

# Run ids hash the names of version 0.2, so that its stored results are found.
_HASHED_KEYS = {
    "hidden_layer_sizes": "hidden",
    "training": "recipe",
    "scheduler": "schedule",
    "learning_rate": "rate",
    "head_learning_rate": "head_rate",
    "max_grad_norm": "clip",
    "cv": "folds",
    "estimators": "members",
    "cluster": "subject",
}
_HASHED_LOSSES = {"ensemble": "committee"}
MODEL = ("model.safetensors", "model.json")  # files of a stored model
TABLE_ENSEMBLE = 2  # version of the ensembles on tables; those of 0.2 have other features and members


class State(StrEnum):
    """State of a planned run."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    PENDING = "pending"
    NO_DATA = "no data"


class Outcome(StrEnum):
    """Outcome of an attempt; a run is skipped if it is finished or another process runs it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class Job:
    """One run: a loss (or the two-stage diagnostic), a fold of a data set, and a seed.

    Calibrators and ``keep_model`` are not part of a run's id: all specs with the same training share the run.
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
        """Name of the loss in tables."""
        return "two stages" if self.two_stage else loss_name(self.loss)

    @property
    def loss_spec(self) -> Any:
        """The argument of `orcu.losses.create`."""
        if isinstance(self.loss, str):
            return self.loss
        options = {key: value for key, value in self.loss.items() if key not in {"label", "head"}}
        return options["name"] if options.keys() == {"name"} else options

    @property
    def head(self) -> str:
        """Head of the network; "" for the head of the loss."""
        return str(self.loss.get("head", "")) if isinstance(self.loss, dict) else ""

    @property
    def title(self) -> str:
        """Data set, fold, loss and seed, for messages."""
        seed = f", seed {self.seed}" if self.seed else ""
        return f"{self.data.title}, fold {self.fold}, {self.loss_name}{seed}"

    def hashed_fields(self) -> dict[str, Any]:
        """The fields that determine the result, with the key names of version 0.2."""
        excluded = {"name", "prepared", "folds", "seeds", "exclude", "select"}
        if self.data.rotation_border == "constant":  # version 0.2 had no other border
            excluded.add("rotation_border")
        if self.data.label == "label":  # runs on votes are newer than the ids
            excluded.add("label")
        loss = self.loss_spec
        if isinstance(loss, str):
            loss = _HASHED_LOSSES.get(loss, loss)
        elif "source" in loss:  # the class and the text of the file, not its path
            digest = sha256(loss["source"].encode()).hexdigest()
            loss = loss | {"name": str(loss["name"]).rpartition(":")[2], "source": digest}
        elif loss.get("name") in _HASHED_LOSSES:
            loss = loss | {"name": _HASHED_LOSSES[loss["name"]]}
        fields = {
            "data": self.data.model_dump(exclude=excluded),
            "loss": loss,
            "fold": self.fold,
            "seed": self.seed,
            "threads": self.threads,
        }
        if self.head:  # absent for the head of the loss, as before heads were part of a spec
            fields["head"] = self.head
        is_ensemble = isinstance(loss, dict) and "cv" in loss
        if is_ensemble and DATASETS.create(self.data.set, **self.data.options).card.kind == TABLE:
            fields["ensemble"] = TABLE_ENSEMBLE
        if self.two_stage is not None:
            fields["two_stage"] = self.two_stage.model_dump()
        renamed: dict[str, Any] = _with_hashed_keys(fields)
        return renamed

    def id(self, manifest: str) -> str:
        """Id of the run on data with this manifest digest."""
        return run_id(self.hashed_fields(), manifest)

    def id_with_model(self, manifest: str) -> str:
        """Id of the run in a store of version 0.2 if its model was kept, which was part of the id."""
        return run_id(self.hashed_fields() | {"keep_model": True}, manifest)

    @property
    def files(self) -> tuple[str, ...]:
        """Files without which a stored result does not suffice."""
        return MODEL if self.keep_model else ()


def _with_hashed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_HASHED_KEYS.get(key, key): _with_hashed_keys(part) for key, part in value.items()}
    return [_with_hashed_keys(part) for part in value] if isinstance(value, list) else value


def run_id(fields: dict[str, Any], manifest: str) -> str:
    """Id of a run: a hash of `Job.hashed_fields` and of the data's manifest digest.

    Example:
        >>> run_id({"loss": "ce"}, "digest of the rows")
        '88264f9c4fefeb3c47bc'
    """
    text = json.dumps([fields, manifest], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:20]


def jobs(spec: Spec) -> list[Job]:
    """All runs of a spec, in execution order.

    Raises:
        InputError: if a data set, protocol or fold does not exist.
    """
    result = []
    for data in spec.data:
        protocols = DATASETS.create(data.set, **data.options).protocols
        if data.protocol not in protocols:
            raise UnknownNameError(f"protocol of {data.set}", data.protocol, protocols)
        n_splits = protocols[data.protocol].n_splits
        for fold in range(n_splits) if data.folds is None else data.folds:
            if not 0 <= fold < n_splits:
                raise InputError(
                    f"{data.title}: folds: protocol {data.protocol} has folds 0..{n_splits - 1}, got {fold}."
                )
            for seed in data.seeds or spec.seeds:
                for loss in spec.losses or [""]:
                    calibrators = tuple(spec.calibrators)
                    is_single_network = spec.two_stage is None and EnsembleSpec.of(loss) is None
                    keep_model = spec.keep_models and is_single_network
                    job = Job(data, loss, fold, seed, calibrators, spec.threads, keep_model, spec.two_stage)
                    if job.loss_name not in data.exclude:
                        result.append(job)
    return result
