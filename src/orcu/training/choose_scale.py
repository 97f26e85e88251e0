"""The scale that chooses itself: a first training, the theory's suggestion, a few warm starts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from orcu.evaluation.evidence import values_of
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.rows import Rows, confusion_counts
from orcu.theory.suggest_scale import Suggestion, suggest_scale
from orcu.training.config import TrainConfig

FIRST = 3.0  # Paper: the scale of all its image experiments
AROUND = (1.0, 0.5, 2.0)  # times the suggestion
FURTHER = 2.0  # another step outward while the best is at the edge
MOST_STEPS = 2
LEAST, MOST = 0.1, 30.0
CRITERION = "sce"  # of validation rows; lower is better
SHORT, SLOWER = 0.25, 0.3  # of the first training's epochs and rates, for a warm start
LEAST_EPOCHS = 3

Trained = TypeVar("Trained")


@dataclass(frozen=True)
class Trial(Generic[Trained]):
    """One scale that was tried: what its training gave, and its probabilities of validation rows."""

    scale: float
    state: Trained = field(repr=False)
    probs: FloatArray = field(repr=False)
    value: float


@dataclass(frozen=True)
class Chosen(Generic[Trained]):
    """The best trial, all of them by scale, and what the theory had suggested."""

    best: Trial[Trained]
    trials: list[Trial[Trained]]
    suggestion: Suggestion


def choose_scale(
    train: Callable[[float, Trained | None], tuple[Trained, FloatArray]], y: IntArray, *, distance: Any = "squared"
) -> Chosen[Trained]:
    """Train with s = 3, ask the theory what fits the overlap met, try that and its surroundings, keep the best.

    Args:
        train: from a scale, and what the first training gave (``None`` for the first itself; a short training that
            starts from there does), to what this one gives and its probabilities of validation rows.
        y: labels of the validation rows.
        distance: of the soft targets.
    """

    def trial(scale: float, start: Trained | None) -> Trial[Trained]:
        state, probs = train(scale, start)
        values = values_of(Rows(probs, y))
        return Trial(scale, state, probs, values[CRITERION])

    first = trial(FIRST, None)
    num_classes = first.probs.shape[1]
    counts = confusion_counts(first.probs.argmax(axis=1), y, num_classes)
    suggestion = suggest_scale(num_classes, confusion=counts, distance=distance)
    trials = {FIRST: first}
    for factor in AROUND:
        scale = float(np.clip(round(suggestion.scale * factor, 2), LEAST, MOST))
        if scale not in trials:
            trials[scale] = trial(scale, first.state)
    for _ in range(MOST_STEPS):
        best = min(trials.values(), key=lambda trial: trial.value)
        outward = FURTHER if best.scale == max(trials) else 1 / FURTHER
        scale = float(np.clip(round(best.scale * outward, 2), LEAST, MOST))
        if best.scale not in (min(trials), max(trials)) or scale in trials:
            break
        trials[scale] = trial(scale, first.state)
    best = min(trials.values(), key=lambda trial: trial.value)
    return Chosen(best, [trials[scale] for scale in sorted(trials)], suggestion)


def shortened(recipe: TrainConfig, epochs: int) -> dict[str, float]:
    """What changes in a recipe for a warm start, after a first training that took so many epochs.

    Example:
        >>> shortened(TrainConfig(rate=0.01, head_rate=0.1), epochs=40)
        {'epochs': 10, 'rate': 0.003, 'head_rate': 0.03}
    """
    return {
        "epochs": max(LEAST_EPOCHS, round(SHORT * epochs)),
        "rate": SLOWER * recipe.rate,
        "head_rate": SLOWER * recipe.head_rate,
    }
