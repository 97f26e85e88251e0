"""Choice of ORCU's scale s: a first training, the scale that the theory suggests, and short trainings around it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from orcu.defaults import SCALE
from orcu.evaluation.statistics import metric_values
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows, confusion_counts
from orcu.raters.votes import Targets, weighted_rows
from orcu.theory.suggest_scale import ScaleSuggestion, suggest_scale
from orcu.training.config import TrainConfig

FACTORS = (1.0, 0.5, 2.0)  # trial scales relative to the suggestion
STEP = 2.0  # factor of a further trial while the best scale is the smallest or largest
MAX_STEPS = 2
MIN_SCALE, MAX_SCALE = 0.1, 30.0
CRITERION = "sce"  # metric of the validation rows to minimise
SHORT, SLOWER = 0.25, 0.3  # epochs and learning rates of a short training relative to the first one
MIN_EPOCHS = 3

Trained = TypeVar("Trained")


@dataclass(frozen=True)
class Trial(Generic[Trained]):
    """A training with one scale: its result, its probabilities of the validation rows, and their metric."""

    scale: float
    state: Trained = field(repr=False)
    probs: FloatArray = field(repr=False)
    value: float


@dataclass(frozen=True)
class ScaleChoice(Generic[Trained]):
    """The best trial, all trials sorted by scale, and the suggestion of the theory."""

    best: Trial[Trained]
    trials: list[Trial[Trained]]
    suggestion: ScaleSuggestion


def choose_scale(
    train: Callable[[float, Trained | None], tuple[Trained, FloatArray]], y: Targets, *, distance: Any = "squared"
) -> ScaleChoice[Trained]:
    """Train with s = 3, then with the scale that the theory suggests for the confusion matrix, and scales around it.

    Args:
        train: function from a scale and the result of the first training (``None`` in the first training; the others
            are short trainings that start from it) to its result and its probabilities of the validation rows.
        y: labels of the validation rows, (n,); or shares of their votes, (n, C).
        distance: distance of the soft targets.
    """
    trials: dict[float, Trial[Trained]] = {}
    case, label, weight = weighted_rows(y)

    def run_trial(scale: float, start: Trained | None) -> Trial[Trained]:
        state, probs = train(scale, start)
        trials[scale] = Trial(scale, state, probs, metric_values(Rows(probs[case], label, weight))[CRITERION])
        return trials[scale]

    def clip(scale: float) -> float:
        return float(np.clip(round(scale, 2), MIN_SCALE, MAX_SCALE))

    def best_trial() -> Trial[Trained]:
        return min(trials.values(), key=lambda trial: trial.value)

    first = run_trial(SCALE, None)
    num_classes = first.probs.shape[1]
    counts = confusion_counts(first.probs.argmax(axis=1)[case], label, num_classes, weight)
    suggestion = suggest_scale(num_classes, confusion=counts, distance=distance)
    for factor in FACTORS:
        if clip(suggestion.scale * factor) not in trials:
            run_trial(clip(suggestion.scale * factor), first.state)
    for _ in range(MAX_STEPS):
        best = best_trial().scale
        scale = clip(best * (STEP if best == max(trials) else 1 / STEP))
        if best not in (min(trials), max(trials)) or scale in trials:
            break
        run_trial(scale, first.state)
    return ScaleChoice(best_trial(), [trials[scale] for scale in sorted(trials)], suggestion)


def short_training(train_config: TrainConfig, epochs: int) -> dict[str, float]:
    """Changes to the hyperparameters for a short training after a first one of ``epochs`` epochs.

    Example:
        >>> short_training(TrainConfig(learning_rate=0.01, head_learning_rate=0.1), epochs=40)
        {'epochs': 10, 'learning_rate': 0.003, 'head_learning_rate': 0.03}
    """
    rates = {name: SLOWER * getattr(train_config, name) for name in ("learning_rate", "head_learning_rate")}
    return {"epochs": max(MIN_EPOCHS, round(SHORT * epochs)), **rates}
