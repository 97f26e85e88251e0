"""Moved: `Sums` (once `Tables`) and `row_score` to `orcu.metrics.sums`, the others to `orcu.metrics.base`."""

from orcu.metrics.base import METRICS, metric, total_gap
from orcu.metrics.sums import Sums as Tables
from orcu.metrics.sums import row_score

__all__ = ["METRICS", "Tables", "metric", "row_score", "total_gap"]
