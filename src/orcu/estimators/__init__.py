"""Scikit-learn estimators: `OrdinalClassifier`, `OrdinalBoosting`, `OrdinalLogistic`, and `CalibratedOrdinal`."""

from orcu.estimators.boosting import OrdinalBoosting
from orcu.estimators.calibrated import CalibratedOrdinal
from orcu.estimators.classifier import OrdinalClassifier
from orcu.estimators.logistic import OrdinalLogistic

__all__ = ["CalibratedOrdinal", "OrdinalBoosting", "OrdinalClassifier", "OrdinalLogistic"]
