"""Ordinal objectives for boosted trees: gradients and curvatures of the losses, for LightGBM and XGBoost.

ORCU has no thresholds to be learned: it is a plain function of C logits, so trees can be grown by it as they are by
cross-entropy. Nothing here needs torch.
"""

from orcu.boosting.adapters import for_lightgbm, for_xgboost, lightgbm_metric, xgboost_metric
from orcu.boosting.objective import Objective, objective

__all__ = ["Objective", "for_lightgbm", "for_xgboost", "lightgbm_metric", "objective", "xgboost_metric"]
