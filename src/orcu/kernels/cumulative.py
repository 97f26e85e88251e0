"""Cumulative link model with the logit link (proportional odds): P(y <= k) = sigma(theta_k - f) for a score f."""

import numpy as np
from scipy.special import expit, log_expit

from orcu.inputs import FloatArray, IntArray


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
    with np.errstate(over="ignore"):
        overlap = 1 / np.expm1(padded[y + 1] - padded[y])  # 0 at both ends of the scale
    gaps = padded[y + 1] - padded[y]
    value = -float(weight @ (log_expit(upper) + log_expit(-lower) + np.log(-np.expm1(-gaps))))
    of_upper, of_lower = -weight * (expit(-upper) + overlap), weight * (expit(lower) + overlap)
    n_thresholds = len(thresholds)
    of_thresholds = np.bincount(y, of_upper, n_thresholds + 1)[:-1] + np.bincount(y, of_lower, n_thresholds + 1)[1:]
    of_scores: FloatArray = -(of_upper + of_lower)
    return value, of_scores, np.asarray(of_thresholds, dtype=np.float64)
