"""Several distributions of the same row into one: a weighted mean of their logarithms."""

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

# Rows that the pull towards equal weights is worth: for members that differ by chance it decides, where one is clearly
# better it is gone after some hundred rows.
PULL = 5.0
LEAST = 0.05  # a weight below this share of an equal one is nothing


def pooled(log_probs: FloatArray, weights: FloatArray) -> FloatArray:
    """The logits of a logarithmic pool: sum_m w_m log p_m, shape (n, C).

    Args:
        log_probs: of each member, shape (M, n, C).
        weights: of the members, summing to 1.

    Example:
        >>> logs = np.log([[[0.8, 0.2]], [[0.5, 0.5]]])
        >>> geometry.probs(pooled(logs, np.array([0.5, 0.5]))).round(3)
        array([[0.667, 0.333]])
    """
    mean: FloatArray = np.einsum("m,mnc->nc", weights, log_probs)
    return mean


def pool_weights(log_probs: FloatArray, y: IntArray, weight: FloatArray | None = None) -> FloatArray:
    """Weights of a logarithmic pool, by the likelihood of rows that no member was trained on.

    They are non-negative and sum to one. Fitted together with them is one temperature, since a calibrator follows:
    what counts is which members order the rows well, not which are sharp. They are pulled towards equal ones, the more
    the fewer the rows; a member whose weight comes out below 5 % of an equal one gets nothing.

    Args:
        log_probs: of each member, shape (M, n, C).
        y: labels 0..C-1, shape (n,).
        weight: one per row, or ``None``.

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
        raise InputError("pool: there is no member.")
    members = len(log_probs)
    kept = np.arange(members)
    weights = np.full(members, 1 / members)
    while len(kept) > 1:
        fitted = _fitted(log_probs[kept], y, np.ones(len(y)) if weight is None else weight)
        weights = np.zeros(members)
        weights[kept] = fitted
        helping = fitted >= LEAST / members
        if helping.all():
            break
        kept = kept[helping]
        weights = np.zeros(members)
        weights[kept] = 1 / len(kept)
    return weights / weights.sum()


def _fitted(log_probs: FloatArray, y: IntArray, weight: FloatArray) -> FloatArray:
    """The weights of members that all stay."""
    members, n, _ = log_probs.shape
    rows, equal = np.arange(n), 1 / len(log_probs)

    def cost(parameters: FloatArray) -> tuple[float, FloatArray]:
        w, sharpness = parameters[:-1], float(np.exp(parameters[-1]))
        z = pooled(log_probs, w)
        logs = geometry.log_probs(sharpness * z)
        gradient = np.exp(logs)
        gradient[rows, y] -= 1
        gradient *= weight[:, None]
        value = -float(weight @ logs[rows, y]) + PULL / 2 * float(((w / equal - 1) ** 2).sum())
        slopes = sharpness * np.einsum("mnc,nc->m", log_probs, gradient) + PULL * (w / equal - 1) / equal
        return value / n, np.append(slopes, sharpness * float((gradient * z).sum())) / n

    start = np.append(np.full(members, equal), 0.0)
    optimum = minimize(
        cost,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * members + [(-5.0, 5.0)],
        constraints={
            "type": "eq",
            "fun": lambda p: p[:-1].sum() - 1,
            "jac": lambda p: np.append(np.ones(members), 0.0),
        },
        options={"maxiter": 200, "ftol": 1e-10},
    )
    weights = np.clip(optimum.x[:-1], 0.0, None)
    return weights / weights.sum() if optimum.success and np.isfinite(weights).all() else start[:-1]
