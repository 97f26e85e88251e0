"""`explain_row` of the estimators: what moved one prediction, relative to the training rows."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from orcu.errors import InputError
from orcu.explain.cells import MAX_BACKGROUND, sample_rows
from orcu.explain.row_explanation import RowExplanation, explain_row
from orcu.io.frames import is_frame
from orcu.model_selection import take_rows


class ExplainRowMixin:
    """Method ``explain_row``; ``fit`` keeps up to 100 training rows for it, which are not saved with the model."""

    _background: Any = None

    def explain_row(self, X: Any, background: Any = None, *, random_state: int = 0) -> RowExplanation:
        """What moved the predicted distribution of one row, relative to the mean prediction of other rows.

        The contributions are interventional Shapley values: exact for up to 8 columns, otherwise by random orders of
        the columns (see `orcu.explain.explain_row`).

        Args:
            X: one row: a frame of one row, an array, a dictionary or a series.
            background: rows that stand for the population; by default up to 100 random training rows.
            random_state: seed of the sample and of the orders.

        Returns:
            An explanation that prints as sentences, and as a card with a picture in a notebook.

        Raises:
            InputError: if ``X`` is not one row, or there are no background rows.
        """
        check_is_fitted(self)
        rows = self._background if background is None else background
        if rows is None:
            raise InputError(
                "background: this model has no training rows; they are not saved with a model, and only rows of a "
                "table are kept. Give rows, such as background=X_train."
            )
        return explain_row(self, X, rows, random_state=random_state)  # type: ignore[arg-type]

    def _keep_background(self, X: Any) -> Self:
        """Keep some rows of the table on which the estimator was fitted."""
        rows = X if is_frame(X) else np.asarray(X.detach() if hasattr(X, "detach") else X)
        if len(rows.shape) == 2:  # images, texts and sparse matrices have no columns to explain
            self._background = take_rows(rows, sample_rows(len(rows), MAX_BACKGROUND, 0))
        return self

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle and copies, without the background rows, which may be private."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {key: value for key, value in state.items() if key != "_background"}
