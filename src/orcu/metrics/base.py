"""What a metric is, and the registry of all."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray
from orcu.metrics.sums import Sums
from orcu.registry import Registry


def total_gap(gaps: FloatArray) -> FloatArray:
    """The sum over bins (..., G)."""
    return gaps.sum(-1)


def largest_gap(gaps: FloatArray) -> FloatArray:
    """The largest of the bins (..., G)."""
    return gaps.max(-1)


Family = Literal["calibration", "decision", "distribution"]
Better = Literal["higher", "lower", "zero", ""]
Formula = Callable[[Sums], Any]


@dataclass(frozen=True)
class Metric:
    """One number of a report: how it is called, read and computed."""

    name: str
    title: str
    family: Family
    better: Better
    percent: bool  # a fraction, shown as percent in printed tables
    convention: str  # {bins} stands for the number of bins, see `convention_for`
    rank: int
    formula: Formula
    # A binned error gives the signed gap of every bin in place of its value, and how |gaps| add up.
    reduce: Callable[[FloatArray], FloatArray] | None = None

    def __call__(self, sums: Sums) -> FloatArray:
        """The metric of each of the sums, shape (...)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is NaN: not defined
            value = np.asarray(self.formula(sums), dtype=np.float64)
        return value if self.reduce is None else self.reduce(np.abs(value))

    def cost(self, value: Any) -> Any:
        """The value, or an array of values, turned so that lower is better; as it is where neither way is better.

        Example:
            >>> accuracy = Metric("accuracy", "Accuracy", "decision", "higher", True, "", 0, lambda sums: sums)
            >>> accuracy.cost(0.75)
            -0.75
        """
        if self.better == "higher":
            return -value
        return abs(value) if self.better == "zero" else value

    def convention_for(self, bins: int = 15) -> str:
        """How it is computed, in words, with this many bins."""
        return self.convention.replace("{bins}", str(bins))

    @property
    def binned(self) -> bool:
        """Whether it sums absolute gaps, so that noise alone makes it larger."""
        return self.reduce is not None


METRICS: Registry[Metric] = Registry("metric", package="orcu.metrics", plugins="orcu.metrics")
_ranks = count()


def metric(
    name: str,
    title: str,
    *,
    family: Family,
    better: Better,
    percent: bool = False,
    convention: str = "",
    reduce: Callable[[FloatArray], FloatArray] | None = None,
) -> Callable[[Formula], Metric]:
    """Decorator that makes a function of `Sums` a metric of every evaluation.

    With ``reduce`` the function gives signed gaps (..., G) and the metric is reduce(|gaps|). In ``convention`` the
    number of bins is written as ``{bins}``.

    Raises:
        UnknownNameError: if the family or the direction is none of those that reports know.
    """
    if family not in get_args(Family):
        raise UnknownNameError(f"family of the metric {name!r}", family, get_args(Family))
    if better not in get_args(Better):
        raise UnknownNameError(f"direction of the metric {name!r}", better, get_args(Better))

    def add(formula: Formula) -> Metric:
        return METRICS.register(name, source=formula)(
            Metric(name, title, family, better, percent, convention, next(_ranks), formula, reduce)
        )

    return add


def all_metrics() -> list[Metric]:
    """The registered metrics in the order of a report."""
    families = get_args(Family)
    metrics = [METRICS.get(name) for name in METRICS.names()]
    return sorted(metrics, key=lambda m: (families.index(m.family), m.rank))
