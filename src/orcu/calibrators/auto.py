"""Automatic calibration: an average of calibrators with weights from cross-validation."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.calibrators.base import (
    CALIBRATORS,
    MAX_PARAMETER,
    Calibrator,
    clone,
    from_dict,
    restored_number,
    warn,
    warn_of_absent_classes,
)
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import cross_val_log_losses
from orcu.calibrators.dirichlet import DirichletCalibration
from orcu.calibrators.gap import GapScaling
from orcu.calibrators.linear_map import VectorScaling
from orcu.calibrators.projection import finite_log, nearest_unimodal
from orcu.calibrators.temperature import TemperatureScaling
from orcu.errors import CalibrationWarning
from orcu.inputs import FloatArray, IntArray

# From the simplest to the most flexible. The Dirichlet map is shrunk less than by default: the average shrinks it
# towards the simpler maps, as much as the rows require.
CANDIDATES: dict[str, Calibrator] = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "gap": GapScaling(),
    "dirichlet": DirichletCalibration(shrinkage=1 / 64),
}
FALLBACK = "temperature"
MIN_ROWS = 10  # with fewer rows the fallback is used


@CALIBRATORS.register("auto")
class AutoCalibration(Calibrator):
    """An average of four calibrators, with weights by cross-validation, followed by the projection.

    The calibrators are temperature scaling, vector scaling, gap scaling and a Dirichlet map. Their probabilities are
    averaged with the weights that minimise the log loss of five-fold cross-validation. The average is projected on the
    unimodal distributions. With fewer than ten rows it is temperature scaling. With ``groups``, rows of a cluster stay
    in one fold.

    Fitted attributes are ``weights_`` (weight of each calibrator), ``scores_`` (cross-validated mean log loss of each
    calibrator alone), ``reason_`` (explanation of the weights) and ``calibrators_`` (the fitted calibrators).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(400, 1))) ** 2)
        >>> y = (rng.random((400, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> AutoCalibration().fit(4 * z, y)
        AutoCalibration(weights={'temperature': 0.46, 'vector': 0.28, 'gap': 0.26, 'dirichlet': 0.0}, n_rows=400)
    """

    name = "auto"
    expands_votes = False  # the averaged calibrators do
    frequency_weights = False  # the averaged calibrators shrink
    weights_: dict[str, float]
    scores_: dict[str, float]
    reason_: str
    calibrators_: dict[str, Calibrator]

    @property
    def chosen_(self) -> str:
        """Name of the calibrator with the largest weight."""
        self._check_is_fitted()
        return max(self.weights_, key=self.weights_.__getitem__)

    def n_parameters(self, num_classes: int) -> int:
        """At least one: the weights."""
        return 1

    def _shrinks(self) -> bool:
        return False  # the averaged calibrators do

    def _check_rows(self, logits: FloatArray, y: IntArray) -> None:
        if len(logits) < MIN_ROWS:
            warn(f"auto: {len(logits)} rows are too few to compare calibrators (minimum {MIN_ROWS}); using {FALLBACK}.")
        warn_of_absent_classes(self.name, y, logits.shape[1])

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        def fit(name: str, rows: Any) -> Calibrator:
            return clone(CANDIDATES[name]).fit(logits[rows], y[rows], sample_weight=sample_weight[rows])

        def log_probs(train: npt.NDArray[np.intp], test: npt.NDArray[np.intp]) -> list[FloatArray]:
            return [geometry.log_probs(fit(name, train).predict_logits(logits[test])) for name in CANDIDATES]

        with warnings.catch_warnings():
            # Candidates warn of few rows for their parameters, which the cross-validation accounts for.
            warnings.simplefilter("ignore", CalibrationWarning)
            if len(y) < MIN_ROWS:
                self.weights_, self.scores_ = {FALLBACK: 1.0}, {}
                self.reason_ = f"{FALLBACK}: {len(y)} rows are too few to compare calibrators (minimum {MIN_ROWS})."
            else:
                losses = cross_val_log_losses(y, sample_weight, log_probs, groups=groups)
                self.weights_ = dict(zip(CANDIDATES, losses.average_weights().tolist(), strict=True))
                self.scores_ = dict(zip(CANDIDATES, losses.means.tolist(), strict=True))
                self.reason_ = self._reason(len(y))
            self.calibrators_ = {name: fit(name, slice(None)) for name in self.weights_}

    def _reason(self, n_rows: int) -> str:
        """An explanation of the weights, with the log losses."""
        terms = [f"{weight:.2f} {name} ({self.scores_[name]:.4f})" for name, weight in self.weights_.items()]
        return (
            f"{' + '.join(terms)}, then projection: the average of lowest cross-validated log loss on {n_rows:,} rows; "
            "in brackets the log loss of each calibrator alone."
        )

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        terms = [weight * self.calibrators_[name].predict_proba(logits) for name, weight in self.weights_.items()]
        return nearest_unimodal(np.sum(terms, axis=0))

    def _transform(self, logits: FloatArray) -> FloatArray:
        return finite_log(self._transform_probs(logits))

    def _summary(self) -> list[list[str]]:
        weights = [[f"weight of {name}", f"{weight:.4f}"] for name, weight in self.weights_.items()]
        scores = [[f"log loss of {name}", f"{score:.4f}"] for name, score in self.scores_.items()]
        return [*weights, *scores]

    def _fitted_values(self) -> dict[str, Any]:
        weights = {name: round(weight, 2) for name, weight in self.weights_.items()}
        return {"weights": weights, "n_rows": self.fitted_on_.count}

    def _state(self) -> dict[str, Any]:
        return {
            "weights": self.weights_,
            "scores": self.scores_,
            "reason": self.reason_,
            "calibrators": {name: calibrator.to_dict() for name, calibrator in self.calibrators_.items()},
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        if "chosen" in state:  # written by 0.2, which chose one calibrator
            chosen = str(state["chosen"])
            state = {**state, "weights": {chosen: 1.0}, "calibrators": {chosen: state["calibrator"]}}
        self.reason_ = str(state["reason"])
        self.scores_ = {
            name: restored_number(score, name=f"scores.{name}", low=0, high=MAX_PARAMETER)
            for name, score in state["scores"].items()
        }
        self.weights_ = {
            name: restored_number(weight, name=f"weights.{name}", low=0, high=1)
            for name, weight in state["weights"].items()
        }
        if not np.isclose(sum(self.weights_.values()), 1, rtol=0, atol=1e-9):
            raise ValueError("weights: expected a sum of 1")
        if set(self.weights_) != set(state["calibrators"]):
            raise ValueError("calibrators: expected one for each of the weights")
        self.calibrators_ = {name: from_dict(state["calibrators"][name]) for name in self.weights_}
        for name, calibrator in self.calibrators_.items():
            if calibrator.name != create(name).name:
                raise ValueError(f"calibrators.{name}: is a {calibrator.name} calibrator")
