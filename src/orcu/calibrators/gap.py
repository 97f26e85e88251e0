"""Gap scaling: a scale for each adjacent logit gap and direction; no gap changes its sign."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, restored_array, warn
from orcu.calibrators.temperature import as_shrinkage, inverse_temperature, prior_rows
from orcu.inputs import FloatArray, IntArray

_MAX_LOG_SCALE = 6.0  # bound of |log a|
_LOG_POWER_BOUNDS = (np.log(0.2), np.log(3.0))  # bounds of log b


@CALIBRATORS.register("gap")
class GapScaling(Calibrator):
    """Scales adjacent logit gaps d_k = z_{k+1} - z_k by threshold and direction.

    g_k(d) = sign(d) a_k(sign d) |d|^b with a > 0 and b > 0; z'_0 = 0, z'_{k+1} = z'_k + g_k(d_k).
    Signs do not change, so a unimodal row stays unimodal with the same mode: accuracy, MAE and QWK of
    unimodal rows cannot change. a = 1/T and b = 1 is temperature scaling. log a and log b are fitted by the likelihood
    of all rows plus k v sum (log a - log 1/T)^2 + k u (log b)^2. Here T is the fitted temperature, v the mean square
    of d/T, u that of d/T log|d| (at least v), with each gap weighted by P(1 - P) of its threshold, and k the number of
    rows that the shrinkage of all parameters is worth.

    Args:
        shrinkage: number of rows that the shrinkage of each parameter towards the fitted temperature is worth; 0 for
            plain likelihood.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> fitted = GapScaling().fit(z, y)
        >>> bool((np.sign(np.diff(fitted.predict_logits(z))) == np.sign(np.diff(z))).all())
        True
    """

    name = "gap"

    def __init__(self, *, shrinkage: float = 0.25) -> None:
        self.shrinkage = shrinkage

    def _check_options(self) -> None:
        as_shrinkage(self.shrinkage)

    def n_parameters(self, num_classes: int) -> int:
        """2 (C - 1) + 1."""
        return 2 * (num_classes - 1) + 1

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        prior_share = prior_rows(self.shrinkage, self.n_parameters(self.num_classes_)) / len(y)
        scale = inverse_temperature(logits, y, sample_weight, name=self.name)
        objective, start = _objective(np.diff(logits, axis=1), y, sample_weight, scale, prior_share)
        bounds = [(-_MAX_LOG_SCALE, _MAX_LOG_SCALE)] * (len(start) - 1) + [_LOG_POWER_BOUNDS]
        options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6}
        optimum = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        self.log_parameters_ = optimum.x
        if not optimum.success:
            warn(
                f"gap: the fit stopped after {optimum.nit} iterations before its tolerance; use more rows or shrinkage."
            )
        if (np.abs(self.log_parameters_[:-1]) > 0.999 * _MAX_LOG_SCALE).any():
            warn(
                f"gap: a scale reached its bound exp({_MAX_LOG_SCALE:g}); use more rows that the model was not trained "
                "on, or more shrinkage."
            )

    def _transform(self, logits: FloatArray) -> FloatArray:
        gaps = np.ascontiguousarray(np.diff(logits, axis=1).T)
        return _scale_gaps(gaps > 0, _log_size(gaps), self.log_parameters_)[1].T

    @property
    def scales_(self) -> FloatArray:
        """Scales a_k of positive gaps (row 0) and negative gaps (row 1), shape (2, C - 1)."""
        self._check_is_fitted()
        return np.exp(self.log_parameters_[:-1].reshape(2, -1))

    @property
    def power_(self) -> float:
        """The power b."""
        self._check_is_fitted()
        return float(np.exp(self.log_parameters_[-1]))

    def _state(self) -> dict[str, Any]:
        return {"log_parameters": self.log_parameters_.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        shape = (self.n_parameters(self.num_classes_),)
        values = restored_array(state["log_parameters"], shape, name="log_parameters", limit=_MAX_LOG_SCALE)
        low, high = _LOG_POWER_BOUNDS
        if not low - 1e-9 <= values[-1] <= high + 1e-9:
            raise ValueError(f"log_parameters: the last is {values[-1]:g}, expected {low:.3g} to {high:.3g}")
        self.log_parameters_ = values


def _scale_gaps(positive: Any, log_size: FloatArray, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scaled gaps (C - 1, n) and their logits (C, n) that start at 0; this memory layout is the faster one."""
    log_rise, log_fall = parameters[:-1].reshape(2, -1, 1)
    scaled = np.exp(np.where(positive, log_rise, log_fall) + np.exp(parameters[-1]) * log_size)
    np.negative(scaled, out=scaled, where=~positive)
    logits = np.zeros((len(scaled) + 1, scaled.shape[1]))
    np.cumsum(scaled, axis=0, out=logits[1:])
    return scaled, logits


def _log_size(gaps: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.abs(gaps))  # -inf for equal logits: such a gap stays 0


def _objective(
    gaps: FloatArray, y: IntArray, sample_weight: FloatArray, scale: float, prior_share: float
) -> tuple[Callable[[FloatArray], tuple[float, FloatArray]], FloatArray]:
    """The objective of gaps (n, C - 1) with its gradient, and the parameters of temperature scaling with 1/T = scale.

    They are the start of the fit and the centre of the prior; ``prior_share`` is its strength as a share of the rows.
    """
    n, thresholds = gaps.shape
    columns = np.ascontiguousarray(gaps.T)
    positive, log_size = columns > 0, _log_size(columns)
    finite_log_size = np.where(columns == 0, 0.0, log_size)
    rows, row_share = np.arange(n), sample_weight / n
    event = (y > np.arange(thresholds)[:, None]).astype(np.float64)
    logits = scale * np.cumsum(np.pad(gaps, ((0, 0), (1, 0))), axis=1)
    above = 1 - np.cumsum(geometry.probs(logits), axis=1)[:, :-1].T.clip(0, 1)
    variance = row_share * (above * (1 - above) + np.finfo(np.float64).tiny)  # never 0 in all gaps
    variance /= variance.sum()
    squares = variance * (scale * columns) ** 2
    scale_penalty = float(squares.sum())
    power_penalty = max(scale_penalty, float((squares * finite_log_size**2).sum()))
    penalties = prior_share * np.append(np.full(2 * thresholds, scale_penalty), power_penalty)
    anchor = np.append(np.full(2 * thresholds, np.log(scale)), 0.0)

    def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
        scaled, logits = _scale_gaps(positive, log_size, parameters)
        logits -= logits.max(axis=0)
        label_logit = logits[y, rows]
        mass = np.exp(logits, out=logits)
        total = mass.sum(axis=0)
        loss = float(row_share @ (np.log(total) - label_logit))
        # a gap moves all classes above it: dL/dg_k = P(Y > k) - 1[y > k]
        above = np.cumsum(mass[:0:-1], axis=0)[::-1] / total
        effect = (above - event) * scaled * row_share
        rise = np.where(positive, effect, 0.0).sum(axis=1)
        power = np.exp(parameters[-1]) * np.vdot(effect, finite_log_size)
        gradient = np.concatenate([rise, effect.sum(axis=1) - rise, [power]])
        difference = parameters - anchor
        return loss + float(penalties @ difference**2), gradient + 2 * penalties * difference

    return objective, anchor
