"""Contract of metrics: value of the public function, streaming, resamples, weights, intervals, direction."""

import inspect
import math
import warnings
from collections.abc import Callable
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
from orcu.testing.contract import Contract, Rule, expect, expect_close, expect_finite, ordinal_sample

NUM_CLASSES, N_BINS = 5, 15
SUMS = "The formula may use the sums only; add a missing sum with @row_score, a number for each row."
AXES = "Index sums from the end (sums.confusion[..., i, j]) and sum over the last axes: the leading axes are resamples."


def check_metric(metric: str | Metric, function: Callable[..., float] | None = None) -> None:
    """Check the contract of metrics.

    Args:
        metric: registered name, or the object that the decorator ``@metric`` returns.
        function: public function of the metric, ``function(probs, y, sample_weight=None)`` or, if it does not use
            labels, ``function(probs, sample_weight=None)``; by default the function of that name in `orcu.metrics`.

    Raises:
        ContractError: if rules are broken; the message has a line for each, with the numbers and how to fix it.
        InputError: if it is not a metric.

    Example:
        >>> check_metric("rps", metrics.rps)
    """
    _MetricContract(metric, function).check()


def metric_checks(metric: str | Metric, function: Callable[..., float] | None = None) -> dict[str, Callable[[], None]]:
    """Return the rules that apply to a metric, by name; see `check_metric` for the arguments.

    Example:
        >>> metric_checks("sce")["exact streaming"]()
    """
    return _MetricContract(metric, function).checks()


def _sample(rows: int = 400) -> tuple[FloatArray, IntArray, FloatArray]:
    """Probabilities, labels and weights."""
    logits, y, rng = ordinal_sample(rows, NUM_CLASSES)
    return geometry.probs(1.5 * logits), y, rng.uniform(0.1, 2.0, size=rows)


def _tally(probs: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> Tally:
    """Tally of rows with equal-count bins, which the adaptive calibration error needs."""
    tally = Tally(probs.shape[1])
    tally.add(Rows(probs, y, sample_weight).with_adaptive_bins(N_BINS))
    return tally


class _MetricContract(Contract):
    def __init__(self, metric: Any, function: Any) -> None:
        if isinstance(metric, str):
            metric = METRICS.get(metric)
        if not isinstance(metric, Metric):
            kind = getattr(metric, "__name__", type(metric).__name__)
            hint = " Pass a plain function as function=." if callable(metric) else ""
            raise InputError(f"metric: expected a registered name or an orcu.metrics.base.Metric, got {kind}.{hint}")
        if function is not None and not callable(function):
            raise InputError(f"function: expected a function of probs and y, got {type(function).__name__}.")
        self.title, self.metric = f"metric {metric.name!r}", metric
        self.function: Any = function or getattr(metrics, metric.name, None)

    def value(self, tally: Tally) -> float:
        return float(self.metric(tally.sums()))

    @Rule("Register it with @metric: an identifier as name, a title, and no braces in convention= but {bins}.")
    def description(self) -> None:
        metric = self.metric
        expect(metric in all_metrics(), f"{metric.name!r} is not registered, or registered for another metric")
        expect(metric.name.isidentifier(), f"the name {metric.name!r} cannot be used in gates such as 'sce>0.05'")
        expect(metric.title.strip(), "the title is empty")
        text = metric.convention_for(N_BINS)
        expect("{" not in text, f"the convention {text!r} has a brace that is not {{bins}}")

    @Rule(
        "The function must pass its checked arguments to the same formula.",
        lambda contract: contract.function is not None,
    )
    def value_of_the_function(self) -> None:
        probs, y, weight = _sample()
        arguments = (probs, y) if "y" in inspect.signature(self.function).parameters else (probs,)
        for name, w in (("rows", None), ("weighted rows", weight)):
            expected = self.function(*arguments, sample_weight=w)
            value = self.metric(row_sums(Rows(probs, y, w).with_adaptive_bins(N_BINS)))
            expect_close(value, expected, f"the metric of {name}", rtol=0, atol=1e-12)
            expect_close(
                self.value(_tally(probs, y, w)), expected, f"the metric of a tally of {name}", rtol=0, atol=1e-12
            )

    @Rule(SUMS)
    def exact_streaming(self) -> None:
        probs, y, weight = _sample()
        for w in (None, weight):
            full, merged = Tally(NUM_CLASSES), Tally(NUM_CLASSES)
            full.update(probs, y, sample_weight=w)
            for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 3):
                part = Tally(NUM_CLASSES)
                part.update(probs[rows], y[rows], sample_weight=None if w is None else w[rows])
                merged = part.merge(merged)
            expect_close(self.value(merged), self.value(full), "the metric of merged tallies", rtol=0, atol=0)

    @Rule(AXES)
    def batched_resamples(self) -> None:
        probs, y, _ = _sample()
        resamples = np.random.default_rng(2).integers(len(y), size=(3, len(y)))
        vectors = [_tally(probs[rows], y[rows]).vector() for rows in resamples]
        layout = Layout(NUM_CLASSES, N_BINS)
        expected = [float(self.metric(layout.sums(vector))) for vector in vectors]
        batched = self.metric(layout.sums(np.stack(vectors)))
        expect_close(batched, expected, "the metric of three resamples", rtol=1e-12, atol=1e-12)

    @Rule("Divide by sums.total, not by the number of rows. " + SUMS)
    def weights_equal_repetition(self) -> None:
        probs, y, _ = _sample()
        weight = np.random.default_rng(3).integers(1, 4, size=len(y))
        repeated = np.repeat(np.arange(len(y)), weight)
        values = []
        for rows, w in ((repeated, None), (slice(None), weight.astype(float)), (slice(None), 8.0 * weight)):
            tally = Tally(NUM_CLASSES)
            tally.update(probs[rows], y[rows], sample_weight=w)
            values.append(self.value(tally))
        expect_close(values[1], values[0], "the metric of weighted rows", rtol=1e-9, atol=1e-9)
        expect_close(values[2], values[1], "the metric of rows with 8 times the weight", rtol=1e-9, atol=1e-9)

    @Rule(SUMS)
    def finite_interval(self) -> None:
        probs, y, weight = _sample(300)
        estimate = evaluate(probs=probs, y=y, sample_weight=weight, n_resamples=50)[self.metric.name]
        expect_finite([estimate.value, estimate.low, estimate.high], "the value and the limits of its interval")
        expect(estimate.low <= estimate.high, f"the interval is [{estimate.low:g}, {estimate.high:g}]")

    @Rule("Correct the formula or the direction, @metric(better=...).", lambda contract: contract.metric.better != "")
    def direction(self) -> None:
        probs, y, _ = _sample()
        perfect, typical = self.value(_tally(np.eye(NUM_CLASSES)[y], y)), self.value(_tally(probs, y))
        expect(
            self.metric.cost(perfect) <= self.metric.cost(typical) + 1e-12,
            f"the value is {perfect:.4g} for perfect and {typical:.4g} for other predictions, but better is "
            f"{self.metric.better!r}",
        )

    @Rule("The value is NaN where it is not defined (0 / 0); the formula must not raise or warn.")
    def degenerate_data(self) -> None:
        probs, y, _ = _sample()
        for name, rows in (("a single row", slice(0, 1)), ("a missing class", y != 2), ("a single class", y == 0)):
            for values in (probs[rows], np.eye(NUM_CLASSES)[y[rows]]):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    value = self.value(_tally(values, y[rows]))
                expect(not math.isinf(value), f"the value is infinite for {name}")
