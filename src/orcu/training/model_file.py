"""A trained model on disk: weights in safetensors, and in JSON what it takes to build it again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from orcu.boosting.trees import CrossFittedTrees, read_boosters
from orcu.errors import InputError, first_line
from orcu.io.files import atomic_write, read_json
from orcu.models.backbones import RANDOM
from orcu.models.classifier import Classifier
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import Plan
from orcu.predictions.schemas import MOST_CLASSES, Schema, validated

VERSION = 1
WEIGHTS, PLAN, TREES = "model.safetensors", "model.json", "trees"


class _Column(Schema):
    name: str
    mean: float
    std: float = Field(gt=0)
    gaps: bool
    categories: list[str] | None


class _Trees(Schema):
    name: str = Field(pattern=r"^[a-z0-9_ -]+$")  # part of a file's name
    library: Literal["lightgbm", "xgboost"]
    weight: float = Field(ge=0)
    start: list[float]


class _PlanSchema(Schema):
    """The file of a plan, field by field."""

    version: Literal[1]
    kind: Literal["images", "texts", "table"]
    classes: list[str] = Field(min_length=2, max_length=MOST_CLASSES)
    backbone: str
    head: Literal["linear", "poe", "unimodal", "ensemble"]
    hidden: list[Annotated[int, Field(ge=1, le=1 << 16)]]
    frozen: bool
    size: int = Field(ge=1, le=1 << 14)
    mean: list[float]
    std: list[float]
    columns: list[_Column]
    dataset: str
    weights: list[Annotated[float, Field(ge=0)]] = Field(default_factory=list, max_length=10_000)
    folds: int = Field(default=1, ge=1, le=10_000)
    trees: list[_Trees] = Field(default_factory=list, max_length=1000)


def save_model(folder: Path, model: Classifier | EnsembleClassifier, plan: Plan) -> None:
    """Write a model; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with atomic_write(folder / WEIGHTS) as temporary:
        save_file(state, temporary)
    with atomic_write(folder / PLAN) as temporary:
        temporary.write_text(json.dumps(asdict(plan) | {"version": VERSION}, indent=1) + "\n")


def load_model(folder: Path) -> tuple[Classifier | EnsembleClassifier, Plan]:
    """The model that `save_model` wrote, in evaluation mode, and its plan.

    Raises:
        InputError: if it is not there or not whole, or trees are part of it, so that no module answers as it does.
    """
    model, plan, trees = load_members(folder)
    if trees:
        raise InputError(
            f"{folder}: trees are part of this ensemble, and no module answers as it does; `orcu predict` does, and "
            "`orcu train --members network` trains one without trees."
        )
    return model, plan


def load_members(folder: Path) -> tuple[Classifier | EnsembleClassifier, Plan, list[CrossFittedTrees]]:
    """As `load_model`: the networks, the plan, and the trees beside them.

    Raises:
        InputError: if something is not there or not whole.
    """
    if not (folder / PLAN).exists():
        raise InputError(f"{folder}: no model of `orcu train` (there is no {PLAN}).")
    plan = read_json(folder / PLAN, _plan)
    with torch.random.fork_rng(devices=[]):
        model = plan.build(weights=RANDOM)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{folder / WEIGHTS}: these are not the weights of the model in {PLAN}, or not all of them "
            f"({first_line(error)}). Copy the whole folder that `orcu train` wrote, or train again."
        ) from None
    trees = []
    for entry in plan.trees:
        boosters = read_boosters(
            folder / TREES, entry["name"], entry["library"], plan.folds, shape=(len(plan.columns), len(plan.classes))
        )
        none = np.zeros((0, len(plan.classes)))  # what they said out of fold is in sets.json
        trees.append(CrossFittedTrees(entry["name"], entry["library"], boosters, np.array(entry["start"]), none))
    return model.eval(), plan, trees


def _plan(entries: Any) -> Plan:
    if not isinstance(entries, dict):
        raise InputError("no model of `orcu train`: expected a JSON object.")
    if entries.get("version") != VERSION:
        raise InputError("a model of another version of orcu; train it anew.")
    checked = validated(_PlanSchema, entries, "the model's data")
    return Plan(**checked.model_dump(exclude={"version"}))
