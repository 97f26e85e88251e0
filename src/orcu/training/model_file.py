"""A trained model on disk: weights in safetensors, and in JSON what it takes to build it again."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from orcu.errors import InputError
from orcu.models.backbones import RANDOM
from orcu.models.classifier import Classifier
from orcu.models.kinds import Plan
from orcu.tables.files import replacing

VERSION = 1
WEIGHTS, PLAN = "model.safetensors", "model.json"


def save_model(folder: Path, model: Classifier, plan: Plan) -> None:
    """Write a model; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(folder / WEIGHTS) as temporary:
        save_file(state, temporary)
    with replacing(folder / PLAN) as temporary:
        temporary.write_text(json.dumps(asdict(plan) | {"version": VERSION}, indent=1) + "\n")


def load_model(folder: Path) -> tuple[Classifier, Plan]:
    """The model that `save_model` wrote, in evaluation mode, and its plan.

    Raises:
        InputError: if it is not there or not whole.
    """
    try:
        entries = json.loads((folder / PLAN).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no model of `orcu train` ({error}).") from None
    if entries.pop("version") != VERSION:
        raise InputError(f"{folder}: a model of another version of orcu; train it anew.")
    plan = Plan(**entries)
    with torch.random.fork_rng(devices=[]):
        model = plan.build(weights=RANDOM)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{folder / WEIGHTS}: {str(error).splitlines()[0]}") from None
    return model.eval(), plan
