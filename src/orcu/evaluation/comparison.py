"""Paired comparison of two models on the same rows."""

import math
from dataclasses import dataclass

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.intervals import gap_difference_interval
from orcu.evaluation.mean_cost import evaluation_metrics
from orcu.evaluation.statistics import SufficientStatistics
from orcu.metrics.base import Metric
from orcu.metrics.sums import Sums
from orcu.predictions import Predictions, PredictionsSource
from orcu.resampling import interval, widen

_SAME_ROWS = "models are compared on the same rows in the same order, or by ids (--id COLUMN)"


@dataclass(frozen=True)
class Difference:
    """Metric of the first model minus that of another model on the same rows, with its 95 % interval.

    ``favour`` is the share of resamples in which the first model is better; ``None`` if no direction is better. With
    clusters the differences of the resamples are widened like the interval, see `small_sample_factor`.
    """

    value: float
    low: float
    high: float
    favour: float | None

    def outcome(self, metric: Metric) -> str:
        """Result for the first model: "better" or "worse" if the interval excludes 0, else "level".

        It is "" if no direction of the metric is better, or there is no interval.
        """
        if metric.better not in ("higher", "lower") or math.isnan(self.low) or math.isnan(self.high):
            return ""
        costs = metric.cost(self.low), metric.cost(self.high)
        return "better" if max(costs) < 0 else "worse" if min(costs) > 0 else "level"


def align(
    statistics: SufficientStatistics, other: Predictions | PredictionsSource, name: str
) -> Predictions | PredictionsSource:
    """Rows of the other model in the order of the first, matched by id if both have ids; raises `InputError`."""
    ids = statistics.sample.ids
    if not isinstance(other, Predictions) or statistics.sampled or ids is None or other.ids is None:
        return other
    row_of_id = {str(value): row for row, value in enumerate(other.ids.tolist())}
    wanted = [str(value) for value in ids.tolist()]
    missing = [value for value in wanted if value not in row_of_id]
    if missing or len(row_of_id) != len(wanted):
        example = f", for example {missing[0]!r}" if missing else ""
        extra = len(row_of_id) - len(wanted) + len(missing)
        raise InputError(
            f"{name}: models are compared on the same rows, but {len(missing)} ids of the first model are missing here"
            f"{example}, and {extra} ids are not in the first model."
        )
    return other[np.array([row_of_id[value] for value in wanted])]


def check_same_rows(first: SufficientStatistics, second: SufficientStatistics, name: str) -> None:
    """Raise `InputError` unless two models have the same classes, rows, labels, clusters, weights and subgroups."""
    if first.sample.classes != second.sample.classes:
        raise InputError(
            f"{name}: its classes are {', '.join(second.sample.classes)}, "
            f"those of the first model {', '.join(first.sample.classes)}."
        )
    if first.rows != second.rows:
        raise InputError(f"{name}: {second.rows} rows, but the first model has {first.rows}; {_SAME_ROWS}.")
    ours, others = first.sample.labels_or_votes, second.sample.labels_or_votes
    if ours.ndim != others.ndim:
        here, there = ("votes of several raters", "labels") if others.ndim == 2 else ("labels", "votes")
        raise InputError(f"{name}: has {here}, but the first model has {there}; name the same columns for both.")
    different = ours != others
    if different.any():
        row = int(np.argwhere(different)[0, 0]) + 1
        kind = "label" if ours.ndim == 1 else "votes"
        raise InputError(f"{name}: row {row} has another {kind} than in the first model; {_SAME_ROWS}.")
    for column, option in (("cluster", "--cluster"), ("sample_weight", "--sample-weight"), ("subgroup", None)):
        ours, others = getattr(first.sample, column), getattr(second.sample, column)
        if option is not None and (ours is None) != (others is None):
            here, there = ("missing", "given") if others is None else ("given", "missing")
            raise InputError(
                f"{name}: {column} is {here}, but {there} for the first model; name its column for both models, or for "
                f"neither ({option})."
            )
        if ours is not None and others is not None and (different := ours != others).any():
            row = int(np.argmax(different))
            value, expected = (str(values[row]) for values in (others, ours))
            raise InputError(
                f"{name}: row {row + 1} has {column} {value!r}, in the first model {expected!r}; {_SAME_ROWS}."
            )


def paired_differences(
    first: SufficientStatistics, second: SufficientStatistics, n_resamples: int, random_state: int
) -> dict[str, Difference]:
    """All metrics of the first model minus those of the second, with paired intervals."""
    draws = None
    if n_resamples:  # the same seed draws the same units, so the resamples are paired
        draws = first.resampled(n_resamples, random_state), second.resampled(n_resamples, random_state)
    factor = first.small_sample_factor if n_resamples else 1.0
    with np.errstate(invalid="ignore"):  # infinite in both
        return {
            metric.name: _difference(metric, first.totals, second.totals, draws, factor)
            for metric in evaluation_metrics(first.rule)
        }


def _difference(
    metric: Metric, first: Sums, second: Sums, draws: tuple[Sums, Sums] | None, factor: float
) -> Difference:
    value = float(metric(first) - metric(second))
    if draws is None:
        return Difference(value, np.nan, np.nan, None)
    a, b = metric(draws[0]), metric(draws[1])
    bias = float((a - b).mean() - value) if metric.binned else 0.0
    if metric.reduce is None:
        ends = interval(value, widen(a - b, value, factor))
    else:
        gaps, drawn = ((metric.formula(x), metric.formula(y)) for x, y in ((first, second), draws))
        ends = gap_difference_interval(gaps, drawn, metric.reduce, factor)
    a, b = metric.cost(a), metric.cost(b)
    center = float(metric.cost(metric(first)) - metric.cost(metric(second))) + bias
    if factor != 1 and np.isfinite(center):
        a, b = widen(a - b, center, factor), np.zeros_like(b)
    favour = float(np.mean((a < b) + 0.5 * (a == b))) if metric.better else None  # ties count half
    return Difference(value, ends.low, ends.high, favour)
