"""Metrics on class probabilities: plain functions ``metric(probs, y)`` that return fractions.

Everything is computed in float64; each docstring names its convention, the paper's by default.
"""

from orcu.metrics.calibration import ace, class_ce, ece, mce, sce, threshold_ce
from orcu.metrics.ordinal import accuracy, balanced_accuracy, macro_mae, mae, qwk, unimodality, within_one
from orcu.metrics.scorers import scorer
from orcu.metrics.scoring import Decomposition, brier, nll, overconfidence, rps, rps_decomposition, sharpness

__all__ = [
    "Decomposition",
    "accuracy",
    "ace",
    "balanced_accuracy",
    "brier",
    "class_ce",
    "ece",
    "macro_mae",
    "mae",
    "mce",
    "nll",
    "overconfidence",
    "qwk",
    "rps",
    "rps_decomposition",
    "sce",
    "scorer",
    "sharpness",
    "threshold_ce",
    "unimodality",
    "within_one",
]
