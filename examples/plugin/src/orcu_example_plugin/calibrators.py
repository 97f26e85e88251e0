"""Smoothing: a share of every prediction goes to all classes alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.inputs import FloatArray, IntArray


@CALIBRATORS.register("smoothing")
class Smoothing(Calibrator):
    """p = (1 - a) softmax(z) + a / C, the share a by negative log-likelihood.

    Example:
        >>> Smoothing().fit([[9.0, 0.0]] * 100, [0] * 75 + [1] * 25).share_.__round__(2)
        0.5
    """

    name = "smoothing"

    def n_parameters(self, num_classes: int) -> int:
        """The share."""
        return 1

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        own = geometry.probs(logits)[np.arange(len(y)), y]

        def loss(share: float) -> float:
            return -float(sample_weight @ np.log((1 - share) * own + share / self.num_classes_))

        self.share_ = float(minimize_scalar(loss, bounds=(1e-9, 1), method="bounded").x)

    def _transform(self, logits: FloatArray) -> FloatArray:
        probs = geometry.probs(logits)
        return np.log((1 - self.share_) * probs + self.share_ / probs.shape[1])

    def _state(self) -> dict[str, Any]:
        return {"share": self.share_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.share_ = float(state["share"])
