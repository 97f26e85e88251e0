"""Columns of benchmark tables: metrics and the quantities of the two-stage diagnostic."""

from dataclasses import dataclass
from typing import Literal

from orcu.errors import UnknownNameError
from orcu.metrics.base import METRICS, Metric


@dataclass(frozen=True)
class TwoStageColumn:
    """A quantity of the two-stage diagnostic, with the attributes of a `Metric`."""

    better: Literal["higher", "lower"]
    percent: bool

    def cost(self, value: float) -> float:
        """The value with its sign changed where higher is better, so that a lower cost is always better."""
        return -value if self.better == "higher" else value


TWO_STAGE = {
    "feasible_active": TwoStageColumn("higher", percent=True),
    "alignment": TwoStageColumn("higher", percent=False),
    "feasible_sce": TwoStageColumn("lower", percent=True),
    "feasible_ece": TwoStageColumn("lower", percent=True),
    "feasible_unimodality": TwoStageColumn("higher", percent=True),
}


def column(name: str) -> Metric | TwoStageColumn:
    """The metric or two-stage quantity of a column.

    Raises:
        UnknownNameError: if the name is neither.

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
    """Column heading: name, unit, and an arrow towards better values.

    Example:
        >>> heading("sce"), heading("mae")
        ('sce % ↓', 'mae ↓')
    """
    arrow = {"higher": " ↑", "lower": " ↓"}.get(column(name).better, "")
    return f"{name}{' %' if column(name).percent else ''}{arrow}"
