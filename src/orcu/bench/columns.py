"""Columns of the tables: metrics, and what the two-stage diagnostic measures."""

from orcu.errors import UnknownNameError
from orcu.metrics.base import METRICS

# Columns of the two-stage diagnostic: which way is better, whether they are shares.
TWO_STAGE = {
    "feasible_active": ("higher", True),
    "alignment": ("higher", False),
    "feasible_sce": ("lower", True),
    "feasible_ece": ("lower", True),
    "feasible_unimodality": ("higher", True),
}


def column(name: str) -> tuple[str, bool]:
    """Which way is better in a column ("higher", "lower", ...), and whether it holds shares.

    Raises:
        UnknownNameError: if there is no such column.

    Example:
        >>> column("sce"), column("alignment")
        (('lower', True), ('higher', False))
    """
    if name in TWO_STAGE:
        return TWO_STAGE[name]
    if name not in METRICS.names():
        raise UnknownNameError("column", name, [*METRICS.names(), *TWO_STAGE])
    metric = METRICS.get(name)
    return metric.better, metric.percent


def heading(metric: str) -> str:
    """A metric with its unit and the way that is better.

    Example:
        >>> heading("sce"), heading("mae")
        ('sce % ↓', 'mae ↓')
    """
    better, percent = column(metric)
    arrow = {"higher": " ↑", "lower": " ↓"}.get(better, "")
    return f"{metric}{' %' if percent else ''}{arrow}"
