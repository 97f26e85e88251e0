"""Gap scaling: every adjacent logit gap gets its own scale, and no gap changes its sign."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, warn
from orcu.calibrators.shrinkage import as_shrinkage, strength
from orcu.calibrators.temperature import sharpness
from orcu.inputs import FloatArray, IntArray

_BOUND = 6.0  # of log a
_POWERS = (np.log(0.2), np.log(3.0))  # bounds of log b


@CALIBRATORS.register("gap")
class GapScaling(Calibrator):
    """Scales adjacent logit gaps d_k = z_{k+1} - z_k by threshold and direction.

    g_k(d) = sign(d) a_k(sign d) |d|^b with a > 0 and b > 0; z'_0 = 0, z'_{k+1} = z'_k + g_k(d_k).
    Signs stay, so a unimodal row stays unimodal with the same mode: accuracy, MAE and QWK of
    unimodal rows cannot change. a = 1/T and b = 1 is temperature scaling. Fitted in log a and log b by the likelihood
    of all rows, with k v sum (log a - log 1/T)^2 + k u (log b)^2, where T is the fitted temperature, v the mean square
    of d/T, u that of d/T log|d| (v at least), each gap counted by how undecided its threshold is, P(1 - P), and k what
    the pull of all parameters is worth in rows.

    Args:
        shrinkage: rows that the pull of each parameter towards the fitted temperature is worth; 0 for plain
            likelihood.

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

    def parameters(self, num_classes: int) -> int:
        """2 (C - 1) + 1."""
        return 2 * (num_classes - 1) + 1

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        pull = strength(as_shrinkage(self.shrinkage), self.parameters(self.num_classes_)) / len(y)
        sharp = sharpness(logits, y, weight)
        self.log_parameters_, reached = _fitted(np.diff(logits, axis=1), y, weight, sharp, pull)
        if not reached:
            warn("gap: the fit stopped before its tolerance; use more rows or more shrinkage.")
        if (np.abs(self.log_parameters_[:-1]) > 0.999 * _BOUND).any():
            warn("gap: a scale ran to its bound; use more rows, which the model was not trained on, or more shrinkage.")

    def _transform(self, logits: FloatArray) -> FloatArray:
        return _moved(np.diff(logits, axis=1), self.log_parameters_)

    @property
    def scales_(self) -> FloatArray:
        """a_k for gaps that rise (row 0) and fall (row 1), shape (2, C - 1)."""
        return np.exp(self.log_parameters_[:-1].reshape(2, -1))

    @property
    def power_(self) -> float:
        """The power b."""
        return float(np.exp(self.log_parameters_[-1]))

    def _state(self) -> dict[str, Any]:
        return {"log_parameters": self.log_parameters_.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.log_parameters_ = np.array(state["log_parameters"], dtype=np.float64)
        if self.log_parameters_.shape != (self.parameters(self.num_classes_),):
            raise ValueError(f"log_parameters of shape {self.log_parameters_.shape}")
        if not (np.abs(self.log_parameters_) <= _BOUND).all():
            raise ValueError("log_parameters that no fit gives")


def _moved(gaps: FloatArray, parameters: FloatArray) -> FloatArray:
    """Logits (n, C) from gaps (n, C - 1)."""
    columns = np.ascontiguousarray(gaps.T)
    return _moved_columns(columns > 0, _log_size(columns), parameters)[1].T


def _moved_columns(rising: Any, log_size: FloatArray, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The moved gaps (C - 1, n), and their logits (C, n) starting at 0; class by class is quicker."""
    log_rise, log_fall = parameters[:-1].reshape(2, -1, 1)
    moved = np.exp(np.where(rising, log_rise, log_fall) + np.exp(parameters[-1]) * log_size)
    np.negative(moved, out=moved, where=~rising)
    logits = np.zeros((len(moved) + 1, moved.shape[1]))
    np.cumsum(moved, axis=0, out=logits[1:])
    return moved, logits


def _log_size(gaps: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.abs(gaps))  # -inf for equal logits: such a gap stays 0


def _fitted(gaps: FloatArray, y: IntArray, weight: FloatArray, sharp: float, pull: float) -> tuple[FloatArray, bool]:
    """The log a of rising and of falling gaps and log b, and whether the optimum was reached.

    Args:
        gaps: shape (n, C - 1).
        y: labels.
        weight: adds up to the rows that count.
        sharp: 1/T, from where the fit starts and to where it is pulled.
        pull: of the parameters, in shares of the rows.
    """
    objective, start = _objective(gaps, y, weight, sharp, pull)
    bounds = [(-_BOUND, _BOUND)] * (2 * gaps.shape[1]) + [_POWERS]
    options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6}
    optimum = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return optimum.x, bool(optimum.success)


def _objective(
    gaps: FloatArray, y: IntArray, weight: FloatArray, sharp: float, pull: float
) -> tuple[Callable[[FloatArray], tuple[float, FloatArray]], FloatArray]:
    """The function to be minimised, with its gradient, and the parameters of a common temperature."""
    n, thresholds = gaps.shape
    columns = np.ascontiguousarray(gaps.T)
    rising, log_size = columns > 0, _log_size(columns)
    finite_log_size = np.where(columns == 0, 0.0, log_size)
    rows, scaled = np.arange(n), weight / n
    event = (y > np.arange(thresholds)[:, None]).astype(np.float64)
    logits = sharp * np.cumsum(np.pad(gaps, ((0, 0), (1, 0))), axis=1)
    above = 1 - np.cumsum(geometry.probs(logits), axis=1)[:, :-1].T.clip(0, 1)
    undecided = scaled * (above * (1 - above) + np.finfo(np.float64).tiny)  # where no gap is, all count
    undecided /= undecided.sum()
    squares = undecided * (sharp * columns) ** 2
    of_scales = float(squares.sum())
    of_power = max(of_scales, float((squares * finite_log_size**2).sum()))
    pulls = pull * np.append(np.full(2 * thresholds, of_scales), of_power)
    common = np.append(np.full(2 * thresholds, np.log(sharp)), 0.0)

    def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
        moved, logits = _moved_columns(rising, log_size, parameters)
        logits -= logits.max(axis=0)
        own = logits[y, rows]
        mass = np.exp(logits, out=logits)
        total = mass.sum(axis=0)
        loss = float(scaled @ (np.log(total) - own))
        # a gap moves all classes above it: dL/dg_k = P(Y > k) - 1[y > k]
        above = np.cumsum(mass[:0:-1], axis=0)[::-1] / total
        effect = (above - event) * moved * scaled
        up = np.where(rising, effect, 0.0).sum(axis=1)
        power = np.exp(parameters[-1]) * np.vdot(effect, finite_log_size)
        gradient = np.concatenate([up, effect.sum(axis=1) - up, [power]])
        away = parameters - common
        return loss + float(pulls @ away**2), gradient + 2 * pulls * away

    return objective, common
