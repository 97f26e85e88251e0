"""Trained models on disk: weights in safetensors, everything else in JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file

from orcu.boosting.libraries import load_boosters
from orcu.ensemble.learner import CrossFitted
from orcu.errors import InputError, first_line
from orcu.io.files import read_json, write_json
from orcu.io.schema import ClassNames, Schema, validate
from orcu.models.backbones import RANDOM
from orcu.models.classifier import Classifier
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import ModelConfig
from orcu.training.checkpoint import write_tensors

VERSION = 1
WEIGHTS, CONFIG = "model.safetensors", "model.json"
OLD_KEYS, OLD_HEADS = {"hidden": "hidden_layer_sizes"}, {"committee": "ensemble"}  # names in orcu 0.2


class _Column(Schema):
    name: str
    mean: float
    std: float = Field(gt=0)
    gaps: bool
    categories: list[str] | None


class _Trees(Schema):
    name: str = Field(pattern=r"^[a-z0-9_ -]+$")  # part of a file name
    library: Literal["lightgbm", "xgboost"]
    weight: float = Field(ge=0)
    start: list[float]


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
    trees: list[_Trees] = Field(default_factory=list, max_length=1000)


def save_model(folder: Path, model: Classifier | EnsembleClassifier, config: ModelConfig) -> None:
    """Write the weights and the config of a model, each file atomically."""
    write_tensors(folder / WEIGHTS, model.state_dict())
    write_json(folder / CONFIG, asdict(config) | {"version": VERSION})


def load_model(folder: Path) -> tuple[Classifier | EnsembleClassifier, ModelConfig]:
    """Load a model as one torch module and its config; an ensemble with boosted trees is an `InputError`."""
    model, config, trees = load_members(folder)
    if trees:
        raise InputError(
            f"{folder}: boosted trees are part of this ensemble, so it is not a torch module. Use `orcu predict`, or "
            "train without trees (`orcu train --estimators network`)."
        )
    return model, config


def load_members(folder: Path) -> tuple[Classifier | EnsembleClassifier, ModelConfig, list[CrossFitted]]:
    """Load the networks of a model, its config, and its boosted trees."""
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
    options: dict[str, Any] = {"n_folds": config.folds, "shape": (len(config.columns), len(config.classes))}
    trees = [
        load_boosters(folder, entry["name"], entry["library"], np.array(entry["start"]), **options)
        for entry in config.trees
    ]
    return model.eval(), config, trees


def _parse_config(content: Any) -> ModelConfig:
    if not isinstance(content, dict):
        raise InputError("not a model of `orcu train`: expected a JSON object.")
    if content.get("version") != VERSION:
        raise InputError(f"version: expected {VERSION}, got {content.get('version')!r}; train the model again.")
    content = {OLD_KEYS.get(key, key): value for key, value in content.items()}
    content["head"] = OLD_HEADS.get(str(content.get("head")), content.get("head"))
    return ModelConfig(**validate(_ModelFile, content, "the model's data").model_dump(exclude={"version"}))
