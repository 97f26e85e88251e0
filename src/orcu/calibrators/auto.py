"""Automatic choice of a calibrator by the cross-validated log loss."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, WrappedCalibrator, from_dict, warn, warn_of_absent_classes
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import STANDARD_ERRORS, LogLosses, cross_val_log_losses
from orcu.errors import CalibrationWarning
from orcu.inputs import FloatArray, IntArray

# From the simplest to the most flexible; the first changes nothing but the shape of the predictions.
CANDIDATES = (
    "projection",
    "temperature+projection",
    "gap+projection",
    "ordinal_dirichlet+projection",
    "dirichlet+projection",
)
FALLBACK = "temperature+projection"
MIN_ROWS = 10  # with fewer rows the fallback is used


@CALIBRATORS.register("auto")
class AutoCalibration(WrappedCalibrator):
    """The simplest of five calibrators whose cross-validated log loss is close to the lowest.

    The candidates are none, temperature, gap, ordinal Dirichlet and Dirichlet, each followed by the projection. They
    are compared by five-fold cross-validation. The first in this order whose log loss is at most half a standard error
    above the lowest is fitted on all rows. With fewer than ten rows it is temperature scaling. With ``groups``, rows
    of a group stay in one fold, and the standard error is computed over groups.

    Fitted attributes are ``chosen_`` (name of the candidate), ``scores_`` (mean log loss of each candidate),
    ``reason_`` (explanation of the choice) and ``fitted_`` (the calibrator).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(400, 1))) ** 2)
        >>> y = (rng.random((400, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> AutoCalibration().fit(4 * z, y)
        AutoCalibration(chosen='temperature+projection', n_rows=400)
    """

    name = "auto"
    chosen_: str
    scores_: dict[str, float]
    reason_: str

    def n_parameters(self, num_classes: int) -> int:
        """At least one: the choice."""
        return 1

    def _check_rows(self, logits: FloatArray, y: IntArray) -> None:
        if len(y) < MIN_ROWS:
            warn(f"auto: {len(y)} rows are too few to compare calibrators (minimum {MIN_ROWS}); using {FALLBACK}.")
        warn_of_absent_classes(self.name, y, logits.shape[1])

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        def log_probs(train: npt.NDArray[np.intp], test: npt.NDArray[np.intp]) -> list[FloatArray]:
            rows, labels, weights = logits[train], y[train], sample_weight[train]
            fitted = (create(name).fit(rows, labels, sample_weight=weights) for name in CANDIDATES)
            return [geometry.log_probs(candidate.predict_logits(logits[test])) for candidate in fitted]

        with warnings.catch_warnings():
            # Candidates warn of few rows for their parameters, which the cross-validation accounts for.
            warnings.simplefilter("ignore", CalibrationWarning)
            if len(y) < MIN_ROWS:
                self.chosen_, self.scores_ = FALLBACK, {}
                self.reason_ = f"{FALLBACK}: {len(y)} rows are too few to compare calibrators (minimum {MIN_ROWS})."
            else:
                losses = cross_val_log_losses(y, sample_weight, log_probs, groups=groups)
                best = losses.simplest(STANDARD_ERRORS)
                self.chosen_ = CANDIDATES[best]
                self.scores_ = dict(zip(CANDIDATES, losses.means.tolist(), strict=True))
                self.reason_ = _reason(best, losses, len(y))
            self.fitted_ = create(self.chosen_).fit(logits, y, sample_weight=sample_weight)

    def _summary(self) -> list[list[str]]:
        scores = [[f"log loss of {name}", f"{score:.4f}"] for name, score in self.scores_.items()]
        return [["chosen", self.chosen_], *self.fitted_._summary(), *scores]

    def _fitted_values(self) -> dict[str, Any]:
        return {"chosen": self.chosen_} | super()._fitted_values()

    def _state(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen_,
            "scores": self.scores_,
            "reason": self.reason_,
            "calibrator": self.fitted_.to_dict(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.chosen_, self.reason_ = str(state["chosen"]), str(state["reason"])
        self.scores_ = {str(name): float(score) for name, score in state["scores"].items()}
        self.fitted_ = from_dict(state["calibrator"])


def _reason(chosen: int, losses: LogLosses, n_rows: int) -> str:
    """An explanation of the choice, with the log losses."""
    means, lowest = losses.means, int(np.argmin(losses.means))
    return (
        f"{CANDIDATES[chosen]}: cross-validated log loss {means[chosen]:.4f} on {n_rows:,} rows, the simplest of "
        f"{len(CANDIDATES)} calibrators within {STANDARD_ERRORS:g} standard errors of the lowest log loss "
        f"({means[lowest]:.4f}, {CANDIDATES[lowest]})."
    )
