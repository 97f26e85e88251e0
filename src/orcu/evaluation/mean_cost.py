"""The mean cost of decisions: a metric of evaluations in which a cost matrix decides."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.base import Metric, all_metrics
from orcu.metrics.sums import Sums

COST = "cost"


def evaluation_metrics(rule: Any, names: Iterable[str] | None = None) -> list[Metric]:
    """The registered metrics, all or those named, and the mean cost if the rule is a cost matrix.

    Example:
        >>> [metric.name for metric in evaluation_metrics([[0, 1], [5, 0]], ["accuracy", "rps", "cost"])]
        ['accuracy', 'cost', 'rps']
    """
    chosen = None if names is None else set(names)
    metrics = all_metrics(None if chosen is None else chosen - {COST})
    if isinstance(rule, str) or (chosen is not None and COST not in chosen):
        return metrics
    decisions = [number for number, metric in enumerate(metrics) if metric.family == "decision"]
    metrics.insert(decisions[-1] + 1 if decisions else 0, _mean_cost(np.asarray(rule, dtype=np.float64)))
    return metrics


def _mean_cost(costs: FloatArray) -> Metric:
    def formula(sums: Sums) -> FloatArray:
        return (sums.confusion * costs).sum((-2, -1)) / sums.total

    convention = "mean over the rows of the cost of the decision, given the true class"
    return Metric(COST, "Mean cost", "decision", "lower", False, convention, -1, formula)
