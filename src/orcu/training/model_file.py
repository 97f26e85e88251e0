"""Trained models on disk: weights in safetensors, everything else in JSON."""

from dataclasses import asdict
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
from orcu.models.kinds import ModelConfig
from orcu.preprocessing import TableEncoder
from orcu.training.checkpoint import write_tensors

VERSION = 1
WEIGHTS, CONFIG = "model.safetensors", "model.json"
OLD_KEYS, OLD_HEADS = {"hidden": "hidden_layer_sizes"}, {"committee": "ensemble"}  # names in orcu 0.2


class _Column(Schema):
    name: str
    center: float
    scale: float = Field(gt=0)
    gaps: bool
    categories: list[str] | None
    clip: bool
    edges: list[float] = Field(max_length=1000)


class _Estimator(Schema):
    kind: Literal["linear", "forest", "boosting", "catboost"]
    name: str = Field(pattern=r"^[a-z0-9_ -]+$")  # part of a file name
    weight: float = Field(ge=0)
    library: Literal["", "lightgbm", "xgboost"] = ""
    start: list[float] = Field(default_factory=list)


class _ModelFile(Schema):
    """Schema of model.json: the fields of `ModelConfig`."""

    version: Literal[1]
    kind: Literal["images", "texts", "table"]
    classes: ClassNames
    backbone: str
    head: Literal["linear", "poe", "unimodal", "ensemble"]
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
    """Write the weights and the config of a model, each file atomically."""
    write_tensors(folder / WEIGHTS, model.state_dict())
    write_json(folder / CONFIG, asdict(config) | {"version": VERSION})


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
    config = read_json(folder / CONFIG, _parse_config)
    with torch.random.fork_rng(devices=[]):
        model = config.build(weights=RANDOM)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{folder / WEIGHTS}: not the complete weights of the model in {CONFIG} ({first_line(error)}). Copy the "
            "whole folder of `orcu train`, or train again."
        ) from None
    others = []
    for entry in config.estimators:
        learner = _member_learner(entry, config)
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


def _parse_config(content: Any) -> ModelConfig:
    if not isinstance(content, dict):
        raise InputError("not a model of `orcu train`: expected a JSON object.")
    if content.get("version") != VERSION:
        raise InputError(f"version: expected {VERSION}, got {content.get('version')!r}; train the model again.")
    content = {OLD_KEYS.get(key, key): value for key, value in content.items()}
    content["head"] = OLD_HEADS.get(str(content.get("head")), content.get("head"))
    if "estimators" not in content:  # files of 0.2
        content["estimators"] = [{"kind": BOOSTING, **tree} for tree in content.pop("trees", [])]
        content["columns"] = TableEncoder.from_dict(content["columns"]).to_dict()
    return ModelConfig(**validate(_ModelFile, content, "the model's data").model_dump(exclude={"version"}))
