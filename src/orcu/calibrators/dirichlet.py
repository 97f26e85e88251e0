"""Dirichlet calibration: a full linear map of log-probabilities, kept near the identity by ODIR."""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.cross_validation import cross_validated
from orcu.calibrators.linear_map import LinearMap, Problem, present, solve
from orcu.calibrators.shrinkage import as_shrinkage
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray

LAMBDAS = (0, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # Paper: Appendix II-B
MUS = (0, 0.01, 0.1, 1, 10)
ENOUGH_TO_CHOOSE = 1e-5  # of the gradient: the likelihood is then off by some 1e-9, far less than its standard error


@CALIBRATORS.register("dirichlet")
class DirichletCalibration(LinearMap):
    """p = softmax(W log p + b) (Kull et al. 2019), convex and solved to the optimum.

    By default all parameters are pulled towards the fitted temperature. With ``off_diagonal``, ``bias`` or ``select``
    it is the published method with ODIR penalties, which minimises
    mean NLL + lambda/(C(C-1)) sum_{i != j} W_ij^2 + mu/C sum_j b_j^2 from W = I, b = 0.

    Args:
        shrinkage: rows that the pull of each parameter towards the fitted temperature is worth; 0 for plain
            likelihood.
        off_diagonal: lambda; with ``select`` and without it lambda and mu are chosen from the paper's 13 x 5 grid.
        bias: mu.
        select: "fit" (the paper's: on the fitting rows, where the weakest penalty tends to win) or "cv" (the
            strongest penalty whose cross-validated likelihood is within one standard error of the best), which is
            also taken where only one of lambda and mu is given.
        on: "log-probabilities", or "logits" for matrix scaling.
        normalize: divide the penalties by C(C-1) and C, as the code of MDCA does.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> fitted = DirichletCalibration(off_diagonal=0.1, bias=0.1).fit(z, y)
        >>> fitted.weight_.shape, fitted.bias_.shape
        ((3, 3), (3,))
    """

    name = "dirichlet"

    def __init__(
        self,
        *,
        shrinkage: float = 0.25,
        off_diagonal: float | None = None,
        bias: float | None = None,
        select: str | None = None,
        on: str = "log-probabilities",
        normalize: bool = True,
    ) -> None:
        self.shrinkage = shrinkage
        self.off_diagonal = off_diagonal
        self.bias = bias
        self.select = select
        self.on = on
        self.normalize = normalize

    def parameters(self, num_classes: int) -> int:
        """C (C + 1); the penalty makes them count for less."""
        return num_classes * (num_classes + 1)

    def _is_as_published(self) -> bool:
        return self._has_penalties() or super()._is_as_published()

    def _has_penalties(self) -> bool:
        return not (self.off_diagonal is None and self.bias is None and self.select is None)

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        if self.select not in {None, "cv", "fit"}:
            raise UnknownNameError("select of Dirichlet calibration", str(self.select), ["cv", "fit"])
        if self.on not in {"log-probabilities", "logits"}:
            raise UnknownNameError("on of Dirichlet calibration", self.on, ["log-probabilities", "logits"])
        if not self._has_penalties():
            free = np.ones((self.num_classes_, self.num_classes_ + 1), dtype=bool)
            return self._fit_shrunk(logits, y, weight, free, as_shrinkage(self.shrinkage))
        features = self._features(logits)
        self.off_diagonal_, self.bias_penalty_ = self._chosen(features, y, weight)
        problem = self._problem(features, y, weight).with_penalty(
            self._penalty(self.num_classes_, self.off_diagonal_, self.bias_penalty_)
        )
        return self._keep(*solve(problem, problem.anchor + self._identity(self.num_classes_)))

    def _chosen(self, features: FloatArray, y: IntArray, weight: FloatArray) -> tuple[float, float]:
        lambdas = LAMBDAS if self.off_diagonal is None else (self.off_diagonal,)
        mus = MUS if self.bias is None else (self.bias,)
        grid = sorted(((float(penalty), float(mu)) for penalty in lambdas for mu in mus), reverse=True)
        if len(grid) == 1:
            return grid[0]

        def log_probs(fit: Any, judge: Any) -> list[FloatArray]:
            path = self._path(features[fit], y[fit], weight[fit] / weight[fit].mean(), grid)
            return [geometry.log_probs(features[judge] @ parameters.T) for parameters in path]

        if self.select != "fit":
            return grid[cross_validated(y, weight, log_probs, subject=self._subject).simplest()]
        everything = np.arange(len(y))
        own = [log[everything, y] for log in log_probs(everything, everything)]
        return grid[int(np.argmax(np.array(own) @ weight))]

    def _path(
        self, features: FloatArray, y: IntArray, weight: FloatArray, grid: list[tuple[float, float]]
    ) -> list[FloatArray]:
        """The maps of all penalties, strongest first; each starts where the one before it ended."""
        maps: list[FloatArray] = []
        problem, size = self._problem(features, y, weight), features.shape[1] - 1
        start = self._identity(size)
        for penalty, mu in grid:
            own = problem.with_penalty(self._penalty(size, penalty, mu))
            start, _ = solve(own, start, tolerance=ENOUGH_TO_CHOOSE)
            maps.append(start)
        return maps

    def _problem(self, features: FloatArray, y: IntArray, weight: FloatArray) -> Problem:
        """Without a penalty yet."""
        size = features.shape[1] - 1
        anchor = np.zeros((size, size + 1))
        free = np.ones_like(anchor, dtype=bool) & present(y, size)
        return Problem(features, y, weight, anchor, free, np.zeros_like(anchor))

    def _penalty(self, size: int, off_diagonal: float, mu: float) -> FloatArray:
        """ODIR: lambda off the diagonal of W, mu on b."""
        penalty = np.zeros((size, size + 1))
        penalty[:, :-1][~np.eye(size, dtype=bool)] = off_diagonal / (size * (size - 1) if self.normalize else 1)
        penalty[:, -1] = mu / (size if self.normalize else 1)
        return penalty
