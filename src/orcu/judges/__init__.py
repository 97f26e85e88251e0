"""Language models as judges: reading their grades, calibrating them to human grades, and comparing systems."""

from orcu.judges.audit import JudgeAudit, audit
from orcu.judges.grades import Grades
from orcu.judges.levels import GradeLevels
from orcu.judges.panel import JudgePanel, PanelPredictions
from orcu.judges.reading import read
from orcu.judges.systems import compare_systems

__all__ = ["GradeLevels", "Grades", "JudgeAudit", "JudgePanel", "PanelPredictions", "audit", "compare_systems", "read"]
