"""Vector scaling: a factor and an offset for each class's logit."""

import numpy as np

from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.linear_map import LinearMap, Problem, present, solve
from orcu.inputs import FloatArray, IntArray


@CALIBRATORS.register("vector")
class VectorScaling(LinearMap):
    """p = softmax(a * z + b), a and b of length C (Guo et al. 2017), by likelihood.

    Args:
        ridge: pulls a to 1 and b to 0; the default only keeps separated rows finite.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> VectorScaling().fit(z, y).predict_proba(z).shape
        (500, 3)
    """

    name = "vector"

    def __init__(self, *, ridge: float = 1e-6) -> None:
        self.ridge = ridge

    def parameters(self, num_classes: int) -> int:
        """2 C."""
        return 2 * num_classes

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        identity = self._identity(self.num_classes_)
        free = identity.astype(bool)
        free[:, -1] = True
        free &= present(y, self.num_classes_)
        penalty = np.where(free, self.ridge, 0.0)
        problem = Problem(self._features(logits), y, weight, identity, free, penalty)
        self._keep(*solve(problem, identity))
