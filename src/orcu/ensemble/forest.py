"""Forests as base learners of an ensemble: extremely randomised trees and random forests that minimise the RPS."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from sklearn.tree._tree import NODE_DTYPE, Tree

from orcu.ensemble.learner import NO_DEADLINE, Deadline, FoldLearner, TrainingData, smoothed_log_probs
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs, float32_codes, table_codes
from orcu.threads import cores

# Trees of a fold: fewer on large tables, whose trees are large, so that a forest takes some 100 MB at most.
MIN_TREES, MAX_TREES, NODES_OF_ROWS = 60, 200, 600_000
TREES_AT_ONCE = 20  # trees that are fitted between two looks at the deadline
SMOOTHING_TREES = 100  # number of trees that the smoothing assumes, so that it does not depend on a deadline
MAX_ROWS = 10_000  # rows of a tree; larger tables give each tree a random part
VALUES_AT_ONCE = 1 << 22  # numbers in the copies of rows that `Forest.predict` makes, 16 MB
FORESTS: dict[str, dict[str, Any]] = {
    "extra trees": {"min_samples_leaf": 1, "max_features": 1.0},
    "random forest": {"min_samples_leaf": 4, "max_features": "sqrt", "bootstrap": True},
}


@dataclass(frozen=True)
class Forest:
    """The trees of a fold as one tree, which is predicted by one call: a call per tree takes most of the time of a row.

    A further column is the number of a tree. The first nodes split it, so that the row of tree t ends in its root.

    Attributes:
        tree: the nodes that lead to the trees, then the nodes of each tree.
        counts: number of nodes of each tree, (T,).
    """

    tree: Tree
    counts: IntArray

    @classmethod
    def join(cls, nodes: Sequence[npt.NDArray[Any]], values: Sequence[FloatArray], n_columns: int) -> "Forest":
        """A forest of trees, from the nodes of each one and their values, (nodes, C - 1)."""
        n_trees, n_outputs = len(nodes), values[0].shape[1]
        counts = np.array([len(part) for part in nodes])
        roots = n_trees - 1 + np.cumsum(counts) - counts
        joined = np.zeros(n_trees - 1 + counts.sum(), dtype=NODE_DTYPE)
        unused = iter(range(n_trees - 1))

        def node_above(first: int, end: int) -> int:
            """The node that leads to the trees first..end-1."""
            if end - first == 1:
                return int(roots[first])
            node, middle = next(unused), (first + end) // 2
            joined["feature"][node], joined["threshold"][node] = n_columns, middle - 0.5
            joined["left_child"][node] = node_above(first, middle)
            joined["right_child"][node] = node_above(middle, end)
            return node

        node_above(0, n_trees)
        for root, part in zip(roots.tolist(), nodes, strict=True):
            place = joined[root : root + len(part)]
            place[:] = part
            inner = place["left_child"] >= 0
            for child in ("left_child", "right_child"):
                place[child][inner] += root
        tree = Tree(n_columns + 1, np.ones(n_outputs, dtype=np.intp), n_outputs)
        padded = np.concatenate([np.zeros((n_trees - 1, n_outputs)), *values])
        state = {"max_depth": len(joined), "node_count": len(joined), "nodes": joined, "values": padded[:, :, None]}
        tree.__setstate__(state)
        return cls(tree, counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows, D."""
        return int(self.tree.n_features) - 1

    def trees(self) -> Iterator[tuple[npt.NDArray[Any], FloatArray]]:
        """The nodes of each tree and their values, (nodes, C - 1), as `join` takes them."""
        all_nodes, values = self.tree.__getstate__()["nodes"], self.tree.value[:, :, 0]
        root = len(self) - 1
        for count in self.counts.tolist():
            nodes = all_nodes[root : root + count].copy()
            inner = nodes["left_child"] >= 0
            for child in ("left_child", "right_child"):
                nodes[child][inner] -= root
            yield nodes, values[root : root + count]
            root += count

    def predict(self, codes: npt.NDArray[np.float32]) -> FloatArray:
        """The sum over the trees of the values of the leaves of each row, (n, C - 1)."""
        numbers = np.arange(len(self), dtype=np.float32)[:, None]
        parts, at_once = [], max(1, VALUES_AT_ONCE // (len(self) * (self.n_columns + 1)))
        for first in range(0, len(codes), at_once):
            rows = codes[first : first + at_once]
            copies = np.empty((len(self), len(rows), self.n_columns + 1), dtype=np.float32)
            copies[:, :, :-1], copies[:, :, -1] = rows, numbers
            leaves = self.tree.predict(copies.reshape(-1, self.n_columns + 1))
            parts.append(leaves.reshape(len(self), len(rows), -1).sum(axis=0))
        return np.concatenate(parts)


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

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> Forest:
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
        states = [tree.tree_.__getstate__() for tree in forest.estimators_]
        return Forest.join(
            [state["nodes"] for state in states],
            [state["values"][:, :, 0] for state in states],
            table_codes(rows.inputs).shape[1],
        )

    def n_iter(self, model: Forest) -> int:
        """Number of trees."""
        return len(model)

    def predict_log_proba(self, model: Forest, inputs: Inputs) -> FloatArray:
        """Smoothed log-probabilities of rows, (n, C)."""
        total = model.predict(float32_codes(table_codes(inputs)))
        below = np.clip(total / len(model), 0.0, 1.0)
        probs = np.diff(below, prepend=0.0, append=1.0, axis=1).clip(min=0.0)
        return smoothed_log_probs(probs, SMOOTHING_TREES)

    def shape(self, model: Forest) -> tuple[int, int]:
        """Number of columns and of classes."""
        return model.n_columns, model.tree.n_outputs + 1

    def save(self, model: Forest, path: Path) -> None:
        """Write the nodes of all trees as plain arrays."""
        parts, values = zip(*model.trees(), strict=True)
        nodes = np.concatenate(parts)
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                n_features=model.n_columns,
                node_count=model.counts,
                value=np.concatenate(values),
                **{f"node_{name}": nodes[name] for name in NODE_DTYPE.names or ()},
            )

    def load(self, path: Path) -> Forest:
        """Read the trees of a fold; `InputError` if the file is missing or damaged."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return _read_trees({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise InputError(
                f"{path}: not the complete trees of a forest ({error}). Copy the whole folder that `orcu train` wrote, "
                "or delete this file and train again."
            ) from None


def _read_trees(arrays: dict[str, npt.NDArray[Any]]) -> Forest:
    """The trees in the arrays of a file; `ValueError` if their structure is wrong, which the C code does not check."""
    counts, n_features, value = arrays["node_count"], int(arrays["n_features"]), arrays["value"].astype(np.float64)
    nodes = np.zeros(len(value), dtype=NODE_DTYPE)
    for name in NODE_DTYPE.names or ():
        nodes[name] = arrays[f"node_{name}"]
    if counts.ndim != 1 or not len(counts) or (counts < 1).any() or counts.sum() != len(nodes):
        raise ValueError("wrong number of nodes")
    if value.ndim != 2 or not ((value >= 0) & (value <= 1)).all():
        raise ValueError("leaf frequencies are not from 0 to 1")
    parts = np.split(nodes, np.cumsum(counts)[:-1])
    for part in parts:
        number, count = np.arange(len(part)), len(part)
        left, right, inner = part["left_child"], part["right_child"], part["left_child"] != -1
        # Children come after their parent, so that every path ends.
        if not ((left > number) & (right > number) & (left < count) & (right < count))[inner].all():
            raise ValueError("wrong children of a node")
        if not ((part["feature"] >= 0) & (part["feature"] < n_features))[inner].all():
            raise ValueError("wrong column of a split")
    return Forest.join(parts, np.split(value, np.cumsum(counts)[:-1]), n_features)
