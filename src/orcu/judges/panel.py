"""Judges calibrated to people: each by a map of its own, pooled, turned by group, with sets and a rule when to ask.

Every step is fitted on what the steps before it say of items that they were not fitted on.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from orcu import geometry
from orcu.calibrators.auto import ERRORS
from orcu.calibrators.base import Calibrator
from orcu.calibrators.base import from_dict as calibrator_from
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import LogScores
from orcu.calibrators.groups import Turns
from orcu.calibrators.pool import pool_weights
from orcu.calibrators.projection import nearest_unimodal
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.rules import decide_checked
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_codes, as_fraction
from orcu.io.files import read_json, write_json
from orcu.judges.grades import PROBS, VOTES, Grades
from orcu.judges.scale import Scale
from orcu.judges.votes import fitted_prior, grades_by_vote, smoothed
from orcu.model_selection import Fold, deal

STATE_VERSION = 1
FOLDS = 5
FEWEST = 10  # graded items: with fewer no fold has two
AUTO, ONE_HUMP = "auto", "projection"
CONFIDENCE = 0.9  # of the bound on the error among items that are not sent to a person
COSTS = {"wrong": "argmax", "absolute": "median", "squared": "mean"}  # what a decision costs, and the rule for it


@dataclass(frozen=True)
class Member:
    """One judge: what makes distributions of its votes, and the map from what it says to what people say."""

    prior: FloatArray | None  # of votes, (C,); of single votes the grades of people by the vote, (C, C)
    calibrator: Calibrator

    def log_probs(self, said: FloatArray) -> FloatArray:
        """Calibrated log-probabilities of rows in which the judge said something, shape (n, C)."""
        return geometry.log_probs(self.calibrator.predict_logits(probs=self.smooth(said)))

    def smooth(self, said: FloatArray) -> FloatArray:
        """What the judge said as distributions, shape (n, C)."""
        if self.prior is None:
            return said
        return smoothed(said, self.prior) if self.prior.ndim == 1 else said @ self.prior / said.sum(1, keepdims=True)


@dataclass(frozen=True)
class Pooling:
    """Several judges as one, and each group's turn: logits of the panel from the log-probabilities of its members.

    Attributes:
        weights: of the judges, summing to 1.
        calibrator: of the pool; ``None`` of a single judge.
        turns: of the groups.
    """

    weights: dict[str, float]
    calibrator: Calibrator | None = None
    turns: Turns = field(default_factory=Turns)

    def logits(self, by_judge: Mapping[str, FloatArray], group: ObjectArray | None) -> FloatArray:
        """The panel's logits, shape (n, C), from each judge's log-probabilities, NaN where it said nothing.

        An item that some judges said nothing of is pooled from the others, weighed as among themselves.
        """
        z = self.pooled(by_judge)
        if self.calibrator is not None:
            z = self.calibrator.predict_logits(z)
        return self.turns.applied(z, group) if self.turns and group is not None else z

    def pooled(self, by_judge: Mapping[str, FloatArray]) -> FloatArray:
        """The weighted mean of the log-probabilities of those judges that said something, shape (n, C)."""
        total: Any = 0.0
        mass: Any = 0.0
        for judge, weight in self.weights.items():
            if weight > 0:
                spoke = ~np.isnan(by_judge[judge][:, :1])
                total = total + weight * np.where(spoke, by_judge[judge], 0.0)
                mass = mass + weight * spoke
        return np.asarray(total / mass, dtype=np.float64)


@dataclass(frozen=True)
class Verdicts:
    """What a panel says of items.

    Attributes:
        scale: of the grades.
        items: their names, shape (n,).
        probs: calibrated and unimodal, shape (n, C).
        decision: the grade of least expected cost, 0..C-1, shape (n,).
        low: the lowest grade of the prediction set, shape (n,).
        high: the highest.
        escalate: whether a person should look, shape (n,); ``None`` where no rate of error was asked for.
        notes: what there is to say about them.
    """

    scale: Scale
    items: ObjectArray
    probs: FloatArray
    decision: IntArray
    low: IntArray
    high: IntArray
    escalate: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

    @property
    def expected(self) -> FloatArray:
        """The expected grade in the scale's values, shape (n,)."""
        return self.probs @ self.scale.values

    def to_arrow(self) -> Any:
        """A pyarrow table: item, p_GRADE, expected, decision, confidence, low, high, escalate."""
        import pyarrow

        names = np.array(self.scale.names, dtype=object)
        columns: dict[str, Any] = {"item": self.items.tolist()}
        columns |= {f"p_{name}": self.probs[:, k] for k, name in enumerate(self.scale.names)}
        columns |= {
            "expected": self.expected,
            "decision": names[self.decision].tolist(),
            "confidence": self.probs[np.arange(len(self.probs)), self.decision],
            "low": names[self.low].tolist(),
            "high": names[self.high].tolist(),
        }
        if self.escalate is not None:
            columns["escalate"] = self.escalate
        return pyarrow.table(columns)


class JudgePanel:
    """Judges calibrated to the grades of people.

    1. Votes are smoothed by the prior that a judge's own votes tell (`orcu.judges.votes`). Where each item has one, its
       distribution is that of people's grades by the vote, and no other map is chosen.
    2. Each judge's distributions are moved by a calibrator, fitted on the items that people have graded. An item with
       several human grades counts with each of them.
    3. Several judges are averaged before they are calibrated as one, which is best with few human grades; or, where
       that has the better log score on held-out items, calibrated each by itself and pooled: a mean of
       log-probabilities, the weights by the log score of items that a judge's calibrator was not fitted on, pulled to
       equal ones; then one calibrator more.
    4. Groups get a turn each (sharper or flatter, milder or stricter), pulled towards none; how much, and whether at
       all, by cross-validated log score.
    5. The nearest unimodal distribution.

    Sets come from the same folds (CV+, `orcu.decisions.conformal.CrossConformalSets`).

    Args:
        calibrator: a name, as for `orcu.calibrators.create`.
        folds: that items are dealt into, by cluster where there are clusters.
        seed: of the folds.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(5, size=300)
        >>> heard = -((np.arange(5) - truth[:, None] - rng.normal(size=(300, 1))) ** 2)
        >>> grades = Grades.of("1..5", {"gpt": geometry.probs(4 * heard)}, human=truth + 1)
        >>> panel = JudgePanel().fit(grades)
        >>> verdicts = panel.apply(grades, cost="absolute")
        >>> verdicts.probs.shape, bool(verdicts.probs.max(axis=1).mean() < 0.8)
        ((300, 5), True)
    """

    scale: Scale
    members_: dict[str, Member]
    pooling_: Pooling

    def __init__(self, *, calibrator: str = "auto", folds: int = FOLDS, seed: int = 0) -> None:
        self.calibrator = calibrator
        self.folds = folds
        self.seed = seed

    @property
    def judges(self) -> list[str]:
        """Whose grades it needs; those that cannot help are not among them."""
        return self.judges_ if self.averaged_ else list(self.members_)

    def fit(self, grades: Grades) -> "JudgePanel":
        """Learn from the items that people have graded.

        Raises:
            InputError: if they are too few, or all of one grade.

        Warns:
            CalibrationWarning: of a judge that always says the same, and of grades that no person gave.
        """
        known = learnable(grades)
        _warn(known)
        self.scale, self.kind_ = known.scale, known.kind
        self.rows_, self.notes_ = len(known), _notes(known)
        self.groups_ = [] if known.group is None else sorted(set(known.group.tolist()))
        dealt = _dealt(known, self.folds, self.seed)
        self.judges_ = known.judges
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # folds are small; `_warn` has told what matters
            known, self.fold_members_ = _averaged_or_apart(known, dealt, self.calibrator)
            self.averaged_ = known.judges != self.judges_
            self.members_ = fitted_members(known, self.calibrator)
            self._fit_on_held(known, dealt)
        return self

    def _fit_on_held(self, known: Grades, dealt: list[Fold]) -> None:
        """What is fitted on items that the members have not seen: pool, turns, sets, when to ask a person."""
        fold, held = _held_out(self.fold_members_, known, dealt)
        weights = fitted_weights(known, held, fold)
        kept = [judge for judge, weight in weights.items() if weight > 0]  # the others cannot help
        self.members_ = {judge: self.members_[judge] for judge in kept}
        self.fold_members_ = [{judge: every[judge] for judge in kept} for every in self.fold_members_]
        spoken = np.any([known.spoke(judge) for judge in kept], axis=0)
        known, fold = known[spoken], fold[spoken]
        held = {judge: held[judge][spoken] for judge in kept}
        self.pooling_ = fitted_pooling(known, weights, held, fold)
        said = nearest_unimodal(geometry.probs(self.pooling_.logits(held, known.group)))
        # one person's grade for an item, drawn: then items are exchangeable, whoever graded them how often
        y = drawn_grades(known, self.seed)
        self.sets_ = CrossConformalSets().fit(said, y, fold=fold)
        self.held_probs_, self.held_grades_ = said, y
        self.fitted_items_, self.fold_ = known.items.tolist(), fold
        self.cluster_ = None if known.cluster is None else known.cluster.tolist()

    def predict_proba(self, grades: Grades) -> FloatArray:
        """Calibrated, unimodal distributions, shape (n, C).

        Raises:
            InputError: if the scale is another, or a judge is missing.
        """
        checked = self._checked(grades)
        return self._probs(self.members_, checked)

    def held_out(self, grades: Grades) -> FloatArray:
        """As `predict_proba`, by maps that were not fitted on the item's own grade where it is one of the fitted ones.

        Other items of a cluster that was fitted on are predicted by the fold that has not seen it, all others by the
        mean of the folds.

        Raises:
            InputError: as `predict_proba`.
        """
        checked = self._checked(grades)
        by_fold = np.stack([self._probs(every, checked) for every in self.fold_members_])
        probs: FloatArray = by_fold.mean(axis=0)
        own = {item: row for row, item in enumerate(self.fitted_items_)}
        unseen_by = {} if self.cluster_ is None else dict(zip(self.cluster_, self.fold_.tolist(), strict=True))
        clusters = [None] * len(checked) if checked.cluster is None else checked.cluster.tolist()
        for row, (item, cluster) in enumerate(zip(checked.items.tolist(), clusters, strict=True)):
            if item in own:
                probs[row] = self.held_probs_[own[item]]
            elif cluster in unseen_by:
                probs[row] = by_fold[unseen_by[cluster], row]
        return probs

    def apply(
        self, grades: Grades, *, cost: Any = "wrong", alpha: float = 0.1, error: float | None = None, within: int = 0
    ) -> Verdicts:
        """Distribution, decision, prediction set and whether a person should look, item by item.

        Args:
            grades: what the judges said of new items.
            cost: of a decision: "wrong" (the likeliest grade), "absolute" (the median), "squared" (the mean, rounded),
                or a matrix (C, C) whose entry [true, decided] is what that decision costs.
            alpha: the share of items whose set may miss the human grade.
            error: send items to a person so that among the others at most this share is decided wrongly; ``None``
                for none. The bound holds with 90 % confidence for each threshold (Clopper and Pearson).
            within: grades by which a decision may be off and still be right.

        Raises:
            InputError: if an argument cannot be used, the scale is another, or a judge is missing.
        """
        checked = self._checked(grades)
        rule = COSTS.get(cost, cost) if isinstance(cost, str) else cost
        probs = self._probs(self.members_, checked)
        decision = decide_checked(probs, rule)
        low, high, notes = self._sets(checked, as_fraction(alpha, name="alpha"))
        escalate = None
        if error is not None:
            threshold = self.threshold(error=error, within=within, rule=rule)
            escalate = risk(probs, decision, within) > threshold
            notes.append(_escalated(escalate, error, within, threshold))
        unknown = [] if checked.group is None else sorted(set(checked.group.tolist()) - set(self.groups_))
        if self.pooling_.turns and unknown:
            notes.append(f"groups without human grades, judged like all: {', '.join(unknown[:5])}")
        return Verdicts(self.scale, checked.items, probs, decision, low, high, escalate, (*grades.notes, *notes))

    def _sets(self, grades: Grades, alpha: float) -> tuple[IntArray, IntArray, list[str]]:
        """The lowest and the highest grade of each item's set, and what there is to say.

        Items of a new cluster are like the clusters that there were, not like their items: of G clusters the share
        (1 - alpha)(1 + 1/G) of all fitted grades must lie inside.
        """
        clusters = None if self.cluster_ is None else len(set(self.cluster_))
        aimed = alpha if clusters is None else alpha - (1 - alpha) / clusters
        if aimed * (len(self.held_grades_) + 1) < 1:
            every = np.zeros(len(grades), dtype=np.int64)
            few = f"{len(self.held_grades_)} items" if clusters is None else f"{clusters} clusters"
            note = f"{few} with human grades are too few for sets that miss {alpha:.0%}: they hold every grade"
            return every, every + len(self.scale) - 1, [note]
        self.sets_.alpha = aimed
        low, high = self.sets_.predict(np.stack([self._probs(every, grades) for every in self.fold_members_]))
        return low, high, []

    def threshold(self, *, error: float, within: int = 0, rule: Any = "argmax") -> float:
        """The largest risk of a wrong decision at which the error among all with less is bounded by ``error``.

        Of the fitted items, ordered by the risk that maps which have not seen them assign, the longest beginning counts
        whose number of wrong decisions has a one-sided 90 % bound of at most ``error``; -1 where there is none, and
        infinite where it is all of them. Items of a cluster count as fewer, the more they err together.

        Raises:
            InputError: if ``error`` is no fraction or ``within`` no number of grades.
        """
        error = as_fraction(error, name="error")
        if isinstance(within, bool) or not isinstance(within, int) or not 0 <= within < len(self.scale) - 1:
            raise InputError(f"within: expected a number of grades from 0 to {len(self.scale) - 2}, got {within!r}.")
        decision = decide_checked(self.held_probs_, rule)
        own = risk(self.held_probs_, decision, within)
        order = np.argsort(own, kind="stable")
        wrong = np.cumsum(np.abs(decision - self.held_grades_)[order] > within)
        count = np.arange(1, len(order) + 1)
        effect = self._design_effect(np.abs(decision - self.held_grades_) > within)
        right = np.maximum(count - wrong, 1) / effect
        bound = np.where(wrong == count, 1.0, beta.ppf(CONFIDENCE, wrong / effect + 1, right))
        last = np.append(np.diff(own[order]) > 0, True)  # items of the same risk stay together
        fine = np.flatnonzero((bound <= error) & last)
        if not len(fine):
            return -1.0
        return float("inf") if fine[-1] == len(order) - 1 else float(own[order][fine[-1]])

    def _design_effect(self, wrong: npt.NDArray[np.bool_]) -> float:
        """How many items of clusters tell as much as one that stands alone, at least 1."""
        rate = float(wrong.mean())
        if self.cluster_ is None or rate in (0.0, 1.0):
            return 1.0
        cluster = as_codes(self.cluster_, rows=len(wrong), name="cluster")
        sums = np.bincount(cluster, weights=wrong - rate)
        return max(1.0, float(sums @ sums) / (len(wrong) * rate * (1 - rate)))

    def described(self) -> str:
        """What was put together, in some sentences."""
        lines = [f"{len(self.judges_)} judges are averaged, then calibrated as one"] if self.averaged_ else []
        for judge, member in self.members_.items():
            share = "" if len(self.pooling_.weights) == 1 else f" (weight {self.pooling_.weights[judge]:.2f})"
            single = member.prior is not None and member.prior.ndim == 2
            plain = "people's grades by the judge's single grade." if single else f"{member.calibrator.name}."
            reason = getattr(member.calibrator, "reason_", plain)
            lines.append(f"{judge}{share}: {reason}")
        dropped = [judge for judge, weight in self.pooling_.weights.items() if weight == 0]
        if dropped:
            lines.append(f"cannot help and are left out: {', '.join(dropped)}")
        if self.groups_:
            lines.append(self.pooling_.turns.described("items"))
        return "\n".join(lines)

    def _probs(self, members: Mapping[str, Member], grades: Grades) -> FloatArray:
        return nearest_unimodal(geometry.probs(self.pooling_.logits(_log_probs(members, grades), grades.group)))

    def _checked(self, grades: Grades) -> Grades:
        if not hasattr(self, "pooling_"):
            raise InputError("JudgePanel is not fitted; call fit(grades) first.")
        if grades.scale != self.scale:
            raise InputError(f"grades: the scale is {grades.scale}; this panel was fitted on {self.scale}.")
        if grades.kind != self.kind_:
            words = {PROBS: "probabilities", VOTES: "votes or bare grades"}
            raise InputError(f"grades: these are {words[grades.kind]}; this panel was fitted on {words[self.kind_]}.")
        missing = [judge for judge in self.judges if judge not in grades.said]
        if missing:
            raise InputError(
                f"grades: there is nothing by {', '.join(missing)}, whom this panel was fitted on; the judges here are "
                f"{', '.join(grades.judges)}. Name the column of judges: judge= (--judge)."
            )
        if self.pooling_.turns and grades.group is None:
            raise InputError(
                "group: this panel has a turn for each of its groups; name the column of groups: group= (--group)."
            )
        if self.averaged_:
            grades = replace(grades, said={judge: grades.said[judge] for judge in self.judges}).together()
        spoken = np.any([grades.spoke(judge) for judge in self.members_], axis=0)
        if not spoken.all():
            item = grades.items[int(np.argmin(spoken))]
            raise InputError(f"grades: none of {', '.join(self.members_)} said anything of item {item!r}.")
        return grades

    def to_dict(self) -> dict[str, Any]:
        """Everything that was learned as plain data, fit for JSON."""
        pooling = self.pooling_
        return {
            "judge_panel": STATE_VERSION,
            "grades": list(self.scale.names),
            "kind": self.kind_,
            "calibrator": self.calibrator,
            "seed": self.seed,
            "rows": self.rows_,
            "notes": list(self.notes_),
            "groups": list(self.groups_),
            "judges": list(self.judges_),
            "averaged": self.averaged_,
            "weights": pooling.weights,
            "pool": None if pooling.calibrator is None else pooling.calibrator.to_dict(),
            **pooling.turns.to_dict(),
            "members": _members_state(self.members_),
            "folds": [_members_state(every) for every in self.fold_members_],
            "items": list(self.fitted_items_),
            "fold": [int(one) for one in self.fold_],
            "cluster": self.cluster_,
            "held_probs": self.held_probs_.tolist(),
            "held_grades": self.held_grades_.tolist(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON; the file appears whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "JudgePanel":
        """The panel in a JSON file that `save` wrote.

        Raises:
            InputError: if the file cannot be read as one.
        """
        return read_json(path, cls.from_dict)

    @classmethod
    def from_dict(cls, state: Any) -> "JudgePanel":
        """The panel that `to_dict` gave.

        Raises:
            InputError: if the data are of another kind or version, or damaged.
        """
        if not isinstance(state, Mapping) or "judge_panel" not in state:
            raise InputError("this is no panel of judges: expected the JSON that `orcu judge fit` writes.")
        if state["judge_panel"] != STATE_VERSION:
            raise InputError(f"judge_panel: this orcu reads version {STATE_VERSION}; fit it anew.")
        from orcu.predictions.schemas import FittedPanel, validated

        checked = validated(FittedPanel, state, "the panel's data")
        panel = cls(calibrator=checked.calibrator, folds=len(checked.folds), seed=checked.seed)
        panel.scale, panel.kind_ = Scale.of(checked.grades), checked.kind
        panel.rows_, panel.notes_, panel.groups_ = checked.rows, tuple(checked.notes), checked.groups
        panel.judges_, panel.averaged_ = checked.judges, checked.averaged
        calibrator = None if checked.pool is None else calibrator_from(checked.pool)
        panel.pooling_ = Pooling(checked.weights, calibrator, Turns.of(checked.pull, checked.turns))
        panel.members_ = {judge: _member(one) for judge, one in checked.members.items()}
        panel.fold_members_ = [{judge: _member(one) for judge, one in every.items()} for every in checked.folds]
        panel.fitted_items_, panel.fold_ = checked.items, np.array(checked.fold, dtype=np.int64)
        panel.cluster_ = checked.cluster
        panel.held_probs_ = np.array(checked.held_probs, dtype=np.float64)
        panel.held_grades_ = np.array(checked.held_grades, dtype=np.int64)
        shape = (len(checked.items), len(panel.scale))
        if panel.held_probs_.shape != shape or not len(panel.fold_) == len(panel.held_grades_) == shape[0]:
            raise InputError("the panel's data are damaged (a row for each fitted item is needed); fit anew.")
        panel.sets_ = CrossConformalSets().fit(panel.held_probs_, panel.held_grades_, fold=panel.fold_)
        return panel


def fitted_map(known: Grades, *, calibrator: str = "auto", seed: int = 0) -> JudgePanel:
    """A panel that can predict: of a single judge without the folds that sets and the rule when to ask take.

    Args:
        known: as `learnable` gives them.
        calibrator: as for `JudgePanel`.
        seed: as for `JudgePanel`.
    """
    panel = JudgePanel(calibrator=calibrator, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        if len(known.judges) > 1 or known.group is not None:
            return panel.fit(known)
        panel.scale, panel.kind_, panel.groups_ = known.scale, known.kind, []
        panel.judges_, panel.averaged_ = known.judges, False
        panel.members_ = fitted_members(known, calibrator)
    panel.pooling_ = Pooling(dict.fromkeys(known.judges, 1.0))
    return panel


def learnable(grades: Grades) -> Grades:
    """The items that people have graded and some judge has said something of.

    Raises:
        InputError: if they are too few, or all of one grade.
    """
    spoken = np.any([grades.spoke(judge) for judge in grades.judges], axis=0)
    known = grades[grades.graded & spoken]
    if len(known) < FEWEST:
        raise InputError(
            f"human: {len(known)} judged items have a human grade; {FEWEST} are the least to calibrate on, and some "
            "hundred are worth it. Let people grade more items."
        )
    given = np.flatnonzero(known.human.sum(axis=0) > 0)
    if len(given) < 2:
        raise InputError(
            f"human: every human grade is {known.scale.names[given[0]]}: nothing tells when a judge is wrong. Let "
            "people grade items of other quality too."
        )
    return known


def _warn(known: Grades) -> None:
    counts = known.human.sum(axis=0)
    absent = [name for name, count in zip(known.scale.names, counts, strict=True) if count == 0]
    if absent:
        warnings.warn(
            f"no person gave the grade {', '.join(absent)}; nothing is learned about it.",
            CalibrationWarning,
            stacklevel=3,
        )
    for judge in known.judges:
        said = known.said[judge][known.spoke(judge)]
        shares = said / said.sum(axis=1, keepdims=True)
        if len(shares) > 1 and np.ptp(shares, axis=0).max() < 1e-9:
            warnings.warn(
                f"{judge} says the same of every item; what is left of it is how often people give each grade.",
                CalibrationWarning,
                stacklevel=3,
            )


def _notes(known: Grades) -> tuple[str, ...]:
    people = f"{int(known.raters.sum()):,} human grades of {len(known):,} items"
    return (f"fitted on {people}",)


def _dealt(known: Grades, folds: int, seed: int) -> list[Fold]:
    mode = known.human.argmax(axis=1)
    groups = None if known.cluster is None else as_codes(known.cluster, rows=len(known), name="cluster")
    most = len(known) if groups is None else int(groups.max()) + 1
    if most < 2:
        raise InputError("cluster: all items belong to one cluster; some must be left out to judge on. Leave it out.")
    return deal(mode, min(folds, most), stop=0, groups=groups, seed=seed)


def human_rows(known: Grades) -> tuple[IntArray, IntArray, FloatArray]:
    """A row for each grade that people gave: the item's place, the grade 0..C-1, and the share of the item.

    Weights sum to the number of items, so that ten raters of one item do not outvote ten items.
    """
    place, grade = np.nonzero(known.human > 0)
    return place, grade, known.human[place, grade]


def drawn_grades(known: Grades, seed: int) -> IntArray:
    """One of the grades that people gave to each item, drawn by their shares, shape (n,)."""
    draws = np.random.default_rng(seed).random((len(known), 1))
    grades: IntArray = np.minimum((known.human.cumsum(axis=1) < draws).sum(axis=1), len(known.scale) - 1)
    return grades


def fitted_members(known: Grades, calibrator: str) -> dict[str, Member]:
    """Each judge's map, fitted on the graded items that it said something of."""
    members = {}
    place, grade, share = human_rows(known)
    for judge in known.judges:
        rows = known.spoke(judge)[place]
        spoken = known[known.spoke(judge)]
        single = known.kind == VOTES and bool((spoken.said[judge].sum(axis=1) == 1).all())
        if single and calibrator == AUTO:
            members[judge] = Member(grades_by_vote(spoken.said[judge], spoken.human), create(ONE_HUMP))
            continue
        prior = fitted_prior(spoken.said[judge]) if known.kind == VOTES else None
        here = place[rows]
        if len(np.unique(grade[rows])) < 2:
            raise InputError(f"{judge}: too few of the items that it judged have human grades that differ.")
        said = known.said[judge][here]
        fitted = create(calibrator).fit(
            probs=said if prior is None else smoothed(said, prior),
            y=grade[rows],
            weight=share[rows],
            subject=_subjects(known, here),
        )
        members[judge] = Member(prior, fitted)
    return members


def _held_out(
    fold_members: list[dict[str, Member]], known: Grades, dealt: list[Fold]
) -> tuple[IntArray, dict[str, FloatArray]]:
    """The fold of each item, and what each judge says of it by the map that was not fitted on it."""
    fold = np.empty(len(known), dtype=np.int64)
    held: dict[str, FloatArray] = {judge: np.full(known.human.shape, np.nan) for judge in known.judges}
    for number, part in enumerate(dealt):
        fold[part.held] = number
        for judge, logs in _log_probs(fold_members[number], known[part.held]).items():
            held[judge][part.held] = logs
    return fold, held


def _averaged_or_apart(known: Grades, dealt: list[Fold], calibrator: str) -> tuple[Grades, list[dict[str, Member]]]:
    """The judges as they are to be calibrated, and their maps of all folds but one.

    Averaged as one, or each by itself: by the log score of held-out items, where the pool is fitted on the other folds
    too; in doubt averaged.
    """

    def fold_members(grades: Grades) -> list[dict[str, Member]]:
        return [fitted_members(grades[part.train], calibrator) for part in dealt]

    if len(known.judges) == 1:
        return known, fold_members(known)
    averaged = known.together()
    as_one = fold_members(averaged)
    everyone = np.all([known.spoke(judge) for judge in known.judges], axis=0)
    if min(everyone[part.train].sum() for part in dealt) < FEWEST:
        return averaged, as_one  # too few items to weigh the judges by
    apart = fold_members(known)
    fold, held = _held_out(apart, known, dealt)
    logs = next(iter(_held_out(as_one, averaged, dealt)[1].values()))
    pooled = np.empty_like(logs)
    alike = replace(known, group=None)
    for part in dealt:
        others = {judge: values[part.train] for judge, values in held.items()}
        weights = fitted_weights(alike[part.train], others, fold[part.train])
        spoken = np.any([known.spoke(judge) for judge, weight in weights.items() if weight > 0], axis=0)
        train, judging = (rows[spoken[rows]] for rows in (part.train, part.held))
        heard = {judge: values[train] for judge, values in held.items()}
        pooling = fitted_pooling(alike[train], weights, heard, fold[train])
        pooled[part.held] = logs[part.held]  # of items that only judges without weight spoke of
        pooled[judging] = geometry.log_probs(
            pooling.logits({judge: values[judging] for judge, values in held.items()}, None)
        )
    place, grade, share = human_rows(known)
    own = -np.stack([logs[place, grade], pooled[place, grade]])
    better = LogScores(own, share / share.sum(), _subjects(known, place)).simplest(ERRORS)
    return (known, apart) if better else (averaged, as_one)


def _subjects(known: Grades, place: IntArray) -> IntArray | None:
    """What stays together when rows are dealt: a cluster, or the grades of an item that has several."""
    if known.cluster is not None:
        return as_codes(known.cluster, rows=len(known), name="cluster")[place]
    return None if len(np.unique(place)) == len(place) else place


def _log_probs(members: Mapping[str, Member], grades: Grades) -> dict[str, FloatArray]:
    """What each judge says after its map, NaN where it said nothing."""
    by_judge = {}
    for judge, member in members.items():
        spoke = grades.spoke(judge)
        by_judge[judge] = np.full(grades.human.shape, np.nan)
        if spoke.any():
            by_judge[judge][spoke] = member.log_probs(grades.said[judge][spoke])
    return by_judge


def fitted_weights(known: Grades, held: Mapping[str, FloatArray], fold: IntArray) -> dict[str, float]:
    """The weights of the judges in a pool, summing to 1, by the log score of what they say of items out of fold.

    A judge that is no better than saying how often people give each grade gets nothing.
    """
    if len(held) == 1:
        return dict.fromkeys(held, 1.0)
    scores = {judge: _against_frequencies(known, logs, fold) for judge, logs in held.items()}
    helping = [judge for judge, score in scores.items() if score.simplest(ERRORS)]
    helping = helping or [min(scores, key=lambda judge: float(scores[judge].means[1]))]
    pooled = _pooled_weights(known, {judge: held[judge] for judge in helping})
    return {judge: pooled.get(judge, 0.0) for judge in held}


def _against_frequencies(known: Grades, logs: FloatArray, fold: IntArray) -> LogScores:
    """The log losses of the frequencies of people's grades in the other folds, and of a judge, on what it spoke of."""
    place, grade, share = human_rows(known)
    counts = np.stack([known.human[fold != k].sum(axis=0) for k in range(int(fold.max()) + 1)]) + 0.5
    frequencies = np.log(counts / counts.sum(axis=1, keepdims=True))
    spoke = ~np.isnan(logs[place, 0])
    place, grade, share = place[spoke], grade[spoke], share[spoke]
    own = -np.stack([frequencies[fold[place], grade], logs[place, grade]])
    return LogScores(own, share / share.sum(), _subjects(known, place))


def _pooled_weights(known: Grades, held: Mapping[str, FloatArray]) -> dict[str, float]:
    if len(held) == 1:
        return dict.fromkeys(held, 1.0)
    place, grade, share = human_rows(known)
    everyone = ~np.any([np.isnan(logs[:, 0]) for logs in held.values()], axis=0)[place]
    logs = np.stack([held[judge][place[everyone]] for judge in held])
    return dict(zip(held, pool_weights(logs, grade[everyone], share[everyone]).tolist(), strict=True))


def fitted_pooling(known: Grades, weights: dict[str, float], held: Mapping[str, FloatArray], fold: IntArray) -> Pooling:
    """The pool's calibrator and the turns of the groups, from what is said of items out of fold."""
    place, grade, share = human_rows(known)
    pooling = Pooling(weights)
    if len(weights) > 1:
        pooled = pooling.pooled(held)[place]
        calibrator = create("auto").fit(pooled, grade, weight=share, subject=_subjects(known, place))
        pooling = Pooling(weights, calibrator)
    if known.group is None:
        return pooling
    logits = pooling.logits(held, None)[place]
    subjects = _subjects(known, place)
    turns = Turns.fitted(logits, grade, share, known.group[place], fold=fold[place], subject=subjects)
    return replace(pooling, turns=turns)


def risk(probs: FloatArray, decision: IntArray, within: int) -> FloatArray:
    """The probability that the human grade is further than ``within`` from the decision, shape (n,).

    Example:
        >>> risk(np.array([[0.2, 0.5, 0.3]]), np.array([1]), 0)
        array([0.5])
    """
    far = np.abs(np.arange(probs.shape[1]) - decision[:, None]) > within
    return np.asarray((probs * far).sum(axis=1))


def _escalated(escalate: npt.NDArray[np.bool_], error: float, within: int, threshold: float) -> str:
    wrong = "wrong" if within == 0 else f"more than {within} off"
    if threshold < 0:
        allow = "a larger error" if within else "a larger error, or --within 1"
        return f"no item can be left to the judges with at most {error:.0%} {wrong}: all go to a person. Allow {allow}."
    count = int(escalate.sum())
    return (
        f"{count:,} of {len(escalate):,} items ({count / len(escalate):.0%}) go to a person; of the others at most "
        f"{error:.0%} should be {wrong}, as far as the graded items tell"
    )


def _members_state(members: Mapping[str, Member]) -> dict[str, Any]:
    return {
        judge: {"prior": None if one.prior is None else one.prior.tolist(), "calibrator": one.calibrator.to_dict()}
        for judge, one in members.items()
    }


def _member(state: Any) -> Member:
    prior = None if state.prior is None else np.array(state.prior, dtype=np.float64)
    return Member(prior, calibrator_from(state.calibrator))
