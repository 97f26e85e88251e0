"""Calibration of subgroups that differ: one shared calibrator and a correction for each subgroup."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, WrappedCalibrator, clone, from_dict, restored_number, warn
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import STANDARD_ERRORS, LogLosses, splits
from orcu.calibrators.projection import finite_log, nearest_unimodal
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_strings
from orcu.raters.votes import weighted_rows

PRIOR_STRENGTHS = (float("inf"), 32.0, 8.0, 2.0)  # candidates; infinity means that no subgroup is adjusted
MAX_LOG_SCALE, MAX_TILT = 3.0, 10.0
_NEWTON_STEPS, _MAX_NEWTON_STEP = 4, 0.01  # each step doubles the number of correct digits
MAX_NAMED = 5  # unknown subgroups that a warning names
KEYS_OF_0_2 = {"prior_strength": "pull", "adjustments": "turns"}  # names of the keys in files of orcu 0.2


@dataclass(frozen=True)
class GroupAdjustment:
    """A correction of the log-probabilities for each subgroup g: exp(u_g) log p_k + v_g t_k.

    t goes from -1 at the lowest class to 1 at the highest. Both numbers of a subgroup are shrunk towards 0.

    Attributes:
        prior_strength: number of rows that the shrinkage is worth; infinite if subgroups do not differ significantly.
        by_subgroup: u (logarithm of the inverse temperature) and v (tilt towards higher classes) of each subgroup.

    Example:
        >>> adjustment = GroupAdjustment(8.0, {"north": (np.log(2.0), 0.0)})
        >>> logits = adjustment.apply(np.log([[0.2, 0.8], [0.2, 0.8]]), np.array(["north", "south"]))
        >>> geometry.probs(logits).round(2)
        array([[0.06, 0.94],
               [0.2 , 0.8 ]])
    """

    prior_strength: float = float("inf")
    by_subgroup: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_subgroup)

    def apply(self, logits: FloatArray, subgroup: ObjectArray) -> FloatArray:
        """Adjusted logits, shape (n, C); rows of unknown subgroups are not adjusted."""
        values = np.array([self.by_subgroup.get(name, (0.0, 0.0)) for name in subgroup.tolist()]).reshape(-1, 2)
        return _adjust(geometry.log_probs(logits), values[:, 0], values[:, 1])

    @classmethod
    def fit(
        cls,
        logits: FloatArray,
        y: IntArray,
        sample_weight: FloatArray,
        subgroup: ObjectArray,
        *,
        fold: IntArray,
        groups: IntArray | None = None,
    ) -> Self:
        """Fit the adjustments; the prior strength is chosen by the cross-validated log loss.

        The choice is the strongest prior within half a standard error of the lowest log loss. ``logits`` are those of
        the shared calibrator, ``fold`` is the test fold of each row, or -1 to leave it out of the cross-validation,
        and the errors of the rows of a cluster (``groups``) are correlated.
        """
        if len(set(subgroup.tolist())) < 2:
            return cls()
        log_probs, rows = geometry.log_probs(logits), np.flatnonzero(fold >= 0)
        losses = np.zeros((len(PRIOR_STRENGTHS), len(y)))
        for candidate, prior_strength in enumerate(PRIOR_STRENGTHS):
            for k in range(int(fold.max()) + 1):
                test, train = fold == k, (fold != k) & (fold >= 0)
                fitted = _fit_groups(log_probs[train], y[train], sample_weight[train], subgroup[train], prior_strength)
                adjusted = geometry.log_probs(cls(prior_strength, fitted).apply(log_probs[test], subgroup[test]))
                losses[candidate, test] = -adjusted[np.arange(len(adjusted)), y[test]]
        share = sample_weight[rows] / sample_weight[rows].sum()
        scores = LogLosses(losses[:, rows], share, None if groups is None else groups[rows])
        chosen = PRIOR_STRENGTHS[scores.simplest(STANDARD_ERRORS)]
        return cls(chosen, _fit_groups(log_probs, y, sample_weight, subgroup, chosen))

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable data; an infinite prior strength is ``None``."""
        return {
            "prior_strength": None if np.isinf(self.prior_strength) else self.prior_strength,
            "adjustments": {name: list(values) for name, values in self.by_subgroup.items()},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Restore an adjustment from the data of `to_dict`; the keys of orcu 0.2 are read too."""
        strength, adjustments = (state[key if key in state else old] for key, old in KEYS_OF_0_2.items())
        by_subgroup = {
            str(name): (
                restored_number(u, name=f"adjustments.{name}", low=-MAX_LOG_SCALE, high=MAX_LOG_SCALE),
                restored_number(v, name=f"adjustments.{name}", low=-MAX_TILT, high=MAX_TILT),
            )
            for name, (u, v) in adjustments.items()
        }
        if strength is not None:
            strength = restored_number(strength, name="prior_strength", low=1e-3, high=1e9)
        if (strength is None) != (not by_subgroup):
            raise ValueError("adjustments: expected none without a prior strength, and some with one")
        return cls(float("inf") if strength is None else strength, by_subgroup)

    def summary(self, unit: str = "rows") -> str:
        """The result in one clause; ``unit`` names what was counted."""
        if not self:
            return "subgroups do not differ significantly, so none is adjusted"
        return (
            f"{len(self.by_subgroup)} subgroups are adjusted, with a prior strength of {self.prior_strength:g} {unit}"
        )


def _adjust(log_probs: FloatArray, log_scale: Any, tilt: Any) -> FloatArray:
    positions = np.linspace(-1.0, 1.0, log_probs.shape[1])
    adjusted: FloatArray = (
        np.exp(np.asarray(log_scale))[..., None] * log_probs + np.asarray(tilt)[..., None] * positions
    )
    return adjusted


def _fit_groups(
    log_probs: FloatArray, y: IntArray, sample_weight: FloatArray, subgroup: ObjectArray, prior_strength: float
) -> dict[str, tuple[float, float]]:
    """The adjustment of each subgroup by penalised likelihood."""
    adjustments: dict[str, tuple[float, float]] = {}
    for name in [] if np.isinf(prior_strength) else sorted(set(subgroup.tolist())):
        rows = subgroup == name
        data = (log_probs[rows], y[rows], sample_weight[rows], prior_strength)
        start = minimize(_loss, np.zeros(2), args=data, method="BFGS").x
        log_scale, tilt = _polish(start, *data)
        adjustments[name] = (
            float(np.clip(log_scale, -MAX_LOG_SCALE, MAX_LOG_SCALE)),
            float(np.clip(tilt, -MAX_TILT, MAX_TILT)),
        )
    return adjustments


def _loss(
    values: FloatArray, log_probs: FloatArray, y: IntArray, sample_weight: FloatArray, prior_strength: float
) -> float:
    adjusted = geometry.log_probs(_adjust(log_probs, values[0], values[1]))
    return -float(sample_weight @ adjusted[np.arange(len(y)), y]) + prior_strength / 2 * float(values @ values)


def _polish(
    values: FloatArray, log_probs: FloatArray, y: IntArray, sample_weight: FloatArray, prior_strength: float
) -> FloatArray:
    """Newton steps from an approximate optimum of `_loss`, so that a common factor of the weights changes no digit."""
    positions = np.broadcast_to(np.linspace(-1.0, 1.0, log_probs.shape[1]), log_probs.shape)
    for _ in range(_NEWTON_STEPS):
        probs = geometry.probs(_adjust(log_probs, values[0], values[1]))
        features = np.stack([np.exp(values[0]) * log_probs, positions])  # derivatives of the adjusted logits, (2, n, C)
        means = (probs * features).sum(axis=2)
        centered = features - means[:, :, None]
        residual = (means - features[:, np.arange(len(y)), y]) @ sample_weight
        gradient = residual + prior_strength * values
        hessian = np.einsum("ink,jnk,nk,n->ij", centered, centered, probs, sample_weight) + prior_strength * np.eye(2)
        hessian[0, 0] += residual[0]  # the scale is exp(u)
        if np.linalg.eigvalsh(hessian)[0] <= 0:
            break
        step = np.linalg.solve(hessian, gradient)
        if np.abs(step).max() > _MAX_NEWTON_STEP:
            break  # not close to the optimum
        values = values - step
    return values


@CALIBRATORS.register("grouped")
class GroupedCalibration(WrappedCalibrator):
    r"""A shared calibrator, then a correction per subgroup that is shrunk towards it.

    It corrects a hospital, a scanner or a language on which the model is over-confident, and still uses all rows for
    the shared calibrator. With q the distribution that the shared calibrator gives to a row of subgroup g,

    .. math:: \hat p_k \propto q_k^{\exp(u_g)} \exp(v_g t_k), \quad t_k = 2k / (C - 1) - 1.

    u and v are fitted by likelihood and shrunk towards 0 by a prior worth 32, 8 or 2 rows. The prior strength, or no
    adjustment at all, is chosen by the cross-validated log loss, half a standard error towards no adjustment.
    Subgroups without fitting rows get the shared calibrator, and so does every row without ``subgroup=``. Rows that
    the shared calibrator makes unimodal stay unimodal.

    Args:
        calibrator: the shared calibrator, or its name.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(800, 1))) ** 2)
        >>> y = (rng.random((800, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> site = np.array(["north", "south"] * 400)
        >>> z[site == "north"] *= 4  # over-confident there
        >>> fitted = GroupedCalibration("temperature").fit(z, y, subgroup=site)
        >>> {name: round(float(np.exp(u)), 2) for name, (u, v) in fitted.adjustment_.by_subgroup.items()}
        {'north': 0.73, 'south': 2.4}
    """

    name = "grouped"
    expands_votes = False  # the shared calibrator does
    accepts_subgroup = True
    adjustment_: GroupAdjustment = GroupAdjustment()

    def __init__(self, calibrator: Any = "auto") -> None:
        self.calibrator = calibrator

    def _new_shared(self) -> Calibrator:
        """The shared calibrator, not fitted."""
        return clone(self.calibrator) if isinstance(self.calibrator, Calibrator) else create(self.calibrator)

    def n_parameters(self, num_classes: int) -> int:
        """Number of parameters of the shared calibrator; adjustments are limited by their prior."""
        return max(1, self._new_shared().n_parameters(num_classes))

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        ids: Any = None,
        subgroup: Any = None,
    ) -> Self:
        """Fit the shared calibrator and the adjustments on held-out rows.

        ``subgroup`` is the subgroup of each row, such as its hospital, or ``None`` for no adjustment. The other
        arguments are those of `Calibrator.fit`; its ``groups`` are clusters, such as patients, and adjust nothing.
        """
        return self._check_and_fit(logits, y, probs, sample_weight, groups, ids, subgroup=subgroup)

    def _check_rows(self, logits: FloatArray, y: IntArray) -> None:
        """Nothing: the shared calibrator checks its rows."""

    def _fit(
        self,
        logits: FloatArray,
        y: IntArray,
        sample_weight: FloatArray,
        groups: IntArray | None,
        subgroup: ObjectArray | None = None,
    ) -> None:
        self.fitted_ = self._new_shared().fit(logits, y, sample_weight=sample_weight, groups=groups)
        self.adjustment_ = GroupAdjustment()
        if subgroup is not None and len(y) > 1:
            fold = np.full(len(y), -1)
            for number, (_, test) in enumerate(splits(y, groups=groups)):
                fold[test] = number
            case, label, weight = weighted_rows(y, sample_weight)
            if groups is None and y.ndim == 2:
                groups = np.arange(len(y))  # votes of a case are correlated
            self.adjustment_ = GroupAdjustment.fit(
                self.fitted_.predict_logits(logits)[case],
                label,
                weight,
                subgroup[case],
                fold=fold[case],
                groups=None if groups is None else groups[case],
            )

    def predict_logits(self, logits: Any = None, *, probs: Any = None, subgroup: Any = None) -> Any:
        """Calibrated logits, shape (n, C); ``subgroup`` of each row is required if subgroups are adjusted."""
        if not self.adjustment_:
            return super().predict_logits(logits, probs=probs)
        return self._predict(lambda values: finite_log(self._adjusted_probs(values, subgroup)), logits, probs)

    def predict_proba(self, logits: Any = None, *, probs: Any = None, subgroup: Any = None) -> Any:
        """Calibrated probabilities, shape (n, C); ``subgroup`` of each row is required if subgroups are adjusted."""
        if not self.adjustment_:
            return super().predict_proba(logits, probs=probs)
        return self._predict(lambda values: self._adjusted_probs(values, subgroup), logits, probs)

    def _adjusted_probs(self, logits: FloatArray, subgroup: Any) -> FloatArray:
        if subgroup is None:
            raise InputError(
                f"subgroup: missing, but this calibrator adjusts {len(self.adjustment_.by_subgroup)} subgroups; pass "
                "the subgroup of each row (--subgroup COLUMN)."
            )
        names = as_strings(subgroup, rows=len(logits), name="subgroup")
        unknown = sorted(set(names.tolist()) - set(self.adjustment_.by_subgroup))
        if unknown:
            shown = ", ".join(unknown[:MAX_NAMED]) + (", ..." if len(unknown) > MAX_NAMED else "")
            warn(
                f"subgroup: {len(unknown)} subgroups had no rows in the fit and are not adjusted beyond the shared "
                f"calibrator: {shown}."
            )
        calibrated = self.fitted_.predict_logits(logits)
        adjusted = geometry.probs(self.adjustment_.apply(calibrated, names))
        unimodal = geometry.is_unimodal(geometry.probs(calibrated))
        return np.where(unimodal[:, None], nearest_unimodal(adjusted), adjusted)

    def _summary(self) -> list[list[str]]:
        adjustments = [
            [f"adjustment of {name}", f"inverse temperature {np.exp(u):.3g}, tilt {v:+.3g}"]
            for name, (u, v) in self.adjustment_.by_subgroup.items()
        ]
        return [*self.fitted_._summary(), *adjustments]

    def _fitted_values(self) -> dict[str, Any]:
        return {"calibrator": self.fitted_, "n_adjusted": len(self.adjustment_.by_subgroup)} | super()._fitted_values()

    @property
    def reason_(self) -> str:
        """An explanation of what was chosen."""
        self._check_is_fitted()
        shared = getattr(self.fitted_, "reason_", f"{self.fitted_.name}.")
        summary = self.adjustment_.summary()
        return f"{shared} {summary[0].upper()}{summary[1:]}."

    def to_dict(self) -> dict[str, Any]:
        """Options and fitted state as JSON-serialisable data; the shared calibrator by name and options."""
        state = super().to_dict()
        shared = state["state"]["calibrator"]
        return state | {"options": {"calibrator": {"name": shared["calibrator"], **shared["options"]}}}

    def _state(self) -> dict[str, Any]:
        return {"calibrator": self.fitted_.to_dict(), **self.adjustment_.to_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.fitted_ = from_dict(state["calibrator"])
        if self.fitted_.name != (name := self._new_shared().name):
            raise ValueError(f"calibrator: expected {name}, as in the options")
        self.adjustment_ = GroupAdjustment.from_dict(state)
