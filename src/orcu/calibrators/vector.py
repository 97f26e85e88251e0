"""Vector scaling: a scale and an offset for each class."""

import numpy as np

from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.linear_map import LinearMap, Problem, present, solve
from orcu.calibrators.shrinkage import as_shrinkage
from orcu.inputs import FloatArray, IntArray

_RIDGE = 1e-6  # keeps separated rows finite where nothing else does


@CALIBRATORS.register("vector")
class VectorScaling(LinearMap):
    """p = softmax(a * z + b), a and b of length C (Guo et al. 2017), by likelihood.

    Args:
        shrinkage: rows that the pull of each parameter towards the fitted temperature is worth; 0 for plain
            likelihood, as published.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> VectorScaling().fit(z, y).predict_proba(z).shape
        (500, 3)
    """

    name = "vector"

    def __init__(self, *, shrinkage: float = 0.25) -> None:
        self.shrinkage = shrinkage

    def parameters(self, num_classes: int) -> int:
        """2 C."""
        return 2 * num_classes

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        identity = self._identity(self.num_classes_)
        free = identity.astype(bool)
        free[:, -1] = True
        if as_shrinkage(self.shrinkage) > 0:
            return self._fit_shrunk(logits, y, weight, free, self.shrinkage)
        free &= present(y, self.num_classes_)
        problem = Problem(self._features(logits), y, weight, identity, free, np.where(free, _RIDGE, 0.0))
        return self._keep(*solve(problem, identity))
