"""Audit of judges against human grades: calibration, leniency, bias, agreement, and a learning curve."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, t

from orcu import metrics
from orcu.decisions.coverage import CoverageReport
from orcu.evaluation.evaluate import evaluate
from orcu.evaluation.evaluation import Evaluation
from orcu.inputs import FloatArray
from orcu.judges.bias import ColumnEffect, bias_effects
from orcu.judges.escalation import error_bound
from orcu.judges.grades import Grades
from orcu.judges.panel import JudgePanel, fit_for_prediction, inversion_message, is_inverted, select_graded
from orcu.judges.pool import MIN_ITEMS, HumanRows
from orcu.predictions import Predictions
from orcu.raters.agreement import Agreement, agreement
from orcu.raters.votes import Ratings
from orcu.resampling import CONFIDENCE_LEVEL

TRAIN_SIZES = (25, 50, 100, 200, 400)
N_REPEATS = 8
MAX_TEST_ITEMS = 1500  # test items of each repetition: enough for a resolution of 1 %
FLAT = 0.01  # the learning curve is flat where all further human grades improve the RPS by less than this share
CALIBRATED = "calibrated"
ALL_ITEMS = "all"
MAX_BIAS_FINDINGS = 5  # the most significant ones; the table has all
NO_DIFFERENCE = "no significant difference"


@dataclass(frozen=True)
class Leniency:
    """Mean expected grade of a judge minus the mean human grade on the same items, with a 95 % interval."""

    judge: str
    subgroup: str  # or "all"
    n_items: int
    judge_mean: float  # mean of the judge's expected grades
    human_mean: float
    low: float  # ends of the interval of the difference
    high: float

    @property
    def difference(self) -> float:
        """Difference of the means; positive if the judge is more lenient than people."""
        return self.judge_mean - self.human_mean

    @property
    def direction(self) -> str:
        """Direction of a significant difference."""
        if not (self.low > 0 or self.high < 0):
            return NO_DIFFERENCE
        return "more lenient" if self.difference > 0 else "stricter"


@dataclass(frozen=True)
class CurvePoint:
    """Scores of the calibrated judges after a number of graded items: mean and standard deviation over repetitions.

    The excess is the share by which the RPS is above that with the most graded items, paired by repetition. Its 95 %
    interval is that of the corrected t-test of Nadeau and Bengio (2003), because the repetitions share items.
    """

    n_items: int
    rps: float
    rps_std: float
    sce: float
    sce_std: float
    excess: float = float("nan")
    excess_low: float = float("nan")
    excess_high: float = float("nan")


@dataclass(frozen=True)
class JudgeAudit:
    """Result of an audit.

    Attributes:
        grades: items with human grades.
        panel: panel fitted on all of them.
        evaluation: evaluation of the out-of-fold predictions; ``others`` are the judges before calibration.
        leniency: leniency of each judge before and after calibration, for all items and by subgroup.
        bias: effects of the columns of ``grades.rating_rows`` on the errors of the judges before calibration.
        agreement: agreement of each judge, and of the calibrated judges, with people.
        human_agreement: agreement of people with each other; ``None`` if no item has two human grades, or only their
            means are graded.
        learning_curve: scores by the number of graded items.
        coverage: coverage of the prediction sets overall and for each human grade.
        class_coverage: the same for sets with a guarantee for each grade.
    """

    grades: Grades
    panel: JudgePanel
    evaluation: Evaluation
    leniency: list[Leniency]
    bias: tuple[ColumnEffect, ...]
    agreement: dict[str, Agreement]
    human_agreement: Agreement | None
    learning_curve: list[CurvePoint]
    coverage: CoverageReport
    class_coverage: CoverageReport

    @property
    def sufficient_items(self) -> int | None:
        """Smallest number of graded items at which the learning curve is flat; ``None`` if it still improves."""
        if len(self.learning_curve) < 2:
            return None
        last = self.learning_curve[-1]
        first = next(point.n_items for point in self.learning_curve if point.rps <= (1 + FLAT) * last.rps)
        return first if first < last.n_items else None

    def __str__(self) -> str:
        return "\n".join(self.findings())

    def findings(self) -> list[str]:
        """Findings in sentences, most important first."""
        evaluation = self.evaluation
        findings = [
            inversion_message(self.grades, judge) for judge in self.grades.judges if is_inverted(self.grades, judge)
        ]
        for raw in evaluation.others:
            top = raw.sums.top.sum(-1)
            findings.append(
                f"{raw.name}: mean confidence {100 * float(top[1] / top[0]):.0f} %, accuracy "
                f"{100 * float(top[2] / top[0]):.0f} % against human grades; "
                f"{100 * raw['unimodality'].value:.0f} % of its distributions are unimodal."
            )
        worst = max(evaluation.others, key=lambda other: other["rps"].value)
        findings.append(
            f"Calibration on {int(self.grades.n_raters.sum()):,} human grades changes the class-wise calibration error "
            f"(SCE) from {100 * worst['sce'].value:.1f} to {100 * evaluation['sce'].value:.1f} % and the ranked "
            f"probability score (RPS) from {worst['rps'].value:.3f} to {evaluation['rps'].value:.3f}; all calibrated "
            "distributions are unimodal."
        )
        findings += [
            f"{row.judge} is {row.direction} than people: mean grade {row.judge_mean:.2f} against {row.human_mean:.2f}."
            for row in self.leniency
            if row.subgroup == ALL_ITEMS and row.judge != CALIBRATED and row.direction != NO_DIFFERENCE
        ]
        findings += self.bias_findings()
        if self.human_agreement is not None:
            findings.append(
                f"Quadratic weighted kappa: {self.human_agreement['qwk_pooled'].value:.2f} between people, "
                f"{self.agreement[CALIBRATED]['qwk_pairwise'].value:.2f} between the calibrated judges and people."
            )
        findings += self.coverage.notes(self.grades.levels.names)
        return findings + self.sufficiency()

    def bias_findings(self) -> list[str]:
        """Sentences about the effects on the errors of the judges: the significant ones, or that there is none."""
        tested = [effect for effect in self.bias if not effect.note]
        significant = sorted(
            (effect for effect in tested if effect.is_significant), key=lambda effect: effect.adjusted_p_value
        )
        sentences = []
        for effect in significant[:MAX_BIAS_FINDINGS]:
            prefers_own = effect.category == effect.judge and effect.effect > 0
            own = " It prefers its own answers." if prefers_own else ""
            sentences.append(f"Bias of {effect}{own}")
        if len(significant) > MAX_BIAS_FINDINGS:
            sentences.append(f"Significant, but not listed here: {len(significant) - MAX_BIAS_FINDINGS} more.")
        if tested and not significant:
            widest = max(tested, key=lambda effect: effect.high - effect.low)
            sentences.append(
                f"No significant bias in {len(tested)} comparisons (Holm, 5 %). The widest interval is that of "
                f"{widest.comparison} ({widest.low:+.2f} to {widest.high:+.2f})."
            )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """All results as plain data for JSON; ``None`` where a number is not defined."""
        people = self.human_agreement
        return {
            "judges": self.panel.required_judges,
            "levels": list(self.grades.levels.names),
            "n_items": len(self.grades),
            "n_human_grades": int(self.grades.n_raters.sum()),
            "findings": self.findings(),
            "calibrated": self.evaluation.to_dict(),
            "uncalibrated": [other.to_dict() for other in self.evaluation.others],
            "leniency": [
                _plain(row) | {"difference": row.difference, "direction": row.direction} for row in self.leniency
            ],
            "bias": [effect.to_dict() for effect in self.bias],
            "agreement": {name: result.to_dict() for name, result in self.agreement.items()},
            "human_agreement": None if people is None else people.to_dict(),
            "learning_curve": [_plain(point) for point in self.learning_curve],
            "coverage": {
                name: {
                    "target": report.target_coverage,
                    "overall": _plain(report.overall),
                    "by_grade": dict(zip(self.grades.levels.names, map(_plain, report.by_class), strict=True)),
                }
                for name, report in (("default", self.coverage), ("class_conditional", self.class_coverage))
            },
        }

    def sufficiency(self) -> list[str]:
        """What the number of graded items is enough for: the scores, the prediction sets, and escalation."""
        sentences = []
        if len(self.learning_curve) > 1:
            last, enough = self.learning_curve[-1], self.sufficient_items
            point = next((each for each in self.learning_curve if each.n_items == enough), self.learning_curve[-2])
            verdict = f"{point.n_items} graded items are enough" if enough else "Grade more items"
            if not enough and point.excess_low <= 0:
                verdict = "It is not clear whether more items help"
            sentences.append(
                f"Scores: {verdict}. With {point.n_items} the RPS is {100 * point.excess:.1f} % (95 % interval "
                f"{100 * point.excess_low:.1f} to {100 * point.excess_high:.1f} %) above that with {last.n_items}; "
                f"less than {100 * FLAT:.0f} % counts as enough."
            )
        n = len(self.panel.oof_grades_) if self.panel.cluster_ is None else len(set(self.panel.cluster_))
        unit = "graded items" if self.panel.cluster_ is None else "graded clusters"
        allowed = int((n + 1) * (1 - self.coverage.target_coverage) + 1e-9)
        if allowed:
            ends = [100 * float(beta.ppf(q, n + 1 - allowed, allowed)) for q in (0.025, 0.975)]
            sentences.append(
                f"Prediction sets: with {n:,} {unit}, the coverage of new items is between {ends[0]:.0f} and "
                f"{ends[1]:.0f} % (95 %), depending on the items that were graded; more items narrow it."
            )
        wrong = self.panel.oof_probs_.argmax(axis=1) != self.panel.oof_grades_
        bound = error_bound(wrong, self.panel.cluster_)
        sentences.append(
            f"Escalation: {100 * float(wrong.mean()):.0f} % of the decisions for graded items are wrong, and with 90 % "
            f"confidence at most {100 * bound:.0f} % of all. A smaller --max-error escalates items."
        )
        return sentences


def _plain(row: Any) -> dict[str, Any]:
    """Fields of a dataclass for JSON; ``None`` where a number is not finite."""
    fields = asdict(row)
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in fields.items()}


def audit(
    grades: Grades,
    *,
    calibrator: str = "auto",
    random_state: int = 0,
    train_sizes: tuple[int, ...] = TRAIN_SIZES,
    n_repeats: int = N_REPEATS,
    progress: Callable[[str], None] | None = None,
) -> JudgeAudit:
    """Audit judges: calibration, leniency, agreement with people, and the number of human grades needed.

    Args:
        grades: items, some with human grades, and columns on which the error of a judge may depend (``bias=``).
        calibrator: name of the calibrator, as for `orcu.calibrators.create`.
        random_state: seed of folds and draws.
        train_sizes: numbers of graded items of the learning curve.
        n_repeats: number of repetitions of each size.
        progress: function called with the name of each step.

    Raises:
        InputError: if too few items have a human grade.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(5, size=200)
        >>> probs = np.eye(5)[(truth + rng.integers(-1, 3, size=200)).clip(0, 4)] * 0.96 + 0.008
        >>> grades = Grades.from_arrays("1..5", {"gpt": probs}, human=truth + 1)
        >>> result = audit(grades, train_sizes=(25, 50), n_repeats=2)
        >>> result.leniency[0].direction, [point.n_items for point in result.learning_curve]
        ('more lenient', [25, 50])
    """
    report = progress or (lambda _: None)
    report("fitting the panel")
    panel = JudgePanel(calibrator=calibrator, random_state=random_state).fit(grades)
    graded = select_graded(grades)
    graded = graded[np.isin(graded.items, panel.items_)]
    report("evaluating before and after calibration")
    evaluation = _evaluate(graded, panel, random_state)
    leniency = _leniency(graded, panel)
    agreements = _agreement(graded, panel, random_state)
    report("computing the learning curve")
    curve = learning_curve(
        grades, calibrator=calibrator, random_state=random_state, train_sizes=train_sizes, n_repeats=n_repeats
    )
    coverage, class_coverage = (panel.set_coverage(class_conditional=flag) for flag in (False, True))
    people = _human_agreement(graded, random_state)
    effects = bias_effects(graded)
    return JudgeAudit(graded, panel, evaluation, leniency, effects, agreements, people, curve, coverage, class_coverage)


def _agreement(graded: Grades, panel: JudgePanel, random_state: int) -> dict[str, Agreement]:
    """Agreement of each judge's most probable grade with the human grades; each human grade is a case."""
    counts = np.rint(graded.human * graded.n_raters[:, None]).astype(np.int64)
    is_whole = counts.sum(axis=1) == graded.n_raters
    counts[~is_whole] = np.eye(len(graded.levels), dtype=np.int64)[panel.oof_grades_[~is_whole]]  # one drawn grade
    item, grade = np.nonzero(counts)
    repeats = counts[item, grade]
    item, grade = np.repeat(item, repeats), np.repeat(grade, repeats)
    probs = {judge: graded.shares(judge) for judge in panel.required_judges} | {CALIBRATED: panel.oof_probs_}
    results = {}
    for name, each in probs.items():
        rated = ~np.isnan(each[item, 0])
        codes = np.column_stack([np.nan_to_num(each[item[rated]]).argmax(axis=1), grade[rated]])
        cluster = graded.cluster_codes()[item[rated]]
        results[name] = agreement(
            Ratings(codes, (name, "people"), len(graded.levels)),
            values=graded.levels.values,
            cluster=cluster,
            random_state=random_state,
        )
    return results


def _human_agreement(graded: Grades, random_state: int) -> Agreement | None:
    if graded.has_mean_grades:
        return None
    people_graded = graded[graded.human_mask]
    counts = np.rint(people_graded.human * people_graded.n_raters[:, None])
    cluster = people_graded.cluster
    people = agreement(counts, values=graded.levels.values, cluster=cluster, random_state=random_state)
    return people if people.n_cases else None


def _evaluate(graded: Grades, panel: JudgePanel, random_state: int) -> Evaluation:
    """Evaluate out-of-fold predictions and raw judges on the items that all required judges rated."""
    is_complete = graded.all_rated(panel.required_judges)
    paired = graded[is_complete]
    rows = HumanRows.of(paired)
    cluster = paired.cluster
    if cluster is None and len(rows.item) > len(paired):
        cluster = paired.items
    common: dict[str, Any] = {
        "codes": rows.grade,
        "classes": list(paired.levels.names),
        "sample_weight": None if (rows.share == 1).all() else rows.share,
        "cluster": None if cluster is None else cluster[rows.item],
    }
    compare = {judge: Predictions(probs=paired.shares(judge)[rows.item], **common) for judge in panel.required_judges}
    calibrated = Predictions(probs=panel.oof_probs_[is_complete][rows.item], **common)
    return evaluate(calibrated, compare=compare, name=CALIBRATED, random_state=random_state)


def _leniency(graded: Grades, panel: JudgePanel) -> list[Leniency]:
    subgroups = [] if graded.subgroup is None else sorted(set(graded.subgroup.tolist()))
    expected = {judge: graded.expected_grade(judge) for judge in panel.required_judges}  # NaN where not rated
    expected[CALIBRATED] = panel.oof_probs_ @ graded.levels.values
    rows = []
    for name in (ALL_ITEMS, *subgroups):
        in_subgroup = np.full(len(graded), True) if name == ALL_ITEMS else graded.subgroup == name
        for judge, values in expected.items():
            selected = np.asarray(in_subgroup & ~np.isnan(values), dtype=bool)
            if selected.sum() >= 2:
                rows.append(_mean_difference(judge, name, values[selected], graded[selected]))
    return rows


def _mean_difference(judge: str, subgroup: str, expected: FloatArray, graded: Grades) -> Leniency:
    difference = expected - graded.human_mean
    cluster = graded.cluster_codes()
    sums = np.bincount(cluster, weights=difference - difference.mean())
    size = int(cluster.max()) + 1
    error = np.sqrt(size / max(size - 1, 1) * float(sums @ sums)) / len(difference)
    half = float(t.ppf(0.5 + CONFIDENCE_LEVEL / 2, max(size - 1, 1))) * error if size > 1 else float("inf")
    mean = float(difference.mean())
    means = float(expected.mean()), float(graded.human_mean.mean())
    return Leniency(judge, subgroup, len(difference), *means, mean - half, mean + half)


def learning_curve(
    grades: Grades,
    *,
    calibrator: str = "auto",
    random_state: int = 0,
    train_sizes: tuple[int, ...] = TRAIN_SIZES,
    n_repeats: int = N_REPEATS,
) -> list[CurvePoint]:
    """RPS and SCE on test items after calibration on a number of graded items.

    In each repetition a third of the clusters (or items) is the test set, and the graded items are drawn from the rest.

    The arguments are those of `audit`. Sizes above two thirds of the available items are skipped.
    """
    graded = select_graded(grades)
    cluster = graded.cluster_codes()
    rng = np.random.default_rng(random_state)
    scores: dict[int, dict[int, tuple[float, float]]] = {}
    test_share = 0.0
    for repeat in range(n_repeats):
        clusters = rng.permutation(np.unique(cluster))
        is_test = np.isin(cluster, clusters[: max(1, len(clusters) // 3)])
        test = graded[rng.permutation(np.flatnonzero(is_test))[:MAX_TEST_ITEMS]]
        rest = rng.permutation(np.flatnonzero(~is_test))
        test_share = is_test.mean()
        for size in train_sizes:
            if MIN_ITEMS <= size <= len(rest) and size <= 2 * len(graded) / 3:
                train = graded[rest[:size]]
                has_one_cluster = train.cluster is not None and len(set(train.cluster.tolist())) < 2
                if np.count_nonzero(train.human.sum(axis=0)) > 1 and not has_one_cluster:
                    panel = fit_for_prediction(train, calibrator=calibrator, random_state=random_state)
                    scores.setdefault(size, {})[repeat] = _score(panel, test)
    curve = []
    for size, by_repeat in sorted(scores.items()):
        values, largest = list(by_repeat.values()), scores[max(scores)]
        (rps, sce), (rps_std, sce_std) = np.mean(values, axis=0).tolist(), np.std(values, axis=0).tolist()
        ratios = np.array([by_repeat[k][0] / largest[k][0] - 1 for k in by_repeat if k in largest])
        excess = _corrected_interval(ratios, test_share) if len(ratios) > 1 else [float("nan")] * 3
        curve.append(CurvePoint(size, rps, rps_std, sce, sce_std, *excess))
    return curve


def _corrected_interval(values: FloatArray, test_share: float) -> list[float]:
    """Mean over repetitions, and the ends of its 95 % interval by the corrected t-test of Nadeau and Bengio."""
    mean, count = float(values.mean()), len(values)
    error = float(values.std(ddof=1)) * np.sqrt(1 / count + test_share / (1 - test_share))
    half = float(t.ppf(0.5 + CONFIDENCE_LEVEL / 2, count - 1)) * error
    return [mean, mean - half, mean + half]


def _score(panel: JudgePanel, test: Grades) -> tuple[float, float]:
    """RPS and SCE of a panel on test items."""
    test = test[test.any_rated(panel.required_judges)]
    rows = HumanRows.of(test)
    probs = panel.predict_proba(test)[rows.item]
    rps, sce = (metric(probs, rows.grade, sample_weight=rows.share) for metric in (metrics.rps, metrics.sce))
    return rps, sce
