"""A Dirichlet map that only mixes neighbouring classes: fewer parameters, kinder to few rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.linear_map import LinearMap
from orcu.calibrators.shrinkage import as_shrinkage
from orcu.inputs import FloatArray, IntArray, as_count


@CALIBRATORS.register("ordinal_dirichlet")
class OrdinalDirichlet(LinearMap):
    """p = softmax(W log p + b) with W_ij = 0 where |i - j| > band.

    About 6 C parameters (band 2) or 4 C (band 1) in place of C (C + 1).

    Args:
        band: how far classes may mix.
        shrinkage: rows that the pull of each parameter towards the fitted temperature is worth; 0 for plain
            likelihood.

    Example:
        >>> import numpy as np
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

    def parameters(self, num_classes: int) -> int:
        """Of the band, and C offsets."""
        return int(self._free(num_classes).sum())

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        as_count(self.band, name="band", minimum=0)
        self._fit_shrunk(logits, y, weight, self._free(self.num_classes_), as_shrinkage(self.shrinkage))

    def _free(self, size: int) -> Any:
        k = np.arange(size)
        near = np.abs(k[:, None] - k) <= self.band
        return np.concatenate([near, np.ones((size, 1), dtype=bool)], axis=1)

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if self.weight_[~self._free(self.num_classes_)[:, :-1]].any():
            raise ValueError("a weight outside the band")
