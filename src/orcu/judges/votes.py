"""Distributions from few votes: counts smoothed by a Dirichlet prior that is fitted to the votes of all items."""

import numpy as np
from scipy.special import digamma

from orcu.inputs import FloatArray

MAX_ITERATIONS, TOLERANCE = 1000, 1e-8
MIN_PRIOR = 1e-3  # smallest entry of a prior, for grades without votes
SINGLE_VOTE_PRIOR = 0.5  # entry of the prior if all items have one vote, which does not identify it (Jeffreys)
PSEUDOCOUNT = 0.5  # prior count of each cell in the table of human grades by vote


def fit_prior(votes: FloatArray) -> FloatArray:
    """Maximum-likelihood Dirichlet prior of the votes, shape (C,).

    Each item has a distribution drawn from Dirichlet(a), and its votes are drawn from that. The fixed-point iteration
    of Minka (2000),

        a_k <- a_k sum_i [psi(n_ik + a_k) - psi(a_k)] / sum_i [psi(N_i + A) - psi(A)],   A = sum_k a_k,

    increases the likelihood at every step. Judges that repeat themselves have a small A, those that vary a large one.

    Args:
        votes: counts, shape (n, C), with at least one vote per row.

    Example:
        >>> sure, unsure = [[6, 0], [0, 6]] * 20, [[3, 3], [4, 2], [2, 4]] * 20
        >>> float(fit_prior(np.array(sure)).sum()) < 1 < 10 < float(fit_prior(np.array(unsure)).sum())
        True
    """
    totals = votes.sum(axis=1)
    if totals.max() <= 1:
        return np.full(votes.shape[1], SINGLE_VOTE_PRIOR)
    prior = np.maximum(votes.sum(axis=0) / votes.sum(), MIN_PRIOR) * votes.shape[1] / 2
    for _ in range(MAX_ITERATIONS):
        total = prior.sum()
        numerator = (digamma(votes + prior) - digamma(prior)).sum(axis=0)
        denominator = max(float((digamma(totals + total) - digamma(total)).sum()), np.finfo(np.float64).tiny)
        updated = np.clip(prior * (numerator / denominator), MIN_PRIOR, 1e4)  # unanimous items have no finite optimum
        has_converged = np.abs(updated - prior).max() <= TOLERANCE * total
        prior = updated
        if has_converged:
            break
    return prior


def smooth_votes(votes: FloatArray, prior: FloatArray) -> FloatArray:
    """Posterior mean of each item's distribution, (n_ik + a_k) / (N_i + A), shape (n, C).

    Example:
        >>> smooth_votes(np.array([[3.0, 0.0]]), np.array([0.5, 0.5]))
        array([[0.875, 0.125]])
    """
    sums = votes + prior
    return sums / sums.sum(axis=1, keepdims=True)


def human_grades_by_vote(votes: FloatArray, human: FloatArray) -> FloatArray:
    """Distribution of human grades given a single vote, shape (C, C); rows sum to 1.

    Each row is shrunk towards the overall distribution of human grades, with the weight of C / 2 items.

    Args:
        votes: one vote per item, shape (n, C).
        human: shares of human grades, shape (n, C).

    Example:
        >>> human_grades_by_vote(np.array([[1, 0], [1, 0], [0, 1]]), np.array([[1, 0], [0, 1], [0, 1]])).round(
        ...     2
        ... )
        array([[0.46, 0.54],
               [0.19, 0.81]])
    """
    num_classes = votes.shape[1]
    marginal = (human.sum(axis=0) + PSEUDOCOUNT) / (human.sum() + PSEUDOCOUNT * num_classes)
    counts = votes.T @ human + PSEUDOCOUNT * num_classes * marginal
    return counts / counts.sum(axis=1, keepdims=True)
