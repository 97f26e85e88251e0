"""Monitoring of a deployed model: a log of daily sums, anytime-valid drift alarms, comparison of two periods."""

from orcu.monitoring.check import Check, check
from orcu.monitoring.log import Log
from orcu.monitoring.periods import PeriodComparison, compare_periods

__all__ = ["Check", "Log", "PeriodComparison", "check", "compare_periods"]
