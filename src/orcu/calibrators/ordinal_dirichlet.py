"""A Dirichlet map that only mixes neighbouring classes: fewer parameters, kinder to few rows."""

from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.cross_validation import chosen
from orcu.calibrators.linear_map import LinearMap, Problem, present, solve
from orcu.inputs import FloatArray, IntArray

BANDS = (1, 2)
RIDGES = (1.0, 0.1, 0.01, 0.001)


@CALIBRATORS.register("ordinal_dirichlet")
class OrdinalDirichlet(LinearMap):
    """p = softmax(W log p + b) with W_ij = 0 where |i - j| > band.

    About 4 C (band 1) or 6 C (band 2) parameters in place of C (C + 1). A ridge pulls W to the
    identity and b to 0: mean NLL + ridge/C sum (W - I)^2 + ridge/C sum b^2.

    Args:
        band: how far classes may mix, or ``None`` to choose 1 or 2.
        ridge: strength of the pull, or ``None`` for the strongest (with its band) whose cross-validated
            likelihood is within one standard error of the best.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> (OrdinalDirichlet(band=1, ridge=0.1).fit(z, y).weight_ != 0).sum(axis=1).tolist()
        [2, 3, 3, 2]
    """

    name = "ordinal_dirichlet"
    on = "log-probabilities"

    def __init__(self, *, band: int | None = None, ridge: float | None = None) -> None:
        self.band = band
        self.ridge = ridge

    def parameters(self, num_classes: int) -> int:
        """Of the band, and C offsets."""
        band = self.band or BANDS[0]
        return int(_free(num_classes, band).sum())

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        features = self._features(logits)
        bands = BANDS if self.band is None else (self.band,)
        ridges = RIDGES if self.ridge is None else (self.ridge,)
        grid = [(band, ridge) for ridge in ridges for band in bands]
        self.band_, self.ridge_ = grid[0]
        if len(grid) > 1:

            def log_probs(fit: Any, judge: Any) -> list[FloatArray]:
                scaled = weight[fit] / weight[fit].mean()
                maps = [solve(*self._problem(features[fit], y[fit], scaled, *point))[0] for point in grid]
                return [geometry.log_probs(features[judge] @ parameters.T) for parameters in maps]

            self.band_, self.ridge_ = grid[chosen(y, weight, log_probs)]
        self._keep(*solve(*self._problem(features, y, weight, self.band_, self.ridge_)))

    def _problem(
        self, features: FloatArray, y: IntArray, weight: FloatArray, band: int, ridge: float
    ) -> tuple[Problem, FloatArray]:
        size = features.shape[1] - 1
        identity, free = self._identity(size), _free(size, band) & present(y, size)
        penalty = np.where(free, ridge / size, 0.0)
        return Problem(features, y, weight, identity, free, penalty), identity

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"band": self.band_, "ridge": self.ridge_}

    def _restore(self, state: Any) -> None:
        super()._restore(state)
        self.band_, self.ridge_ = int(state["band"]), float(state["ridge"])


def _free(size: int, band: int) -> Any:
    k = np.arange(size)
    near = np.abs(k[:, None] - k) <= band
    return np.concatenate([near, np.ones((size, 1), dtype=bool)], axis=1)
