"""Temperature scaling: one number that makes all predictions sharper or flatter."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu.calibrators.base import CALIBRATORS, Calibrator, warn
from orcu.calibrators.shrinkage import as_shrinkage, sharpness_prior
from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_positive

GRID = np.arange(1, 101) / 10  # Paper: [0, 10] by 0.1; a temperature of 0 is not defined
_FLATTEST, _SHARPEST = 1e-3, 1e3  # bounds of 1/T
_FLAT = 0.02  # a 1/T that leaves nothing of the logits
_BLOCK = 8192  # rows at a time, so that what is computed stays in the cache
_STEPS = 100
_TOLERANCE = 1e-12


@CALIBRATORS.register("temperature")
class TemperatureScaling(Calibrator):
    """p = softmax(z / T), T > 0 by negative log-likelihood (Guo et al. 2017).

    Newton's method inside a shrinking bracket finds the optimum to the last digits. Ranks and the argmax do not
    change.

    Args:
        search: "exact", or "grid" for the paper's 0.1, 0.2, ..., 10, by plain likelihood.
        shrinkage: how many times the prior on 1/T counts; 0 for plain likelihood, as published.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(1000, 3))
        >>> y = (rng.random((1000, 1)) > np.cumsum(np.exp(z) / np.exp(z).sum(1, keepdims=True), 1)).sum(1)
        >>> fitted = TemperatureScaling().fit(3 * z, y)
        >>> round(fitted.temperature_, 1)
        2.7
        >>> round(TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 0, 0, 0, 1]).temperature_, 2)  # five rows
        1.08
    """

    name = "temperature"

    def __init__(self, *, search: str = "exact", shrinkage: float = 1.0) -> None:
        self.search = search
        self.shrinkage = shrinkage

    def parameters(self, num_classes: int) -> int:
        """One."""
        return 1

    def _is_as_published(self) -> bool:
        return self.search == "grid" or super()._is_as_published()

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        if self.search not in {"exact", "grid"}:
            raise UnknownNameError("search of temperature scaling", self.search, ["exact", "grid"])
        if self.search == "grid":
            margins = _margins(logits, y)
            losses = [_loss(margins, weight, 1 / t) for t in GRID]
            self.temperature_ = float(GRID[int(np.argmin(losses))])
        else:
            self.temperature_ = 1 / sharpness(logits, y, weight, as_shrinkage(self.shrinkage))

    def _transform(self, logits: FloatArray) -> FloatArray:
        return logits / self.temperature_

    def _state(self) -> dict[str, Any]:
        return {"temperature": self.temperature_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.temperature_ = as_positive(state["temperature"], name="temperature")
        if not _FLATTEST <= 1 / self.temperature_ <= _SHARPEST:
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


def sharpness(logits: FloatArray, y: IntArray, weight: FloatArray, shrinkage: float = 1.0) -> float:
    """The 1/T of greatest likelihood and prior, kept between bounds.

    Args:
        logits: shape (n, C).
        y: labels.
        weight: adds up to the rows that count.
        shrinkage: how many times the prior counts.

    Example:
        >>> y = np.array([0, 0, 0, 1])
        >>> round(sharpness(np.array([[2.0, 0.0]] * 4), y, np.ones(4), shrinkage=0), 4)  # log 3 / 2
        0.5493
    """
    margins = _margins(logits, y)
    if ((margins >= 0).sum(axis=0)[weight > 0] == 1).all():
        warn(
            "temperature: every row is predicted right, so the likelihood asks for ever sharper predictions; "
            f"{'the prior holds them' if shrinkage else 'T stays at 1'}. Use more rows, which the model was not "
            "trained on."
        )
        if not shrinkage:
            return 1.0
    low, high, log_scale = np.log(_FLATTEST), np.log(_SHARPEST), 0.0
    for _ in range(_STEPS):
        scale = float(np.exp(log_scale))
        slope, bend = _slopes(margins, weight, scale)
        _, prior_slope, prior_bend = sharpness_prior(log_scale)
        # in log(1/T), of which the prior is a function
        bend = scale * slope + scale**2 * bend + shrinkage * prior_bend
        slope = scale * slope + shrinkage * prior_slope
        if abs(slope) <= _TOLERANCE * abs(bend):
            break
        low, high = (log_scale, high) if slope < 0 else (low, log_scale)
        trial = log_scale - slope / bend if bend > 0 else -np.inf
        if not low < trial < high:
            trial = (low + high) / 2
        if high - low <= _TOLERANCE:
            break
        log_scale = trial
    scale = float(np.exp(log_scale))
    if scale < _FLAT:
        warn(
            "temperature: the logits say nothing about the labels (or the reverse), so flat predictions fit "
            f"best; T was held at {1 / scale:.3g}. Are the labels in the right order?"
        )
    return scale


def _margins(logits: FloatArray, y: IntArray) -> FloatArray:
    """Margins over the label, class by class, shape (C, n): log p_y = -log sum exp(margin / T)."""
    return np.ascontiguousarray((logits - logits[np.arange(len(y)), y][:, None]).T)
