"""Scikit-learn estimators: `OrdinalClassifier`, and `CalibratedOrdinal` around any classifier."""
