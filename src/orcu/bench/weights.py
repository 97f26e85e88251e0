"""Pretrained weights of a benchmark's backbones: where they are, or why they are missing."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from orcu.bench.spec import DataSpec
from orcu.data.base import DATASETS
from orcu.errors import InputError, MissingExtraError

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")


@dataclass(frozen=True)
class WeightSources:
    """Where the pretrained weights of backbones come from; picklable, for workers.

    Args:
        copies: file (images) or folder (texts) of a local copy, by name of the backbone. Others come from packages and
            from the local hub cache.
        download: whether weights that are not on the machine may be downloaded.
    """

    copies: dict[str, str] = field(default_factory=dict)
    download: bool = False


def pretrained_backbone(data: DataSpec) -> str:
    """Name of the pretrained backbone of a data set's runs; empty if they have none.

    Example:
        >>> pretrained_backbone(DataSpec(set="adience")), pretrained_backbone(DataSpec(set="lev"))
        ('resnet50', '')
    """
    from orcu.models.backbones import PRETRAINED
    from orcu.models.kinds import model_kind

    kind = model_kind(DATASETS.get(data.set).card.kind)
    return (data.backbone or kind.default_backbone) if kind.has_backbone and data.weights == PRETRAINED else ""


def find_copies(data: list[DataSpec], weights: str | os.PathLike[str] | None) -> dict[str, str]:
    """The local copies in a file or folder, by backbone.

    A folder has a file for each image backbone, such as ``resnet50.safetensors`` or ``resnet50-0676ba61.pth``, and a
    subfolder for each text model, such as ``bert-tiny``.

    Args:
        data: data sets of the benchmark.
        weights: the file or folder; ``None`` for no copies.

    Raises:
        InputError: if there is no copy of a backbone, or it has the weights of another network.
    """
    names = {name: entry for entry in data if (name := pretrained_backbone(entry))}
    if weights is None or not names:
        return {}
    path = Path(weights)
    if str(weights) in {"pretrained", "random"}:
        raise InputError(f"--weights: expected a file or folder of weights; use --set weights={weights} instead.")
    if not path.exists():
        raise InputError(f"--weights: {path}: no such file or folder.")
    is_model = path.is_file() or (path / "config.json").is_file()  # not a folder of several models
    if is_model and len(names) > 1:
        raise InputError(
            f"--weights: {path} is one model, but the spec has the backbones {', '.join(names)}; give a folder with a "
            "copy of each."
        )
    copies = {name: str((path if is_model else _find_copy(path, name)).resolve()) for name in names}
    for name, entry in names.items():
        check_copy(entry, name, copies[name])
    return copies


def _find_copy(folder: Path, name: str) -> Path:
    paths = [
        path
        for path in sorted(folder.iterdir())
        if (path.is_dir() and path.name == name)
        or (path.suffix in SUFFIXES and (path.stem == name or path.stem.startswith((f"{name}-", f"{name}."))))
    ]
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise InputError(
            f"--weights: {folder}: expected one copy of {name}, such as {name}.safetensors or {name}-0123abcd.pth "
            f"(images) or the folder {name} (texts); got {names}."
        )
    return paths[0]


def check_copy(data: DataSpec, name: str, path: str) -> None:
    """Load a local copy once; `InputError` if it has the weights of another network."""
    from orcu.data.base import IMAGES
    from orcu.models.backbones import ImageBackbone
    from orcu.models.text import TextEncoder

    is_image = DATASETS.get(data.set).card.kind == IMAGES
    (ImageBackbone if is_image else TextEncoder)(name, weights=path)


def missing_weights(data: DataSpec, sources: WeightSources) -> str:
    """How to get the weights that a data set's runs need; empty if they are on this machine.

    With ``sources.download`` they are downloaded now, once, and not by every worker.

    Raises:
        InputError: if the download fails.
    """
    from orcu.models.backbones import PRETRAINED, RANDOM, MissingWeightsError
    from orcu.models.kinds import model_kind

    name, kind = pretrained_backbone(data), model_kind(DATASETS.get(data.set).card.kind)
    if kind.has_backbone and data.weights not in {PRETRAINED, RANDOM} and not Path(data.weights).exists():
        return f"{data.weights}: file not found; correct `weights` in the spec."
    if not name or name in sources.copies:
        return ""
    try:
        kind.find_weights(name, download=sources.download)
    except MissingWeightsError as error:
        return (
            f"the pretrained weights of {name} are not on this machine; download them with `orcu bench run ... "
            f"--download`, or give a file or folder with --weights{error.hint}."
        )
    except MissingExtraError as error:
        return str(error)
    return ""
