"""Cumulative probabilities: the cumulative link model with the logit link, and the log loss of the events y > k."""

from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from orcu.geometry import array_namespace, cumulative
from orcu.inputs import FloatArray, IntArray
from orcu.kernels.penalties import indicator
from orcu.kernels.terms import ClassFirst, Term

LOG_RANGE = {4: 80.0, 8: 600.0}  # range of logits, by bytes per number, in which no probability underflows


def log_probs(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Log-probabilities log(sigma(theta_k - f) - sigma(theta_{k-1} - f)), with theta_{-1} = -inf, theta_{C-1} = inf.

    The difference is written as a product, sigma(a) sigma(-b) (1 - exp(b - a)), so that no digits cancel in the tails.

    Args:
        scores: scores f, shape (n,).
        thresholds: increasing thresholds theta, shape (C - 1,).

    Returns:
        Shape (n, C).

    Example:
        >>> np.exp(log_probs(np.array([0.0]), np.array([-1.0, 1.0]))).round(3).tolist()
        [[0.269, 0.462, 0.269]]
    """
    distances = thresholds - scores[:, None]
    below, above = log_expit(distances), log_expit(-distances)  # log P(y <= k), log P(y > k)
    inner = below[:, 1:] + above[:, :-1] + np.log(-np.expm1(-np.diff(thresholds)))
    return np.concatenate([below[:, :1], inner, above[:, -1:]], axis=1)


def log_loss_gradient(
    scores: FloatArray, thresholds: FloatArray, y: IntArray, weight: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Weighted sum of -log p_y, and its gradients in the scores and in the thresholds.

    Args:
        scores: scores f, shape (n,).
        thresholds: increasing thresholds theta, shape (C - 1,).
        y: labels 0..C-1, shape (n,).
        weight: weight of each row, shape (n,).

    Example:
        >>> value, of_scores, of_thresholds = log_loss_gradient(
        ...     np.zeros(1), np.array([-1.0, 1.0]), np.array([2]), np.ones(1)
        ... )
        >>> round(value, 3), of_scores.round(3).tolist(), of_thresholds.round(3).tolist()
        (1.313, [-0.731], [0.0, 0.731])
    """
    padded = np.concatenate([[-np.inf], thresholds, [np.inf]])
    upper, lower = padded[y + 1] - scores, padded[y] - scores
    log_prob, by_upper, by_lower = log_interval(upper, lower, padded[y + 1] - padded[y])
    value = -float(weight @ log_prob)
    of_upper, of_lower = -weight * by_upper, -weight * by_lower
    n_thresholds = len(thresholds)
    of_thresholds = np.bincount(y, of_upper, n_thresholds + 1)[:-1] + np.bincount(y, of_lower, n_thresholds + 1)[1:]
    of_scores: FloatArray = -(of_upper + of_lower)
    return value, of_scores, np.asarray(of_thresholds, dtype=np.float64)


def cumulative_log_loss(batch: ClassFirst, y: Any) -> Term:
    """-sum_k ([y > k] log P(y > k) + [y <= k] log P(y <= k)), with the gradient in the logits.

    The gradient in z_j is p_j (C - 1 - sum_{k < j} [y > k] / P(y > k) - sum_{k >= j} [y <= k] / P(y <= k)).

    Args:
        batch: logits.
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    xp, z = array_namespace(batch.z), batch.z
    if y.ndim == 2:
        is_above = 1 - cumulative(y).T
    else:
        thresholds = xp.arange(len(z) - 1) if xp is np else xp.arange(len(z) - 1, device=z.device)
        is_above = indicator(y > thresholds[:, None], z)
    if xp is np and (batch.top - batch.lowest).max() <= LOG_RANGE[z.itemsize]:
        return _cumulative_log_loss_from_probs(batch.probs, is_above)
    log_probs = batch.log_probs
    log_below, log_above = [log_probs[0]], [log_probs[-1]]  # log P(y <= k), and log P(y > k) from the last
    for k in range(1, len(z) - 1):
        log_below.append(xp.logaddexp(log_below[-1], log_probs[k]))
        log_above.append(xp.logaddexp(log_above[-1], log_probs[-1 - k]))
    below, above = xp.stack(log_below), xp.stack(log_above[::-1])

    def gradient() -> Any:
        # The sums times P(y >= j) and times P(y <= j), from class to class: ratios of probabilities cannot overflow.
        from_above, from_below = [0 * z[0]], [0 * z[0]]
        for k in range(len(z) - 1):
            ratio = xp.exp(above[k] - above[k - 1]) if k else xp.exp(above[0])
            from_above.append(ratio * from_above[-1] + is_above[k])
        for k in range(len(z) - 2, -1, -1):
            ratio = xp.exp(below[k] - below[k + 1]) if k < len(z) - 2 else xp.exp(below[-1])
            from_below.append(ratio * from_below[-1] + 1 - is_above[k])
        zero = 0 * z[:1]
        of_above = xp.exp(log_probs - xp.concatenate([zero, above])) * xp.stack(from_above)
        of_below = xp.exp(log_probs - xp.concatenate([below, zero])) * xp.stack(from_below[::-1])
        return (len(z) - 1) * batch.probs - of_above - of_below

    return Term(-(is_above * above + (1 - is_above) * below).sum(0), gradient)


def _cumulative_log_loss_from_probs(probs: FloatArray, is_above: FloatArray) -> Term:
    """`cumulative_log_loss` of probabilities that do not underflow, which is faster."""
    below, above = probs.cumsum(0)[:-1], probs[:0:-1].cumsum(0)[::-1]
    is_below = 1 - is_above

    def gradient() -> FloatArray:
        total: FloatArray = np.full_like(probs, len(probs) - 1)
        total[1:] -= (is_above / above).cumsum(0)
        total[:-1] -= (is_below / below)[::-1].cumsum(0)[::-1]
        total *= probs
        return total

    return Term(-(is_above * np.log(above) + is_below * np.log(below)).sum(0), gradient)


def log_interval(upper: FloatArray, lower: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-probability of an interval, log(sigma(u) - sigma(l)), and its derivatives in u and l.

    They are 1 - sigma(u) + 1 / (exp(u - l) - 1) and -sigma(l) - 1 / (exp(u - l) - 1).

    Args:
        upper: upper ends u, shape (n,); infinite for the highest class.
        lower: lower ends l, shape (n,); minus infinity for the lowest class.
        width: u - l, all positive, shape (n,). It is given, because a difference of thresholds has fewer rounding
            errors than one of ends that contain a score.

    Returns:
        Three arrays of shape (n,).

    Example:
        >>> log_prob, by_upper, by_lower = log_interval(np.array([1.0]), np.array([-1.0]), np.array([2.0]))
        >>> np.exp(log_prob).round(3).tolist(), by_upper.round(3).tolist(), by_lower.round(3).tolist()
        ([0.462], [0.425], [-0.425])
    """
    with np.errstate(over="ignore"):
        overlap = 1 / np.expm1(width)  # 0 at both ends of the scale
    log_prob = log_expit(upper) + log_expit(-lower) + np.log(-np.expm1(-width))
    return log_prob, expit(-upper) + overlap, -(expit(lower) + overlap)


def log_interval_hessian(
    upper: FloatArray, lower: FloatArray, width: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Second derivatives of `log_interval` in (u, u), (l, l) and (u, l), each of shape (n,).

    With o = 1 / (exp(u - l) - 1) they are -sigma(u) sigma(-u) - o (1 + o), -sigma(l) sigma(-l) - o (1 + o) and
    o (1 + o). The matrix is negative definite, so the log-likelihood is concave in u and l.

    Example:
        >>> ends = np.array([1.0]), np.array([-1.0]), np.array([2.0])
        >>> [derivative.round(3).tolist() for derivative in log_interval_hessian(*ends)]
        [[-0.378], [-0.378], [0.181]]
    """
    with np.errstate(over="ignore"):
        overlap = 1 / np.expm1(width)
    cross = overlap * (1 + overlap)
    return -expit(upper) * expit(-upper) - cross, -expit(lower) * expit(-lower) - cross, cross
