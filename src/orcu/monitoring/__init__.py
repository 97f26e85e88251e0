"""Monitoring of the calibration of a deployed model: a log of daily sums, and anytime-valid drift alarms."""

from orcu.monitoring.check import Check, check
from orcu.monitoring.log import Log

__all__ = ["Check", "Log", "check"]
