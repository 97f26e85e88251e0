"""Explanation of a model that was trained on a table: what its predictions for the test rows depend on."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from orcu.explain.model_explanation import ModelExplanation, explain_model
from orcu.inputs import FloatArray, IntArray
from orcu.models.kinds import table_features
from orcu.preprocessing import Inputs, TableEncoder
from orcu.training.run import VOTES, Run


class _TableClassifier:
    """A trained model as a classifier of rows of a table, whose cells are objects."""

    knows_order = True  # the classes are in their order

    def __init__(
        self, encoder: TableEncoder, classes: tuple[str, ...], predict_proba: Callable[[Inputs], FloatArray]
    ) -> None:
        self.encoder, self.classes_, self._predict_proba = encoder, np.array(classes, dtype=object), predict_proba

    def predict_proba(self, X: Any, /) -> FloatArray:
        """Calibrated probabilities, (n, C)."""
        table = {
            column.name: X[:, k].astype(np.float64) if column.categories is None else X[:, k]
            for k, column in enumerate(self.encoder.columns)
        }
        with warnings.catch_warnings():  # the test rows were encoded before, with these warnings
            warnings.simplefilter("ignore", UserWarning)
            inputs = self.encoder.encode(table)
        return self._predict_proba(inputs)


def explain_table(run: Run, columns: Any, predict_proba: Callable[[Inputs], FloatArray]) -> ModelExplanation:
    """Importance of the columns on the test rows, and partial dependence on the most important ones.

    Args:
        run: run whose data set is a table.
        columns: state of the model's encoder, `TableEncoder.to_dict`.
        predict_proba: calibrated probabilities of encoded rows.
    """
    manifest, rows = run.prepared.manifest, run.splits["test"]
    encoder, features = TableEncoder.from_dict(columns), table_features(manifest)
    X = np.empty((len(rows), len(encoder.columns)), dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        codes = encoder.encode(_take(features, rows), features=False).codes
    assert codes is not None  # noqa: S101
    for k, column in enumerate(encoder.columns):
        X[:, k] = codes[:, k] if column.categories is None else _take(features, rows)[column.name]
    clusters = manifest.clusters()
    classes = tuple(run.model_config.classes)
    on_votes = run.config.label == VOTES
    return explain_model(
        _TableClassifier(encoder, classes, predict_proba),
        X,
        manifest.votes[rows] if on_votes else [classes[label] for label in run.labels[rows]],
        cluster=None if clusters is None else [clusters[row] for row in rows],
        feature_names=[column.name for column in encoder.columns],
        random_state=run.config.seed,
    )


def _take(features: dict[str, list[Any]], rows: IntArray) -> dict[str, list[Any]]:
    return {name: [values[row] for row in rows] for name, values in features.items()}
