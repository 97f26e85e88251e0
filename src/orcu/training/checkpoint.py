"""Checkpoints: everything a training needs to go on to the bit, in safetensors and JSON."""

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


def save(folder: Path, *, model: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Write a checkpoint; the one before stays until this one is whole.

    Args:
        folder: it is replaced as a whole.
        model: its parameters and buffers.
        optimizer: its moments and rates.
        state: plain data: the epoch, the schedule, the curves.
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    optimizer_state = optimizer.state_dict()
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, moments in optimizer_state["state"].items():
        for name, value in moments.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, part / TENSORS)
    plain = state | {"version": VERSION, "groups": optimizer_state["param_groups"]}
    (part / STATE).write_text(json.dumps(plain))
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.replace(old)
    part.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def restore(
    folder: Path, *, model: nn.Module, optimizer: Optimizer, best: Path | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Put a checkpoint back: the plain data of `save`, and the weights of the best epoch so far.

    ``None`` if there is no checkpoint, or a damaged one, as a full disk leaves behind: the training starts afresh then,
    and a warning says so.

    Args:
        folder: of the checkpoint.
        model: gets its parameters and buffers.
        optimizer: gets its moments and rates.
        best: what `write_best` wrote, for a training that selects its best epoch.

    Raises:
        InputError: if it is of another model or version.
    """
    old = folder.with_name(f".{folder.name}.old")
    if not folder.exists():
        if not old.exists():
            return None
        old.replace(folder)  # it was cut off between the two renames
    try:
        state: dict[str, Any] = json.loads((folder / STATE).read_text())
        version, groups, _ = state.pop("version"), state.pop("groups"), state["curves"]
        tensors = load_file(folder / TENSORS)
        weights = load_file(best) if best is not None and best.exists() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        warnings.warn(f"{folder}: damaged ({first_line(error)}); the training starts afresh.", stacklevel=2)
        shutil.rmtree(folder)
        return None
    if version != VERSION:
        raise InputError(f"{folder}: a checkpoint of another version; delete it to start anew.")
    try:
        model.load_state_dict(_under(tensors, "model."))
    except RuntimeError as error:
        raise InputError(
            f"{folder}: a checkpoint of another model ({str(error).splitlines()[-1].strip()}); delete it to start anew."
        ) from None
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in _under(tensors, "optimizer.").items():
        index, key = name.split(".", 1)
        moments.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    return state, weights


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def write_best(path: Path, weights: dict[str, Tensor]) -> None:
    """Write the weights of the best epoch so far; the file appears whole or not at all."""
    with atomic_write(path) as temporary:
        save_file({name: value.contiguous() for name, value in weights.items()}, temporary)
