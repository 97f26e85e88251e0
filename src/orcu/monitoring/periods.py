"""Two periods of a portfolio: population stability, migration of cases between grades, and a backtest of each grade."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from orcu.decisions.rules import decide_checked
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray
from orcu.predictions import Predictions
from orcu.resampling import CONFIDENCE_LEVEL

UNLABELLED = -1


@dataclass(frozen=True)
class GradeBacktest:
    """Predicted and observed frequency of an event among the rows that are decided as one grade."""

    grade: str
    rows: int  # labelled rows
    predicted: float  # mean predicted probability of the event; NaN without rows
    events: int
    p_value: float  # of the Jeffreys test; small if the probability is too low


@dataclass(frozen=True)
class PeriodComparison:
    """Result of `compare_periods`."""

    classes: tuple[str, ...]
    counts: IntArray  # (2, C): rows decided as each grade in the first and the second period
    stability_index: float
    stability_limit: float  # 95 % quantile of the index without a change
    migration: IntArray | None  # (C, C): cases by first and second grade; None without ids
    event: str
    backtest: list[GradeBacktest]  # of the second period; empty without labels

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain data for JSON; ``None`` if not defined or infinite."""
        return {
            "classes": list(self.classes),
            "counts": self.counts.tolist(),
            "stability_index": self.stability_index if math.isfinite(self.stability_index) else None,
            "stability_limit": self.stability_limit,
            "migration": None if self.migration is None else self.migration.tolist(),
            "event": self.event,
            "backtest": [
                vars(grade) | {"predicted": None if math.isnan(grade.predicted) else grade.predicted}
                for grade in self.backtest
            ],
        }


def compare_periods(
    before: Predictions,
    after: Predictions,
    *,
    rule: Any = "argmax",
    event: str | None = None,
    y: IntArray | None = None,
) -> PeriodComparison:
    """Compare the grades of two periods: population stability index, migration matrix and Jeffreys test of each grade.

    A grade is the decided class. The migration matrix counts the cases with the same id in both periods.

    Args:
        before: predictions of the first period.
        after: predictions of the second period; its labels are backtested.
        rule: decision rule, as in `orcu.decide`.
        event: name of the class from which on the event of the backtest occurs; the highest class by default.
        y: labels of the second period as class codes, -1 where there is none, in place of those of ``after``.

    Raises:
        InputError: if the classes differ, rows have weights, or an id occurs twice in a period.
        UnknownNameError: if the event is not one of the classes.

    Example:
        >>> before = Predictions(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], ids=["a", "b", "c"])
        >>> after = Predictions(probs=[[0.6, 0.4], [0.2, 0.8], [0.1, 0.9]], y=[0, 1, 1], ids=["a", "b", "c"])
        >>> result = compare_periods(before, after)
        >>> round(result.stability_index, 3), result.migration.tolist()
        (0.462, [[1, 1], [0, 1]])
        >>> [(grade.rows, grade.events, round(grade.p_value, 3)) for grade in result.backtest]
        [(1, 0, 0.748), (2, 2, 0.391)]
    """
    if before.classes != after.classes:
        raise InputError(
            f"after: its classes are {', '.join(after.classes)}, those of the first period {', '.join(before.classes)}."
        )
    for name, predictions in (("before", before), ("after", after)):
        if predictions.sample_weight is not None:
            raise InputError(f"{name}: rows have sample weights, but each case counts once here; leave them out.")
    if event is not None and event not in after.classes[1:]:
        raise UnknownNameError("event", event, after.classes[1:])
    size = after.num_classes
    first, second = (decide_checked(predictions.probs, rule) for predictions in (before, after))
    counts = np.stack([np.bincount(grades, minlength=size) for grades in (first, second)])
    threshold = size - 1 if event is None else after.classes.index(event)
    labels = after.y if y is None else y
    return PeriodComparison(
        classes=after.classes,
        counts=counts,
        stability_index=population_stability_index(*counts),
        stability_limit=float(special.chdtri(size - 1, 1 - CONFIDENCE_LEVEL) * (1 / counts.sum(axis=1)).sum()),
        migration=_matched_migration(before, after, first, second),
        event=after.classes[-1] if threshold == size - 1 else f"{after.classes[threshold]} or above",
        backtest=[] if labels is None else _backtest(after, second, labels, threshold),
    )


def population_stability_index(before: Any, after: Any) -> float:
    """Population stability index (PSI) of the numbers of rows of two periods in the same grades.

    The sum of (q - p) ln(q / p) over the grades with the shares p and q; infinite if a grade has rows in only one
    period. Without a change it has about the distribution of (1/n + 1/m) times a chi-squared variable with one degree
    of freedom fewer than grades, for n and m rows (Yurdakul, 2018). Fixed limits such as 0.1 and 0.25 do not depend on
    the number of rows.

    Raises:
        InputError: if the numbers are negative, all 0, or not as many in both periods.

    Example:
        >>> round(population_stability_index([25, 25, 25, 25], [10, 20, 30, 40]), 4)
        0.2282
    """
    counts = [np.asarray(part, dtype=np.float64) for part in (before, after)]
    if counts[0].ndim != 1 or counts[0].shape != counts[1].shape:
        raise InputError(
            f"before, after: expected as many grades in both, got {counts[0].shape} and {counts[1].shape}."
        )
    for name, part in zip(("before", "after"), counts, strict=True):
        if not np.isfinite(part).all() or (part < 0).any() or not part.any():
            raise InputError(f"{name}: expected numbers of rows of at least 0, not all 0, got {part.tolist()}.")
    p, q = (part / part.sum() for part in counts)
    used = (p > 0) | (q > 0)
    with np.errstate(divide="ignore"):
        return float(((q - p)[used] * (np.log(q[used]) - np.log(p[used]))).sum())


def migration_matrix(before: Any, after: Any, num_classes: int) -> IntArray:
    """Number of cases by grade in the first (rows) and the second period (columns), shape (C, C).

    Raises:
        InputError: if the grades are not as many, or not 0..C-1.

    Example:
        >>> migration_matrix([0, 0, 1, 1], [0, 1, 1, 1], 2).tolist()
        [[1, 1], [0, 2]]
    """
    first, second = np.asarray(before), np.asarray(after)
    if first.shape != second.shape or first.ndim != 1:
        raise InputError(f"before, after: expected a grade per case in both, got {first.shape} and {second.shape}.")
    for name, grades in (("before", first), ("after", second)):
        if grades.size and (
            not np.issubdtype(grades.dtype, np.integer) or grades.min() < 0 or grades.max() >= num_classes
        ):
            raise InputError(f"{name}: expected grades 0 to {num_classes - 1}.")
    return np.bincount(first.astype(np.int64) * num_classes + second, minlength=num_classes**2).reshape(num_classes, -1)


def jeffreys_test(predicted: Any, events: Any, rows: Any) -> FloatArray:
    """One-sided p-value of the Jeffreys test that a predicted probability is not too low.

    With k events in n rows, the posterior of the probability under the prior of Jeffreys is Beta(k + 1/2, n - k + 1/2);
    the p-value is its distribution function at the predicted probability. Supervisors of banks use it to validate
    probabilities of default by rating grade. It assumes that rows are independent.

    Args:
        predicted: predicted probability of each grade, in [0, 1].
        events: number of events of each grade.
        rows: number of rows of each grade.

    Raises:
        InputError: if a probability or a number is out of range.

    Example:
        >>> jeffreys_test(0.0367, 2, 6).round(4).item()
        0.0044
    """
    p, k, n = (np.asarray(part, dtype=np.float64) for part in (predicted, events, rows))
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"predicted: expected probabilities from 0 to 1, got {p.tolist()}.")
    if not ((k >= 0) & (k <= n)).all():
        raise InputError(f"events: expected numbers from 0 to that of the rows, got {k.tolist()} of {n.tolist()}.")
    return np.asarray(special.betainc(k + 0.5, n - k + 0.5, p))


def _backtest(after: Predictions, grades: IntArray, labels: IntArray, threshold: int) -> list[GradeBacktest]:
    prob, known = after.probs[:, threshold:].sum(axis=1).clip(0.0, 1.0), labels != UNLABELLED
    results = []
    for k, name in enumerate(after.classes):
        chosen = known & (grades == k)
        rows, events = int(chosen.sum()), int((labels[chosen] >= threshold).sum())
        predicted = float(prob[chosen].mean()) if rows else math.nan
        p_value = float(jeffreys_test(predicted, events, rows)) if rows else math.nan
        results.append(GradeBacktest(name, rows, predicted, events, p_value))
    return results


def _matched_migration(before: Predictions, after: Predictions, first: IntArray, second: IntArray) -> IntArray | None:
    if before.ids is None or after.ids is None:
        return None
    row_of_id = _rows_by_id(before.ids.tolist(), "before")
    pairs = [
        (row_of_id[name], row) for name, row in _rows_by_id(after.ids.tolist(), "after").items() if name in row_of_id
    ]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return migration_matrix(first[rows[:, 0]], second[rows[:, 1]], after.num_classes)


def _rows_by_id(ids: Sequence[Any], name: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, value in enumerate(map(str, ids)):
        if value in rows:
            raise InputError(f"{name}: rows {rows[value]} and {row} have the id {value!r}; expected one row per case.")
        rows[value] = row
    return rows
