"""Temperature scaling: one number that makes all predictions sharper or flatter."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu.calibrators.base import CALIBRATORS, Calibrator, warn
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_positive

GRID = np.arange(1, 101) / 10  # Paper: [0, 10] by 0.1; a temperature of 0 is not defined
_SLOWEST, _FASTEST = 1e-3, 1e3  # bounds of 1/T
_BLOCK = 8192  # rows at a time, so that what is computed stays in the cache
_STEPS = 100
_TOLERANCE = 1e-12


@CALIBRATORS.register("temperature")
class TemperatureScaling(Calibrator):
    """p = softmax(z / T), T > 0 by negative log-likelihood (Guo et al. 2017).

    The likelihood is convex in 1/T; Newton's method inside a shrinking bracket finds its optimum to
    the last digits. Ranks and the argmax do not change.

    Args:
        search: "exact", or "grid" for the paper's 0.1, 0.2, ..., 10.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(1000, 3))
        >>> y = (rng.random((1000, 1)) > np.cumsum(np.exp(z) / np.exp(z).sum(1, keepdims=True), 1)).sum(1)
        >>> fitted = TemperatureScaling().fit(3 * z, y)
        >>> round(fitted.temperature_, 1)
        2.7
    """

    name = "temperature"

    def __init__(self, *, search: str = "exact") -> None:
        self.search = search

    def parameters(self, num_classes: int) -> int:
        """One."""
        return 1

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        if self.search not in {"exact", "grid"}:
            raise UnknownNameError("search of temperature scaling", self.search, ["exact", "grid"])
        # margins over the label, class by class: log p_y = -log sum exp(margin / T)
        margins = np.ascontiguousarray((logits - logits[np.arange(len(y)), y][:, None]).T)
        if self.search == "grid":
            losses = [_loss(margins, weight, 1 / t) for t in GRID]
            self.temperature_ = float(GRID[int(np.argmin(losses))])
        else:
            self.temperature_ = 1 / _best_scale(margins, weight)

    def _transform(self, logits: FloatArray) -> FloatArray:
        return logits / self.temperature_

    def _state(self) -> dict[str, Any]:
        return {"temperature": self.temperature_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.temperature_ = as_positive(state["temperature"], name="temperature")
        if not _SLOWEST <= 1 / self.temperature_ <= _FASTEST:
            raise ValueError(f"a temperature of {self.temperature_:g}, which no fit gives")


def _loss(margins: FloatArray, weight: FloatArray, scale: float) -> float:
    scaled = scale * margins
    top = scaled.max(axis=0)
    return float(weight @ (top + np.log(np.exp(scaled - top).sum(axis=0))))


def _slopes(margins: FloatArray, weight: FloatArray, scale: float) -> tuple[float, float]:
    """First and second derivative of the loss in 1/T."""
    slope = bend = 0.0
    for first in range(0, len(weight), _BLOCK):
        part, weights = margins[:, first : first + _BLOCK], weight[first : first + _BLOCK]
        share = scale * part
        share -= share.max(axis=0)
        np.exp(share, out=share)
        share /= share.sum(axis=0)
        share *= part
        mean = share.sum(axis=0)
        share *= part
        slope += float(weights @ mean)
        bend += float(weights @ (share.sum(axis=0) - mean**2))
    return slope, bend


def _best_scale(margins: FloatArray, weight: FloatArray) -> float:
    """The 1/T at which the slope is zero, kept between bounds."""
    if ((margins >= 0).sum(axis=0)[weight > 0] == 1).all():
        warn(
            "temperature: every row is predicted right, so the likelihood asks for ever sharper predictions; "
            "T stays at 1. Use more rows, which the model was not trained on."
        )
        return 1.0
    low, high, scale = _SLOWEST, _FASTEST, 1.0
    for _ in range(_STEPS):
        slope, bend = _slopes(margins, weight, scale)
        if abs(slope) <= _TOLERANCE * scale * bend:
            break
        low, high = (scale, high) if slope < 0 else (low, scale)
        trial = scale - slope / bend if bend > 0 else 0.0
        if not low < trial < high:
            trial = float(np.sqrt(low * high))
        if high - low <= _TOLERANCE * low:
            break
        scale = trial
    if scale < _SLOWEST * 1.001:
        warn(
            "temperature: the logits say nothing about the labels (or the reverse), so flat predictions fit "
            f"best; T was held at {1 / _SLOWEST:g}. Are the labels in the right order?"
        )
    return scale
