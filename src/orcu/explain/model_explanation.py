"""Explanation of a model on a table: the importance of the columns, and the dependence on the most important ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.explain.cells import Classifier, as_rows, column_names, sample_rows
from orcu.explain.partial_dependence import PartialDependence, partial_dependence
from orcu.explain.permutation_importance import PermutationImportance, permutation_importance
from orcu.inputs import as_array
from orcu.model_selection import take_rows

N_REPEATS = 5
MAX_PREDICTIONS = 20_000  # rows predicted for the importance of all columns: seconds, also for a large ensemble
MIN_ROWS, MAX_ROWS = 100, 500
MAX_CURVE_ROWS, GRID_SIZE = 100, 12


@dataclass(frozen=True)
class ModelExplanation:
    """Importance of the columns, and partial dependence on the most important ones."""

    importance: PermutationImportance
    dependence: tuple[PartialDependence, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"importance": self.importance.to_dict(), "dependence": [curve.to_dict() for curve in self.dependence]}


def explain_model(
    estimator: Classifier,
    X: Any,
    y: Any,
    *,
    n_columns: int = 3,
    cluster: Any = None,
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> ModelExplanation:
    """Permutation importance of all columns, and partial dependence on the most important ones.

    Of many rows and columns a random sample of at most 500 rows is used, fewer for wide tables. Columns whose
    interval of the importance contains 0 have no curve.

    Args:
        estimator: fitted classifier with ``predict_proba``.
        X: frame or array of rows that the model was not trained on.
        y: labels; or votes of several raters, shape (n, C).
        n_columns: maximum number of columns with a curve.
        cluster: cluster of each row, such as its patient.
        feature_names: names of the columns of an array.
        random_state: seed.

    Example:
        >>> from orcu import OrdinalLogistic
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 2))
        >>> y = np.digitize(2 * X[:, 0] + rng.logistic(size=400), [-1, 1])
        >>> explanation = explain_model(OrdinalLogistic().fit(X, y), X, y)
        >>> [curve.column for curve in explanation.dependence]
        ['x0']
    """
    X = as_rows(X)
    names = column_names(X, feature_names)
    most = int(np.clip(MAX_PREDICTIONS // (N_REPEATS * len(names)), MIN_ROWS, MAX_ROWS))
    rows = sample_rows(len(X), most, random_state)
    labels = as_array(y, "y")[rows]
    groups = None if cluster is None else as_array(cluster, "cluster")[rows]
    X = take_rows(X, rows)
    importance = permutation_importance(
        estimator,
        X,
        labels,
        n_repeats=N_REPEATS,
        cluster=groups if groups is not None and len(set(groups.tolist())) > 1 else None,
        feature_names=feature_names,
        random_state=random_state,
    )
    chosen = [name for name, low in zip(importance.names, importance.low, strict=True) if low > 0][:n_columns]
    curves = [
        partial_dependence(
            estimator,
            X,
            name,
            grid_size=GRID_SIZE,
            max_rows=MAX_CURVE_ROWS,
            feature_names=feature_names,
            random_state=random_state,
        )
        for name in chosen
    ]
    return ModelExplanation(importance, tuple(curves))
