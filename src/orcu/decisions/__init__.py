"""Decisions from predicted distributions: decision rules, cost matrices and prediction sets."""
