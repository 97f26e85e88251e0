"""Columns of the tables: metrics, and what the two-stage diagnostic measures."""

from dataclasses import dataclass
from typing import Literal

from orcu.errors import UnknownNameError
from orcu.metrics.base import METRICS, Metric


@dataclass(frozen=True)
class TwoStageColumn:
    """What the two-stage diagnostic measures, read as a `Metric` is."""

    better: Literal["higher", "lower"]
    percent: bool

    def cost(self, value: float) -> float:
        """The value, turned so that lower is better."""
        return -value if self.better == "higher" else value


TWO_STAGE = {
    "feasible_active": TwoStageColumn("higher", percent=True),
    "alignment": TwoStageColumn("higher", percent=False),
    "feasible_sce": TwoStageColumn("lower", percent=True),
    "feasible_ece": TwoStageColumn("lower", percent=True),
    "feasible_unimodality": TwoStageColumn("higher", percent=True),
}


def column(name: str) -> Metric | TwoStageColumn:
    """What a column holds: which way is better, and whether they are shares.

    Raises:
        UnknownNameError: if there is no such column.

    Example:
        >>> column("sce").better, column("alignment").better
        ('lower', 'higher')
    """
    if name in TWO_STAGE:
        return TWO_STAGE[name]
    if name not in METRICS.names():
        raise UnknownNameError("column", name, [*METRICS.names(), *TWO_STAGE])
    return METRICS.get(name)


def heading(name: str) -> str:
    """A column's name with its unit and the way that is better.

    Example:
        >>> heading("sce"), heading("mae")
        ('sce % ↓', 'mae ↓')
    """
    shown = column(name)
    arrow = {"higher": " ↑", "lower": " ↓"}.get(shown.better, "")
    return f"{name}{' %' if shown.percent else ''}{arrow}"
