"""Calibration of each judge to human grades, and the logarithmic pool of several calibrated judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import Calibrator
from orcu.calibrators.base import from_dict as calibrator_from_dict
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import STANDARD_ERRORS, LogLosses
from orcu.calibrators.groups import GroupAdjustment
from orcu.ensemble.pool import pool_weights
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray
from orcu.judges.grades import VOTES, Grades
from orcu.judges.votes import fit_prior, human_grades_by_vote, smooth_votes
from orcu.model_selection import Fold, fold_numbers

MIN_ITEMS = 10  # items with a human grade; with fewer no fold has two

LogProbs = Mapping[str, FloatArray]  # log-probabilities by judge, NaN where the judge did not rate the item


@dataclass(frozen=True)
class HumanRows:
    """Human grades in long format: one row per item and grade."""

    item: IntArray  # index of the item
    grade: IntArray  # 0..C-1
    share: FloatArray  # share of the grade among the human grades of the item, so that items count equally
    cluster: IntArray | None  # cluster index of each item

    @classmethod
    def of(cls, grades: Grades) -> "HumanRows":
        """The human grades of all items."""
        item, grade = np.nonzero(grades.human > 0)
        cluster = None if grades.cluster is None else grades.cluster_codes()
        return cls(item, grade, grades.human[item, grade], cluster)

    def __getitem__(self, rows: Any) -> "HumanRows":
        return replace(self, item=self.item[rows], grade=self.grade[rows], share=self.share[rows])

    @property
    def groups(self) -> IntArray | None:
        """Group of each row for cross-validation: the cluster, or the item if an item has several rows."""
        if self.cluster is not None:
            return self.cluster[self.item]
        return None if len(np.unique(self.item)) == len(self.item) else self.item

    def log_losses(self, *candidates: FloatArray) -> LogLosses:
        """Log losses of candidates, each with log-probabilities of the items, shape (n, C)."""
        losses = -np.stack([log_probs[self.item, self.grade] for log_probs in candidates])
        return LogLosses(losses, self.share / self.share.sum(), self.groups)


@dataclass(frozen=True)
class CalibratedJudge:
    """A judge with the prior that smooths its votes and a calibrator fitted to human grades."""

    # Dirichlet prior of votes, shape (C,); for single votes the human grades by vote, (C, C); None for probabilities
    prior: FloatArray | None
    calibrator: Calibrator

    def log_probs(self, ratings: FloatArray) -> FloatArray:
        """Calibrated log-probabilities of rated items, shape (n, C)."""
        probs = ratings
        if self.prior is not None and self.prior.ndim == 1:
            probs = smooth_votes(ratings, self.prior)
        elif self.prior is not None:
            probs = ratings @ self.prior / ratings.sum(1, keepdims=True)
        return geometry.log_probs(self.calibrator.predict_logits(probs=probs))

    @property
    def description(self) -> str:
        """Choice of the calibrator, in a sentence."""
        if self.prior is not None and self.prior.ndim == 2:
            return "human grades by the judge's single grade."
        return str(getattr(self.calibrator, "reason_", f"{self.calibrator.name}."))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        prior = None if self.prior is None else self.prior.tolist()
        return {"prior": prior, "calibrator": self.calibrator.to_dict()}

    @classmethod
    def from_state(cls, state: Any, kind: str, num_classes: int) -> "CalibratedJudge":
        """Restore a judge of C classes from its validated schema.

        Raises:
            InputError: if the data are damaged.
        """
        calibrator = calibrator_from_dict(state.calibrator)
        prior = None if state.prior is None else np.array(state.prior, dtype=np.float64)
        shape = () if prior is None else prior.shape
        is_valid = kind == VOTES and shape in ((num_classes,), (num_classes, num_classes)) if shape else kind != VOTES
        if prior is not None and prior.ndim == 2:
            is_valid = is_valid and bool(np.allclose(prior.sum(axis=1), 1))
        if not is_valid or getattr(calibrator, "num_classes_", num_classes) != num_classes:
            raise InputError(f"a judge's prior or calibrator is not one of {num_classes} grades")
        return cls(prior, calibrator)


@dataclass(frozen=True)
class JudgePool:
    """Logarithmic pool of calibrated judges, followed by a calibrator and an adjustment per subgroup."""

    weights: dict[str, float]  # by judge, sum 1
    calibrator: Calibrator | None = None  # None for a single judge
    adjustment: GroupAdjustment = field(default_factory=GroupAdjustment)

    def logits(self, log_probs: LogProbs, subgroup: ObjectArray | None) -> FloatArray:
        """Logits of the pool, shape (n, C)."""
        z = self.mean_log_probs(log_probs)
        if self.calibrator is not None:
            z = self.calibrator.predict_logits(z)
        return self.adjustment.apply(z, subgroup) if self.adjustment and subgroup is not None else z

    def mean_log_probs(self, log_probs: LogProbs) -> FloatArray:
        """Weighted mean of the log-probabilities of the judges that rated an item, shape (n, C)."""
        total: Any = 0.0
        mass: Any = 0.0
        for judge, weight in self.weights.items():
            if weight > 0:
                is_rated = ~np.isnan(log_probs[judge][:, :1])
                total = total + weight * np.where(is_rated, log_probs[judge], 0.0)
                mass = mass + weight * is_rated
        return np.asarray(total / mass, dtype=np.float64)


def fit_judges(grades: Grades, calibrator: str) -> dict[str, CalibratedJudge]:
    """Fit each judge's calibrator on the items that it rated and people graded."""
    judges, human_rows = {}, HumanRows.of(grades)
    for judge in grades.judges:
        rated = grades[grades.rated_mask(judge)]
        has_single_votes = grades.kind == VOTES and bool((rated.ratings[judge].sum(axis=1) == 1).all())
        if has_single_votes and calibrator == "auto":
            by_vote = human_grades_by_vote(rated.ratings[judge], rated.human)
            judges[judge] = CalibratedJudge(by_vote, create("projection"))
            continue
        rows = human_rows[grades.rated_mask(judge)[human_rows.item]]
        if len(np.unique(rows.grade)) < 2:
            raise InputError(
                f"{judge}: all human grades of the items that it rated are equal; grade more of its items."
            )
        prior = fit_prior(rated.ratings[judge]) if grades.kind == VOTES else None
        ratings = grades.ratings[judge][rows.item]
        fitted = create(calibrator).fit(
            probs=ratings if prior is None else smooth_votes(ratings, prior),
            y=rows.grade,
            sample_weight=rows.share,
            groups=rows.groups,
        )
        judges[judge] = CalibratedJudge(prior, fitted)
    return judges


def predict_log_probs(judges: Mapping[str, CalibratedJudge], grades: Grades) -> dict[str, FloatArray]:
    """Calibrated log-probabilities by judge, shape (n, C); NaN where the judge did not rate the item."""
    log_probs = {}
    for judge, calibrated in judges.items():
        is_rated = grades.rated_mask(judge)
        log_probs[judge] = np.full(grades.human.shape, np.nan)
        if is_rated.any():
            log_probs[judge][is_rated] = calibrated.log_probs(grades.ratings[judge][is_rated])
    return log_probs


def out_of_fold_log_probs(
    fold_judges: Sequence[Mapping[str, CalibratedJudge]], grades: Grades, folds: Sequence[Fold]
) -> dict[str, FloatArray]:
    """Log-probabilities by judge, each item by the calibrator that was not fitted on it."""
    log_probs = {judge: np.full(grades.human.shape, np.nan) for judge in grades.judges}
    for judges, fold in zip(fold_judges, folds, strict=True):
        for judge, values in predict_log_probs(judges, grades[fold.test]).items():
            log_probs[judge][fold.test] = values
    return log_probs


def choose_averaging(
    grades: Grades, folds: Sequence[Fold], calibrator: str
) -> tuple[Grades, list[dict[str, CalibratedJudge]]]:
    """Choose between averaging the judges before calibration and calibrating each, by out-of-fold log loss.

    Averaging is preferred within half a standard error. The pool of separate judges is fitted on the other folds too.

    Returns:
        The grades to calibrate (averaged or unchanged), and the calibrated judges of each fold.
    """

    def fit_folds(grades: Grades) -> list[dict[str, CalibratedJudge]]:
        return [fit_judges(grades[fold.train], calibrator) for fold in folds]

    if len(grades.judges) == 1:
        return grades, fit_folds(grades)
    averaged = grades.average_judges()
    averaged_judges = fit_folds(averaged)
    is_complete = grades.all_rated(grades.judges)
    if min(is_complete[fold.train].sum() for fold in folds) < MIN_ITEMS:
        return averaged, averaged_judges  # too few items to fit the weights of the judges
    separate_judges = fit_folds(grades)
    fold_of_item = fold_numbers(folds, len(grades))
    log_probs = out_of_fold_log_probs(separate_judges, grades, folds)
    (averaged_logs,) = out_of_fold_log_probs(averaged_judges, averaged, folds).values()
    pooled_logs = averaged_logs.copy()  # stays for items that only judges without weight rated
    ungrouped = replace(grades, subgroup=None)
    for fold in folds:
        weights = fit_weights(ungrouped[fold.train], select_rows(log_probs, fold.train), fold_of_item[fold.train])
        is_rated = grades.any_rated(judge for judge, weight in weights.items() if weight > 0)
        train, test = (rows[is_rated[rows]] for rows in (fold.train, fold.test))
        pool = fit_pool(ungrouped[train], weights, select_rows(log_probs, train), fold_of_item[train])
        pooled_logs[test] = geometry.log_probs(pool.logits(select_rows(log_probs, test), None))
    is_pool_better = HumanRows.of(grades).log_losses(averaged_logs, pooled_logs).simplest(STANDARD_ERRORS)
    return (grades, separate_judges) if is_pool_better else (averaged, averaged_judges)


def select_rows(log_probs: LogProbs, rows: Any) -> dict[str, FloatArray]:
    """Some rows of the log-probabilities of each judge."""
    return {judge: values[rows] for judge, values in log_probs.items()}


def fit_weights(grades: Grades, log_probs: LogProbs, fold: IntArray) -> dict[str, float]:
    """Weights of the judges in a pool, from out-of-fold log-probabilities; they sum to 1.

    A judge whose log loss is not lower than that of the human grade frequencies has weight 0.
    """
    if len(log_probs) == 1:
        return dict.fromkeys(log_probs, 1.0)
    human_rows = HumanRows.of(grades)
    counts = np.stack([grades.human[fold != k].sum(axis=0) for k in range(int(fold.max()) + 1)]) + 0.5
    frequencies = np.log(counts / counts.sum(axis=1, keepdims=True))[fold]
    losses = {}
    for judge, logs in log_probs.items():
        rows = human_rows[~np.isnan(logs[human_rows.item, 0])]
        losses[judge] = rows.log_losses(frequencies, logs)
    helpful = [judge for judge, loss in losses.items() if loss.simplest(STANDARD_ERRORS)]
    helpful = helpful or [min(losses, key=lambda judge: float(losses[judge].means[1]))]
    weights = np.ones(1)
    if len(helpful) > 1:
        is_complete = ~np.any([np.isnan(log_probs[judge][:, 0]) for judge in helpful], axis=0)
        rows = human_rows[is_complete[human_rows.item]]
        weights = pool_weights(np.stack([log_probs[judge][rows.item] for judge in helpful]), rows.grade, rows.share)
    return dict.fromkeys(log_probs, 0.0) | dict(zip(helpful, weights.tolist(), strict=True))


def fit_pool(grades: Grades, weights: dict[str, float], log_probs: LogProbs, fold: IntArray) -> JudgePool:
    """Fit the calibrator of a pool and the adjustments of the subgroups from out-of-fold log-probabilities."""
    rows, pool = HumanRows.of(grades), JudgePool(weights)
    if len(weights) > 1:
        mean = pool.mean_log_probs(log_probs)[rows.item]
        calibrator = create("auto").fit(mean, rows.grade, sample_weight=rows.share, groups=rows.groups)
        pool = JudgePool(weights, calibrator)
    if grades.subgroup is None:
        return pool
    logits, subgroup = pool.logits(log_probs, None)[rows.item], grades.subgroup[rows.item]
    adjustment = GroupAdjustment.fit(logits, rows.grade, rows.share, subgroup, fold=fold[rows.item], groups=rows.groups)
    return replace(pool, adjustment=adjustment)
