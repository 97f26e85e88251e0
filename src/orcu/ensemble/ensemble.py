"""A fitted ensemble: weights of its members, calibrator and prediction sets, all from out-of-fold predictions."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from orcu import calibrators, geometry
from orcu.decisions.conformal import CrossConformalSets
from orcu.ensemble.learner import NO_DEADLINE, BaseLearner, CrossFitted, Deadline, Progress, TrainingData
from orcu.ensemble.pool import inverse_temperatures, log_pool, pool_weights
from orcu.errors import CalibrationWarning
from orcu.inputs import FloatArray, IntArray
from orcu.model_selection import Fold, fold_numbers
from orcu.preprocessing import Inputs
from orcu.raters.votes import Targets, weighted_rows

MIN_CALIBRATION_ROWS = 10


@dataclass(frozen=True)
class Ensemble:
    """Cross-fitted members as one classifier.

    Attributes:
        members: members with a positive weight.
        weights: weight of each fitted member, summing to 1; 0 for members that do not help.
        factors: multiplier of each member's log-probabilities: its weight times its inverse temperature.
        logits: out-of-fold logits of the ensemble, (n, C).
        y: labels of these rows, (n,); or shares of their votes, (n, C).
        fold: fold number of these rows, (n,).
        rows: numbers of these rows among those of the fit, (n,): all, or those that a single fold holds out.
        calibrator: calibrator fitted on the out-of-fold logits, or ``None``.
        notes: what the user should know about the fit, such as members that were dropped and why.
    """

    members: list[CrossFitted]
    weights: dict[str, float]
    factors: dict[str, float]
    logits: FloatArray
    y: Targets
    fold: IntArray
    rows: IntArray
    calibrator: Any = None
    notes: tuple[str, ...] = ()

    @property
    def n_folds(self) -> int:
        """Number of folds, K."""
        return int(self.fold.max()) + 1

    def member_log_probs(self, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows by each member and fold, (M, K, n, C)."""
        return np.stack([member.predict_log_proba(inputs) for member in self.members])

    def fold_logits(self, member_log_probs: FloatArray) -> FloatArray:
        """Logits of the ensemble's models of each fold, (K, n, C), from `member_log_probs`."""
        factors = np.array([self.factors[member.name] for member in self.members])
        logits: FloatArray = np.einsum("l,lknc->knc", factors, member_log_probs)
        return logits

    def predict_logits(self, inputs: Inputs) -> FloatArray:
        """Logits before the calibrator, (n, C)."""
        mean: FloatArray = self.fold_logits(self.member_log_probs(inputs)).mean(axis=0)
        return mean

    def calibrate(self, logits: FloatArray) -> FloatArray:
        """Probabilities after the calibrator, (n, C)."""
        return calibrated_probs(self.calibrator, logits)

    @cached_property
    def sets(self) -> CrossConformalSets:
        """CV+ prediction sets, fitted once on the calibrated out-of-fold probabilities; of votes if there are any."""
        return self._fit_sets("vote")

    @cached_property
    def _majority_sets(self) -> CrossConformalSets:
        return self._fit_sets("majority")

    def _fit_sets(self, target: str) -> CrossConformalSets:
        return CrossConformalSets(target=target).fit(self.calibrate(self.logits), self.y, fold=self.fold)

    def predict_sets(self, inputs: Inputs, alpha: float, target: str = "vote") -> tuple[IntArray, IntArray]:
        """The lowest and the highest class of the prediction set of each row; `InputError` if rows are too few.

        ``target`` is that of `orcu.decisions.conformal.OrdinalPredictionSets`, for members fitted on votes.
        """
        sets = copy.copy(self._majority_sets if target == "majority" else self.sets)
        sets.alpha = alpha
        return sets.predict(np.stack([self.calibrate(z) for z in self.fold_logits(self.member_log_probs(inputs))]))

    def summary(self) -> str:
        """Members, weights and calibrator in one or two sentences."""
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items() if weight > 0)
        dropped = [name for name, weight in self.weights.items() if weight == 0]
        text = f"{self.n_folds} folds" if self.n_folds > 1 else f"{len(self.logits):,} held-out rows"
        text += f"; weights {weights}"
        text += f" (weight 0: {', '.join(dropped)})" if dropped else ""
        name = "none." if self.calibrator is None else f"{self.calibrator.name}."
        text += f". Calibrator: {getattr(self.calibrator, 'reason_', '') or name}"
        return " ".join([text, *self.notes])


def fit_ensemble(
    learners: Sequence[BaseLearner],
    data: TrainingData,
    folds: Sequence[Fold],
    *,
    calibrator: Any = "auto",
    sample_weight: FloatArray | None = None,
    groups: Any = None,
    ids: Any = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Ensemble:
    """Cross-fit base learners, weight them and fit one calibrator, all on out-of-fold predictions.

    Each member is first brought to its own best temperature; otherwise overconfident trees would dominate the pool,
    or be dropped from it. Members that have learnt nothing from the columns are dropped unless all are such.

    Args:
        learners: base learners, the most useful first.
        data: all rows.
        folds: cross-fitting folds, from `orcu.model_selection.cross_fit_folds`.
        calibrator: name, chain or calibrator; ``None`` for none.
        sample_weight: weight of each row for the members' weights and the calibrator, or ``None``.
        groups: group of each row, such as its patient, or ``None``.
        ids: id of each row, which the calibrator remembers, or ``None``.
        folder: folder of the model files, or ``None``; models that are there already are read, not fitted.
        progress: see `orcu.ensemble.learner.Progress`.
        time_limit: seconds for the base learners, or ``None``; each gets an equal part of the time that is left, and
            ends with the rounds, epochs or trees that it has by then. No learner but the first is started afterwards.

    Raises:
        InputError: if a file in the folder cannot be read, or a training diverges.

    Warns:
        UserWarning: if a member has learnt nothing from the columns.
    """
    deadline = NO_DEADLINE if time_limit is None else Deadline.after(time_limit)
    fitted: list[CrossFitted] = []
    for index, learner in enumerate(learners):
        if fitted and deadline.is_over():
            break
        part = deadline.share(1 / (len(learners) - index))
        fitted += learner.cross_fit(data, folds, folder=folder, progress=progress, deadline=part)
    used, notes = _without_constant_members(fitted)
    fold = fold_numbers(folds, len(data.y))
    rows = np.flatnonzero(fold >= 0)
    y = data.y[rows]
    if len(rows) < len(data.y):  # a single fold
        sample_weight, groups, ids = (
            None if column is None else np.asarray(column)[rows] for column in (sample_weight, groups, ids)
        )
    log_probs = np.stack([member.log_probs[rows] for member in used])
    case, label, weight = weighted_rows(y, sample_weight)
    row_log_probs = log_probs[:, case]
    inverse_temperature = inverse_temperatures(row_log_probs, label, weight)
    weights = pool_weights(geometry.log_probs(inverse_temperature[:, None, None] * row_log_probs), label, weight)
    names = [member.name for member in used]
    dropped = {member.name: 0.0 for member in fitted}
    by_name = dropped | dict(zip(names, weights.tolist(), strict=True))
    logits = log_pool(log_probs, weights * inverse_temperature)
    return Ensemble(
        members=[member for member in used if by_name[member.name] > 0],
        weights=by_name,
        factors=dropped | dict(zip(names, (weights * inverse_temperature).tolist(), strict=True)),
        logits=logits,
        y=y,
        fold=fold[rows],
        rows=rows,
        calibrator=fit_calibrator(calibrator, logits, y, sample_weight=sample_weight, groups=groups, ids=ids),
        notes=notes,
    )


def _without_constant_members(fitted: list[CrossFitted]) -> tuple[list[CrossFitted], tuple[str, ...]]:
    """The members to pool, and a note on those that have learnt nothing, which is also a warning."""
    constant = [member.name for member in fitted if member.is_constant]
    if not constant:
        return fitted, ()
    others = [member for member in fitted if member.name not in constant]
    effect = "dropped from the ensemble" if others else "the predictions are the class frequencies"
    note = f"{', '.join(constant)}: no column has enough rows with different values for a split; {effect}."
    warnings.warn(note, UserWarning, stacklevel=5)
    return others or fitted, (note,)


def fit_calibrator(
    calibrator: Any,
    logits: FloatArray,
    y: Targets,
    *,
    sample_weight: FloatArray | None = None,
    groups: Any = None,
    ids: Any = None,
) -> Any:
    """Fit a calibrator, given as for `fit_ensemble`, on held-out logits and labels or votes.

    With fewer than 10 rows the probabilities are only made unimodal, with a warning.
    """
    if calibrator is None:
        return None
    if len(y) < MIN_CALIBRATION_ROWS:
        warnings.warn(
            f"{len(y)} rows are left for the calibrator, fewer than {MIN_CALIBRATION_ROWS}: probabilities are made "
            "unimodal but not calibrated. Fit on more rows, or raise calibration_fraction.",
            CalibrationWarning,
            stacklevel=5,
        )
        return calibrators.UnimodalProjection()
    named = isinstance(calibrator, (str, dict))
    unfitted = calibrators.create(calibrator) if named else copy.deepcopy(calibrator)
    options = {"groups": groups, "ids": ids}  # calibrators of other packages need not take them
    given = {name: value for name, value in options.items() if value is not None}
    if y.ndim == 2 and not isinstance(unfitted, calibrators.Calibrator):  # other packages take labels only
        case, y, sample_weight = weighted_rows(y, sample_weight)
        logits, given = logits[case], {name: np.asarray(value)[case] for name, value in given.items()}
    return unfitted.fit(logits, y, sample_weight=sample_weight, **given)


def calibrated_probs(calibrator: Any, logits: FloatArray) -> FloatArray:
    """Probabilities of logits after a calibrator, or without one."""
    probs: FloatArray = geometry.probs(logits) if calibrator is None else calibrator.predict_proba(logits)
    return probs
