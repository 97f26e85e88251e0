"""Grades that language models hand out: read, calibrated to people, and used where people would be asked."""

from orcu.judges.agreement import agreement, krippendorff
from orcu.judges.examination import examine
from orcu.judges.grades import Grades, read
from orcu.judges.panel import JudgePanel, Verdicts
from orcu.judges.scale import Scale
from orcu.judges.systems import compare_systems

__all__ = [
    "Grades",
    "JudgePanel",
    "Scale",
    "Verdicts",
    "agreement",
    "compare_systems",
    "examine",
    "krippendorff",
    "read",
]
