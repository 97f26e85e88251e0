"""Runs whose scale chooses itself: a loss with ``scale = "auto"``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from orcu import geometry
from orcu.data.store import Prepared
from orcu.inputs import FloatArray
from orcu.training.choose_scale import Chosen, choose_scale, shortened
from orcu.training.run import Result, Run, RunConfig, Splits

AUTO = "auto"


def is_auto(loss: Any) -> bool:
    """Whether a loss asks for a scale that chooses itself."""
    return isinstance(loss, dict) and loss.get("scale") == AUTO


def train_with_scale(
    prepared: Prepared, splits: Splits, settings: RunConfig, folder: Path, *, device: str = "auto"
) -> tuple[Result, Chosen[Result]]:
    """A run whose loss has ``scale = "auto"``: the result of the best scale, and what was tried.

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: its loss is a table with ``scale = "auto"``.
        folder: each trial gets a folder in it, and goes on where it was cut off.
        device: as for `Run`.
    """

    def train(scale: float, first: Result | None) -> tuple[Result, FloatArray]:
        chosen = replace(settings, loss={**settings.loss, "scale": scale})
        if first is None:
            run, name = Run(prepared, splits, chosen, device=device), "first"
        else:
            recipe = {**(settings.recipe or {}), **shortened(first.recipe, first.recipe.epochs)}
            run, name = Run(prepared, splits, replace(chosen, recipe=recipe), device=device), f"scale_{scale:g}"
            run.model.load_state_dict(first.model.state_dict())
        result = run.train(folder / name)
        return result, geometry.probs(result.predictions["validation"].as_logits()[0])

    y = prepared.manifest.labels[splits["validation"]]
    chosen = choose_scale(train, y, distance=settings.loss.get("distance", "squared"))
    return chosen.best.state, chosen
