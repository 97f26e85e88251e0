"""Escalation to people: which decisions of a panel are uncertain enough to be checked by a person."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from orcu.decisions.coverage import design_effect
from orcu.inputs import FloatArray, IntArray

CONFIDENCE = 0.9  # confidence of the bound on the error rate of items that are not escalated


def error_probability(probs: FloatArray, decision: IntArray, within: int) -> FloatArray:
    """Probability that the human grade differs from the decision by more than ``within`` levels, shape (n,)."""
    is_error = np.abs(np.arange(probs.shape[1]) - decision[:, None]) > within
    return np.asarray((probs * is_error).sum(axis=1))


def escalation_threshold(
    risk: FloatArray, is_wrong: npt.NDArray[np.bool_], max_error: float, cluster: Sequence[str] | None
) -> float:
    """Largest error probability at which the error rate of all items up to it is bounded by ``max_error``.

    Items are sorted by their error probability. The threshold is that of the longest prefix whose error rate has a
    one-sided 90 % Clopper-Pearson bound of at most ``max_error``: -1 if there is none, infinite if it has all items.
    Items of a cluster count as fewer items, by the design effect of their errors.

    Example:
        >>> escalation_threshold(np.array([0.1] * 50 + [0.9]), np.array([False] * 50 + [True]), 0.05, None)
        0.1
    """
    order = np.argsort(risk, kind="stable")
    wrong = np.cumsum(is_wrong[order])
    count = np.arange(1, len(order) + 1)
    effect = design_effect(is_wrong, cluster)
    right = np.maximum(count - wrong, 1) / effect
    bound = np.where(wrong == count, 1.0, beta.ppf(CONFIDENCE, wrong / effect + 1, right))
    is_last = np.append(np.diff(risk[order]) > 0, True)  # items of equal risk stay together
    valid = np.flatnonzero((bound <= max_error) & is_last)
    if not len(valid):
        return -1.0
    return float("inf") if valid[-1] == len(order) - 1 else float(risk[order][valid[-1]])


def escalation_note(escalate: npt.NDArray[np.bool_], max_error: float, within: int, threshold: float) -> str:
    """Sentence about the number of escalated items."""
    error = "wrong" if within == 0 else f"off by more than {within}"
    if threshold < 0:
        options = "Increase max_error." if within else "Increase max_error (--max-error), or set within=1 (--within 1)."
        return f"all items are escalated, because an error rate of {max_error:.0%} ({error}) is not reached. {options}"
    count = int(escalate.sum())
    return (
        f"{count:,} of {len(escalate):,} items ({count / len(escalate):.0%}) are escalated to a person; of the others "
        f"at most {max_error:.0%} are expected to be {error}"
    )
