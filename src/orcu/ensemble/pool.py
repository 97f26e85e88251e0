"""Logarithmic pool: several distributions of a row combined by a weighted mean of their log-probabilities."""

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

# Strength of the penalty towards equal weights, in rows: it decides between members that differ by chance only, and
# is negligible after some hundred rows where one member is clearly better. A stronger one costs where an ensemble has
# many members of which few are good (benchmarks/rivals.py).
PRIOR_ROWS = 1.0
MAX_LOG_INVERSE_TEMPERATURE = 1.0  # bound for data on which every row is predicted correctly
MIN_WEIGHT = 0.05  # a member below this share of an equal weight is dropped


def log_pool(log_probs: FloatArray, weights: FloatArray) -> FloatArray:
    """Logits of a logarithmic pool: sum_m w_m log p_m, shape (n, C).

    Args:
        log_probs: log-probabilities of each member, shape (M, n, C).
        weights: weight of each member, shape (M,).

    Example:
        >>> logs = np.log([[[0.8, 0.2]], [[0.5, 0.5]]])
        >>> geometry.probs(log_pool(logs, np.array([0.5, 0.5]))).round(3)
        array([[0.667, 0.333]])
    """
    mean: FloatArray = np.einsum("m,mnc->nc", weights, log_probs)
    return mean


def inverse_temperatures(log_probs: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> FloatArray:
    """The inverse temperature of each member that minimises its log loss, shape (M,).

    Args:
        log_probs: held-out log-probabilities of each member, shape (M, n, C).
        y: labels 0..C-1, shape (n,).
        sample_weight: weight of each row, or ``None``.

    Example:
        >>> overconfident = np.log([[[0.99, 0.01]] * 3])
        >>> inverse_temperatures(overconfident, np.array([0, 0, 1])).round(2)
        array([0.15])
    """
    weight, rows = np.ones(len(y)) if sample_weight is None else sample_weight, np.arange(len(y))

    def best(logs: FloatArray) -> float:
        def cost(log_inverse: float) -> float:
            scaled = geometry.log_probs(np.exp(log_inverse) * logs)
            return -float(weight @ scaled[rows, y])

        bounds = (-5.0, MAX_LOG_INVERSE_TEMPERATURE)
        return float(np.exp(minimize_scalar(cost, bounds=bounds, method="bounded").x))

    return np.array([best(logs) for logs in log_probs])


def pool_weights(log_probs: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> FloatArray:
    """Weights of a logarithmic pool that minimise the log loss of held-out rows.

    The weights are non-negative and sum to one. A common temperature is fitted with them, because a calibrator
    follows: what counts is how well members rank the classes, not how sharp they are. A penalty shrinks the weights
    towards equal ones, the more the fewer the rows. A member whose weight is below 5 % of an equal one is dropped.

    Args:
        log_probs: held-out log-probabilities of each member, shape (M, n, C).
        y: labels 0..C-1, shape (n,).
        sample_weight: weight of each row, or ``None``.

    Raises:
        InputError: if there is no member.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = 2 * rng.normal(size=(500, 4))
        >>> y = (rng.random((500, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> noise = geometry.log_probs(rng.normal(size=z.shape))
        >>> pool_weights(np.stack([geometry.log_probs(z), noise]), y).round(2)
        array([1., 0.])
    """
    if not len(log_probs):
        raise InputError("log_probs: the pool has no members; at least one is needed.")
    n_members = len(log_probs)
    active = np.arange(n_members)
    row_weight = np.ones(len(y)) if sample_weight is None else sample_weight
    while True:
        weights = np.zeros(n_members)
        weights[active] = _penalised_weights(log_probs[active], y, row_weight) if len(active) > 1 else 1.0
        helps = weights[active] >= MIN_WEIGHT / n_members
        if helps.all():
            return weights / weights.sum()
        active = active[helps]


def _penalised_weights(log_probs: FloatArray, y: IntArray, sample_weight: FloatArray) -> FloatArray:
    """Weights of members that all stay in the pool."""
    n_members, n, _ = log_probs.shape
    rows, equal = np.arange(n), 1 / n_members
    mean_logs = geometry.log_probs(log_pool(log_probs, np.full(n_members, equal)))
    # In units of the mean log loss of a row, so that the penalty also vanishes quickly on easy data.
    penalty = PRIOR_ROWS * min(1.0, -float(sample_weight @ mean_logs[rows, y]) / float(sample_weight.sum()))

    def cost(parameters: FloatArray) -> tuple[float, FloatArray]:
        w, inverse_temperature = parameters[:-1], float(np.exp(parameters[-1]))
        z = log_pool(log_probs, w)
        logs = geometry.log_probs(inverse_temperature * z)
        gradient = np.exp(logs)
        gradient[rows, y] -= 1
        gradient *= sample_weight[:, None]
        value = -float(sample_weight @ logs[rows, y]) + penalty / 2 * float(((w / equal - 1) ** 2).sum())
        of_weights = (
            inverse_temperature * np.einsum("mnc,nc->m", log_probs, gradient) + penalty * (w / equal - 1) / equal
        )
        return value / n, np.append(of_weights, inverse_temperature * float((gradient * z).sum())) / n

    start = np.append(np.full(n_members, equal), 0.0)
    optimum = minimize(
        cost,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * n_members + [(-5.0, 5.0)],
        constraints={
            "type": "eq",
            "fun": lambda p: p[:-1].sum() - 1,
            "jac": lambda p: np.append(np.ones(n_members), 0.0),
        },
        options={"maxiter": 200, "ftol": 1e-10},
    )
    weights = np.clip(optimum.x[:-1], 0.0, None)
    return weights / weights.sum() if optimum.success and np.isfinite(weights).all() else start[:-1]
