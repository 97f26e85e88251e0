"""ScaleSuggestion of the barrier scale s from the accuracy of a model, by the equilibrium of the theory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_count
from orcu.theory.equilibrium import equilibrium

GRID = np.geomspace(0.4, 100.0, 25)  # scales at which the confidence is computed before root finding


@dataclass(frozen=True)
class ScaleSuggestion:
    """Suggested scale with its confidence and the reason.

    Attributes:
        scale: suggested barrier scale s.
        fits: whether the equilibrium's mean confidence equals the accuracy at some s.
        confidence: mean confidence of the equilibrium at this scale.
        accuracy: accuracy of the model.
        reason: explanation in one sentence.
    """

    scale: float
    fits: bool
    confidence: float
    accuracy: float
    reason: str

    def __str__(self) -> str:
        return self.reason

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card

        facts = {
            "confidence of the equilibrium": f"{self.confidence:.1%}",
            "accuracy of the model": f"{self.accuracy:.1%}",
        }
        return card("Suggested barrier scale", sentences=[self.reason], facts=facts)


def suggest_scale(
    num_classes: int,
    accuracy: float | None = None,
    *,
    confusion: Any = None,
    distance: str | Mapping[str, Any] = "squared",
) -> ScaleSuggestion:
    """Suggest the scale at which the mean confidence of ORCU's equilibrium equals the accuracy of the model.

    Where labels overlap, free logits converge to the equilibrium of the label distribution. Its confidence rises with
    s and then falls towards a limit; the scale is taken on the falling branch. (For a single label the confidence
    would never fall below the soft target's own mass; for overlapping labels it does, so a scale exists for nearly
    every task.) Without a confusion matrix, the label distribution of each predicted class is assumed to decrease by a
    constant factor from class to class.

    Args:
        num_classes: number of classes, C.
        accuracy: share of correct predictions, between 1/C and 1.
        confusion: confusion matrix of counts, labels in rows and predictions in columns, shape (C, C), instead of
            accuracy; its columns are the label distributions.
        distance: distance of the soft targets, see `orcu.kernels.soft_targets`.

    Raises:
        InputError: if not exactly one of accuracy and confusion is given, or its value is invalid.

    Example:
        >>> print(suggest_scale(5, 0.7))
        s = 1.49: the equilibrium's mean confidence, 70.0%, equals the accuracy
        >>> suggest_scale(3, confusion=[[8, 1, 0], [2, 6, 2], [0, 1, 5]]).scale.__round__(2)
        1.43
    """
    from scipy.optimize import brentq  # slow to import

    num_classes = as_count(num_classes, name="num_classes", minimum=2)
    if (accuracy is None) == (confusion is None):
        raise InputError("accuracy: give either accuracy or confusion, not both.")
    if accuracy is not None:
        overlap, precision, weight = _geometric_overlap(num_classes, float(accuracy))
    else:
        overlap, precision, weight = _overlap_of(confusion, num_classes)
    target = float(weight @ precision)

    def confidence(scale: Any) -> FloatArray:
        solution = equilibrium(
            num_classes, scale=np.asarray(scale)[..., None], label_distribution=overlap, distance=distance
        )
        return solution.probs.max(axis=-1) @ weight

    curve = confidence(GRID)
    peak = int(np.argmax(curve))
    below = np.flatnonzero(curve[peak:] <= target)
    if not len(below):
        message = (
            f"no s fits: the accuracy is {target:.1%}, but the equilibrium's mean confidence is at least "
            f"{curve[-1]:.1%}; use a wider distance (absolute) or a calibrator."
        )
        return ScaleSuggestion(float(GRID[-1]), False, float(curve[-1]), target, message)
    if below[0] == 0:  # even the largest confidence is below the accuracy
        message = (
            f"s = {GRID[peak]:.2f}: the equilibrium's largest mean confidence, {curve[peak]:.1%}, is below the "
            f"accuracy, {target:.1%}"
        )
        return ScaleSuggestion(float(GRID[peak]), False, float(curve[peak]), target, message)
    low, high = GRID[peak + below[0] - 1], GRID[peak + below[0]]
    scale = float(brentq(lambda s: float(confidence(s)) - target, low, high, xtol=1e-6))
    message = f"s = {scale:.2f}: the equilibrium's mean confidence, {target:.1%}, equals the accuracy"
    return ScaleSuggestion(scale, True, float(confidence(scale)), target, message)


def _geometric_overlap(num_classes: int, accuracy: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Label distributions that decrease by a constant factor around each class, whose own share is the accuracy."""
    if not 1 / num_classes < accuracy < 1:
        raise InputError(f"accuracy: expected a share above 1/{num_classes} (chance) and below 1, got {accuracy!r}.")
    from scipy.optimize import brentq

    distances = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
    overlap = np.empty((num_classes, num_classes))
    for k, steps in enumerate(distances):
        factor = brentq(lambda r, steps=steps: 1 / (r**steps).sum() - accuracy, 0.0, 1.0)
        overlap[k] = factor**steps / (factor**steps).sum()
    return overlap, np.diagonal(overlap), np.full(num_classes, 1 / num_classes)


def _overlap_of(confusion: Any, num_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Label distribution, precision and frequency of each predicted class of a confusion matrix."""
    counts = np.asarray(confusion, dtype=np.float64)
    valid = counts.shape == (num_classes, num_classes) and np.isfinite(counts).all()
    if not valid or (counts < 0).any() or not counts.any():
        raise InputError(
            f"confusion: expected non-negative counts of shape ({num_classes}, {num_classes}), not all 0; got shape "
            f"{counts.shape}."
        )
    totals = counts.sum(axis=0)
    predicted = np.flatnonzero(totals)
    overlap = (counts[:, predicted] / totals[predicted]).T
    return overlap, overlap[np.arange(len(predicted)), predicted], totals[predicted] / totals.sum()
