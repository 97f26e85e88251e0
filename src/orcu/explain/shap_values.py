"""SHAP values of the expected grade, by the ``shap`` package."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from orcu.errors import require
from orcu.explain.cells import (
    MAX_BACKGROUND,
    Classifier,
    as_rows,
    column_names,
    grade_values,
    predict_cells,
    sample_rows,
    stack_rows,
)
from orcu.io.frames import columns_from_frame, is_frame
from orcu.model_selection import take_rows


def shap_values(
    estimator: Classifier, X: Any, background: Any, *, feature_names: Sequence[str] | None = None, random_state: int = 0
) -> Any:
    """SHAP values of the expected grade of each row, as an ``Explanation`` of the ``shap`` package.

    The explainer is model-agnostic: exact for few columns, otherwise by permutations. Frames with categories and
    missing values work, because it sees numbers of rows in place of their cells. Its plots, such as
    ``shap.plots.beeswarm``, take the result. `orcu.explain.explain_row` needs no further package.

    Args:
        estimator: fitted classifier with ``predict_proba``.
        X: rows to explain; a frame or an array.
        background: rows that stand for the population, such as the training rows; at most 100 are used.
        feature_names: names of the columns of an array.
        random_state: seed of the background sample and of the permutations.

    Returns:
        ``shap.Explanation`` with values (n, D); they and ``base_values`` sum to the expected grade.

    Raises:
        MissingExtraError: if ``shap`` is not installed (``pip install 'orcu[explain]'``).
        InputError: if the classes have no order.
    """
    require("shap", extra="explain", feature="shap_values")
    import shap

    grades = grade_values(estimator)
    X, background = as_rows(X), as_rows(background)
    names = column_names(X, feature_names)
    background = take_rows(background, sample_rows(len(background), MAX_BACKGROUND, random_state))
    cells = stack_rows(background, X)
    n_background, width = background.shape

    def expected_grade(rows: Any) -> Any:
        return predict_cells(estimator, cells, np.asarray(rows, dtype=np.int64)) @ grades

    # The cells are numbers of rows, which any column type has; equal values have different numbers.
    source = np.tile(np.arange(len(cells), dtype=np.float64)[:, None], (1, width))
    masker = shap.maskers.Independent(source[:n_background], max_samples=n_background)
    explainer = shap.Explainer(expected_grade, masker, feature_names=names, seed=random_state)
    explanation = explainer(source[n_background:], silent=True)
    explanation.data = _display(X)
    return explanation


def _display(X: Any) -> Any:
    """Values of the rows for plots, (n, D)."""
    if not is_frame(X):
        return np.asarray(X)
    return np.stack([np.asarray(column, dtype=object) for column in columns_from_frame(X).values()], axis=1)
