"""Moved: `checked_confusion` to `orcu.metrics.rows`."""

from orcu.metrics.rows import checked_confusion

__all__ = ["checked_confusion"]
