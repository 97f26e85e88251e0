"""Two models on the same rows: are they the same rows, and which model is better?"""

from dataclasses import dataclass

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.evidence import Evidence
from orcu.evaluation.intervals import interval
from orcu.inputs import FloatArray
from orcu.metrics.base import Metric, all_metrics
from orcu.predictions.predictions import Predictions, PredictionsSource


@dataclass(frozen=True)
class Difference:
    """A metric of the first model minus that of another on the same rows.

    ``favour`` is the share of resamples in which the first model is better; None if neither is.
    """

    value: float
    low: float
    high: float
    favour: float | None


def aligned(evidence: Evidence, other: Predictions | PredictionsSource, name: str) -> Predictions | PredictionsSource:
    """The other model's rows in the order of the first, by id where both have ids."""
    mine = evidence.sample
    if not isinstance(other, Predictions) or evidence.sampled:
        return other
    if mine.ids is None or other.ids is None:
        return other
    place = {str(value): row for row, value in enumerate(other.ids.tolist())}
    wanted = [str(value) for value in mine.ids.tolist()]
    missing = [value for value in wanted if value not in place]
    if missing or len(place) != len(wanted):
        example = f", for example {missing[0]!r}" if missing else ""
        raise InputError(
            f"{name}: models are compared on the same rows, but {len(missing)} ids of the first model are "
            f"not there{example}, and {len(place) - len(wanted) + len(missing)} others are."
        )
    return other[np.array([place[value] for value in wanted])]


def check_same_rows(mine: Evidence, theirs: Evidence, name: str) -> None:
    """Refuse models with other classes, rows or labels.

    Raises:
        InputError: if they differ; the text says where.
    """
    if mine.sample.classes != theirs.sample.classes:
        raise InputError(
            f"{name}: its classes are {', '.join(theirs.sample.classes)}, "
            f"the first model's {', '.join(mine.sample.classes)}."
        )
    if mine.rows != theirs.rows:
        raise InputError(
            f"{name}: {theirs.rows} rows, the first model has {mine.rows}; models are compared on the same rows."
        )
    unlike = mine.sample.labels != theirs.sample.labels
    if unlike.any():
        row = int(np.argmax(unlike))
        raise InputError(
            f"{name}: other labels than the first model's, first in row {row + 1}; models are compared on "
            "the same rows in the same order, or by ids (--id COLUMN)."
        )
    for what, flag in (("subject", "--cluster"), ("weight", "--weight"), ("group", None)):
        ours, others = getattr(mine.sample, what), getattr(theirs.sample, what)
        if flag is not None and (ours is None) != (others is None):
            who, other = ("the first model's rows", name) if others is None else (name, "the first model's rows")
            raise InputError(
                f"{name}: a {what} is known of {who} and not of {other}; both models are judged on the same rows in "
                f"the same way. Name the column in both, or leave it out of both ({flag})."
            )
        apart = np.zeros(0, bool) if ours is None or others is None else ours != others
        if apart.any():
            row = int(np.argmax(apart))
            here, there = str(ours[row]), str(others[row])
            raise InputError(
                f"{name}: row {row + 1} has {what} {there!r}, the first model's {here!r}; models are compared on "
                "the same rows in the same order, or by ids (--id COLUMN)."
            )


def paired_differences(mine: Evidence, theirs: Evidence, resamples: int, seed: int) -> dict[str, Difference]:
    """Every metric of the first model minus that of the second, with paired intervals."""
    draws = None
    if resamples:  # the same units of the same seed: paired
        draws = mine.resampled(resamples, seed), theirs.resampled(resamples, seed)
    differences = {}
    for metric in all_metrics():
        with np.errstate(invalid="ignore"):  # infinite in both
            value = float(metric(mine.totals) - metric(theirs.totals))
        if draws is None:
            differences[metric.name] = Difference(value, np.nan, np.nan, None)
            continue
        a, b = metric(draws[0]), metric(draws[1])
        with np.errstate(invalid="ignore"):
            drawn = a - b
        ends = interval(value, drawn)
        bias = float(drawn.mean() - value) if metric.binned else 0.0
        differences[metric.name] = Difference(value, ends.low - bias, ends.high - bias, _favour(metric, a, b))
    return differences


def _favour(metric: Metric, a: FloatArray, b: FloatArray) -> float | None:
    """The share of draws in which a costs less than b, ties counted half."""
    if not metric.better:
        return None
    a, b = metric.cost(a), metric.cost(b)
    return float(np.mean((a < b) + 0.5 * (a == b)))
