"""Closed forms of loss terms, penalties and soft targets without torch, used by losses and boosting objectives."""

from orcu.kernels import penalties, soft_targets, terms

__all__ = ["penalties", "soft_targets", "terms"]
