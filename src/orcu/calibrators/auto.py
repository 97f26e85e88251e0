"""The calibrator that chooses itself: by the likelihood of rows it was not fitted on."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, from_dict, warn
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import LogScores, cross_validated
from orcu.errors import CalibrationWarning
from orcu.inputs import FloatArray, IntArray

# From the simplest to the freest; the first leaves the model as it is, but for its shape.
CANDIDATES = (
    "projection",
    "temperature+projection",
    "gap+projection",
    "ordinal_dirichlet+projection",
    "dirichlet+projection",
)
FALLBACK = "temperature+projection"
FEWEST_ROWS = 10  # with fewer nothing can be compared
# Deviation: one standard error is the custom. Every candidate shrinks by itself, so the freer ones are tame on few
# rows, and a whole error is up to 1.4 % of RPS behind the best of them (benchmarks/auto.py).
ERRORS = 0.5


@CALIBRATORS.register("auto")
class AutoCalibration(Calibrator):
    """The simplest of five maps whose cross-validated log score is not clearly behind the best one's.

    Candidates are none, temperature, gap, ordinal Dirichlet and Dirichlet, each followed by the projection. Each is
    fitted on four fifths of the rows and scored on the fifth, in turn; the first in this order that is at most half a
    standard error behind the best is fitted on all rows. With fewer than ten rows it is the temperature. Of rows with
    subjects the fifths are of subjects, and so is the error.

    After the fit ``chosen_`` is its name, ``scores_`` the mean log loss of each candidate, ``reason_`` a sentence.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(400, 1))) ** 2)
        >>> y = (rng.random((400, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> AutoCalibration().fit(4 * z, y).chosen_
        'temperature+projection'
    """

    name = "auto"
    weight_repeats = False  # its candidates shrink by themselves
    chosen_: str
    scores_: dict[str, float]
    reason_: str
    fitted_: Calibrator

    def parameters(self, num_classes: int) -> int:
        """At least the choice."""
        return 1

    def _is_as_published(self) -> bool:
        return True  # the chosen one spreads its own share

    def _check(self, logits: FloatArray, y: IntArray) -> None:
        """Warn of what the choice cannot weigh: very few rows, and classes that none of them has."""
        if len(y) < FEWEST_ROWS:
            warn(f"auto: {len(y)} rows are too few to compare calibrators; it is {FALLBACK}.")
        absent = np.flatnonzero(np.bincount(y, minlength=logits.shape[1]) == 0)
        if len(absent):
            warn(f"auto: no row has class {', '.join(map(str, absent))}; nothing is learned about it.")

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        if len(y) < FEWEST_ROWS:
            self.chosen_, self.scores_ = FALLBACK, {}
            self.reason_ = f"{FALLBACK}: {len(y)} rows are too few to compare calibrators."
        else:
            scores = self._scores(logits, y, weight)
            best = scores.simplest(ERRORS)
            self.chosen_ = CANDIDATES[best]
            self.scores_ = dict(zip(CANDIDATES, scores.means.tolist(), strict=True))
            self.reason_ = _reason(best, scores, len(y))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", CalibrationWarning
            )  # few rows for its parameters: held-out rows have judged
            self.fitted_ = create(self.chosen_).fit(logits, y, weight=weight)

    def _scores(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> LogScores:
        def log_probs(fit: npt.NDArray[np.intp], judge: npt.NDArray[np.intp]) -> list[FloatArray]:
            fitted = (create(name).fit(logits[fit], y[fit], weight=weight[fit]) for name in CANDIDATES)
            return [geometry.log_probs(one.predict_logits(logits[judge])) for one in fitted]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # folds are small
            return cross_validated(y, weight, log_probs, subject=self._subject)

    def _transform(self, logits: FloatArray) -> FloatArray:
        moved: FloatArray = self.fitted_.predict_logits(logits)
        return moved

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        probs: FloatArray = self.fitted_.predict_proba(logits)
        return probs

    def _learned(self) -> list[list[str]]:
        scores = [[f"log loss of {name}", f"{score:.4f}"] for name, score in self.scores_.items()]
        return [["chosen", self.chosen_], *self.fitted_._learned(), *scores]

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


def _reason(best: int, scores: LogScores, rows: int) -> str:
    """Why this one, in a sentence."""
    lowest = int(np.argmin(scores.means))
    second = min((k for k in range(len(CANDIDATES)) if k != best), key=lambda k: float(scores.means[k]))
    text = f"{CANDIDATES[best]}: log loss {scores.means[best]:.4f} on held-out fifths of {rows:,} rows"
    if lowest == best:
        return (
            f"{text}, the lowest of {len(CANDIDATES)} ({CANDIDATES[second]} is next with {scores.means[second]:.4f})."
        )
    return (
        f"{text}, the simplest within {ERRORS:g} standard errors of the lowest, {CANDIDATES[lowest]} with "
        f"{scores.means[lowest]:.4f}."
    )
