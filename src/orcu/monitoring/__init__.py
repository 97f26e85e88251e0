"""Watch the calibration of a model in use: a log of daily sums, and looks that keep their rate of false alarms."""

from orcu.monitoring.check import Check, check
from orcu.monitoring.log import Log

__all__ = ["Check", "Log", "check"]
