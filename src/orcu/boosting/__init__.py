"""Ordinal objectives for boosted trees: gradients and Hessians of the losses, for LightGBM and XGBoost.

ORCU has no thresholds to be learned: it is a plain function of C logits, so trees can be grown by it as they are by
cross-entropy. Nothing here needs torch.
"""

from orcu.boosting.adapters import lightgbm_metric, lightgbm_objective, xgboost_metric, xgboost_objective
from orcu.boosting.objective import Objective, objective

__all__ = ["Objective", "lightgbm_metric", "lightgbm_objective", "objective", "xgboost_metric", "xgboost_objective"]
