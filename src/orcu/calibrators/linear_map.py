"""Linear calibration maps z' = W x + b by penalised likelihood: vector scaling and ordinal Dirichlet calibration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, restored_array, warn
from orcu.calibrators.temperature import as_shrinkage, inverse_temperature, prior_rows
from orcu.inputs import FloatArray, IntArray, as_count

_MAX_STEPS = 100
_TOLERANCE = 1e-9  # gradient of the mean loss at the optimum
_STALLED_TOLERANCE = 1e-6  # gradient that is accepted where float64 allows no further decrease
_MIN_DECREASE = 1e-14  # relative decrease of the loss below which a step is the last
_ARMIJO = 1e-4  # share of the promised decrease that a step must achieve
_MIN_FRACTION = 1e-8  # shortest fraction of a Newton step in the line search
_BLOCK = 1 << 13  # rows whose feature products stay in the cache
_MAX_STORED_PRODUCTS = 1 << 22  # feature products that are stored: 32 MB
_PLAIN_RIDGE = 1e-6  # keeps vector scaling by plain likelihood finite on separated rows
_RIDGE = 1e-9  # softmax is invariant to common shifts; the ridge makes the Hessian invertible


@dataclass(frozen=True)
class Problem:
    """Mean negative log-likelihood of W x + b plus penalty * (parameters - anchor)^2.

    Attributes:
        features: features of shape (n, d + 1); the last column is 1.
        y: labels 0..C-1.
        sample_weight: weights of mean 1.
        anchor: parameters of penalty 0, shape (C, d + 1), with b in the last column.
        mask: mask of the fitted parameters, shape (C, d + 1); classes without rows keep their parameters.
        penalty: factor of each squared difference, shape (C, d + 1).
    """

    features: FloatArray
    y: IntArray
    sample_weight: FloatArray
    anchor: FloatArray
    mask: Any
    penalty: FloatArray

    def with_penalty(self, penalty: FloatArray) -> "Problem":
        """The same rows with another penalty; the stored products of the features are shared."""
        problem = replace(self, penalty=penalty)
        problem.__dict__["_products"] = self._products
        return problem

    def solve(self, start: FloatArray, *, tolerance: float = _TOLERANCE) -> tuple[FloatArray, bool]:
        """The optimal parameters by damped Newton steps, and whether the gradient of the mean loss reached 0."""
        parameters = start.copy()
        loss, probs = self.objective(parameters)
        for _ in range(_MAX_STEPS):
            gradient = self.gradient(parameters, probs)
            max_gradient = np.abs(gradient).max()
            if max_gradient < tolerance:
                return parameters, True
            free_step = np.linalg.solve(self.hessian(probs), gradient)
            step = np.zeros_like(parameters)
            step[self.free] = free_step
            decrease = float(gradient @ free_step)
            if decrease < _MIN_DECREASE * max(abs(loss), 1.0):
                return parameters - step, bool(max_gradient < _STALLED_TOLERANCE)
            fraction = 1.0
            while fraction > _MIN_FRACTION:
                trial = parameters - fraction * step
                trial_loss, trial_probs = self.objective(trial)
                if trial_loss <= loss - _ARMIJO * fraction * decrease:
                    break
                fraction /= 2
            else:
                return parameters, bool(max_gradient < _STALLED_TOLERANCE)
            parameters, loss, probs = trial, trial_loss, trial_probs
        return parameters, False

    @cached_property
    def free(self) -> Any:
        """Mask of the parameters that are fitted on these rows."""
        return self.mask & self._present[:, None]

    @cached_property
    def _present(self) -> Any:
        """Mask of the classes with rows; for others the likelihood would push the probability to 0."""
        return np.bincount(self.y, minlength=len(self.anchor)) > 0

    @cached_property
    def _products(self) -> list[FloatArray] | None:
        """Products of each pair of features by block of rows, shape (pairs, rows); ``None`` if they are too many."""
        pairs = self.features.shape[1] * (self.features.shape[1] + 1) // 2
        return list(self._products_by_block()) if pairs * len(self.y) <= _MAX_STORED_PRODUCTS else None

    def _products_by_block(self) -> Iterator[FloatArray]:
        first, second = np.triu_indices(self.features.shape[1])
        for start in range(0, len(self.y), _BLOCK):
            block = np.ascontiguousarray(self.features[start : start + _BLOCK].T)
            yield block[first] * block[second]

    def objective(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """The objective and the probabilities, shape (n, C)."""
        scores = self.features @ parameters.T
        scores[:, ~self._present] = -np.inf
        log_probs = geometry.log_probs(scores)
        likelihood = self.sample_weight @ log_probs[np.arange(len(self.y)), self.y] / len(self.y)
        penalty = float((self.penalty * (parameters - self.anchor) ** 2).sum())
        return penalty - float(likelihood), np.exp(log_probs)

    def gradient(self, parameters: FloatArray, probs: FloatArray) -> FloatArray:
        """Gradient with respect to the free parameters."""
        residual = probs.copy()
        residual[np.arange(len(residual)), self.y] -= 1
        gradient = (residual * (self.sample_weight / len(residual))[:, None]).T @ self.features
        gradient += 2 * self.penalty * (parameters - self.anchor)
        free: FloatArray = gradient[self.free]
        return free

    def hessian(self, probs: FloatArray) -> FloatArray:
        """Hessian with respect to the free parameters.

        The entry for W_ia and W_jb is the weighted mean of p_i (1[i = j] - p_j) x_a x_b: one matrix product over all
        pairs of classes and all pairs of features.
        """
        n, d = self.features.shape
        size, scaled = probs.shape[1], self.sample_weight / n
        first, second = np.triu_indices(size)
        same, by_class = (first == second)[:, None], np.ascontiguousarray(probs.T)
        pairwise = np.zeros((len(first), d * (d + 1) // 2))
        for k, products in enumerate(self._products or self._products_by_block()):
            block = slice(k * _BLOCK, (k + 1) * _BLOCK)
            factors = scaled[block] * by_class[first, block] * (same - by_class[second, block])
            pairwise += factors @ products.T
        hessian = pairwise[_pair_index(size)[:, None, :, None], _pair_index(d)[None, :, None, :]]
        hessian = hessian.reshape(size * d, size * d)
        hessian[np.diag_indices(size * d)] += 2 * self.penalty.ravel() + _RIDGE
        free = np.flatnonzero(self.free.ravel())
        return hessian[np.ix_(free, free)]


def _pair_index(size: int) -> IntArray:
    """Position of the pairs (i, j) and (j, i) in ``np.triu_indices``, shape (size, size)."""
    index = np.empty((size, size), dtype=np.int64)
    first, second = np.triu_indices(size)
    index[first, second] = index[second, first] = np.arange(len(first))
    return index


class LinearMap(Calibrator):
    """Base class of the maps z' = W x + b, where x are logits or log-probabilities."""

    on: str = "logits"
    shrinkage: float

    def _check_options(self) -> None:
        as_shrinkage(self.shrinkage)

    def n_parameters(self, num_classes: int) -> int:
        """Number of fitted entries of W and b."""
        return int(self._free(num_classes).sum())

    def _free(self, num_classes: int) -> Any:
        """Mask of the fitted entries of (W, b), shape (C, C + 1)."""
        return np.ones((num_classes, num_classes + 1), dtype=bool)

    def _features(self, logits: FloatArray) -> FloatArray:
        values = geometry.log_probs(logits) if self.on == "log-probabilities" else logits
        return np.concatenate([values, np.ones((len(values), 1))], axis=1)

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        """Fit the free parameters, shrunk towards the fitted temperature.

        Minimises the negative log-likelihood of all rows + k sum_ij v_ij (W - I/T)_ij^2 + k |b + (W - I/T) m|^2.
        Here k is `prior_rows`, m the mean feature, and v_ij the variance of feature j with each row weighted by
        p_i (1 - p_i): rows whose prediction is certain carry no information, however large their logits. The last
        term shrinks the logits of an average row.
        """
        prior = prior_rows(self.shrinkage, self.n_parameters(self.num_classes_))
        features, n, size = self._features(logits), len(y), self.num_classes_
        scale = inverse_temperature(logits, y, sample_weight, name=self.name)
        probs = geometry.probs(scale * logits)
        variance = sample_weight[:, None] * (probs * (1 - probs) + np.finfo(np.float64).tiny)  # never 0 in all rows
        center = variance.sum(axis=1) @ features[:, :-1] / variance.sum()
        features[:, :-1] -= center  # b becomes the logits of an average row
        spread = (variance / variance.sum(axis=0)).T @ features[:, :-1] ** 2
        anchor = scale * identity(size)
        anchor[:, -1] = anchor[:, :-1] @ center
        penalty = np.full((size, size + 1), prior / n)
        penalty[:, :-1] *= spread
        problem = Problem(features, y, sample_weight, anchor, self._free(size), penalty)
        parameters, reached = problem.solve(anchor)
        parameters[:, -1] -= parameters[:, :-1] @ center
        self._set_parameters(parameters, reached)

    def _set_parameters(self, parameters: FloatArray, reached: bool) -> None:
        if not reached:
            warn(
                f"{self.name}: the likelihood has no finite optimum on these rows, because a class is separated "
                "without error. Use more rows or a penalty."
            )
        self.weight_, self.bias_ = parameters[:, :-1], parameters[:, -1]

    def _transform(self, logits: FloatArray) -> FloatArray:
        return self._features(logits)[:, :-1] @ self.weight_.T + self.bias_

    def _state(self) -> dict[str, Any]:
        return {"weight": self.weight_.tolist(), "bias": self.bias_.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        size = self.num_classes_
        self.weight_ = restored_array(state["weight"], (size, size), name="weight")
        self.bias_ = restored_array(state["bias"], (size,), name="bias")
        if self.weight_[~self._free(size)[:, :-1]].any():
            raise ValueError("a weight that is not fitted is not 0")


@CALIBRATORS.register("vector")
class VectorScaling(LinearMap):
    """p = softmax(a * z + b) with a and b of length C, by likelihood (Guo et al. 2017).

    Args:
        shrinkage: number of rows that the shrinkage of each parameter towards the fitted temperature is worth; 0 for
            plain likelihood, as published.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> VectorScaling().fit(z, y).predict_proba(z).shape
        (500, 3)
    """

    name = "vector"

    def __init__(self, *, shrinkage: float = 0.25) -> None:
        self.shrinkage = shrinkage

    def _free(self, num_classes: int) -> Any:
        free = identity(num_classes).astype(bool)
        free[:, -1] = True
        return free

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        if self.shrinkage > 0:
            return super()._fit(logits, y, sample_weight, groups)
        start, free = identity(self.num_classes_), self._free(self.num_classes_)
        problem = Problem(self._features(logits), y, sample_weight, start, free, np.where(free, _PLAIN_RIDGE, 0.0))
        return self._set_parameters(*problem.solve(start))


@CALIBRATORS.register("ordinal_dirichlet")
class OrdinalDirichlet(LinearMap):
    """p = softmax(W log p + b) with W_ij = 0 for |i - j| > band: only neighbouring classes are mixed.

    It has about 6 C parameters (band 2) or 4 C (band 1) instead of C (C + 1), which suits small samples.

    Args:
        band: largest distance of classes that are mixed.
        shrinkage: number of rows that the shrinkage of each parameter towards the fitted temperature is worth; 0 for
            plain likelihood.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> (OrdinalDirichlet(band=1).fit(z, y).weight_ != 0).sum(axis=1).tolist()
        [2, 3, 3, 2]
    """

    name = "ordinal_dirichlet"
    on = "log-probabilities"

    def __init__(self, *, band: int = 2, shrinkage: float = 0.25) -> None:
        self.band = band
        self.shrinkage = shrinkage

    def _free(self, num_classes: int) -> Any:
        k = np.arange(num_classes)
        in_band = np.abs(k[:, None] - k) <= self.band
        return np.concatenate([in_band, np.ones((num_classes, 1), dtype=bool)], axis=1)

    def _check_options(self) -> None:
        super()._check_options()
        as_count(self.band, name="band", minimum=0)


def identity(num_classes: int) -> FloatArray:
    """The parameters (W, b) of the identity, shape (C, C + 1)."""
    return np.eye(num_classes, num_classes + 1)
