"""Maps z' = W x + b fitted by penalised likelihood: one Newton solver for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
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

    def log_probs(self, parameters: FloatArray) -> FloatArray:
        """Of the classes that have rows; else the likelihood would drive the others to 0."""
        scores = self.features @ parameters.T
        scores[:, np.bincount(self.y, minlength=len(parameters)) == 0] = -np.inf
        return geometry.log_probs(scores)

    def loss(self, parameters: FloatArray) -> float:
        """The objective."""
        log_probs = self.log_probs(parameters)
        likelihood = self.weight @ log_probs[np.arange(len(self.y)), self.y] / len(self.y)
        return float((self.penalty * (parameters - self.anchor) ** 2).sum() - likelihood)

    def slopes(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian over the free parameters."""
        n, d = self.features.shape
        size = len(parameters)
        probs = np.exp(self.log_probs(parameters))
        miss = probs.copy()
        miss[np.arange(n), self.y] -= 1
        scaled = self.weight / n
        gradient = (miss * scaled[:, None]).T @ self.features
        gradient += 2 * self.penalty * (parameters - self.anchor)
        bend = np.empty((size, d, size, d))
        for i in range(size):
            for j in range(i + 1):
                factor = scaled * probs[:, i] * ((i == j) - probs[:, j])
                block = (self.features * factor[:, None]).T @ self.features
                bend[i, :, j, :] = bend[j, :, i, :] = block
        hessian = bend.reshape(size * d, size * d)
        hessian[np.diag_indices(size * d)] += 2 * self.penalty.ravel() + _RIDGE
        chosen = np.flatnonzero(self.free.ravel())
        return gradient.ravel()[chosen], hessian[np.ix_(chosen, chosen)]


def solve(problem: Problem, start: FloatArray) -> tuple[FloatArray, bool]:
    """The minimum by damped Newton steps, and whether it was reached."""
    parameters = start.copy()
    loss = problem.loss(parameters)
    for _ in range(_STEPS):
        gradient, hessian = problem.slopes(parameters)
        if np.abs(gradient).max() < _TOLERANCE:
            return parameters, True
        step = np.zeros(parameters.size)
        step[problem.free.ravel()] = np.linalg.solve(hessian, gradient)
        move = step.reshape(parameters.shape)
        if gradient @ step[problem.free.ravel()] < _NOTHING * max(abs(loss), 1.0):
            return parameters - move, bool(np.abs(gradient).max() < 1e-6)  # float64 shows no descent that small
        fraction = 1.0
        while fraction > 1e-8:
            trial = parameters - fraction * move
            trial_loss = problem.loss(trial)
            if trial_loss <= loss - 1e-4 * fraction * float(gradient @ step[problem.free.ravel()]):
                break
            fraction /= 2
        else:
            return parameters, bool(np.abs(gradient).max() < 1e-6)  # no descent left in float64
        parameters, loss = trial, trial_loss
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
