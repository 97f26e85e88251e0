"""Bradley-Terry model of ordered preferences: adjacent categories, with Davidson's model of ties for three levels."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

MAX_STRENGTH = 30.0  # difference of log odds; beyond it a maximum is at infinity
N_STEPS = 60  # of Newton's method, which needs about six
_TOLERANCE = 1e-10  # of the step
_ROUNDING = 1e-9  # count below which a cell is empty


@dataclass(frozen=True)
class PairCounts:
    """Counts of outcomes by ordered pair of systems; they may be fractions, such as expected outcomes.

    Attributes:
        systems: names of the systems.
        first: index of the first system of each cell, shape (P,).
        second: index of the second system, shape (P,).
        order: 1 if the first system was shown first, -1 if it was shown second, 0 if each was first equally often.
        counts: count of each outcome, from "the first is better" to "the second is better", shape (P, C).
    """

    systems: tuple[str, ...]
    first: IntArray
    second: IntArray
    order: IntArray
    counts: FloatArray

    @property
    def design(self) -> FloatArray:
        """Coefficients of the strengths and of the position in each cell, shape (P, S + 1)."""
        rows, design = np.arange(len(self.first)), np.zeros((len(self.first), len(self.systems) + 1))
        design[rows, self.first], design[rows, self.second] = 1.0, -1.0
        design[:, -1] = self.order
        return design


@dataclass(frozen=True)
class Strengths:
    """Fitted model.

    Attributes:
        values: strength of each system, with mean 0, shape (S,). A difference is the log odds of the best against the
            worst outcome.
        position: increase of these log odds for the system that is shown first; 0 if it is not estimated.
        intercepts: logarithm of the weight of each outcome between equal systems, 0 for the extreme ones, shape (C,).
    """

    values: FloatArray
    position: float
    intercepts: FloatArray

    def probs(self, difference: float) -> FloatArray:
        """Distribution of the outcome for a difference of strengths, shape (C,)."""
        logits = outcome_scores(len(self.intercepts)) * difference + self.intercepts
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())


def outcome_scores(num_outcomes: int) -> FloatArray:
    """Scores of the outcomes from 1/2 (the first is better) to -1/2 (the second is better), shape (C,)."""
    return np.linspace(0.5, -0.5, num_outcomes)


def fit_strengths(pairs: PairCounts, *, estimate_position: bool = False, start: Strengths | None = None) -> Strengths:
    r"""Fit the strengths of the systems by maximum likelihood.

    For systems s and t, shown in the order z, the outcome k with the score :math:`c_k` from 1/2 to -1/2 has

    .. math:: \log p_k = c_k (\theta_s - \theta_t + z \delta) + \tau_k + \text{const}, \quad \tau_k = \tau_{C-1-k}.

    The extreme outcomes have :math:`\tau = 0`. For two outcomes this is the model of Bradley and Terry (1952), for
    three that of Davidson (1970), :math:`p_{tie} \propto \nu \sqrt{\pi_s \pi_t}` with :math:`\nu = e^{\tau_1}`, and
    for five the adjacent-categories model (Agresti 1992). Outcomes that never occur, and their mirror images do not
    either, have probability 0. The log-likelihood is concave and maximised by Newton's method.

    Args:
        pairs: counts of outcomes.
        estimate_position: whether to estimate δ; it is 0 otherwise.
        start: first iterate.

    Raises:
        InputError: if the comparisons do not connect all systems, some systems always win or always lose, so that
            their strengths are infinite, or all outcomes are ties.

    Example:
        >>> order = np.zeros(3, dtype=np.int64)
        >>> first, second = np.array([0, 0, 1]), np.array([1, 2, 2])
        >>> counts = np.array([[6.0, 2, 2], [7, 2, 1], [4, 3, 3]])
        >>> fit_strengths(PairCounts(("a", "b", "c"), first, second, order, counts)).values.round(3)
        array([ 1.017, -0.307, -0.71 ])
    """
    counts, num_outcomes = pairs.counts, pairs.counts.shape[1]
    scores = outcome_scores(num_outcomes)
    total = counts.sum(axis=0)
    used = (total + total[::-1]) > _ROUNDING
    _check_finite(pairs, used)
    extreme = np.abs(scores[used]).max()
    middle = [k for k in range((num_outcomes + 1) // 2) if used[k] and abs(scores[k]) < extreme]
    is_middle = np.zeros((len(middle), num_outcomes))  # indicator of each outcome with an intercept
    for row, k in enumerate(middle):
        is_middle[row, [k, num_outcomes - 1 - k]] = 1.0
    design = pairs.design if estimate_position else pairs.design[:, :-1]
    size, n_cells = design.shape[1], counts.sum(axis=1)
    observed = np.concatenate([design.T @ (counts @ scores), is_middle @ total])
    offset = np.where(used, 0.0, -np.inf)
    values = np.zeros(size + len(middle))
    if start is not None:
        values[: len(pairs.systems)] = start.values
        values[size:] = start.intercepts[middle]
        values[len(pairs.systems) : size] = start.position

    def evaluate(values: FloatArray) -> tuple[float, FloatArray]:
        intercepts = offset + values[size:] @ is_middle
        logits = (design @ values[:size])[:, None] * scores + intercepts
        top = logits.max(axis=1, keepdims=True)
        log_norm = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        likelihood = float(observed @ values - n_cells @ log_norm)
        return likelihood, np.exp(logits - log_norm[:, None])

    likelihood, probs = evaluate(values)
    for _ in range(N_STEPS):
        mean = probs @ scores
        shares = probs @ is_middle.T
        gradient = observed - np.concatenate([design.T @ (n_cells * mean), n_cells @ shares])
        variance = n_cells * (probs @ scores**2 - mean**2)
        covariance = n_cells[:, None] * (probs @ (is_middle * scores).T - mean[:, None] * shares)
        hessian = np.zeros((len(values), len(values)))
        hessian[:size, :size] = design.T @ (variance[:, None] * design)
        hessian[:size, size:] = design.T @ covariance
        hessian[size:, :size] = hessian[:size, size:].T
        hessian[size:, size:] = np.diag(n_cells @ shares) - shares.T @ (n_cells[:, None] * shares)
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]  # the mean of the strengths is not determined
        scale = 1.0
        while scale > 1e-6:
            candidate = values + scale * step
            new_likelihood, new_probs = evaluate(candidate)
            if new_likelihood >= likelihood - 1e-9 * abs(likelihood):
                break
            scale /= 2
        values, likelihood, probs = candidate, new_likelihood, new_probs
        if np.abs(values).max() > 2 * MAX_STRENGTH:
            break
        if np.abs(scale * step).max() < _TOLERANCE:
            break
    strengths = values[: len(pairs.systems)] - values[: len(pairs.systems)].mean()
    if not np.ptp(strengths) < MAX_STRENGTH or not np.abs(values).max() < MAX_STRENGTH:
        raise InputError(
            "systems: the likelihood has no finite maximum, because the outcomes separate the systems. Add comparisons."
        )
    position = float(values[len(pairs.systems)]) if estimate_position else 0.0
    intercepts = np.asarray(offset + values[size:] @ is_middle, dtype=np.float64)
    return Strengths(strengths, position, intercepts)


def position_is_estimable(pairs: PairCounts) -> bool:
    """Whether the effect of the position can be distinguished from the strengths of the systems."""
    return bool(np.linalg.matrix_rank(pairs.design) > np.linalg.matrix_rank(pairs.design[:, :-1]))


def _check_finite(pairs: PairCounts, used: FloatArray) -> None:
    """Raise if the comparisons do not connect the systems, or the strengths of some are infinite."""
    names, size = pairs.systems, len(pairs.systems)
    has_counts = pairs.counts.sum(axis=1) > _ROUNDING
    first, second, counts = pairs.first[has_counts], pairs.second[has_counts], pairs.counts[has_counts]
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(size, size))
    n_parts, part = connected_components(graph, directed=False)
    if n_parts > 1:
        groups = [", ".join(names[k] for k in np.flatnonzero(part == number)) for number in range(n_parts)]
        raise InputError(
            f"systems: no comparison connects {' with '.join(f'({group})' for group in groups)}, so their strengths "
            "cannot be compared. Add comparisons between them, or rank them separately."
        )
    if not np.abs(outcome_scores(len(used))[used]).max() > 0:
        raise InputError("systems: all outcomes are ties, so the systems cannot be ranked.")
    best, worst = np.flatnonzero(used)[[0, -1]]
    # An edge from s to t says that s did not always lose against t by the worst outcome.
    not_lost = np.delete(counts, worst, axis=1).sum(axis=1) > _ROUNDING
    not_won = np.delete(counts, best, axis=1).sum(axis=1) > _ROUNDING
    sources = np.concatenate([first[not_lost], second[not_won]])
    targets = np.concatenate([second[not_lost], first[not_won]])
    graph = sparse.csr_array((np.ones(len(sources)), (sources, targets)), shape=(size, size))
    n_parts, part = connected_components(graph, directed=True, connection="strong")
    if n_parts > 1:
        crosses = part[sources] != part[targets]
        for number in range(n_parts):
            group = ", ".join(names[k] for k in np.flatnonzero(part == number))
            leaves = bool((crosses & (part[sources] == number)).any())
            enters = bool((crosses & (part[targets] == number)).any())
            if leaves != enters:
                verb = "wins" if leaves else "loses"
                raise InputError(
                    f"systems: ({group}) {verb} all comparisons with the other systems, so the difference of their "
                    "strengths is infinite. Add comparisons, use the probabilities of the judge (--probs), or leave "
                    "these systems out."
                )
