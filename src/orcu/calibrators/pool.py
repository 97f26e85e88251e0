"""Several distributions of the same row into one: a weighted mean of their logarithms, a `Pool`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.model_selection import Fold

# Rows that the pull towards equal weights is worth: for members that differ by chance it decides, where one is clearly
# better it is gone after some hundred rows.
PULL = 5.0
SHARPEST = 1.0  # logarithm of the largest factor: where all rows are right there is no best one
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


def own_sharpness(log_probs: FloatArray, y: IntArray, weight: FloatArray | None = None) -> FloatArray:
    """The factor of each member's log-probabilities that makes rows most likely which it was not trained on, (M,).

    Args:
        log_probs: of each member, shape (M, n, C).
        y: labels 0..C-1, shape (n,).
        weight: one per row, or ``None``.

    Example:
        >>> sure = np.log([[[0.99, 0.01]] * 3])
        >>> own_sharpness(sure, np.array([0, 0, 1])).round(2)
        array([0.15])
    """
    counts, rows = np.ones(len(y)) if weight is None else weight, np.arange(len(y))

    def fitted(logs: FloatArray) -> float:
        def cost(power: float) -> float:
            moved = geometry.log_probs(np.exp(power) * logs)
            return -float(counts @ moved[rows, y])

        return float(np.exp(minimize_scalar(cost, bounds=(-5.0, SHARPEST), method="bounded").x))

    return np.array([fitted(logs) for logs in log_probs])


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
    together = geometry.log_probs(pooled(log_probs, np.full(members, equal)))
    # a row is worth what it costs on average, so that the pull is gone as soon where little is left to be wrong about
    pull = PULL * min(1.0, -float(weight @ together[rows, y]) / float(weight.sum()))

    def cost(parameters: FloatArray) -> tuple[float, FloatArray]:
        w, sharpness = parameters[:-1], float(np.exp(parameters[-1]))
        z = pooled(log_probs, w)
        logs = geometry.log_probs(sharpness * z)
        gradient = np.exp(logs)
        gradient[rows, y] -= 1
        gradient *= weight[:, None]
        value = -float(weight @ logs[rows, y]) + pull / 2 * float(((w / equal - 1) ** 2).sum())
        slopes = sharpness * np.einsum("mnc,nc->m", log_probs, gradient) + pull * (w / equal - 1) / equal
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


class CrossFit(Protocol):
    """Models of one loss, one a fold: networks or trees."""

    @property
    def name(self) -> str:
        """What they are called."""

    @property
    def log_probs(self) -> FloatArray:
        """What each row's fold says of it, (n, C)."""

    def said(self, inputs: Any) -> FloatArray:
        """What each fold says of other rows, (K, n, C)."""


@dataclass(frozen=True)
class Pool:
    """Cross-fitted models as one, and what they say of their own rows, each by those that have not seen it."""

    weights: dict[str, float]  # of the losses, summing to 1; those that cannot help have 0
    factors: dict[str, float]  # of their log-probabilities: the weights times each one's own sharpness
    kept: list[Any]  # the cross-fits that help
    logits: FloatArray  # out of fold, (n, C)
    fold: IntArray  # of each row

    @property
    def folds(self) -> int:
        """How many, K."""
        return int(self.fold.max()) + 1

    def by_fold(self, said: FloatArray) -> FloatArray:
        """What each fold says, (K, n, C), from what each loss in each fold says, (L, K, n, C)."""
        factors = np.array([self.factors[one.name] for one in self.kept])
        together: FloatArray = np.einsum("l,lknc->knc", factors, said)
        return together

    def described(self, calibrator: Any) -> str:
        """What was put together, in a sentence or two."""
        shares = ", ".join(f"{name} {share:.2f}" for name, share in self.weights.items() if share > 0)
        dropped = [name for name, share in self.weights.items() if share == 0]
        text = f"{self.folds} folds; weights {shares}"
        text += f" ({', '.join(dropped)} cannot help)" if dropped else ""
        reason = getattr(calibrator, "reason_", "" if calibrator is None else f"{calibrator.name}.")
        return f"{text}. Calibrator: {reason or 'none.'}"


def pool(fitted: Sequence[CrossFit], folds: Sequence[Fold], y: IntArray, weight: FloatArray | None = None) -> Pool:
    """Weigh cross-fits by the log score of what they say out of fold, and keep those that help.

    Each is first brought to its own best temperature: trees that are far too sure of themselves would else outvote all
    others, or be left out for it.

    Args:
        fitted: networks or trees.
        folds: as `orcu.model_selection.deal` gives them.
        y: labels 0..C-1.
        weight: one per row, or ``None``.
    """
    out_of_fold = np.stack([one.log_probs for one in fitted])
    sharpness = own_sharpness(out_of_fold, y, weight)
    weights = pool_weights(geometry.log_probs(sharpness[:, None, None] * out_of_fold), y, weight)
    names = [one.name for one in fitted]
    named = dict(zip(names, weights.tolist(), strict=True))
    factors = dict(zip(names, (weights * sharpness).tolist(), strict=True))
    fold = np.empty(len(y), dtype=np.int64)
    for number, part in enumerate(folds):
        fold[part.held] = number
    kept = [one for one in fitted if named[one.name] > 0]
    return Pool(named, factors, kept, pooled(out_of_fold, weights * sharpness), fold)
