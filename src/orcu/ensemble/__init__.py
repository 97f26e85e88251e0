"""Ensembles: base learners cross-fitted on the same folds, pooled, calibrated, with prediction sets.

`OrdinalClassifier`, `OrdinalBoosting`, ``orcu train`` and benchmark specs fit their ensembles with `fit_ensemble`.
"""

from orcu.ensemble.ensemble import Ensemble, fit_ensemble
from orcu.ensemble.learner import BaseLearner, CrossFitted, FoldLearner, TrainingData

__all__ = ["BaseLearner", "CrossFitted", "Ensemble", "FoldLearner", "TrainingData", "fit_ensemble"]
