"""Temperature scaling: one parameter that makes all predictions sharper or flatter."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu.calibrators.base import CALIBRATORS, Calibrator, restored_number, warn
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray

GRID = np.arange(1, 101) / 10  # Paper: [0, 10] by 0.1; a temperature of 0 is not defined
_MIN_SCALE, _MAX_SCALE = 1e-3, 1e3  # bounds of 1/T
_FLAT_SCALE = 0.02  # below this 1/T the logits have almost no effect
# Widths of the prior on log(1/T). Sharper predictions claim more than the model does, so they need more evidence.
_SHARPER_WIDTH, _FLATTER_WIDTH = 0.2, 0.35
_MIN_PARAMETERS = 40  # smallest number of parameters that the total shrinkage is computed for
_BLOCK = 8192  # rows per block, so that intermediate results stay in the cache
_MAX_STEPS = 100
_TOLERANCE = 1e-12


@CALIBRATORS.register("temperature")
class TemperatureScaling(Calibrator):
    """p = softmax(z / T) with T > 0 fitted by negative log-likelihood (Guo et al. 2017).

    The optimum is found to the last digits by Newton's method with a bisection safeguard. Ranks and the argmax do not
    change.

    Args:
        search: "exact", or "grid" for the paper's grid 0.1, 0.2, ..., 10 with plain likelihood.
        shrinkage: factor of the prior on 1/T; 0 for plain likelihood, as published.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(1000, 3))
        >>> y = (rng.random((1000, 1)) > np.cumsum(np.exp(z) / np.exp(z).sum(1, keepdims=True), 1)).sum(1)
        >>> TemperatureScaling().fit(3 * z, y)
        TemperatureScaling(temperature=2.73, n_rows=1000)
        >>> TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 0, 0, 0, 1])  # five rows
        TemperatureScaling(temperature=1.08, n_rows=5)
    """

    name = "temperature"

    def __init__(self, *, search: str = "exact", shrinkage: float = 1.0) -> None:
        self.search = search
        self.shrinkage = shrinkage

    def n_parameters(self, num_classes: int) -> int:
        """One."""
        return 1

    def _shrinks(self) -> bool:
        return self.search != "grid" and super()._shrinks()

    def _check_options(self) -> None:
        if self.search not in ("exact", "grid"):
            raise UnknownNameError("search of temperature scaling", self.search, ["exact", "grid"])
        as_shrinkage(self.shrinkage)

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        if self.search == "grid":
            margins = _margins(logits, y)
            losses = [_loss(margins, sample_weight, 1 / t) for t in GRID]
            self.temperature_ = float(GRID[int(np.argmin(losses))])
        else:
            self.temperature_ = 1 / inverse_temperature(logits, y, sample_weight, as_shrinkage(self.shrinkage))

    def _transform(self, logits: FloatArray) -> FloatArray:
        return logits / self.temperature_

    def _state(self) -> dict[str, Any]:
        return {"temperature": self.temperature_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        low, high = (1 - 1e-9) / _MAX_SCALE, (1 + 1e-9) / _MIN_SCALE  # rounding of the inverse
        self.temperature_ = restored_number(state["temperature"], name="temperature", low=low, high=high)


def inverse_temperature(
    logits: FloatArray, y: IntArray, sample_weight: FloatArray, shrinkage: float = 1.0, *, name: str = "temperature"
) -> float:
    """The 1/T of highest penalised likelihood, between 0.001 and 1000.

    The weights sum to the effective number of rows; ``shrinkage`` is the factor of the prior.

    Example:
        >>> y = np.array([0, 0, 0, 1])
        >>> round(inverse_temperature(np.array([[2.0, 0.0]] * 4), y, np.ones(4), shrinkage=0), 4)  # log 3 / 2
        0.5493
    """
    margins = _margins(logits, y)
    if ((margins >= 0).sum(axis=0)[sample_weight > 0] == 1).all():
        limit = "the prior limits them" if shrinkage else "T stays at 1"
        warn(
            f"{name}: all {len(y)} rows are predicted correctly, so the likelihood grows with ever sharper predictions "
            f"({limit}). Use more rows that the model was not trained on."
        )
        if not shrinkage:
            return 1.0
    low, high, log_scale = np.log(_MIN_SCALE), np.log(_MAX_SCALE), 0.0
    for _ in range(_MAX_STEPS):
        scale = float(np.exp(log_scale))
        gradient, hessian = _derivatives(margins, sample_weight, scale)
        _, prior_gradient, prior_hessian = inverse_temperature_prior(log_scale)
        # with respect to log(1/T), the argument of the prior
        hessian = scale * gradient + scale**2 * hessian + shrinkage * prior_hessian
        gradient = scale * gradient + shrinkage * prior_gradient
        if abs(gradient) <= _TOLERANCE * abs(hessian):
            break
        low, high = (log_scale, high) if gradient < 0 else (low, log_scale)
        trial = log_scale - gradient / hessian if hessian > 0 else -np.inf
        if not low < trial < high:
            trial = (low + high) / 2
        if high - low <= _TOLERANCE:
            break
        log_scale = trial
    scale = float(np.exp(log_scale))
    if scale < _FLAT_SCALE:
        warn(
            f"{name}: the logits do not predict the labels, or predict them in reverse: the fitted temperature is "
            f"{1 / scale:.3g}, so predictions are almost uniform. Check that labels and logit columns have the same "
            "class order."
        )
    return scale


def inverse_temperature_prior(log_scale: float) -> tuple[float, float, float]:
    """Negative log prior of u = log(1/T), with its first and second derivative.

    sqrt(1 + (u/t)^2) - 1 with t = 0.2 above 0 and 0.35 below: quadratic near the uncalibrated model (u = 0), linear
    further out, so that clear evidence for another temperature wins.

    Example:
        >>> [round(value, 3) for value in inverse_temperature_prior(0.2)]
        [0.414, 3.536, 8.839]
    """
    width = _SHARPER_WIDTH if log_scale > 0 else _FLATTER_WIDTH
    root = float(np.sqrt(1 + (log_scale / width) ** 2))
    return root - 1, log_scale / (width**2 * root), 1 / (width**2 * root**3)


def as_shrinkage(value: float, *, name: str = "shrinkage") -> float:
    """Check that a penalty, such as the option ``shrinkage``, is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise InputError(f"{name}: expected a number of 0 or more, got {value!r}.")
    return float(value)


def prior_rows(shrinkage: float, n_parameters: int) -> float:
    """Number of rows that the shrinkage of all parameters is worth, from the number per parameter.

    Example:
        >>> prior_rows(0.25, n_parameters=56)
        14.0
    """
    return as_shrinkage(shrinkage) * max(n_parameters, _MIN_PARAMETERS)


def _margins(logits: FloatArray, y: IntArray) -> FloatArray:
    """Margins over the label, class by class, shape (C, n): log p_y = -log sum exp(margin / T)."""
    return np.ascontiguousarray((logits - logits[np.arange(len(y)), y][:, None]).T)


def _loss(margins: FloatArray, sample_weight: FloatArray, scale: float) -> float:
    """Negative log-likelihood."""
    scaled = scale * margins
    top = scaled.max(axis=0)
    return float(sample_weight @ (top + np.log(np.exp(scaled - top).sum(axis=0))))


def _derivatives(margins: FloatArray, sample_weight: FloatArray, scale: float) -> tuple[float, float]:
    """First and second derivative of the loss with respect to 1/T."""
    gradient = hessian = 0.0
    for first in range(0, len(sample_weight), _BLOCK):
        block, weights = margins[:, first : first + _BLOCK], sample_weight[first : first + _BLOCK]
        share = scale * block
        share -= share.max(axis=0)
        np.exp(share, out=share)
        share /= share.sum(axis=0)
        share *= block
        mean = share.sum(axis=0)
        share *= block
        gradient += float(weights @ mean)
        hessian += float(weights @ (share.sum(axis=0) - mean**2))
    return gradient, hessian
