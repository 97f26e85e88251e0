"""Gap scaling: every adjacent logit gap gets its own scale, and no gap changes its sign."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, warn
from orcu.calibrators.cross_validation import chosen
from orcu.inputs import FloatArray, IntArray

SHRINKAGES = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
_BOUND = 6.0  # of log a
_ROUGH = 1e-6  # of the likelihood, while options are compared: far below its standard error
_POWERS = (np.log(0.2), np.log(3.0))  # bounds of log b


@CALIBRATORS.register("gap")
class GapScaling(Calibrator):
    """Scales adjacent logit gaps d_k = z_{k+1} - z_k by threshold and direction.

    g_k(d) = sign(d) a_k(sign d) |d|^b with a > 0 and b > 0; z'_0 = 0, z'_{k+1} = z'_k + g_k(d_k).
    Signs stay, so a unimodal row stays unimodal with the same mode: accuracy, MAE and QWK of
    unimodal rows cannot change. a = 1/T and b = 1 is temperature scaling. Fitted by likelihood in
    log a and log b, with (shrinkage/(C-1)) sum (log a - mean log a)^2 + shrinkage (log b)^2.

    Args:
        shrinkage: the pull towards one common temperature, or ``None`` for the strongest whose
            cross-validated likelihood is within one standard error of the best.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> fitted = GapScaling().fit(z, y)
        >>> bool((np.sign(np.diff(fitted.predict_logits(z))) == np.sign(np.diff(z))).all())
        True
    """

    name = "gap"

    def __init__(self, *, shrinkage: float | None = None) -> None:
        self.shrinkage = shrinkage

    def parameters(self, num_classes: int) -> int:
        """2 (C - 1) + 1."""
        return 2 * (num_classes - 1) + 1

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        gaps = np.diff(logits, axis=1)
        start = np.zeros(self.parameters(self.num_classes_))
        self.shrinkage_ = SHRINKAGES[0] if self.shrinkage is None else float(self.shrinkage)
        if self.shrinkage is None:

            def log_probs(fit: Any, judge: Any) -> list[FloatArray]:
                scaled, parameters, candidates = weight[fit] / weight[fit].mean(), start, []
                for strength in SHRINKAGES:  # each starts where the stronger pull has ended
                    parameters, _ = _fitted(gaps[fit], y[fit], scaled, strength, parameters, tolerance=_ROUGH)
                    candidates.append(geometry.log_probs(_moved(gaps[judge], parameters)))
                return candidates

            self.shrinkage_ = SHRINKAGES[chosen(y, weight, log_probs)]
        if _separated(gaps, y):
            warn(
                "gap: every row is predicted right, so the likelihood asks for ever sharper predictions; gaps stay "
                "as they are. Use more rows, which the model was not trained on."
            )
        self.log_parameters_, reached = _fitted(gaps, y, weight, self.shrinkage_, start)
        if not reached:
            warn("gap: the fit stopped before its tolerance; use more rows or more shrinkage.")

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
        return {"log_parameters": self.log_parameters_.tolist(), "shrinkage": self.shrinkage_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.log_parameters_ = np.array(state["log_parameters"], dtype=np.float64)
        if self.log_parameters_.shape != (self.parameters(self.num_classes_),):
            raise ValueError(f"log_parameters of shape {self.log_parameters_.shape}")
        if not (np.abs(self.log_parameters_) <= _BOUND).all():
            raise ValueError("log_parameters that no fit gives")
        self.shrinkage_ = float(state["shrinkage"])


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


def _fitted(
    gaps: FloatArray, y: IntArray, weight: FloatArray, shrinkage: float, start: FloatArray, *, tolerance: float = 1e-11
) -> tuple[FloatArray, bool]:
    """The logarithms of a (rising, then falling) and b at the minimum, and whether it was reached.

    Where every row is right the likelihood has no maximum, and nothing is moved.
    """
    if _separated(gaps, y):
        return np.zeros_like(start), True
    n, thresholds = gaps.shape
    columns = np.ascontiguousarray(gaps.T)
    rising, log_size = columns > 0, _log_size(columns)
    finite_log_size = np.where(columns == 0, 0.0, log_size)
    rows, scaled = np.arange(n), weight / n
    event = (y > np.arange(thresholds)[:, None]).astype(np.float64)

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
        away = parameters[:-1] - parameters[:-1].mean()
        loss += shrinkage / thresholds * float(away @ away) + shrinkage * float(parameters[-1]) ** 2
        gradient[:-1] += 2 * shrinkage / thresholds * away
        gradient[-1] += 2 * shrinkage * parameters[-1]
        return loss, gradient

    bounds = [(-_BOUND, _BOUND)] * (2 * thresholds) + [_POWERS]
    options = {"maxiter": 500, "ftol": tolerance, "gtol": 1e-6}
    optimum = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return optimum.x, bool(optimum.success)


def _separated(gaps: FloatArray, y: IntArray) -> bool:
    """Whether the label of every row has the largest logit, with none beside it."""
    logits = np.zeros((len(gaps), gaps.shape[1] + 1))
    np.cumsum(gaps, axis=1, out=logits[:, 1:])
    rows = np.arange(len(y))
    own = logits[rows, y].copy()
    logits[rows, y] = -np.inf
    return bool((own > logits.max(axis=1)).all())
