"""Metrics of class probabilities: functions ``metric(probs, y)`` that return fractions.

All are computed in float64. Each docstring states its convention; the default is the paper's.
"""

from orcu.metrics.calibration import ace, classwise_ece, ece, mce, sce, threshold_ce
from orcu.metrics.concordance import c_index
from orcu.metrics.corp import CorpDecomposition, corp_decomposition, smooth_ece
from orcu.metrics.firm import firm
from orcu.metrics.mean_grade import prmse, standardized_mean_difference
from orcu.metrics.net_benefit import net_benefit
from orcu.metrics.ordinal import accuracy, balanced_accuracy, macro_mae, mae, off_by_one_accuracy, qwk, unimodality
from orcu.metrics.scorers import scorer
from orcu.metrics.scoring import Decomposition, brier, nll, overconfidence, rps, rps_decomposition, sharpness
from orcu.metrics.smooth_curve import eci

__all__ = [
    "CorpDecomposition",
    "Decomposition",
    "accuracy",
    "ace",
    "balanced_accuracy",
    "brier",
    "c_index",
    "classwise_ece",
    "corp_decomposition",
    "ece",
    "eci",
    "firm",
    "macro_mae",
    "mae",
    "mce",
    "net_benefit",
    "nll",
    "off_by_one_accuracy",
    "overconfidence",
    "prmse",
    "qwk",
    "rps",
    "rps_decomposition",
    "sce",
    "scorer",
    "sharpness",
    "smooth_ece",
    "standardized_mean_difference",
    "threshold_ce",
    "unimodality",
]
