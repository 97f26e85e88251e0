"""What every metric keeps: its function's value, streams to the bit, resamples, weights, intervals, its direction."""

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry, metrics
from orcu.errors import InputError
from orcu.evaluation.evaluate import evaluate
from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.base import METRICS, Metric, all_metrics
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.sums import row_sums
from orcu.testing.contract import Contract, close, demand, finite

NUM_CLASSES, BINS = 5, 15


@dataclass(frozen=True)
class _Subject:
    title: str
    metric: Metric
    function: Callable[..., float] | None

    def of(self, tally: Tally) -> float:
        return float(self.metric(tally.tables()))


CONTRACT: Contract[_Subject] = Contract()
SUMS = "The formula reads sums alone; what they lack is added by @row_score, a number for each row."
AXES = "Index sums from the end (sums.confusion[..., i, j]) and sum over the last axes: the leading ones are resamples."


def check_metric(metric: str | Metric, function: Callable[..., float] | None = None) -> None:
    """Run the contract of metrics on one of yours.

    Args:
        metric: a registered name, or what the decorator ``@metric`` has made.
        function: ``function(probs, y, weight=None)``, or ``function(probs, weight=None)`` where labels do not matter,
            that the metric has to agree with; by default the one of its name in `orcu.metrics`, if any.

    Raises:
        ContractError: if it breaks rules; a line for each, with the numbers and how to mend it.
        InputError: if it is no metric.

    Example:
        >>> check_metric("rps", metrics.rps)
    """
    CONTRACT.check(_subject(metric, function))


def metric_checks(metric: str | Metric, function: Callable[..., float] | None = None) -> dict[str, Callable[[], None]]:
    """The rules that concern a metric by name, for a test of each; see `check_metric` for the arguments.

    Example:
        >>> metric_checks("sce")["order and split of the rows change no bit"]()
    """
    return CONTRACT.checks(_subject(metric, function))


def _subject(metric: Any, function: Callable[..., float] | None) -> _Subject:
    if isinstance(metric, str):
        metric = METRICS.get(metric)
    if not isinstance(metric, Metric):
        kind = metric.__name__ if inspect.isfunction(metric) or isinstance(metric, type) else type(metric).__name__
        raise InputError(
            f"metric: expected a registered name, or what the decorator orcu.metrics.base.metric has made, got {kind}."
            + (" A plain function goes into function=." if callable(metric) else "")
        )
    if function is not None and not callable(function):
        raise InputError(f"function: expected a function of probs, y and weight, got {type(function).__name__}.")
    return _Subject(f"metric {metric.name!r}", metric, function or getattr(metrics, metric.name, None))


def _sample(rows: int = 400) -> tuple[FloatArray, IntArray, FloatArray]:
    """Probabilities, labels and weights."""
    rng = np.random.default_rng(0)
    center = rng.uniform(-0.5, NUM_CLASSES - 0.5, size=(rows, 1))
    logits = -((np.arange(NUM_CLASSES) - center) ** 2) + rng.normal(scale=0.5, size=(rows, NUM_CLASSES))
    y = (rng.random((rows, 1)) > geometry.probs(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return geometry.probs(1.5 * logits), y, rng.uniform(0.1, 2.0, size=rows)


def _tally(probs: FloatArray, y: IntArray, weight: FloatArray | None = None) -> Tally:
    """With groups of even count, as the adaptive error needs them."""
    tally = Tally(probs.shape[1])
    tally.add(Rows(probs, y, weight).grouped(BINS))
    return tally


@CONTRACT.rule("Hand it to @metric: a name of letters, digits and _, a title, and in convention= no braces but {bins}.")
def _it_says_what_it_is(subject: _Subject) -> None:
    metric = subject.metric
    demand(metric in all_metrics(), f"{metric.name!r} is not registered, or another metric has the name")
    demand(metric.name.isidentifier(), f"its name is {metric.name!r}, which gates such as 'sce>0.05' cannot name")
    demand(metric.title.strip(), "its title is empty")
    text = metric.convention_for(BINS)
    demand("{" not in text, f"its convention {text!r} has a brace that is not {{bins}}")


@CONTRACT.rule(
    "The function must put its checked arguments into the same formula.", lambda subject: bool(subject.function)
)
def _its_value_is_that_of_the_function(subject: _Subject) -> None:
    if subject.function is None:
        return
    probs, y, weight = _sample()
    parameters = list(inspect.signature(subject.function).parameters)
    arguments = (probs, y) if "y" in parameters else (probs,)
    for name, w in (("rows", None), ("weighted rows", weight)):
        expected = subject.function(*arguments, weight=w)
        value = subject.metric(row_sums(Rows(probs, y, w).grouped(BINS)))
        close(value, expected, f"the metric of {name}", rtol=0, atol=1e-12)
        close(subject.of(_tally(probs, y, w)), expected, f"the metric of a tally of {name}", rtol=0, atol=1e-12)


@CONTRACT.rule(SUMS)
def _order_and_split_of_the_rows_change_no_bit(subject: _Subject) -> None:
    probs, y, weight = _sample()
    for w in (None, weight):
        whole = Tally(NUM_CLASSES)
        whole.update(probs, y, weight=w)
        merged = Tally(NUM_CLASSES)
        for part in np.array_split(np.random.default_rng(1).permutation(len(y)), 3):
            piece = Tally(NUM_CLASSES)
            piece.update(probs[part], y[part], weight=None if w is None else w[part])
            merged = piece.merge(merged)
        close(subject.of(merged), subject.of(whole), "the metric of merged tallies", rtol=0, atol=0)


@CONTRACT.rule(AXES)
def _several_sums_at_once_give_the_metric_of_each(subject: _Subject) -> None:
    probs, y, _ = _sample()
    picks = np.random.default_rng(2).integers(len(y), size=(3, len(y)))  # resamples
    vectors = [_tally(probs[pick], y[pick]).vector() for pick in picks]
    layout = Layout(NUM_CLASSES, BINS)
    alone = [float(subject.metric(layout.sums(vector))) for vector in vectors]
    close(
        subject.metric(layout.sums(np.stack(vectors))), alone, "the metric of three resamples", rtol=1e-12, atol=1e-12
    )


@CONTRACT.rule("Divide by sums.total, not by a number of rows. " + SUMS)
def _weights_count_rows_several_times(subject: _Subject) -> None:
    probs, y, _ = _sample()
    weight = np.random.default_rng(3).integers(1, 4, size=len(y))
    again = np.repeat(np.arange(len(y)), weight)
    values = []
    for rows, w in ((again, None), (slice(None), weight.astype(float)), (slice(None), 8.0 * weight)):
        tally = Tally(NUM_CLASSES)
        tally.update(probs[rows], y[rows], weight=w)
        values.append(subject.of(tally))
    close(values[1], values[0], "the metric of weighted rows", rtol=1e-9, atol=1e-9)
    close(values[2], values[1], "the metric of rows of 8 times the weight", rtol=1e-9, atol=1e-9)


@CONTRACT.rule(SUMS)
def _it_is_finite_with_a_finite_interval_on_ordinary_rows(subject: _Subject) -> None:
    probs, y, weight = _sample(300)
    estimate = evaluate(probs=probs, y=y, weight=weight, bootstrap=50)[subject.metric.name]
    finite([estimate.value, estimate.low, estimate.high], "its value and the ends of its interval")
    demand(estimate.low <= estimate.high, f"its interval runs from {estimate.low:g} to {estimate.high:g}")


@CONTRACT.rule("Mend the formula or the direction in @metric(better=...).", lambda subject: subject.metric.better != "")
def _certain_and_right_predictions_are_the_best(subject: _Subject) -> None:
    probs, y, _ = _sample()
    right, usual = subject.of(_tally(np.eye(NUM_CLASSES)[y], y)), subject.of(_tally(probs, y))
    demand(
        subject.metric.cost(right) <= subject.metric.cost(usual) + 1e-12,
        f"it is {right:.4g} for them and {usual:.4g} for others, though better is {subject.metric.better!r}",
    )


@CONTRACT.rule("Where it is not defined it is NaN: 0 / 0 is, a check that raises is not.")
def _one_row_and_missing_classes_raise_nothing(subject: _Subject) -> None:
    probs, y, _ = _sample()
    for name, rows in (("one row", slice(0, 1)), ("a class missing", y != 2), ("one class only", y == 0)):
        for values in (probs[rows], np.eye(NUM_CLASSES)[y[rows]]):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                value = subject.of(_tally(values, y[rows]))
            demand(not math.isinf(value), f"it is infinite for {name}")
