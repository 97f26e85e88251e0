"""Trained models on disk: weights in safetensors, everything else in JSON.

model.json has the SHA-256 of every file of the model. It is written last, so that a training that was interrupted
leaves no folder that predicts.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file

from orcu.boosting.catboost import CatBoostLearner
from orcu.boosting.learner import BoostingConfig
from orcu.boosting.libraries import boosting_learner
from orcu.ensemble.forest import ForestLearner
from orcu.ensemble.kinds import BOOSTING, CATBOOST, FOREST
from orcu.ensemble.learner import CrossFitted, FoldLearner
from orcu.ensemble.linear import LinearLearner
from orcu.errors import InputError, first_line
from orcu.io.files import read_json, write_json
from orcu.io.schema import ClassNames, Schema, validate
from orcu.models.backbones import RANDOM
from orcu.models.classifier import Classifier
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.heads import HEADS
from orcu.models.kinds import ModelConfig
from orcu.preprocessing import TableEncoder
from orcu.training.checkpoint import write_tensors

VERSION = 2
WITHOUT_DIGESTS = 1  # version of the files of orcu 0.2, which have no SHA-256
WEIGHTS, CONFIG = "model.safetensors", "model.json"
CALIBRATOR, SETS = "calibrator.json", "sets.json"
MEMBERS = ("linear", "forests", "trees", "catboost", "members")  # subfolders of the members of an ensemble
AGAIN = "Copy the whole folder that `orcu train` wrote, or train again in a new folder."
OLD_KEYS, OLD_HEADS = {"hidden": "hidden_layer_sizes"}, {"committee": "ensemble"}  # names in orcu 0.2


class _Column(Schema):
    name: str
    center: float
    scale: float = Field(gt=0)
    gaps: bool
    categories: list[str] | None
    clip: bool
    edges: list[float] = Field(max_length=1000)
    low: float | None = None
    high: float | None = None


class _Estimator(Schema):
    kind: Literal["linear", "forest", "boosting", "catboost"]
    name: str = Field(pattern=r"^[a-z0-9_ -]+$")  # part of a file name
    weight: float = Field(ge=0)
    library: Literal["", "lightgbm", "xgboost"] = ""
    start: list[float] = Field(default_factory=list)


class _ModelFile(Schema):
    """Schema of model.json: the fields of `ModelConfig`."""

    version: Literal[1, 2]
    kind: Literal["images", "texts", "table"]
    classes: ClassNames
    backbone: str
    head: str = Field(pattern=f"^({'|'.join(HEADS)})$")
    hidden_layer_sizes: list[Annotated[int, Field(ge=1, le=1 << 16)]]
    frozen: bool
    size: int = Field(ge=1, le=1 << 14)
    mean: list[float]
    std: list[float]
    columns: list[_Column]
    dataset: str
    weights: list[Annotated[float, Field(ge=0)]] = Field(default_factory=list, max_length=10_000)
    folds: int = Field(default=1, ge=1, le=10_000)
    estimators: list[_Estimator] = Field(default_factory=list, max_length=1000)


def save_model(folder: Path, model: Classifier | EnsembleClassifier, config: ModelConfig) -> None:
    """Write the weights and model.json, each file atomically."""
    save_weights(folder, model)
    write_config(folder, config)


def save_weights(folder: Path, model: Classifier | EnsembleClassifier) -> None:
    """Write the weights of a model; `write_config` completes the folder."""
    write_tensors(folder / WEIGHTS, model.state_dict())


def write_config(folder: Path, config: ModelConfig) -> None:
    """Write model.json with the SHA-256 of the model's files, which must be in the folder."""
    paths = [folder / name for name in (WEIGHTS, CALIBRATOR, SETS)]
    for subfolder in MEMBERS:
        paths += sorted(path for path in (folder / subfolder).glob("*") if not path.name.startswith("."))
    files = {path.relative_to(folder).as_posix(): _digest(path) for path in paths if path.is_file()}
    content = asdict(config) | {"version": VERSION, "files": files}
    write_json(folder / CONFIG, content | {"sha256": _content_digest(content)})


def check_members(folder: Path) -> None:
    """Check the files of an ensemble's members before a finished training reads them again.

    A folder without model.json is that of a training that was interrupted, and has no digests. Where a file is missing,
    it is trained again, and model.json is removed until then.

    Raises:
        InputError: if a file was changed after the training.
    """
    if not (folder / CONFIG).exists():
        return
    files = read_json(folder / CONFIG, _parse_config)[1] or {}
    members = [name for name in files if name.split("/")[0] in MEMBERS]
    for name in members:
        if (folder / name).exists():
            _check_file(folder, name, files, fix="Delete this file to train its part again.")
    if any(not (folder / name).exists() for name in members):
        (folder / CONFIG).unlink()


def _check_file(folder: Path, name: str, files: Mapping[str, str], *, fix: str = AGAIN) -> None:
    path = folder / name
    if not path.is_file():
        raise InputError(f"{path}: file not found. {fix}")
    if name not in files:
        raise InputError(f"{path}: does not belong to this model, because {CONFIG} does not list it. {fix}")
    if _digest(path) != files[name]:
        raise InputError(
            f"{path}: was changed after the training, or belongs to another model or fold (its SHA-256 is not the one "
            f"in {CONFIG}). {fix}"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _content_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the entries of model.json; it does not depend on their order."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_model(folder: Path) -> tuple[Classifier | EnsembleClassifier, ModelConfig]:
    """Load a model as one torch module and its config; an ensemble with other members is an `InputError`."""
    model, config, others = load_members(folder)
    if others:
        names = ", ".join(member.name for member in others)
        raise InputError(
            f"{folder}: this ensemble has members that are not networks ({names}), so it is not a torch module. Use "
            "`orcu predict`, or train networks only (`orcu train --estimators network`)."
        )
    return model, config


def load_members(folder: Path) -> tuple[Classifier | EnsembleClassifier, ModelConfig, list[CrossFitted]]:
    """Load the networks of a model, its config, and its other members."""
    if not (folder / CONFIG).exists():
        raise InputError(f"{folder}: not a model of `orcu train` ({CONFIG} is missing).")
    config, files = read_json(folder / CONFIG, _parse_config)
    learners = [_member_learner(entry, config) for entry in config.estimators]
    if files is not None:
        paths = [learner.path(folder, fold) for learner in learners for fold in range(config.folds)]
        names = [WEIGHTS, *(path.relative_to(folder).as_posix() for path in paths)]
        names += [name for name in (CALIBRATOR, SETS) if name in files or (folder / name).exists()]
        for name in names:
            _check_file(folder, name, files)
    with torch.random.fork_rng(devices=[]):
        model = config.build(weights=RANDOM)
    try:
        tensors = load_file(folder / WEIGHTS)
        model.load_state_dict(tensors)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{folder / WEIGHTS}: not the complete weights of the model in {CONFIG} ({first_line(error)}). {AGAIN}"
        ) from None
    for name, values in tensors.items():
        if not values.isfinite().all():
            raise InputError(f"{folder / WEIGHTS}: the weights {name} have values that are not finite. {AGAIN}")
    others = []
    for learner in learners:
        inputs = model.backbone.width if isinstance(learner, LinearLearner) else len(config.columns)
        others.append(learner.load_all(folder, config.folds, (inputs, len(config.classes))))
    return model.eval(), config, others


def _member_learner(entry: dict[str, Any], config: ModelConfig) -> FoldLearner:
    """The learner that reads and applies the models of a member."""
    name = entry["name"]
    if entry["kind"] == BOOSTING:
        return boosting_learner(name, BoostingConfig(entry["library"]), init_score=np.array(entry["start"]))
    if entry["kind"] == CATBOOST:
        return CatBoostLearner(tuple(TableEncoder.from_dict(config.columns).categorical), name=name)
    return ForestLearner(name) if entry["kind"] == FOREST else LinearLearner(name)


def _parse_config(content: Any) -> tuple[ModelConfig, dict[str, str] | None]:
    """The config in the content of model.json, and the SHA-256 of each file; ``None`` for a model of orcu 0.2."""
    if not isinstance(content, dict):
        raise InputError("not a model of `orcu train`: expected a JSON object.")
    if content.get("version") not in (WITHOUT_DIGESTS, VERSION):
        raise InputError(f"version: expected {VERSION}, got {content.get('version')!r}; train the model again.")
    files = None
    if content["version"] == VERSION:
        digest, files = content.pop("sha256", None), content.pop("files", None)
        if not isinstance(files, dict) or _content_digest(content | {"files": files}) != digest:
            raise InputError(f"was changed after the training (its SHA-256 differs). {AGAIN}")
    content = {OLD_KEYS.get(key, key): value for key, value in content.items()}
    content["head"] = OLD_HEADS.get(str(content.get("head")), content.get("head"))
    if "estimators" not in content:  # files of 0.2
        try:
            content["estimators"] = [{"kind": BOOSTING, **tree} for tree in content.pop("trees", [])]
            content["columns"] = TableEncoder.from_dict(content["columns"]).to_dict()
        except (KeyError, TypeError, ValueError):
            raise InputError(f"the columns or trees are damaged. {AGAIN}") from None
    config = validate(_ModelFile, content, "the model's data", fix=AGAIN)
    if len(config.weights) % config.folds:
        raise InputError(f"weights: expected one for each of {config.folds} folds, got {len(config.weights)}. {AGAIN}")
    for entry in config.estimators:
        if entry.kind == BOOSTING and (len(entry.start) != len(config.classes) or not entry.library):
            raise InputError(f"estimators: {entry.name} needs a library and a start value for each class. {AGAIN}")
    return ModelConfig(**config.model_dump(exclude={"version"})), files
