"""Scikit-learn estimators: `OrdinalClassifier`, `OrdinalBoosting`, and `CalibratedOrdinal` around any classifier."""

from orcu.estimators.boosting import OrdinalBoosting
from orcu.estimators.calibrated import CalibratedOrdinal
from orcu.estimators.classifier import OrdinalClassifier

__all__ = ["CalibratedOrdinal", "OrdinalBoosting", "OrdinalClassifier"]
