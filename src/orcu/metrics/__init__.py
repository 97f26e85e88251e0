"""Metrics on class probabilities: plain functions ``metric(probs, y)`` that return fractions.

Everything is computed in float64; each docstring names its convention, the paper's by default.
"""

from orcu.metrics.calibration import ece, sce
from orcu.metrics.ordinal import accuracy, mae, unimodality
from orcu.metrics.scoring import rps

__all__ = ["accuracy", "ece", "mae", "rps", "sce", "unimodality"]
