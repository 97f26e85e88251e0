"""What a metric is, and the registry of all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows
from orcu.metrics.sums import Tables
from orcu.registry import Registry


def total_gap(gaps: FloatArray) -> FloatArray:
    """The sum over bins (..., G)."""
    return gaps.sum(-1)


def largest_gap(gaps: FloatArray) -> FloatArray:
    """The largest of the bins (..., G)."""
    return gaps.max(-1)


Family = Literal["calibration", "decision", "distribution"]
FromTables = Callable[[Tables], Any]


@dataclass(frozen=True)
class Metric:
    """One number of a report: how it is called, read and computed."""

    name: str
    title: str
    family: Family
    better: Literal["higher", "lower", "zero", ""]
    percent: bool  # a fraction, shown as percent in printed tables
    convention: str
    rank: int
    from_tables: FromTables
    # A binned error gives the signed gap of every bin in place of its value, and how |gaps| add up.
    reduce: Callable[[FloatArray], FloatArray] | None = None

    def __call__(self, tables: Tables) -> FloatArray:
        """The metric of each of the tables, shape (...)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is NaN: not defined
            found = np.asarray(self.from_tables(tables), dtype=np.float64)
        return found if self.reduce is None else self.reduce(np.abs(found))

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

    @property
    def binned(self) -> bool:
        """Whether it sums absolute gaps, so that noise alone makes it larger."""
        return self.reduce is not None


METRICS: Registry[Metric] = Registry("metric", package="orcu.metrics", plugins="orcu.metrics")
_ROW_SCORES: dict[str, Callable[[Rows], FloatArray]] = {}


def metric(
    name: str,
    title: str,
    *,
    family: Family,
    better: Literal["higher", "lower", "zero", ""],
    percent: bool = False,
    convention: str = "",
    reduce: Callable[[FloatArray], FloatArray] | None = None,
) -> Callable[[FromTables], Metric]:
    """Decorator that makes a function of `Tables` a metric of every evaluation.

    With ``reduce`` the function gives signed gaps (..., G) and the metric is reduce(|gaps|).
    """

    def add(function: FromTables) -> Metric:
        made = Metric(name, title, family, better, percent, convention, len(_RANKS), function, reduce)
        _RANKS.append(name)
        return METRICS.register(name)(made)

    return add


_RANKS: list[str] = []


def row_score(name: str) -> Callable[[Callable[[Rows], FloatArray]], Callable[[Rows], FloatArray]]:
    """Decorator for a score of each row, (n,): its sum joins the tables as ``scores[name]``."""

    def add(function: Callable[[Rows], FloatArray]) -> Callable[[Rows], FloatArray]:
        _ROW_SCORES[name] = function
        return function

    return add


def all_metrics() -> list[Metric]:
    """The registered metrics in the order of a report."""
    families = ["calibration", "decision", "distribution"]
    found = [METRICS.get(name) for name in METRICS.names()]
    return sorted(found, key=lambda m: (families.index(m.family), m.rank))
