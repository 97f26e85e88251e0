"""A trained model on disk: weights in safetensors, and in JSON what it takes to build it again."""

import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from orcu.data.base import IMAGES, TABLE
from orcu.errors import InputError
from orcu.models.backbones import PRETRAINED, RANDOM, ImageBackbone
from orcu.models.classifier import Classifier
from orcu.models.tabular import Mlp, TableEncoder
from orcu.models.text import TextEncoder
from orcu.tables.files import replacing

VERSION = 1
WEIGHTS, PLAN = "model.safetensors", "model.json"


@dataclass(frozen=True)
class Plan:
    """What it takes to build a model: all but its weights.

    Args:
        kind: "images", "texts" or "table".
        classes: from lowest to highest.
        backbone: its name; unused for a table.
        head: "linear", "poe" or "unimodal".
        hidden: layers of a perceptron on the table or on frozen features; empty for none.
        frozen: the backbone keeps its weights.
        size: the side of images, in pixels.
        mean: of each colour, in [0, 1].
        std: likewise.
        columns: what the table's encoder has learned.
        dataset: whose preprocessing images get.
    """

    kind: str
    classes: list[str]
    backbone: str = ""
    head: str = "linear"
    hidden: list[int] = field(default_factory=list)
    frozen: bool = False
    size: int = 224
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)
    dataset: str = ""

    def build(self, *, weights: str = PRETRAINED, download: bool = False, seed: int = 0) -> Classifier:
        """A model of this plan.

        Args:
            weights: of the backbone: "pretrained", "random" or a file.
            download: whether they may be fetched from the hub.
            seed: of the weights that start at random.
        """
        torch.manual_seed(seed)
        backbone: Any
        if self.kind == TABLE:
            backbone = Mlp(TableEncoder.from_dict(self.columns).width, hidden=self.hidden)
        elif self.frozen:
            made = _pretrained if weights == PRETRAINED else _backbone
            body = made(self.kind, self.backbone, weights, download)
            torch.manual_seed(seed)  # the same, whether the body was at hand or had to be made
            backbone = Frozen(body, self.hidden)
        else:
            backbone = _backbone(self.kind, self.backbone, weights, download)
        return Classifier(backbone, len(self.classes), head=self.head)


def _backbone(kind: str, name: str, weights: str, download: bool) -> Any:
    made = ImageBackbone if kind == IMAGES else TextEncoder
    return made(name, weights=weights, download=download)


# A frozen body never changes, so the runs of a benchmark share it.
_pretrained = lru_cache(maxsize=1)(_backbone)


class Frozen(nn.Module):
    """A backbone that keeps its weights, and a perceptron on its features.

    Args:
        body: from inputs to features.
        hidden: layers of the perceptron.
    """

    def __init__(self, body: Any, hidden: list[int]) -> None:
        super().__init__()
        self.body = body.eval().requires_grad_(False)
        self.mlp = Mlp(body.width, hidden=hidden)
        self.width = self.mlp.width

    def train(self, mode: bool = True) -> "Frozen":
        """The body stays as it is."""
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Any) -> Tensor:
        """Inputs of the body to features (n, width)."""
        features: Tensor = self.mlp(self.body(inputs))
        return features


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
        told = json.loads((folder / PLAN).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no model of `orcu train` ({error}).") from None
    if told.pop("version") != VERSION:
        raise InputError(f"{folder}: a model of another version of orcu; train it anew.")
    plan = Plan(**told)
    with torch.random.fork_rng(devices=[]):
        model = plan.build(weights=RANDOM)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{folder / WEIGHTS}: {str(error).splitlines()[0]}") from None
    return model.eval(), plan
