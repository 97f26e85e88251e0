"""Escalation to people: which decisions of a panel are uncertain enough to be checked by a person."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from orcu.decisions.coverage import design_effect
from orcu.inputs import FloatArray, IntArray

CONFIDENCE = 0.9  # probability that the error rate of the items that are not escalated is at most max_error
N_TESTS = 5  # thresholds that are tested; more divide the error level further, fewer are coarse


def error_probability(probs: FloatArray, decision: IntArray, within: int) -> FloatArray:
    """Probability that the human grade differs from the decision by more than ``within`` levels, shape (n,)."""
    is_error = np.abs(np.arange(probs.shape[1]) - decision[:, None]) > within
    return np.asarray((probs * is_error).sum(axis=1))


def error_bound(is_wrong: npt.NDArray[np.bool_], cluster: Sequence[str] | None) -> float:
    """Upper bound of an error rate with a confidence of `CONFIDENCE` (Clopper and Pearson).

    Items of a cluster count as fewer items, by the design effect of their errors.

    Example:
        >>> round(error_bound(np.arange(100) < 15, None), 3)
        0.206
    """
    effect = design_effect(is_wrong, cluster)
    n, wrong = len(is_wrong) / effect, float(is_wrong.sum()) / effect
    return 1.0 if is_wrong.all() else float(betaincinv(wrong + 1, n - wrong, CONFIDENCE))


def escalation_threshold(
    risk: FloatArray, is_wrong: npt.NDArray[np.bool_], max_error: float, cluster: Sequence[str] | None
) -> float:
    """Largest error probability at which the error rate of all items up to it is at most ``max_error``.

    Learn then test (Angelopoulos et al., 2021): items are sorted by their error probability, and the first 20 %,
    40 %, ..., 100 % of them are tested. With w wrong items among the first m, the p-value of "the error rate is above
    max_error" is that of the exact binomial test, P(Binomial(m, max_error) <= w). The tests use the fallback procedure
    (Wiens, 2003): each has a fifth of the error level 1 - `CONFIDENCE`, plus the level of the previous test if that
    rejected. All rejections together are right with a probability of `CONFIDENCE`, so the largest may be used.

    Items of a cluster count as fewer items, by the design effect of their errors.

    Returns:
        The error probability of the last item of the longest rejected prefix; -1 without one, infinite for all items.

    Example:
        >>> escalation_threshold(np.repeat([0.1, 0.9], 50), np.repeat([False, True], 50), 0.1, None)
        0.1
    """
    order = np.argsort(risk, kind="stable")
    wrong, ordered = np.cumsum(is_wrong[order]), risk[order]
    effect = design_effect(is_wrong, cluster)
    level, threshold = 0.0, -1.0
    for share in range(1, N_TESTS + 1):
        cut = ordered[-(-share * len(order) // N_TESTS) - 1]
        last = int(np.searchsorted(ordered, cut, side="right")) - 1  # items of equal risk stay together
        errors, count = wrong[last] / effect, (last + 1) / effect
        p_value = 1.0 if wrong[last] == last + 1 else float(betainc(count - errors, errors + 1, 1 - max_error))
        level = (1 - CONFIDENCE) / N_TESTS + level
        if p_value <= level:
            threshold = float("inf") if last == len(order) - 1 else float(cut)
        else:
            level = 0.0
    return threshold


def escalation_note(escalate: npt.NDArray[np.bool_], max_error: float, within: int, threshold: float) -> str:
    """Sentence about the number of escalated items."""
    error = "wrong" if within == 0 else f"off by more than {within}"
    if threshold < 0:
        options = "Increase max_error." if within else "Increase max_error (--max-error), or set within=1 (--within 1)."
        return (
            f"all items are escalated, because an error rate of at most {max_error:.0%} ({error}) cannot be shown with "
            f"{CONFIDENCE:.0%} confidence. {options} More human grades help too."
        )
    count = int(escalate.sum())
    return (
        f"{count:,} of {len(escalate):,} items ({count / len(escalate):.0%}) are escalated to a person; of the others "
        f"at most {max_error:.0%} are {error}, with {CONFIDENCE:.0%} confidence"
    )
