"""What judges are worth: beside people, before and after calibration, and how many human grades that takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import t

from orcu import metrics
from orcu.evaluation.evaluate import evaluate
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.intervals import LEVEL
from orcu.inputs import FloatArray, as_codes
from orcu.judges.agreement import Agreement, agreement
from orcu.judges.grades import Grades
from orcu.judges.panel import FEWEST, JudgePanel, fitted_map, human_rows, learnable
from orcu.predictions.predictions import Predictions

SIZES = (25, 50, 100, 200, 400)
DRAWS = 8
MOST_JUDGED = 1500  # items that each draw is judged on: enough to see 1 %
FLAT = 0.01  # the curve is flat where all further human grades gain less than this share of RPS
CALIBRATED = "calibrated"
EVERYONE = "all"
LIKE_PEOPLE = "like people"


@dataclass(frozen=True)
class Leniency:
    """How much higher a judge grades than people do, on the same items, with a 95 % interval.

    Attributes:
        judge: its name.
        group: of the items, or "all".
        items: how many.
        judged: the mean of the judge's expected grades.
        human: the mean of people's.
        low: the lower end of the interval of their difference.
        high: the upper end.
    """

    judge: str
    group: str
    items: int
    judged: float
    human: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """Above 0 where the judge is milder than people."""
        return self.judged - self.human

    @property
    def words(self) -> str:
        """Milder, stricter, or neither beyond chance."""
        if not (self.low > 0 or self.high < 0):
            return LIKE_PEOPLE
        return "milder" if self.difference > 0 else "stricter"


@dataclass(frozen=True)
class CurvePoint:
    """What the calibrated judges are worth after so many graded items: means over draws, and their spread."""

    items: int
    rps: float
    rps_spread: float
    sce: float
    sce_spread: float


@dataclass(frozen=True)
class Examination:
    """What was found out about judges.

    Attributes:
        grades: the items that people have graded.
        panel: fitted on all of them.
        evaluation: of the calibrated judges, each item by maps that have not seen it; ``others`` are the judges as they
            come.
        leniency: of each judge as it comes and of the calibrated ones; of all items, then by group.
        humans: how far people agree with each other; ``None`` where no item has two human grades, or
            only their means are known.
        curve: by how many graded items.
    """

    grades: Grades
    panel: JudgePanel
    evaluation: Evaluation
    leniency: list[Leniency]
    humans: Agreement | None
    curve: list[CurvePoint]

    @property
    def enough(self) -> int | None:
        """The fewest graded items after which the curve is flat; ``None`` where it still falls, or there is none."""
        if len(self.curve) < 2:
            return None
        best = self.curve[-1].rps
        first = next(point.items for point in self.curve if point.rps <= (1 + FLAT) * best)
        return first if first < self.curve[-1].items else None

    def sentences(self) -> list[str]:
        """What matters, in words, most important first."""
        evaluation = self.evaluation
        sentences = []
        for raw in evaluation.others:
            top = raw.tables.top.sum(-1)
            said, right, one_hump = float(top[1] / top[0]), float(top[2] / top[0]), raw["unimodality"].value
            sentences.append(
                f"{raw.name} is {100 * said:.0f} % sure of its grade and gives the person's grade {100 * right:.0f} % "
                f"of the time; {100 * one_hump:.0f} % of its distributions have one hump."
            )
        worst = max(evaluation.others, key=lambda one: one["rps"].value)
        sentences.append(
            f"Calibrated on {int(self.grades.raters.sum()):,} human grades the class-wise error (SCE) goes from "
            f"{100 * worst['sce'].value:.1f} to {100 * evaluation['sce'].value:.1f} %, the ranked probability score "
            f"from {worst['rps'].value:.3f} to {evaluation['rps'].value:.3f}, and every distribution has one hump."
        )
        sentences += [
            f"{one.judge} is {one.words} than people: {one.judged:.2f} against {one.human:.2f} on average."
            for one in self.leniency
            if one.group == EVERYONE and one.judge != CALIBRATED and one.words != LIKE_PEOPLE
        ]
        if self.humans is not None:
            sentences.append(
                f"People agree with each other with a quadratic kappa of {self.humans.qwk:.2f}, the calibrated judges "
                f"with them of {evaluation['qwk'].value:.2f}."
            )
        if self.enough is not None:
            sentences.append(
                f"{self.enough} graded items are enough: more gain less than {100 * FLAT:.0f} % of the score."
            )
        elif self.curve:
            sentences.append(f"The score still falls at {self.curve[-1].items} graded items: more are worth it.")
        return sentences


def examine(
    grades: Grades,
    *,
    calibrator: str = "auto",
    seed: int = 0,
    sizes: tuple[int, ...] = SIZES,
    draws: int = DRAWS,
    progress: Callable[[str], None] | None = None,
) -> Examination:
    """Look at judges from all sides: calibration, leniency, agreement, and how many human grades are enough.

    Args:
        grades: items, some of which people have graded.
        calibrator: a name, as for `orcu.calibrators.create`.
        seed: of folds and draws.
        sizes: numbers of graded items to draw; those that leave too few to judge on are left out.
        draws: of each size.
        progress: told what is being done.

    Raises:
        InputError: if too few items are graded.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(5, size=200)
        >>> said = np.eye(5)[(truth + rng.integers(-1, 3, size=200)).clip(0, 4)] * 0.96 + 0.008
        >>> examination = examine(Grades.of("1..5", {"gpt": said}, human=truth + 1), sizes=(25, 50), draws=2)
        >>> examination.leniency[0].words, [point.items for point in examination.curve]
        ('milder', [25, 50])
    """
    tell = progress or (lambda _: None)
    tell("calibrating")
    panel = JudgePanel(calibrator=calibrator, seed=seed).fit(grades)
    known = learnable(grades)
    known = known[np.isin(known.items, panel.fitted_items_)]
    everyone = np.all([known.spoke(judge) for judge in panel.judges], axis=0)
    paired = known[everyone]
    tell("judging before and after")
    evaluation = _evaluated(paired, panel.held_probs_[everyone], panel.judges, seed)
    leniency = _leniency(known, panel)
    tell("drawing fewer human grades")
    curve = learning_curve(grades, calibrator=calibrator, seed=seed, sizes=sizes, draws=draws)
    counts = np.where(known.graded[:, None], known.human * known.raters[:, None], 0.0)
    humans = None if known.has_means else agreement(np.rint(counts), known.scale.values)
    return Examination(known, panel, evaluation, leniency, humans, curve)


def _evaluated(paired: Grades, held: FloatArray, judges: list[str], seed: int) -> Evaluation:
    place, grade, share = human_rows(paired)
    subject = None
    if paired.cluster is not None or len(place) > len(paired):
        subject = (paired.items if paired.cluster is None else paired.cluster)[place]
    common: dict[str, Any] = {
        "codes": grade,
        "classes": list(paired.scale.names),
        "weight": None if (share == 1).all() else share,
        "subject": subject,
    }
    said = {judge: paired.said[judge] / paired.said[judge].sum(axis=1, keepdims=True) for judge in judges}
    compare = {judge: Predictions(probs=probs[place], **common) for judge, probs in said.items()}
    return evaluate(Predictions(probs=held[place], **common), compare=compare, name=CALIBRATED, seed=seed)


def _leniency(known: Grades, panel: JudgePanel) -> list[Leniency]:
    groups = [] if known.group is None else sorted(set(known.group.tolist()))
    rows = []
    for name in (EVERYONE, *groups):
        inside = np.full(len(known), True) if name == EVERYONE else known.group == name
        for judge in (*panel.judges, CALIBRATED):
            spoke = np.full(len(known), True) if judge == CALIBRATED else known.spoke(judge)
            expected = panel.held_probs_ @ known.scale.values if judge == CALIBRATED else known.expected(judge)
            both = np.asarray(inside & spoke, dtype=bool)
            if both.sum() >= 2:
                rows.append(_apart(judge, name, expected[both], known[both]))
    return rows


def _apart(judge: str, group: str, expected: FloatArray, known: Grades) -> Leniency:
    apart = expected - known.human_mean
    cluster = (
        np.arange(len(apart)) if known.cluster is None else as_codes(known.cluster, rows=len(known), name="cluster")
    )
    sums = np.bincount(cluster, weights=apart - apart.mean())
    size = int(cluster.max()) + 1
    error = np.sqrt(size / max(size - 1, 1) * float(sums @ sums)) / len(apart)
    half = float(t.ppf(0.5 + LEVEL / 2, max(size - 1, 1))) * error if size > 1 else float("inf")
    mean = float(apart.mean())
    return Leniency(
        judge, group, len(apart), float(expected.mean()), float(known.human_mean.mean()), mean - half, mean + half
    )


def learning_curve(
    grades: Grades, *, calibrator: str = "auto", seed: int = 0, sizes: tuple[int, ...] = SIZES, draws: int = DRAWS
) -> list[CurvePoint]:
    """RPS and SCE on items that were not used, after calibrating on so many graded items.

    In each draw a third of the clusters (or of the items) judges, and the graded items are drawn from the rest.

    Args:
        grades: items, some of which people have graded.
        calibrator: a name, as for `orcu.calibrators.create`.
        seed: of the draws.
        sizes: numbers of graded items; those above two thirds of what there is are left out.
        draws: of each size.

    Raises:
        InputError: if too few items are graded.
    """
    known = learnable(grades)
    cluster = (
        np.arange(len(known)) if known.cluster is None else as_codes(known.cluster, rows=len(known), name="cluster")
    )
    rng = np.random.default_rng(seed)
    values: dict[int, list[tuple[float, float]]] = {}
    for _ in range(draws):
        judging = _third(cluster, rng)
        test = known[rng.permutation(np.flatnonzero(judging))[:MOST_JUDGED]]
        rest = rng.permutation(np.flatnonzero(~judging))
        for size in sizes:
            if FEWEST <= size <= len(rest) and size <= 2 * len(known) / 3:
                fitted = _fitted(known[rest[:size]], calibrator, seed)
                if fitted is not None:
                    values.setdefault(size, []).append(_scores(fitted, test))
    curve = []
    for size, pairs in sorted(values.items()):
        means, spreads = np.mean(pairs, axis=0), np.std(pairs, axis=0)
        curve.append(CurvePoint(size, float(means[0]), float(spreads[0]), float(means[1]), float(spreads[1])))
    return curve


def _third(cluster: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    names = rng.permutation(np.unique(cluster))
    return np.isin(cluster, names[: max(1, len(names) // 3)])


def _fitted(known: Grades, calibrator: str, seed: int) -> JudgePanel | None:
    """A panel on a draw; ``None`` where the draw is of one grade, or of one cluster."""
    if len(np.flatnonzero(known.human.sum(axis=0))) < 2:
        return None
    if known.cluster is not None and len(set(known.cluster.tolist())) < 2:
        return None
    return fitted_map(known, calibrator=calibrator, seed=seed)


def _scores(panel: JudgePanel, test: Grades) -> tuple[float, float]:
    spoken = np.any([test.spoke(judge) for judge in panel.judges], axis=0)
    place, grade, share = human_rows(test[spoken])
    probs = panel.predict_proba(test[spoken])[place]
    return metrics.rps(probs, grade, weight=share), metrics.sce(probs, grade, weight=share)
