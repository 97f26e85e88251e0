"""The report: one self-contained page, a table, or plain data."""

from orcu.report.build import build, write

__all__ = ["build", "write"]
