"""Language models as judges: reading grades and preferences, calibration to people, comparison of systems."""

from orcu.judges.audit import JudgeAudit, audit
from orcu.judges.grades import Grades
from orcu.judges.levels import GradeLevels
from orcu.judges.missingness import graded_weights, missingness_effects
from orcu.judges.pairs import PairRanking, rank_pairs
from orcu.judges.panel import JudgePanel, PanelPredictions
from orcu.judges.preferences import Preferences, read_preferences
from orcu.judges.reading import read
from orcu.judges.systems import compare_systems

__all__ = [
    "GradeLevels",
    "Grades",
    "JudgeAudit",
    "JudgePanel",
    "PairRanking",
    "PanelPredictions",
    "Preferences",
    "audit",
    "compare_systems",
    "graded_weights",
    "missingness_effects",
    "rank_pairs",
    "read",
    "read_preferences",
]
