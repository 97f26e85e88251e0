"""Maps z' = W x + b fitted by penalised likelihood: one Newton solver for all of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import Calibrator, warn
from orcu.calibrators.shrinkage import strength
from orcu.calibrators.temperature import sharpness
from orcu.inputs import FloatArray, IntArray

_STEPS = 100
_TOLERANCE = 1e-9  # on the gradient of the mean loss
_NOTHING = 1e-14  # of the loss
_PART = 1 << 13  # rows whose products of features stay in the cache
_MOST_KEPT = 1 << 22  # products of features: 32 MB
_RIDGE = 1e-9  # softmax does not see common shifts; this fixes them without moving the rest


@dataclass(frozen=True)
class Problem:
    """Mean negative log-likelihood of W x + b plus penalty * (parameters - anchor)^2.

    Parameters are (C, d + 1) with b in the last column; ``free`` marks those that may move.
    """

    features: FloatArray  # (n, d + 1), the last column 1
    y: IntArray
    weight: FloatArray  # mean 1
    anchor: FloatArray
    free: Any
    penalty: FloatArray

    def with_penalty(self, penalty: FloatArray) -> "Problem":
        """The same rows under another penalty; what follows from the rows alone is not computed again."""
        other = replace(self, penalty=penalty)
        other.__dict__["_products"] = self._products
        return other

    @cached_property
    def _absent(self) -> IntArray:
        """Classes without rows, which take no part: the likelihood would drive them to 0."""
        return np.flatnonzero(np.bincount(self.y, minlength=len(self.anchor)) == 0)

    @cached_property
    def _products(self) -> list[FloatArray] | None:
        """The products of each pair of features, some rows at a time, shape (pairs, rows); none of very many rows."""
        pairs = self.features.shape[1] * (self.features.shape[1] + 1) // 2
        return list(self._products_by_part()) if pairs * len(self.y) <= _MOST_KEPT else None

    def _products_by_part(self) -> Iterator[FloatArray]:
        first, second = np.triu_indices(self.features.shape[1])
        for start in range(0, len(self.y), _PART):
            part = np.ascontiguousarray(self.features[start : start + _PART].T)
            yield part[first] * part[second]

    def at(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """The objective, and the probabilities there, shape (n, C)."""
        scores = self.features @ parameters.T
        scores[:, self._absent] = -np.inf
        log_probs = geometry.log_probs(scores)
        likelihood = self.weight @ log_probs[np.arange(len(self.y)), self.y] / len(self.y)
        penalty = float((self.penalty * (parameters - self.anchor) ** 2).sum())
        return penalty - float(likelihood), np.exp(log_probs)

    def gradient(self, parameters: FloatArray, probs: FloatArray) -> FloatArray:
        """Over the free parameters."""
        miss = probs.copy()
        miss[np.arange(len(miss)), self.y] -= 1
        gradient = (miss * (self.weight / len(miss))[:, None]).T @ self.features
        gradient += 2 * self.penalty * (parameters - self.anchor)
        free: FloatArray = gradient[self.free]
        return free

    def hessian(self, probs: FloatArray) -> FloatArray:
        """Over the free parameters.

        The entry for W_ia and W_jb is the weighted mean of p_i (1[i = j] - p_j) x_a x_b: one product of all pairs of
        classes with all pairs of features.
        """
        n, d = self.features.shape
        size, scaled = probs.shape[1], self.weight / n
        first, second = np.triu_indices(size)
        same, by_class = (first == second)[:, None], np.ascontiguousarray(probs.T)
        bend = np.zeros((len(first), d * (d + 1) // 2))
        for k, products in enumerate(self._products or self._products_by_part()):
            part = slice(k * _PART, (k + 1) * _PART)
            factors = scaled[part] * by_class[first, part] * (same - by_class[second, part])
            bend += factors @ products.T
        hessian = bend[_place(size)[:, None, :, None], _place(d)[None, :, None, :]].reshape(size * d, size * d)
        hessian[np.diag_indices(size * d)] += 2 * self.penalty.ravel() + _RIDGE
        chosen = np.flatnonzero(self.free.ravel())
        return hessian[np.ix_(chosen, chosen)]


def _place(size: int) -> IntArray:
    """Where the pair (i, j) or (j, i) stands among those of ``np.triu_indices``, shape (size, size)."""
    place = np.empty((size, size), dtype=np.int64)
    first, second = np.triu_indices(size)
    place[first, second] = place[second, first] = np.arange(len(first))
    return place


def solve(problem: Problem, start: FloatArray, *, tolerance: float = _TOLERANCE) -> tuple[FloatArray, bool]:
    """The minimum by damped Newton steps, and whether it was reached.

    Args:
        problem: what is minimised.
        start: parameters to start from.
        tolerance: on the gradient of the mean loss.
    """
    parameters = start.copy()
    loss, probs = problem.at(parameters)
    for _ in range(_STEPS):
        gradient = problem.gradient(parameters, probs)
        if np.abs(gradient).max() < tolerance:
            return parameters, True
        step = np.zeros(parameters.size)
        step[problem.free.ravel()] = np.linalg.solve(problem.hessian(probs), gradient)
        move = step.reshape(parameters.shape)
        if gradient @ step[problem.free.ravel()] < _NOTHING * max(abs(loss), 1.0):
            return parameters - move, bool(np.abs(gradient).max() < 1e-6)  # float64 shows no descent that small
        fraction = 1.0
        while fraction > 1e-8:
            trial = parameters - fraction * move
            trial_loss, trial_probs = problem.at(trial)
            if trial_loss <= loss - 1e-4 * fraction * float(gradient @ step[problem.free.ravel()]):
                break
            fraction /= 2
        else:
            return parameters, bool(np.abs(gradient).max() < 1e-6)  # no descent left in float64
        parameters, loss, probs = trial, trial_loss, trial_probs
    return parameters, False


def present(y: IntArray, num_classes: int) -> Any:
    """Which classes have rows, shape (C, 1).

    The logit of a class without rows is left alone.
    """
    return (np.bincount(y, minlength=num_classes) > 0)[:, None]


class LinearMap(Calibrator):
    """z' = W x + b, where x are logits or log-probabilities."""

    on: str = "logits"

    def _features(self, logits: FloatArray) -> FloatArray:
        values = geometry.log_probs(logits) if self.on == "log-probabilities" else logits
        return np.concatenate([values, np.ones((len(values), 1))], axis=1)

    def _identity(self, num_classes: int) -> FloatArray:
        return np.concatenate([np.eye(num_classes), np.zeros((num_classes, 1))], axis=1)

    def _fit_shrunk(self, logits: FloatArray, y: IntArray, weight: FloatArray, free: Any, shrinkage: float) -> None:
        """Fit the free parameters, pulled towards the fitted temperature.

        Minimises the negative log-likelihood of all rows + k sum_ij v_ij (W - I/T)_ij^2 + k |b + (W - I/T) m|^2. Here
        k is `strength`, m the mean feature, and v_ij the variance of feature j with each row counted by how undecided
        it is about class i, p_i (1 - p_i): rows that are certain anyway tell nothing, however large their logits. The
        last term is the pull of an average row's logits.

        Args:
            logits: shape (n, C).
            y: labels.
            weight: adds up to the rows that count.
            free: which of (W, b) may move, shape (C, C + 1).
            shrinkage: rows that each parameter's pull is worth.
        """
        features, n, size = self._features(logits), len(y), self.num_classes_
        sharp = sharpness(logits, y, weight)
        probs = geometry.probs(sharp * logits)
        undecided = weight[:, None] * (probs * (1 - probs) + np.finfo(np.float64).tiny)  # where no row is, all count
        center = undecided.sum(axis=1) @ features[:, :-1] / undecided.sum()
        features[:, :-1] -= center  # b becomes the logits of an average row
        spread = (undecided / undecided.sum(axis=0)).T @ features[:, :-1] ** 2
        anchor = sharp * self._identity(size)
        anchor[:, -1] = anchor[:, :-1] @ center
        penalty = np.full((size, size + 1), strength(shrinkage, self.parameters(size)) / n)
        penalty[:, :-1] *= spread
        problem = Problem(features, y, weight, anchor, free & present(y, size), penalty)
        parameters, reached = solve(problem, anchor)
        parameters[:, -1] -= parameters[:, :-1] @ center
        self._keep(parameters, reached)

    def _keep(self, parameters: FloatArray, reached: bool) -> None:
        if not reached:
            warn(
                f"{self.name}: the likelihood has no finite optimum on these rows (a class is told without "
                "error); use more rows or a penalty."
            )
        self.weight_, self.bias_ = parameters[:, :-1], parameters[:, -1]

    def _transform(self, logits: FloatArray) -> FloatArray:
        return self._features(logits)[:, :-1] @ self.weight_.T + self.bias_

    def _state(self) -> dict[str, Any]:
        return {"weight": self.weight_.tolist(), "bias": self.bias_.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.weight_ = np.array(state["weight"], dtype=np.float64)
        self.bias_ = np.array(state["bias"], dtype=np.float64)
        size = self.num_classes_
        if self.weight_.shape != (size, size) or self.bias_.shape != (size,):
            raise ValueError(f"weight of shape {self.weight_.shape} and bias of shape {self.bias_.shape}")
        if not (np.isfinite(self.weight_).all() and np.isfinite(self.bias_).all()):
            raise ValueError("weight or bias that is not finite")
