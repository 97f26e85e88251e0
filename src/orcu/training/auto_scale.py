"""The scale that chooses itself: a first training, the theory's suggestion, a few warm starts."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orcu import geometry
from orcu.evaluation.evidence import values_of
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.rows import Rows, confusion_counts
from orcu.theory.suggest_scale import Suggestion, suggest_scale

if TYPE_CHECKING:
    from orcu.data.store import Prepared
    from orcu.training.run import Result, Settings, Splits

AUTO = "auto"
FIRST = 3.0  # Paper: the scale of all its image experiments
AROUND = (1.0, 0.5, 2.0)  # times the suggestion
FURTHER = 2.0  # another step outward while the best is at the edge
MOST_STEPS = 2
LEAST, MOST = 0.1, 30.0
SHORT, SLOWER = 0.25, 0.3  # of the first training's epochs and rates, for a warm start


@dataclass(frozen=True)
class Trial:
    """One scale that was tried: the model it gave, and its probabilities of validation rows."""

    scale: float
    state: Any = field(repr=False)
    probs: FloatArray = field(repr=False)
    value: float


@dataclass(frozen=True)
class Chosen:
    """The best trial, all of them by scale, and what the theory had suggested."""

    best: Trial
    trials: list[Trial]
    suggestion: Suggestion


def choose_scale(
    train: Callable[[float, Any], tuple[Any, FloatArray]],
    y: IntArray,
    *,
    distance: Any = "squared",
    criterion: str = "sce",
) -> Chosen:
    """Train with s = 3, ask the theory what fits the overlap met, try that and its surroundings, keep the best.

    Args:
        train: from a scale and a state to start from (``None`` at first, then that of the first training: a
            short training does) to a state and the probabilities of validation rows.
        y: labels of the validation rows.
        distance: of the soft targets.
        criterion: the metric of validation rows that decides; lower is better.
    """

    def tried(scale: float, start: Any) -> Trial:
        state, probs = train(scale, start)
        values = values_of(Rows.of(probs, y, None, is_logits=False))
        return Trial(scale, state, probs, values[criterion])

    first = tried(FIRST, None)
    num_classes = first.probs.shape[1]
    counts = confusion_counts(first.probs.argmax(axis=1), y, num_classes)
    suggestion = suggest_scale(num_classes, confusion=counts, distance=distance)
    trials = {FIRST: first}
    for factor in AROUND:
        scale = float(np.clip(round(suggestion.scale * factor, 2), LEAST, MOST))
        if scale not in trials:
            trials[scale] = tried(scale, first.state)
    for _ in range(MOST_STEPS):
        best = min(trials.values(), key=lambda trial: trial.value)
        outward = FURTHER if best.scale == max(trials) else 1 / FURTHER
        scale = float(np.clip(round(best.scale * outward, 2), LEAST, MOST))
        if best.scale not in (min(trials), max(trials)) or scale in trials:
            break
        trials[scale] = tried(scale, first.state)
    best = min(trials.values(), key=lambda trial: trial.value)
    return Chosen(best, [trials[scale] for scale in sorted(trials)], suggestion)


def is_auto(loss: Any) -> bool:
    """Whether a loss asks for a scale that chooses itself."""
    return isinstance(loss, dict) and loss.get("scale") == AUTO


def train_with_scale(
    prepared: "Prepared", splits: "Splits", settings: "Settings", folder: Path, *, device: str = "auto"
) -> tuple["Result", Chosen]:
    """A run whose loss has ``scale = "auto"``: the result of the best scale, and what was tried.

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: its loss is a table with ``scale = "auto"``.
        folder: each trial gets a folder in it, and goes on where it was cut off.
        device: as for `Run`.
    """
    from orcu.training.run import Run

    changes = dict(settings.recipe or {})

    def train(scale: float, start: Any) -> tuple[Any, FloatArray]:
        loss = {**settings.loss, "scale": scale}
        if start is None:
            run = Run(prepared, splits, replace(settings, loss=loss), device=device)
            result = run.train(folder / "first")
        else:
            recipe = start[0]
            short = changes | {
                "epochs": max(3, round(SHORT * recipe.epochs)),
                "rate": SLOWER * recipe.rate,
                "head_rate": SLOWER * recipe.head_rate,
            }
            run = Run(prepared, splits, replace(settings, loss=loss, recipe=short), device=device)
            run.model.load_state_dict(start[1])
            result = run.train(folder / f"scale_{scale:g}")
        state = {name: value.clone() for name, value in result.model.state_dict().items()}
        held = result.predictions["validation"]
        return (run.recipe, state, result), geometry.probs(held.as_logits()[0])

    y = prepared.manifest.labels[splits["validation"]]
    found = choose_scale(train, y, distance=settings.loss.get("distance", "squared"))
    result: Result = found.best.state[2]
    return result, found
