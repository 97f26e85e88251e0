"""Files of tensors, and checkpoints from which a training continues with the same results."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from orcu.errors import InputError, first_line
from orcu.io.files import atomic_write

VERSION = 1
TENSORS, STATE, BEST = "tensors.safetensors", "state.json", "best.safetensors"
OLD_KEYS = {"schedule": "scheduler"}  # names in checkpoints of orcu 0.2; in curves also rate_0, now learning_rate_0


def save(folder: Path, *, model: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Write a checkpoint of model, optimiser and other ``state``; the previous one is removed after it is complete."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    optimizer_state = optimizer.state_dict()
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, moments in optimizer_state["state"].items():
        for name, value in moments.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
    _save_file(tensors, part / TENSORS)
    content = state | {"version": VERSION, "groups": optimizer_state["param_groups"]}
    (part / STATE).write_text(json.dumps(content))
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.replace(old)
    part.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def restore(
    folder: Path, *, model: nn.Module, optimizer: Optimizer, best: Path | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Restore model and optimiser; returns the ``state`` of `save` and the weights in the file ``best``, if it exists.

    Returns ``None`` if there is no checkpoint. A damaged one, for example after a full disk, is removed with a warning,
    and the training starts from the beginning. One of another model or version is an `InputError`.
    """
    old = folder.with_name(f".{folder.name}.old")
    if not folder.exists():
        if not old.exists():
            return None
        old.replace(folder)  # `save` was interrupted between its two renames
    try:
        state: dict[str, Any] = json.loads((folder / STATE).read_text())
        state = {OLD_KEYS.get(name, name): value for name, value in state.items()}
        version, groups = state.pop("version"), state.pop("groups")
        state["curves"] = [
            {f"learning_{name}" if name.startswith("rate_") else name: value for name, value in curve.items()}
            for curve in state["curves"]
        ]
        tensors = load_file(folder / TENSORS)
        weights = load_file(best) if best is not None and best.exists() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        message = f"{folder}: the checkpoint is damaged ({first_line(error)}); the training starts again."
        warnings.warn(message, stacklevel=2)
        shutil.rmtree(folder)
        return None
    if version != VERSION:
        raise InputError(f"{folder}: unknown checkpoint version {version}; delete the folder to start again.")
    try:
        model.load_state_dict(_with_prefix(tensors, "model."))
    except RuntimeError as error:
        raise InputError(
            f"{folder}: the checkpoint belongs to another model ({str(error).splitlines()[-1].strip()}); delete it to "
            "start again."
        ) from None
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in _with_prefix(tensors, "optimizer.").items():
        index, key = name.split(".", 1)
        moments.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    return state, weights


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names have a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors to a safetensors file, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        _save_file(tensors, temporary)


def _save_file(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, path)
    except SafetensorError as error:  # of a full disk, too
        raise OSError(f"{path}: {first_line(error)}") from None
