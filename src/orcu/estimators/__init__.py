"""Scikit-learn estimators: `OrdinalClassifier`, `CalibratedOrdinal` around any classifier, `cross_val_predict`."""

from orcu.estimators.cross_validation import cross_val_predict

__all__ = ["cross_val_predict"]
