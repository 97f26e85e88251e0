"""Dirichlet calibration: a full linear map of log-probabilities, regularised by shrinkage or by ODIR penalties."""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.cross_validation import cross_val_log_losses
from orcu.calibrators.linear_map import LinearMap, Problem, identity
from orcu.calibrators.temperature import as_shrinkage
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_count, as_positive

LAMBDAS = (0, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # Paper: Appendix II-B
MUS = (0, 0.01, 0.1, 1, 10)
_BATCH_SIZE = 128
_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's defaults
SELECTION_TOLERANCE = 1e-5  # gradient; the likelihood is then off by about 1e-9, far below its standard error


@CALIBRATORS.register("dirichlet")
class DirichletCalibration(LinearMap):
    """p = softmax(W log p + b) (Kull et al. 2019), a convex problem solved to the optimum.

    By default all parameters are shrunk towards the fitted temperature. With ``off_diagonal``, ``bias`` or ``select``
    it is the published method with ODIR penalties, which minimises
    mean NLL + lambda/(C(C-1)) sum_{i != j} W_ij^2 + mu/C sum_j b_j^2 from W = I, b = 0.

    Args:
        shrinkage: number of rows that the shrinkage of each parameter towards the fitted temperature is worth; 0 for
            plain likelihood.
        off_diagonal: penalty lambda; if ``None`` and ``select`` is given, lambda and mu are chosen from the paper's
            13 x 5 grid.
        bias: penalty mu.
        select: "fit" (as in the paper: the likelihood of the fitting rows, which favours weak penalties) or "cv" (the
            strongest penalty whose cross-validated likelihood is within one standard error of the best). "cv" is also
            used if only one of lambda and mu is given.
        on: "log-probabilities", or "logits" for matrix scaling.
        normalize: whether the penalties are divided by C(C-1) and C, as in the code of MDCA.

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

    def _shrinks(self) -> bool:
        return not self._has_penalties() and super()._shrinks()

    def _has_penalties(self) -> bool:
        return not (self.off_diagonal is None and self.bias is None and self.select is None)

    def _check_options(self) -> None:
        super()._check_options()
        if self.select not in (None, "cv", "fit"):
            raise UnknownNameError("select of Dirichlet calibration", str(self.select), ["cv", "fit"])
        if self.on not in ("log-probabilities", "logits"):
            raise UnknownNameError("on of Dirichlet calibration", self.on, ["log-probabilities", "logits"])
        for name in ("off_diagonal", "bias"):
            if getattr(self, name) is not None:
                as_shrinkage(getattr(self, name), name=name)

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        if not self._has_penalties():
            return super()._fit(logits, y, sample_weight, groups)
        features = self._features(logits)
        self.off_diagonal_, self.bias_penalty_ = self._select_penalties(features, y, sample_weight, groups)
        chosen = [(self.off_diagonal_, self.bias_penalty_)]
        return self._set_parameters(*self._solve_grid(features, y, sample_weight, chosen)[0])

    def _select_penalties(
        self, features: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None
    ) -> tuple[float, float]:
        lambdas = LAMBDAS if self.off_diagonal is None else (self.off_diagonal,)
        mus = MUS if self.bias is None else (self.bias,)
        grid = sorted(((float(penalty), float(mu)) for penalty in lambdas for mu in mus), reverse=True)
        if len(grid) == 1:
            return grid[0]

        def log_probs(train: Any, test: Any) -> list[FloatArray]:
            weights = sample_weight[train] / sample_weight[train].mean()
            path = self._solve_grid(features[train], y[train], weights, grid, tolerance=SELECTION_TOLERANCE)
            return [geometry.log_probs(features[test] @ parameters.T) for parameters, _ in path]

        if self.select != "fit":
            return grid[cross_val_log_losses(y, sample_weight, log_probs, groups=groups).simplest()]
        rows = np.arange(len(y))
        label_log_probs = np.array([values[rows, y] for values in log_probs(rows, rows)])
        return grid[int(np.argmax(label_log_probs @ sample_weight))]

    def _solve_grid(
        self, features: FloatArray, y: IntArray, sample_weight: FloatArray, grid: list[Any], **options: Any
    ) -> list[tuple[FloatArray, bool]]:
        """`Problem.solve` for all penalties, strongest first; each solution is the start of the next."""
        size = features.shape[1] - 1
        zeros, start = np.zeros((size, size + 1)), identity(size)
        problem = Problem(features, y, sample_weight, zeros, np.ones_like(zeros, dtype=bool), zeros)
        solutions = []
        for off_diagonal, mu in grid:
            penalised = problem.with_penalty(_odir_penalty(size, off_diagonal, mu, normalize=self.normalize))
            solutions.append(penalised.solve(start, **options))
            start = solutions[-1][0]
        return solutions


def _odir_penalty(size: int, off_diagonal: float, mu: float, *, normalize: bool = True) -> FloatArray:
    """ODIR penalties: lambda on the off-diagonal entries of W, mu on b."""
    penalty = np.zeros((size, size + 1))
    penalty[:, :-1][~np.eye(size, dtype=bool)] = off_diagonal / (size * (size - 1) if normalize else 1)
    penalty[:, -1] = mu / (size if normalize else 1)
    return penalty


@CALIBRATORS.register("dirichlet_paper")
class PaperDirichletCalibration(LinearMap):
    """p = softmax(W log p + b) by a few epochs of Adam from a random start; for studies, not for use.

    The released code of MDCA, on which the paper's code seems to build, initialises a linear layer at random (uniform
    within 1/sqrt(C)), trains it for a number of epochs with each of the 13 x 5 penalties of Appendix II-B, and keeps
    the one with the lowest likelihood loss on the fitting rows. `dirichlet` solves the same problem to its optimum. The
    difference of both is the effect of the optimiser on the paper's row "DC".

    Args:
        epochs: number of epochs over the fitting rows, in batches of 128.
        learning_rate: learning rate of Adam.
        random_state: seed of the start and the batches.

    Raises:
        InputError: if an option is not positive.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = 2 * rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> from orcu.metrics import nll
        >>> fits = [PaperDirichletCalibration(epochs=epochs).fit(z, y) for epochs in (1, 200)]
        >>> [round(nll(logits=fitted.predict_logits(z), y=y), 2) for fitted in fits]
        [2.02, 1.1]
    """

    name = "dirichlet_paper"
    frequency_weights = False  # a batch is a number of rows, whatever their weights
    on = "log-probabilities"

    def __init__(self, *, epochs: int = 20, learning_rate: float = 1e-3, random_state: int = 0) -> None:
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state

    def _shrinks(self) -> bool:
        return False

    def _check_options(self) -> None:
        as_count(self.epochs, name="epochs", minimum=1)
        as_positive(self.learning_rate, name="learning_rate")

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        epochs, rate = self.epochs, self.learning_rate
        rng = np.random.default_rng(self.random_state)
        features, size = self._features(logits), self.num_classes_
        grid = np.array([(penalty, mu) for penalty in LAMBDAS for mu in MUS], dtype=np.float64)
        penalty = np.stack([_odir_penalty(size, off_diagonal, mu) for off_diagonal, mu in grid])
        start = rng.uniform(-1, 1, size=(size, size + 1)) / np.sqrt(size)
        maps = np.repeat(start[None], len(grid), axis=0)  # all penalties are trained at once
        first, second, step = np.zeros_like(maps), np.zeros_like(maps), 0
        for _ in range(epochs):
            order = rng.permutation(len(y))
            for rows in np.split(order, range(_BATCH_SIZE, len(y), _BATCH_SIZE)):
                residual = geometry.probs(features[rows] @ maps.transpose(0, 2, 1))
                residual[:, np.arange(len(rows)), y[rows]] -= 1
                residual *= sample_weight[rows, None] / len(rows)
                gradient = residual.transpose(0, 2, 1) @ features[rows] + 2 * penalty * maps
                step += 1
                first += (1 - _BETAS[0]) * (gradient - first)
                second += (1 - _BETAS[1]) * (gradient**2 - second)
                scale = np.sqrt(second / (1 - _BETAS[1] ** step)) + _EPSILON
                maps -= rate * first / (1 - _BETAS[0] ** step) / scale
        log_probs = geometry.log_probs(features @ maps.transpose(0, 2, 1))
        best = int(np.argmax(log_probs[:, np.arange(len(y)), y] @ sample_weight))
        self.off_diagonal_, self.bias_penalty_ = map(float, grid[best])
        self._set_parameters(maps[best], True)
