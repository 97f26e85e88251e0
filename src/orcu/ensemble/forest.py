"""Forests as base learners of an ensemble: extremely randomised trees and random forests that minimise the RPS."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from sklearn.tree._tree import NODE_DTYPE, Tree

from orcu.ensemble.learner import NO_DEADLINE, Deadline, FoldLearner, TrainingData, smoothed_log_probs
from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs, float32_codes, table_codes
from orcu.threads import cores

# Trees of a fold: fewer on large tables, whose trees are large, so that a forest takes some 100 MB at most.
MIN_TREES, MAX_TREES, NODES_OF_ROWS = 60, 200, 600_000
TREES_AT_ONCE = 20  # trees that are fitted between two looks at the deadline
SMOOTHING_TREES = 100  # number of trees that the smoothing assumes, so that it does not depend on a deadline
MAX_ROWS = 10_000  # rows of a tree; larger tables give each tree a random part
FORESTS: dict[str, dict[str, Any]] = {
    "extra trees": {"min_samples_leaf": 1, "max_features": 1.0},
    "random forest": {"min_samples_leaf": 4, "max_features": "sqrt", "bootstrap": True},
}


@dataclass(frozen=True)
class ForestLearner(FoldLearner):
    """Extremely randomised trees or a random forest of scikit-learn, one forest per fold.

    The targets of the trees are the cumulative indicators [y <= k], or the cumulative shares of votes, so that a split
    minimises the ranked probability score of the two leaves. The leaves' cumulative frequencies are averaged over the
    trees and smoothed.

    Args:
        name: "extra trees" (leaves of one row, all columns) or "random forest" (bootstrap, leaves of four rows,
            random columns).
        seed: seed of the first fold.
    """

    subfolder: ClassVar[str] = "forests"
    suffix = "npz"
    name: str
    seed: int = 0

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> list[Tree]:
        """Fit the trees of a fold, in parallel threads; at the deadline no further trees are started."""
        from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

        rows = data[fold.all_training]
        if rows.y.ndim == 1:
            targets = (rows.y[:, None] <= np.arange(data.num_classes - 1)).astype(np.float64)
        else:
            targets = np.cumsum(rows.y, axis=1)[:, :-1]
        targets = targets[:, 0] if data.num_classes == 2 else targets
        options = {"bootstrap": False} | FORESTS[self.name]
        if len(rows.y) > MAX_ROWS:
            options |= {"bootstrap": True, "max_samples": MAX_ROWS}
        make = ExtraTreesRegressor if self.name == "extra trees" else RandomForestRegressor
        forest = make(warm_start=True, n_jobs=cores(), random_state=(self.seed + fold.number) % 2**32, **options)
        n_trees = min(MAX_TREES, max(MIN_TREES, NODES_OF_ROWS // min(len(rows.y), MAX_ROWS)))
        for size in range(TREES_AT_ONCE, n_trees + 1, TREES_AT_ONCE):
            forest.set_params(n_estimators=size).fit(
                float32_codes(table_codes(rows.inputs)), targets, rows.sample_weight
            )
            if deadline.is_over():
                break
        return [tree.tree_ for tree in forest.estimators_]

    def n_iter(self, model: list[Tree]) -> int:
        """Number of trees."""
        return len(model)

    def predict_log_proba(self, model: list[Tree], inputs: Inputs) -> FloatArray:
        """Smoothed log-probabilities of rows, (n, C)."""
        codes = float32_codes(table_codes(inputs))
        total = sum(tree.predict(codes).reshape(len(codes), -1) for tree in model)
        below = np.clip(total / len(model), 0.0, 1.0)
        probs = np.diff(below, prepend=0.0, append=1.0, axis=1).clip(min=0.0)
        return smoothed_log_probs(probs, SMOOTHING_TREES)

    def shape(self, model: list[Tree]) -> tuple[int, int]:
        """Number of columns and of classes."""
        return model[0].n_features, model[0].n_outputs + 1

    def save(self, model: list[Tree], path: Path) -> None:
        """Write the nodes of all trees as plain arrays."""
        nodes = np.concatenate([tree.__getstate__()["nodes"] for tree in model])
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                n_features=model[0].n_features,
                node_count=[tree.node_count for tree in model],
                value=np.concatenate([tree.value[:, :, 0] for tree in model]),
                **{f"node_{name}": nodes[name] for name in NODE_DTYPE.names or ()},
            )

    def load(self, path: Path) -> list[Tree]:
        """Read the trees of a fold; `InputError` if the file is missing or damaged."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return _read_trees({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise InputError(
                f"{path}: not the complete trees of a forest ({error}). Copy the whole folder that `orcu train` wrote, "
                "or delete this file and train again."
            ) from None


def _read_trees(arrays: dict[str, npt.NDArray[Any]]) -> list[Tree]:
    """The trees in the arrays of a file; `ValueError` if their structure is wrong, which the C code does not check."""
    counts, n_features, value = arrays["node_count"], int(arrays["n_features"]), arrays["value"].astype(np.float64)
    nodes = np.zeros(len(value), dtype=NODE_DTYPE)
    for name in NODE_DTYPE.names or ():
        nodes[name] = arrays[f"node_{name}"]
    if counts.ndim != 1 or not len(counts) or (counts < 1).any() or counts.sum() != len(nodes):
        raise ValueError("wrong number of nodes")
    if value.ndim != 2 or not ((value >= 0) & (value <= 1)).all():
        raise ValueError("leaf frequencies are not from 0 to 1")
    trees, start = [], 0
    for count in counts.tolist():
        part, number = nodes[start : start + count], np.arange(count)
        left, right, inner = part["left_child"], part["right_child"], part["left_child"] != -1
        # Children come after their parent, so that every path ends.
        if not ((left > number) & (right > number) & (left < count) & (right < count))[inner].all():
            raise ValueError("wrong children of a node")
        if not ((part["feature"] >= 0) & (part["feature"] < n_features))[inner].all():
            raise ValueError("wrong column of a split")
        tree = Tree(n_features, np.ones(value.shape[1], dtype=np.intp), value.shape[1])
        values = np.ascontiguousarray(value[start : start + count, :, None])
        tree.__setstate__({"max_depth": count, "node_count": count, "nodes": part.copy(), "values": values})
        trees.append(tree)
        start += count
    return trees
