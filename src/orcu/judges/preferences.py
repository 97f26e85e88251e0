"""Preferences of a judge between the answers of two systems: reading, both orders of a pair, calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray, ObjectArray
from orcu.judges.grades import Grades, as_names
from orcu.judges.levels import GradeLevels
from orcu.judges.pool import MIN_ITEMS, fit_judges, predict_log_probs
from orcu.judges.reading import column_names, read
from orcu.model_selection import cross_fit_folds

N_FOLDS = 5
CALIBRATOR = "vector"  # not projected: few ties between two frequent preferences are not unimodal
MAX_LEVELS = 7
TIE_NAMES = ("tie", "tied", "equal", "draw", "same", "both", "neither")


@dataclass(frozen=True, repr=False)
class Preferences:
    """Preferences of a judge, and of people for some rows.

    Attributes:
        levels: outcomes from "the first is better" to "the second is better", with the same number on both sides.
        item: prompt of each row, shape (n,).
        first: system that was shown first, shape (n,).
        second: system that was shown second, shape (n,).
        kind: content of the ratings: "probs" (distributions) or "votes" (counts of outcomes).
        ratings: ratings of the judge, shape (n, C).
        human: shares of the outcomes chosen by people, in the order of the row, shape (n, C); NaN without.
        cluster: resampling unit of each row; by default its prompt.
        notes: remarks about the data.

    Example:
        >>> preferences = Preferences.from_arrays(
        ...     "A,tie,B", item=[1, 1], first=["old", "new"], second=["new", "old"], probs=[[0.6, 0.3, 0.1]] * 2
        ... )
        >>> preferences
        Preferences(rows=2, items=1, systems=['new', 'old'], levels='A, tie, B', rows_with_human_preference=0)
    """

    levels: GradeLevels
    item: ObjectArray
    first: ObjectArray
    second: ObjectArray
    kind: str
    ratings: FloatArray
    human: FloatArray
    cluster: ObjectArray
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ends = [self.levels.names[0], self.levels.names[-1]]
        tie = next((name for name in ends if name.strip().lower() in TIE_NAMES), None)
        if tie is not None:
            raise InputError(
                f"levels: {tie!r} is the first or the last outcome, but a tie lies in the middle: A,tie,B. Give the "
                "outcomes from 'the first is better' to 'the second is better'."
            )
        if not 2 <= len(self.levels) <= MAX_LEVELS:
            raise InputError(
                f"levels: expected 2 to {MAX_LEVELS} outcomes from 'the first is better' to 'the second is better', "
                f"such as A,tie,B; got {self.levels}."
            )
        same = self.first == self.second
        if same.any():
            row = int(np.argmax(same))
            raise InputError(
                f"first, second: row {row + 1} compares {self.first[row]!r} with itself; remove rows with one system."
            )

    @classmethod
    def from_arrays(
        cls,
        levels: str | Sequence[Any] | GradeLevels,
        *,
        item: Sequence[Any],
        first: Sequence[Any],
        second: Sequence[Any],
        probs: Any = None,
        votes: Any = None,
        human: Any = None,
        cluster: Sequence[Any] | None = None,
    ) -> "Preferences":
        """Create preferences from arrays with one row for each judgement.

        Args:
            levels: outcomes from "the first is better" to "the second is better": ``"A,tie,B"``.
            item: prompt of each row.
            first: system that was shown first.
            second: system that was shown second.
            probs: probability of each outcome, shape (n, C).
            votes: count of each outcome, shape (n, C); one of ``probs`` and ``votes``.
            human: outcome chosen by a person, ``None`` where there is none; or shares of outcomes, shape (n, C).
            cluster: resampling unit of each row; by default its prompt.

        Raises:
            InputError: if lengths, levels or ratings are invalid, or a row compares a system with itself.
        """
        if (probs is None) == (votes is None):
            raise InputError("probs, votes: give one of the two.")
        kind, ratings = ("votes", votes) if probs is None else ("probs", probs)
        grades = Grades.from_arrays(levels, {"judge": ratings}, kind=kind, human=human)
        columns = {"item": item, "first": first, "second": second, "cluster": item if cluster is None else cluster}
        names: dict[str, Any] = {n: np.array(as_names(values, n), dtype=object) for n, values in columns.items()}
        for name, column in names.items():
            if len(column) != len(grades):
                raise InputError(f"{name}: expected one entry for each of {len(grades)} rows, got {len(column)}.")
        return cls(grades.levels, kind=kind, ratings=grades.ratings["judge"], human=grades.human, **names)

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        return (
            f"Preferences(rows={len(self)}, items={len(set(self.item.tolist()))}, systems={list(self.systems)}, "
            f"levels='{self.levels}', rows_with_human_preference={int((~np.isnan(self.human[:, 0])).sum())})"
        )

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, sorted."""
        return tuple(sorted({*self.first.tolist(), *self.second.tolist()}))

    @property
    def shares(self) -> FloatArray:
        """Ratings as distributions, shape (n, C)."""
        return self.ratings / self.ratings.sum(axis=1, keepdims=True)


def read_preferences(
    source: Any,
    *,
    levels: str | Sequence[Any] | GradeLevels,
    first: str,
    second: str,
    item: str,
    human: str | None = None,
    cluster: str | None = None,
    **options: Any,
) -> Preferences:
    """Read preferences from a table or JSON records with one row for each judgement.

    A pair that is judged in both orders has two rows with the same item, where ``first`` and ``second`` change places.

    Args:
        source: file (.csv, .parquet, .jsonl) or frame.
        levels: outcomes from "the first is better" to "the second is better": ``"A,tie,B"``, or five from
            ``"A>>B"`` to ``"B>>A"``.
        first: column of the system that was shown first.
        second: column of the system that was shown second.
        item: column of the prompts.
        human: column of the outcome chosen by a person, in the order of the row; may have gaps.
        cluster: column of resampling units, by default the prompts.
        options: ``probs``, ``votes`` or ``grade`` with its options, as for `orcu.judges.read`.

    Raises:
        InputError: if the source cannot be read; the message names the row or the argument.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame(
        ...     {"id": ["a", "a"], "x": ["old", "new"], "y": ["new", "old"], "verdict": ["B", "tie"]}
        ... )
        >>> preferences = read_preferences(
        ...     frame, levels="A,tie,B", first="x", second="y", item="id", grade="verdict"
        ... )
        >>> preferences.shares.tolist()
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    grades = read(source, levels=levels, human=human, **options)
    if len(grades.judges) > 1:
        grades = grades.average_judges()
    rows = np.array([int(name) - 1 for name in grades.items.tolist()])  # items of `read` are row numbers
    columns = {"item": item, "first": first, "second": second, "cluster": cluster or item}
    names = {role: np.array(values, dtype=object)[rows] for role, values in column_names(source, columns).items()}
    (ratings,) = grades.ratings.values()
    notes = (
        f"{len(grades):,} rows with an outcome of the judge, {int(grades.human_mask.sum()):,} with one of a person",
        f"outcomes, from 'the first is better' to 'the second is better': {grades.levels}",
    )
    return Preferences(grades.levels, kind=grades.kind, ratings=ratings, human=grades.human, notes=notes, **names)


@dataclass(frozen=True)
class Comparisons:
    """Comparisons of two systems on a prompt, with both orders combined; the first system is first in the alphabet.

    Attributes:
        item: prompt, shape (n,).
        first: first system, shape (n,).
        second: second system, shape (n,).
        order: 1 if the first system was always shown first, -1 if second, 0 if it was shown first and second.
        probs: mean distribution of the judge over the orders, shape (n, C).
        human: shares of the outcomes chosen by people, shape (n, C); NaN without.
        cluster: resampling unit, shape (n,).
        both: for comparisons in both orders, the mean distribution in each order, both in the direction of
            ``first``; shape (n, 2, C), NaN for others.
        grades: ratings and human preferences as `Grades`, for the calibration.
    """

    item: ObjectArray
    first: ObjectArray
    second: ObjectArray
    order: npt.NDArray[np.int64]
    probs: FloatArray
    human: FloatArray
    cluster: ObjectArray
    both: FloatArray
    grades: Grades

    def __len__(self) -> int:
        return len(self.item)


def combine_orders(preferences: Preferences) -> Comparisons:
    """Combine the rows of a prompt and two systems: outcomes of the other order are reversed, each order counts half.

    Votes are summed. A comparison in one order keeps the bias of the position.

    Raises:
        InputError: if rows of a comparison have different clusters.
    """
    keys: dict[tuple[str, str, str], list[tuple[int, bool]]] = {}
    columns = zip(preferences.item.tolist(), preferences.first.tolist(), preferences.second.tolist(), strict=True)
    for row, (item, first, second) in enumerate(columns):
        is_swapped = first > second
        keys.setdefault((item, *sorted((first, second))), []).append((row, is_swapped))
    size, num_outcomes = len(keys), len(preferences.levels)
    shares, ratings, human = preferences.shares, np.zeros((size, num_outcomes)), np.full((size, num_outcomes), np.nan)
    both, order = np.full((size, 2, num_outcomes), np.nan), np.zeros(size, dtype=np.int64)
    probs, cluster = np.zeros((size, num_outcomes)), np.empty(size, dtype=object)
    for number, rows in enumerate(keys.values()):
        index = [row for row, _ in rows]
        if len(set(preferences.cluster[index].tolist())) > 1:
            one, other = (f"row {row + 1} ({preferences.cluster[row]})" for row in index[:2])
            raise InputError(
                f"cluster: {one} and {other} are of the same prompt and systems; expected one cluster for both."
            )
        cluster[number] = preferences.cluster[index[0]]
        by_order: list[list[FloatArray]] = [[], []]
        people = []
        for row, is_swapped in rows:
            direction = slice(None, None, -1) if is_swapped else slice(None)
            by_order[is_swapped].append(shares[row][direction])
            ratings[number] += preferences.ratings[row][direction]
            if not np.isnan(preferences.human[row, 0]):
                people.append(preferences.human[row][direction])
        means = [np.mean(each, axis=0) for each in by_order if each]
        probs[number] = np.mean(means, axis=0)
        if len(means) == 2:
            both[number] = means
        else:
            order[number] = 1 if by_order[0] else -1
        if people:
            human[number] = np.mean(people, axis=0)
    items, first, second = (np.array(column, dtype=object) for column in zip(*keys, strict=True))
    levels = preferences.levels
    names = np.array([f"{number}" for number in range(size)], dtype=object)
    kind_ratings = probs if preferences.kind == "probs" else ratings
    grades = Grades.from_ratings(levels, names, preferences.kind, {"judge": kind_ratings}, cluster=cluster)
    grades = replace(grades, human=human, n_raters=(~np.isnan(human[:, 0])).astype(np.int64))
    return Comparisons(items, first, second, order, probs, human, cluster, both, grades)


def calibrate(comparisons: Comparisons, *, random_state: int = 0) -> FloatArray:
    """Distributions of the judge, calibrated to the human preferences, shape (n, C).

    Each comparison is fitted in both directions, and the predictions of both are averaged, so that the result does not
    depend on which system is called first. Comparisons with human preferences and others of their clusters get the
    prediction of a fold without them, the others the mean over the folds.

    Raises:
        InputError: if too few comparisons have a human preference, or they are in one cluster.
    """
    graded = np.flatnonzero(comparisons.grades.human_mask)
    clusters, code = np.unique(comparisons.cluster[graded], return_inverse=True)
    if len(graded) < MIN_ITEMS or len(clusters) < 2:
        raise InputError(
            f"human: {len(graded)} comparisons in {len(clusters)} prompts have a human preference; expected at least "
            f"{MIN_ITEMS} in 2 prompts for the calibration."
        )
    labels = comparisons.human[graded].argmax(axis=1)
    forward, backward = comparisons.grades, _reverse(comparisons.grades)
    folds = cross_fit_folds(
        labels, min(N_FOLDS, len(clusters)), early_stopping=0, groups=code, random_state=random_state
    )
    predictions = []
    for fold in folds:
        train = graded[fold.train]
        judges = fit_judges(_concatenate(forward[train], backward[train]), CALIBRATOR)
        one, other = (geometry.probs(predict_log_probs(judges, each)["judge"]) for each in (forward, backward))
        predictions.append((one + other[:, ::-1]) / 2)
    probs = np.mean(predictions, axis=0)
    fold_of_cluster = {
        name: number for number, fold in enumerate(folds) for name in comparisons.cluster[graded[fold.test]].tolist()
    }
    for row, name in enumerate(comparisons.cluster.tolist()):
        if name in fold_of_cluster:
            probs[row] = predictions[fold_of_cluster[name]][row]
    return np.asarray(probs)


def _reverse(grades: Grades) -> Grades:
    """The same comparisons in the other direction."""
    ratings = {judge: values[:, ::-1] for judge, values in grades.ratings.items()}
    return replace(grades, ratings=ratings, human=grades.human[:, ::-1])


def _concatenate(one: Grades, other: Grades) -> Grades:
    """Items of two values; those of a pair stay in one cluster."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])
        for name in ("items", "human", "n_raters", "cluster")
    }
    ratings = {judge: np.concatenate([one.ratings[judge], other.ratings[judge]]) for judge in one.judges}
    return replace(one, ratings=ratings, **joined)
