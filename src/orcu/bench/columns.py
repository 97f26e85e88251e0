"""Columns of benchmark tables: metrics and the quantities of the two-stage diagnostic."""

from dataclasses import dataclass
from typing import Literal

from orcu.errors import UnknownNameError
from orcu.figures.titles import metric_title
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


def title_heading(name: str, *, times_100: bool = False) -> str:
    """Column heading with the paper's name of the metric, its unit, and an arrow towards better values.

    Args:
        name: name of the column.
        times_100: whether values that are not in percent are printed times 100.

    Example:
        >>> title_heading("sce"), title_heading("mae"), title_heading("mae", times_100=True)
        ('SCE (%) ↓', 'MAE ↓', 'MAE (10⁻²) ↓')
    """
    unit = " (%)" if column(name).percent else " (10⁻²)" if times_100 else ""
    return f"{metric_title(name)}{unit}{_arrow(name)}"


def heading(name: str) -> str:
    """Column heading: name, unit, and an arrow towards better values.

    Example:
        >>> heading("sce"), heading("mae")
        ('sce % ↓', 'mae ↓')
    """
    return f"{name}{' %' if column(name).percent else ''}{_arrow(name)}"


def _arrow(name: str) -> str:
    return {"higher": " ↑", "lower": " ↓"}.get(column(name).better, "")
