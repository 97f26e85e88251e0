"""Explanation of any fitted classifier of ordered classes: importance, dependence and Shapley values of columns."""

from orcu.explain.model_explanation import ModelExplanation, explain_model
from orcu.explain.partial_dependence import PartialDependence, partial_dependence
from orcu.explain.permutation_importance import PermutationImportance, permutation_importance
from orcu.explain.row_explanation import RowExplanation, explain_row
from orcu.explain.shap_values import shap_values

__all__ = [
    "ModelExplanation",
    "PartialDependence",
    "PermutationImportance",
    "RowExplanation",
    "explain_model",
    "explain_row",
    "partial_dependence",
    "permutation_importance",
    "shap_values",
]
