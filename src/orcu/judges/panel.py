"""Panel of judges calibrated to human grades, with prediction sets and escalation to people.

Every step is fitted on out-of-fold predictions of the previous steps.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.calibrators.base import from_dict as calibrator_from_dict
from orcu.calibrators.groups import GroupAdjustment
from orcu.calibrators.projection import nearest_unimodal
from orcu.decisions.conformal import CrossConformalSets, OrdinalPredictionSets
from orcu.decisions.coverage import CoverageReport, measure_coverage
from orcu.decisions.rules import decide_checked
from orcu.errors import CalibrationWarning, InputError, first_line
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_count, as_fraction, as_probs
from orcu.io.extending import write_extended
from orcu.io.files import check_digest, read_json, with_digest, write_json
from orcu.io.reading import TableFile
from orcu.judges.escalation import error_probability, escalation_note, escalation_threshold
from orcu.judges.grades import PROBS, VOTES, Grades
from orcu.judges.levels import GradeLevels
from orcu.judges.missingness import missingness_message
from orcu.judges.pool import (
    MIN_ITEMS,
    CalibratedJudge,
    JudgePool,
    choose_averaging,
    fit_judges,
    fit_pool,
    fit_weights,
    out_of_fold_log_probs,
    predict_log_probs,
)
from orcu.judges.reading import item_names
from orcu.model_selection import Fold, cross_fit_folds, fold_numbers

STATE_VERSION = 1
# Keys of the JSON file that hold an attribute unchanged
STATE_ATTRIBUTES = {key: f"{key}_" for key in ("kind", "notes", "judges", "averaged", "items", "cluster")}
STATE_ATTRIBUTES |= {"calibrator": "calibrator", "seed": "random_state", "rows": "n_items_", "groups": "subgroups_"}
MIN_Z_SCORE = 3.0  # standard errors from which a negative correlation is not chance
KINDS = {PROBS: "probabilities", VOTES: "votes or single grades"}


@dataclass(frozen=True, repr=False)
class PanelPredictions:
    """Predictions of a panel.

    Attributes:
        levels: grade levels.
        items: item names, shape (n,).
        probs: calibrated unimodal distributions, shape (n, C).
        decision: grade 0..C-1 by the decision rule, shape (n,).
        low: lowest grade of the prediction set, shape (n,).
        high: highest grade of the prediction set, shape (n,).
        escalate: whether a person should check the item, shape (n,); ``None`` without ``max_error``.
        notes: remarks about the data and the predictions.
    """

    levels: GradeLevels
    items: ObjectArray
    probs: FloatArray
    decision: IntArray
    low: IntArray
    high: IntArray
    escalate: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        escalated = "" if self.escalate is None else f", escalated={int(self.escalate.sum())}"
        return f"PanelPredictions(items={len(self.items)}, levels='{self.levels}'{escalated})"

    @property
    def expected_grade(self) -> FloatArray:
        """Expected grade in the values of the levels, shape (n,)."""
        return self.probs @ self.levels.values

    def to_arrow(self) -> Any:
        """Pyarrow table: item, p_GRADE, expected, decision, confidence, set_low, set_high, escalate."""
        import pyarrow

        return pyarrow.table({"item": self.items.tolist(), **self._columns("p_")})

    def write_back(self, file: TableFile, item: str | None, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the table that was judged with all its rows and columns, and the results of each row's item.

        The new columns are calibrated_GRADE, expected, decision, confidence, set_low, set_high and escalate. They are
        empty in rows whose item has no rating.

        Args:
            file: the table, opened by `orcu.io.reading.open_table`.
            item: column of the items; by default each row is an item.
            path: file to write.
            options: options of `orcu.io.extending.write_extended`.

        Raises:
            InputError: if the table has a column of such a name.
        """
        row_of_item = {name: row for row, name in enumerate(self.items.tolist())}
        rows = [row_of_item.get(name, -1) for name in item_names(file, item)]

        def by_row(values: Any) -> list[Any]:
            entries = np.asarray(values).tolist()
            return [None if row < 0 else entries[row] for row in rows]

        columns = {name: by_row(values) for name, values in self._columns("calibrated_").items()}
        write_extended([file], path, add=columns, **options)

    def _columns(self, prefix: str) -> dict[str, Any]:
        names = np.array(self.levels.names, dtype=object)
        columns: dict[str, Any] = {f"{prefix}{name}": self.probs[:, k] for k, name in enumerate(self.levels.names)}
        columns |= {
            "expected": self.expected_grade,
            "decision": names[self.decision].tolist(),
            "confidence": self.probs[np.arange(len(self.probs)), self.decision],
            "set_low": names[self.low].tolist(),
            "set_high": names[self.high].tolist(),
        }
        return columns if self.escalate is None else columns | {"escalate": self.escalate}


class JudgePanel:
    """Judges calibrated to human grades.

    1. Votes are smoothed by a Dirichlet prior fitted to the judge's votes (`orcu.judges.votes`). If each item has one
       vote and the calibrator is "auto", the distribution is that of the human grades given the vote.
    2. A calibrator is fitted to each judge on the items with human grades. An item with several human grades counts
       with each of them.
    3. Several judges are averaged before calibration, which is best with few human grades. If it has the better
       log loss on held-out items, each judge is calibrated instead and the judges are pooled: a mean of
       log-probabilities with weights fitted to out-of-fold predictions and shrunk towards equal weights, followed by
       another calibrator.
    4. Each subgroup has an adjustment (inverse temperature and shift), shrunk towards none; its strength, and whether
       it is used, is chosen by cross-validated log loss.
    5. Each distribution is projected to the nearest unimodal one.

    Prediction sets use the same folds (CV+, `orcu.decisions.conformal.CrossConformalSets`).

    Args:
        calibrator: name of the calibrator, as for `orcu.calibrators.create`.
        cv: number of folds; the items of a cluster stay together.
        random_state: seed of the folds.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(5, size=300)
        >>> logits = -((np.arange(5) - truth[:, None] - rng.normal(size=(300, 1))) ** 2)
        >>> grades = Grades.from_arrays("1..5", {"gpt": geometry.probs(4 * logits)}, human=truth + 1)
        >>> panel = JudgePanel().fit(grades)
        >>> predictions = panel.apply(grades, rule="median")
        >>> predictions.probs.shape, bool(predictions.probs.max(axis=1).mean() < 0.8)
        ((300, 5), True)
    """

    levels_: GradeLevels
    calibrated_judges_: dict[str, CalibratedJudge]
    pool_: JudgePool
    notes_: list[str]

    def __init__(self, *, calibrator: str = "auto", cv: int = 5, random_state: int = 0) -> None:
        self.calibrator = calibrator
        self.cv = cv
        self.random_state = random_state

    def __repr__(self) -> str:
        options = f"calibrator={self.calibrator!r}, cv={self.cv}, random_state={self.random_state}"
        if not hasattr(self, "pool_"):
            return f"JudgePanel({options})"
        return f"JudgePanel({options}, judges={self.required_judges}, levels='{self.levels_}')"

    def __str__(self) -> str:
        if not hasattr(self, "pool_"):
            return repr(self)
        return "\n".join([repr(self), *getattr(self, "notes_", ()), self.summary()])

    @property
    def required_judges(self) -> list[str]:
        """Judges whose ratings are needed for predictions; judges of weight 0 are not."""
        self._check_is_fitted()
        return self.judges_ if self.averaged_ else list(self.calibrated_judges_)

    def fit(self, grades: Grades) -> "JudgePanel":
        """Fit the panel on the items with human grades.

        Raises:
            InputError: if there are too few human grades, or all are equal.

        Warns:
            CalibrationWarning: if a judge always gives the same rating, its ratings fall as human grades rise, a
                level has no human grades, or the items with human grades differ from the others
                (`orcu.judges.missingness`).
        """
        graded = select_graded(grades)
        _warn_about(graded, missingness_message(grades))
        self.levels_, self.kind_, self.judges_ = graded.levels, graded.kind, graded.judges
        self.n_items_ = len(graded)
        self.notes_ = [f"fitted on {int(graded.n_raters.sum()):,} human grades of {len(graded):,} items"]
        self.notes_ += [
            f"{judge}: negative correlation with the human grades"
            for judge in graded.judges
            if is_inverted(graded, judge)
        ]
        self.subgroups_ = [] if graded.subgroup is None else sorted(set(graded.subgroup.tolist()))
        folds = _split(graded, self.cv, self.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # expected in small folds
            graded, self.fold_judges_ = choose_averaging(graded, folds, self.calibrator)
            self.averaged_ = graded.judges != self.judges_
            self.calibrated_judges_ = fit_judges(graded, self.calibrator)
            self._fit_out_of_fold(graded, folds)
        return self

    def _fit_out_of_fold(self, graded: Grades, folds: Sequence[Fold]) -> None:
        """Fit pool, subgroup adjustments and prediction sets to out-of-fold predictions."""
        fold = fold_numbers(folds, len(graded))
        log_probs = out_of_fold_log_probs(self.fold_judges_, graded, folds)
        weights = fit_weights(graded, log_probs, fold)
        helpful = [judge for judge, weight in weights.items() if weight > 0]
        self.calibrated_judges_ = {judge: self.calibrated_judges_[judge] for judge in helpful}
        self.fold_judges_ = [{judge: judges[judge] for judge in helpful} for judges in self.fold_judges_]
        is_rated = graded.any_rated(helpful)
        graded, fold = graded[is_rated], fold[is_rated]
        log_probs = {judge: log_probs[judge][is_rated] for judge in helpful}
        self.pool_ = fit_pool(graded, weights, log_probs, fold)
        self.items_ = graded.items.tolist()
        self.cluster_ = None if graded.cluster is None else graded.cluster.tolist()
        probs = nearest_unimodal(geometry.probs(self.pool_.logits(log_probs, graded.subgroup)))
        # One human grade per item is drawn: then items are exchangeable whatever the number of their raters.
        self._set_out_of_fold(probs, _draw_grades(graded, self.random_state), fold)

    def _set_out_of_fold(self, probs: FloatArray, grades: IntArray, fold: IntArray) -> None:
        self.oof_probs_, self.oof_grades_, self.fold_ = as_probs(probs), grades, fold

    def predict_proba(self, grades: Grades) -> FloatArray:
        """Calibrated unimodal distributions, shape (n, C).

        Raises:
            InputError: if the levels or the kind of ratings differ from those of the fit, or a judge is missing.
        """
        checked = self._check(grades)
        return self._predict(self.calibrated_judges_, checked)

    def predict_proba_out_of_fold(self, grades: Grades) -> FloatArray:
        """`predict_proba`, where calibrators have not seen the human grades of the item or its cluster.

        Items of the fit have their out-of-fold predictions, other items of a cluster of the fit the predictions of
        the fold without it, and all others the mean over the folds.

        Raises:
            InputError: as for `predict_proba`.
        """
        self._check_is_fitted("oof_probs_")
        checked = self._check(grades)
        by_fold = np.stack([self._predict(judges, checked) for judges in self.fold_judges_])
        probs: FloatArray = by_fold.mean(axis=0)
        row_of_item = {item: row for row, item in enumerate(self.items_)}
        fold_of_cluster = {} if self.cluster_ is None else dict(zip(self.cluster_, self.fold_.tolist(), strict=True))
        clusters = [None] * len(checked) if checked.cluster is None else checked.cluster.tolist()
        for row, (item, cluster) in enumerate(zip(checked.items.tolist(), clusters, strict=True)):
            if item in row_of_item:
                probs[row] = self.oof_probs_[row_of_item[item]]
            elif cluster in fold_of_cluster:
                probs[row] = by_fold[fold_of_cluster[cluster], row]
        return probs

    def apply(
        self,
        grades: Grades,
        *,
        rule: Any = "argmax",
        alpha: float = 0.1,
        class_conditional: bool = False,
        max_error: float | None = None,
        within: int = 0,
    ) -> PanelPredictions:
        """Predict distribution, decision, prediction set and escalation of each item.

        Args:
            grades: ratings of the judges.
            rule: decision rule: "argmax", "median", "mean" (rounded), or a cost matrix (C, C), rows the true grade.
            alpha: share of items whose set may miss the human grade.
            class_conditional: whether the share holds for the items of each human grade, and not only on average.
            max_error: largest share of wrong decisions among the items that are not escalated; ``None`` for no
                escalation. The promise holds with 90 % confidence (see `orcu.judges.escalation`).
            within: number of levels by which a decision may be off and still be right.

        Raises:
            InputError: if an argument is invalid, or as for `predict_proba`.
        """
        self._check_is_fitted("oof_probs_")
        checked = self._check(grades)
        probs = self._predict(self.calibrated_judges_, checked)
        decision = decide_checked(probs, rule)
        low, high, notes = self._predict_sets(checked, as_fraction(alpha, name="alpha"), class_conditional)
        escalate = None
        if max_error is not None:
            threshold = self.escalation_threshold(max_error=max_error, within=within, rule=rule)
            escalate = error_probability(probs, decision, within) > threshold
            notes.append(escalation_note(escalate, max_error, within, threshold))
        unknown = [] if checked.subgroup is None else sorted(set(checked.subgroup.tolist()) - set(self.subgroups_))
        if self.pool_.adjustment and unknown:
            notes.append(f"subgroups without human grades have no adjustment: {', '.join(unknown[:5])}")
        notes = [*grades.notes, *notes]
        return PanelPredictions(self.levels_, checked.items, probs, decision, low, high, escalate, tuple(notes))

    def _predict_sets(
        self, grades: Grades, alpha: float, class_conditional: bool
    ) -> tuple[IntArray, IntArray, list[str]]:
        """Lowest and highest grade of each set, and notes."""
        sets = CrossConformalSets(alpha=alpha, class_conditional=class_conditional)
        sets.fit(self.oof_probs_, self.oof_grades_, fold=self.fold_, groups=self.cluster_)
        unlimited = sets.unlimited_classes()
        if len(unlimited) == len(self.levels_):
            low = np.zeros(len(grades), dtype=np.int64)
            few = f"{len(self.oof_grades_)} items" if self.cluster_ is None else f"{len(set(self.cluster_))} clusters"
            note = f"{few} with human grades are too few for alpha = {alpha:g}: the sets contain all levels"
            return low, low + len(self.levels_) - 1, [note]
        counts = np.bincount(self.oof_grades_, minlength=len(self.levels_))
        listed = ", ".join(f"{self.levels_.names[k]} ({counts[k]:,} items)" for k in unlimited)
        notes = [f"grades with too few items for alpha = {alpha:g} are in every set: {listed}"] if unlimited else []
        return *sets.predict(np.stack([self._predict(judges, grades) for judges in self.fold_judges_])), notes

    def set_coverage(self, *, alpha: float = 0.1, class_conditional: bool = False) -> CoverageReport:
        """Estimate the coverage of the prediction sets overall and for each human grade, by cross-validation.

        The items of each fold get split-conformal sets from the out-of-fold predictions of the other folds.

        Args:
            alpha: target miscoverage.
            class_conditional: whether the sets have a guarantee for each grade.

        Raises:
            InputError: if alpha is invalid.
        """
        self._check_is_fitted("oof_probs_")
        as_fraction(alpha, name="alpha")
        low, high = np.zeros_like(self.oof_grades_), np.zeros_like(self.oof_grades_)
        for fold in np.unique(self.fold_):
            test = self.fold_ == fold
            train_cluster = None if self.cluster_ is None else np.array(self.cluster_, dtype=object)[~test]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)  # too few items: the grade is in every set
                sets = OrdinalPredictionSets(alpha=alpha, class_conditional=class_conditional)
                sets.fit(self.oof_probs_[~test], self.oof_grades_[~test], groups=train_cluster)
            low[test], high[test] = sets.predict(self.oof_probs_[test])
        return measure_coverage(
            (low <= self.oof_grades_) & (self.oof_grades_ <= high),
            high - low + 1,
            self.oof_grades_,
            len(self.levels_),
            target_coverage=1 - alpha,
            class_conditional=class_conditional,
            cluster=self.cluster_,
        )

    def escalation_threshold(self, *, max_error: float, within: int = 0, rule: Any = "argmax") -> float:
        """Error probability above which `apply` escalates items, by its arguments of the same names."""
        self._check_is_fitted("oof_probs_")
        max_error = as_fraction(max_error, name="max_error")
        as_count(within, name="within", minimum=0, maximum=len(self.levels_) - 2)
        decision = decide_checked(self.oof_probs_, rule)
        risk = error_probability(self.oof_probs_, decision, within)
        is_wrong = np.abs(decision - self.oof_grades_) > within
        return escalation_threshold(risk, is_wrong, max_error, self.cluster_)

    def summary(self) -> str:
        """Description of the fitted judges, their weights and the subgroup adjustments, one per line."""
        self._check_is_fitted()
        weights = self.pool_.weights
        lines = [f"{len(self.judges_)} judges are averaged, then calibrated as one"] if self.averaged_ else []
        for judge, calibrated in self.calibrated_judges_.items():
            weight = "" if len(weights) == 1 else f" (weight {weights[judge]:.2f})"
            lines.append(f"{judge}{weight}: {calibrated.description}")
        dropped = [judge for judge, weight in weights.items() if weight == 0]
        if dropped:
            lines.append(f"not better than the frequencies of human grades, weight 0: {', '.join(dropped)}")
        if self.subgroups_:
            lines.append(self.pool_.adjustment.summary("items"))
        return "\n".join(lines)

    def _predict(self, judges: Mapping[str, CalibratedJudge], grades: Grades) -> FloatArray:
        return nearest_unimodal(geometry.probs(self.pool_.logits(predict_log_probs(judges, grades), grades.subgroup)))

    def _check_is_fitted(self, attribute: str = "pool_") -> None:
        if not hasattr(self, attribute):
            from orcu.errors import NotFittedError  # imports scikit-learn

            raise NotFittedError("JudgePanel is not fitted; call fit(grades) first.")

    def _check(self, grades: Grades) -> Grades:
        """Validate grades for prediction; average the judges if the panel does."""
        self._check_is_fitted()
        if grades.levels != self.levels_:
            raise InputError(f"grades: the levels are {grades.levels}; this panel was fitted on {self.levels_}.")
        if grades.kind != self.kind_:
            raise InputError(f"grades: expected {KINDS[self.kind_]}, as in the fit; got {KINDS[grades.kind]}.")
        missing = [judge for judge in self.required_judges if judge not in grades.ratings]
        if missing:
            raise InputError(
                f"grades: no ratings of {', '.join(missing)}, which this panel was fitted on; the judges here are "
                f"{', '.join(grades.judges)}. Name the column of judges with judge= (--judge)."
            )
        if self.pool_.adjustment and grades.subgroup is None:
            raise InputError(
                "subgroup: this panel has adjustments per subgroup; name the column with subgroup= (--subgroup)."
            )
        if self.averaged_:
            required = {judge: grades.ratings[judge] for judge in self.required_judges}
            grades = replace(grades, ratings=required).average_judges()
        is_rated = grades.any_rated(self.calibrated_judges_)
        if not is_rated.all():
            item = grades.items[int(np.argmin(is_rated))]
            raise InputError(f"grades: item {item!r} has no rating of {', '.join(self.calibrated_judges_)}.")
        return grades

    def to_dict(self) -> dict[str, Any]:
        """Options and learned state as plain data for JSON."""
        self._check_is_fitted("oof_probs_")
        pool = self.pool_
        return {
            "judge_panel": STATE_VERSION,
            "grades": list(self.levels_.names),
            **{key: getattr(self, attribute) for key, attribute in STATE_ATTRIBUTES.items()},
            "weights": pool.weights,
            "pool": None if pool.calibrator is None else pool.calibrator.to_dict(),
            **pool.adjustment.to_dict(),
            "members": {judge: fitted.to_dict() for judge, fitted in self.calibrated_judges_.items()},
            "folds": [{judge: fitted.to_dict() for judge, fitted in judges.items()} for judges in self.fold_judges_],
            "fold": self.fold_.tolist(),
            "held_probs": self.oof_probs_.tolist(),
            "held_grades": self.oof_grades_.tolist(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON with a digest, atomically."""
        write_json(path, with_digest(self.to_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "JudgePanel":
        """Read a panel from a JSON file of `save` or `orcu judge fit`.

        Raises:
            InputError: if the file is not a panel, or was changed after it was written.
        """
        return read_json(path, lambda content: cls.from_dict(check_digest(content)))

    @classmethod
    def from_dict(cls, state: Any) -> "JudgePanel":
        """Restore a panel from the data of `to_dict`.

        Raises:
            InputError: if the data are of another kind or version, or damaged.
        """
        if not isinstance(state, Mapping) or "judge_panel" not in state:
            raise InputError("not a panel of judges; expected the JSON that `orcu judge fit` writes.")
        if state["judge_panel"] != STATE_VERSION:
            raise InputError(f"judge_panel: expected version {STATE_VERSION}, got {state['judge_panel']!r}; fit again.")
        from orcu.io.schema import validate
        from orcu.judges.schemas import PanelSchema

        fitted = validate(PanelSchema, state, "the panel's data")
        try:
            return cls._from_schema(fitted)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"the panel's data are damaged ({first_line(error)}). Fit again.") from None

    @classmethod
    def _from_schema(cls, fitted: Any) -> "JudgePanel":
        """Restore a panel from its validated schema."""
        panel = cls(cv=len(fitted.folds))
        for key, attribute in STATE_ATTRIBUTES.items():
            setattr(panel, attribute, getattr(fitted, key))
        panel.levels_ = GradeLevels.parse(fitted.grades)
        calibrator = None if fitted.pool is None else calibrator_from_dict(fitted.pool)
        panel.pool_ = JudgePool(fitted.weights, calibrator, GroupAdjustment.from_dict(dict(fitted)))
        panel.calibrated_judges_, *panel.fold_judges_ = (
            {
                judge: CalibratedJudge.from_state(member, fitted.kind, len(panel.levels_))
                for judge, member in members.items()
            }
            for members in (fitted.members, *fitted.folds)
        )
        probs, grades, fold = (np.array(values) for values in (fitted.held_probs, fitted.held_grades, fitted.fold))
        panel._set_out_of_fold(probs.astype(np.float64), grades.astype(np.int64), fold.astype(np.int64))
        return panel


def fit_for_prediction(grades: Grades, *, calibrator: str = "auto", random_state: int = 0) -> JudgePanel:
    """Fit a `JudgePanel` on graded items for `predict_proba` only: a single judge needs no folds."""
    panel = JudgePanel(calibrator=calibrator, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        if len(grades.judges) > 1 or grades.subgroup is not None:
            return panel.fit(grades)
        panel.levels_, panel.kind_, panel.subgroups_ = grades.levels, grades.kind, []
        panel.judges_, panel.averaged_ = grades.judges, False
        panel.calibrated_judges_ = fit_judges(grades, calibrator)
    panel.pool_ = JudgePool(dict.fromkeys(grades.judges, 1.0))
    return panel


def select_graded(grades: Grades) -> Grades:
    """Items with a human grade and a rating; raise an InputError if there are too few or their grades are equal."""
    graded = grades[grades.human_mask & grades.any_rated(grades.judges)]
    if len(graded) < MIN_ITEMS:
        raise InputError(
            f"human: {len(graded)} rated items have a human grade; at least {MIN_ITEMS} are needed, and some hundred "
            "are recommended. Grade more items."
        )
    observed = np.flatnonzero(graded.human.sum(axis=0) > 0)
    if len(observed) < 2:
        raise InputError(
            f"human: all human grades are {graded.levels.names[observed[0]]}; at least two different grades are "
            "needed. Grade items of other quality too."
        )
    return graded


def _warn_about(graded: Grades, missingness: str) -> None:
    """Warn about levels without human grades, constant or inverted judges, and human grades of chosen items."""
    counts = graded.human.sum(axis=0)
    absent = [name for name, count in zip(graded.levels.names, counts, strict=True) if count == 0]
    messages = [f"human: no human grade is {', '.join(absent)}; these levels cannot be calibrated."] if absent else []
    for judge in graded.judges:
        shares = graded.shares(judge)[graded.rated_mask(judge)]
        if len(shares) > 1 and np.ptp(shares, axis=0).max() < 1e-9:
            messages.append(f"{judge}: all ratings are equal; the predictions are the frequencies of human grades.")
    messages += [inversion_message(graded, judge) for judge in graded.judges if is_inverted(graded, judge)]
    messages += [missingness] if missingness else []
    for message in messages:
        warnings.warn(message, CalibrationWarning, stacklevel=3)


def is_inverted(graded: Grades, judge: str) -> bool:
    """Whether the ratings of a judge fall as human grades rise, by more than three standard errors."""
    correlation, n_clusters = graded.correlation_with_people(judge)
    return correlation * np.sqrt(n_clusters) < -MIN_Z_SCORE


def inversion_message(graded: Grades, judge: str) -> str:
    """Warning about a judge whose ratings fall as human grades rise."""
    correlation, _ = graded.correlation_with_people(judge)
    return (
        f"{judge}: its grades fall as human grades rise (correlation {correlation:.2f}), so one of the two scales may "
        "be inverted. Check the order of the levels (levels=, --levels) and of the columns; reverse the wrong scale."
    )


def _split(graded: Grades, cv: int, random_state: int) -> list[Fold]:
    """Folds of the items, stratified by the most frequent human grade."""
    codes = graded.cluster_codes()
    n_clusters, groups = int(codes.max()) + 1, None if graded.cluster is None else codes
    if n_clusters < 2:
        raise InputError("cluster: all items are in one cluster; cross-fitting needs two or more. Leave cluster= out.")
    y = graded.human.argmax(axis=1)
    return cross_fit_folds(y, min(cv, n_clusters), early_stopping=0, groups=groups, random_state=random_state)


def _draw_grades(graded: Grades, random_state: int) -> IntArray:
    """One human grade per item, drawn by the shares of its grades, shape (n,)."""
    draws = np.random.default_rng(random_state).random((len(graded), 1))
    return np.minimum((graded.human.cumsum(axis=1) < draws).sum(axis=1), len(graded.levels) - 1)
