"""Votes of few samples as distributions: counts smoothed by the Dirichlet prior that the judge's own votes tell."""

import numpy as np
from scipy.special import digamma

from orcu.inputs import FloatArray

STEPS, ENOUGH = 1000, 1e-8
SMALLEST = 1e-3  # of a prior's entry: a grade that was never given may still be given once
SINGLE = 0.5  # each entry where every item has one vote, which tells nothing about how much samples differ (Jeffreys)
HALF = 0.5  # of a grade of people that each cell of a table of single votes is worth before any was given


def fitted_prior(votes: FloatArray) -> FloatArray:
    """The Dirichlet prior a that makes the votes of all items most likely, shape (C,).

    Each item has its own distribution, drawn from Dirichlet(a), and its votes are drawn from that. The fixed point of
    Minka (2000),

        a_k <- a_k sum_i [psi(n_ik + a_k) - psi(a_k)] / sum_i [psi(N_i + A) - psi(A)],   A = sum_k a_k,

    climbs the likelihood at every step. Judges that repeat themselves have a small A, those that waver a large one.

    Args:
        votes: counts, shape (n, C), each row with at least one.

    Example:
        >>> sure, unsure = [[6, 0], [0, 6]] * 20, [[3, 3], [4, 2], [2, 4]] * 20
        >>> float(fitted_prior(np.array(sure)).sum()) < 1 < 10 < float(fitted_prior(np.array(unsure)).sum())
        True
    """
    totals = votes.sum(axis=1)
    if totals.max() <= 1:
        return np.full(votes.shape[1], SINGLE)
    prior = np.maximum(votes.sum(axis=0) / votes.sum(), SMALLEST) * votes.shape[1] / 2
    for _ in range(STEPS):
        whole = prior.sum()
        rises = (digamma(votes + prior) - digamma(prior)).sum(axis=0)
        factor = rises / max(float((digamma(totals + whole) - digamma(whole)).sum()), np.finfo(np.float64).tiny)
        moved = np.clip(prior * factor, SMALLEST, 1e4)  # items that all vote alike have no finite prior
        done = np.abs(moved - prior).max() <= ENOUGH * whole
        prior = moved
        if done:
            break
    return prior


def smoothed(votes: FloatArray, prior: FloatArray) -> FloatArray:
    """The mean of each item's distribution given its votes, (n_ik + a_k) / (N_i + A), shape (n, C).

    Example:
        >>> smoothed(np.array([[3.0, 0.0]]), np.array([0.5, 0.5]))
        array([[0.875, 0.125]])
    """
    sums = votes + prior
    means: FloatArray = sums / sums.sum(axis=1, keepdims=True)
    return means


def grades_by_vote(votes: FloatArray, human: FloatArray) -> FloatArray:
    """How often people give each grade to items of a single vote, by the vote, shape (C, C); rows sum to 1.

    Each row is pulled to how often people give each grade at all, as by C / 2 items more.

    Args:
        votes: one for each item, shape (n, C).
        human: shares of people's grades, shape (n, C).

    Example:
        >>> grades_by_vote(np.array([[1, 0], [1, 0], [0, 1]]), np.array([[1, 0], [0, 1], [0, 1]])).round(2)
        array([[0.46, 0.54],
               [0.19, 0.81]])
    """
    size = votes.shape[1]
    common = (human.sum(axis=0) + HALF) / (human.sum() + HALF * size)
    counts = votes.T @ human + HALF * size * common
    table: FloatArray = counts / counts.sum(axis=1, keepdims=True)
    return table
