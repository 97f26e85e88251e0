"""Runs of a loss with ``scale = "auto"``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from orcu import geometry
from orcu.data.store import PreparedData
from orcu.inputs import FloatArray
from orcu.training.choose_scale import ScaleChoice, choose_scale, short_training
from orcu.training.run import VOTES, Result, Run, RunConfig, Splits


def has_auto_scale(loss: Any) -> bool:
    """Whether a loss has ``scale = "auto"``."""
    return isinstance(loss, dict) and loss.get("scale") == "auto"


def train_with_scale(
    prepared: PreparedData, splits: Splits, config: RunConfig, folder: Path, *, device: str = "auto"
) -> tuple[Result, ScaleChoice[Result]]:
    """Choose the scale of a run; returns the result of the best scale, and all trials.

    Each trial has a subfolder of ``folder`` and continues an interrupted training there. The other arguments are those
    of `Run`.
    """

    def train(scale: float, first: Result | None) -> tuple[Result, FloatArray]:
        trial = replace(config, loss={**config.loss, "scale": scale})
        if first is None:
            run, name = Run(prepared, splits, trial, device=device), "first"
        else:
            training = {**(config.training or {}), **short_training(first.train_config, first.train_config.epochs)}
            run, name = Run(prepared, splits, replace(trial, training=training), device=device), f"scale_{scale:g}"
            run.model.load_state_dict(first.model.state_dict())
        result = run.train(folder / name)
        return result, geometry.probs(result.predictions["validation"].as_logits()[0])

    manifest = prepared.manifest
    y = (manifest.votes if config.label == VOTES else manifest.labels)[splits["validation"]]
    chosen = choose_scale(train, y, distance=config.loss.get("distance", "squared"))
    return chosen.best.state, chosen
