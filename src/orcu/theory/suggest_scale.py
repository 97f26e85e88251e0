"""Which barrier scale s fits a task: from the theory, before or after a first training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_count
from orcu.io.card import card
from orcu.theory.equilibrium import equilibrium

GRID = np.geomspace(0.4, 100.0, 25)  # where the curve of confidence is looked at


@dataclass(frozen=True)
class Suggestion:
    """A scale, and what it rests on."""

    scale: float
    fits: bool  # whether some s makes the equilibrium as sure as the model is right
    confidence: float  # of the equilibrium at this scale
    accuracy: float
    reason: str

    def __str__(self) -> str:
        return self.reason

    def _repr_html_(self) -> str:
        facts = {
            "the equilibrium is sure by": f"{self.confidence:.1%}",
            "the model is right in": f"{self.accuracy:.1%}",
        }
        return card("Suggested barrier scale", sentences=[self.reason], facts=facts)


def suggest_scale(
    num_classes: int,
    accuracy: float | None = None,
    *,
    confusion: Any = None,
    distance: str | Mapping[str, Any] = "squared",
) -> Suggestion:
    """The scale at which ORCU's equilibrium is as sure as the model is right.

    Where labels overlap, free logits settle at the equilibrium of the label distribution that is met
    there. Its confidence rises with s, then falls towards a limit; on the falling branch the scale is
    taken at which the mean confidence equals the accuracy. (For one label alone it would never fall below the
    soft target's own mass; where labels overlap it does, so that some s fits nearly every task.)
    Without a confusion matrix the labels met at a decision are taken to fade by a constant factor from class to class.

    Args:
        num_classes: how many classes, C.
        accuracy: the share of right decisions, in (0, 1).
        confusion: counts of labels (rows) by decisions (columns), shape (C, C), in place of accuracy: the labels
            met at each decision are the overlap.
        distance: of the soft targets.

    Raises:
        InputError: if not exactly one of the two is given, or it cannot be used.

    Example:
        >>> print(suggest_scale(5, 0.7))
        s = 1.49: there the equilibrium is sure by 70.0%, as often as the model is right
        >>> suggest_scale(3, confusion=[[8, 1, 0], [2, 6, 2], [0, 1, 5]]).scale.__round__(2)
        1.43
    """
    num_classes = as_count(num_classes, name="num_classes", minimum=2)
    if (accuracy is None) == (confusion is None):
        raise InputError("accuracy: give it, or a confusion matrix, and not both.")
    if accuracy is not None:
        overlap, right, weight = _fading(num_classes, float(accuracy))
    else:
        overlap, right, weight = _met(confusion, num_classes)
    wanted = float(weight @ right)

    def confidence(scale: Any) -> FloatArray:
        solution = equilibrium(
            num_classes, scale=np.asarray(scale)[..., None], label_distribution=overlap, distance=distance
        )
        mean: FloatArray = solution.probs.max(axis=-1) @ weight
        return mean

    curve = confidence(GRID)
    peak = int(np.argmax(curve))
    below = np.flatnonzero(curve[peak:] <= wanted)
    if not len(below):
        message = (
            f"no s fits: right in {wanted:.1%}, but even a large s is sure by {curve[-1]:.1%}; try a wider distance "
            "(absolute), or leave it to a calibrator."
        )
        return Suggestion(float(GRID[-1]), False, float(curve[-1]), wanted, message)
    if below[0] == 0:  # even the surest equilibrium is less sure
        message = f"s = {GRID[peak]:.2f}: the surest equilibrium, {curve[peak]:.1%}; right in {wanted:.1%}"
        return Suggestion(float(GRID[peak]), False, float(curve[peak]), wanted, message)
    low, high = GRID[peak + below[0] - 1], GRID[peak + below[0]]
    scale = float(brentq(lambda s: float(confidence(s)) - wanted, low, high, xtol=1e-6))
    message = f"s = {scale:.2f}: there the equilibrium is sure by {wanted:.1%}, as often as the model is right"
    return Suggestion(scale, True, float(confidence(scale)), wanted, message)


def _fading(num_classes: int, accuracy: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Around each class, labels that fade by a constant factor; the class itself has the accuracy."""
    if not 1 / num_classes < accuracy < 1:
        raise InputError(f"accuracy: expected a share above 1/{num_classes} (chance) and below 1, got {accuracy!r}.")
    away = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
    overlap = np.empty((num_classes, num_classes))
    for k, steps in enumerate(away):
        factor = brentq(lambda r, steps=steps: 1 / (r**steps).sum() - accuracy, 0.0, 1.0)
        overlap[k] = factor**steps / (factor**steps).sum()
    return overlap, np.diagonal(overlap), np.full(num_classes, 1 / num_classes)


def _met(confusion: Any, num_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The labels met at each decision, the share of them that is right, and how often it is made."""
    counts = np.asarray(confusion, dtype=np.float64)
    good = counts.shape == (num_classes, num_classes) and np.isfinite(counts).all()
    if not good or (counts < 0).any() or not counts.any():
        raise InputError(
            f"confusion: expected counts of rows, shape ({num_classes}, {num_classes}), got shape {counts.shape}."
        )
    decided = counts.sum(axis=0)
    kept = np.flatnonzero(decided)
    met = (counts[:, kept] / decided[kept]).T
    return met, met[np.arange(len(kept)), kept], decided[kept] / decided.sum()
