"""Members of an ensemble as parts of an ONNX graph: boosted trees, forests and proportional odds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from orcu.boosting.catboost import CatBoostLearner
from orcu.boosting.learner import BoostingLearner
from orcu.boosting.libraries import LightGBMLearner
from orcu.boosting.model_text import NAN_IS_MISSING, ZERO_IS_MISSING, LightGBMTree, read_lightgbm_trees
from orcu.ensemble.forest import SMOOTHING_TREES, ForestLearner
from orcu.ensemble.learner import SMOOTHING, CrossFitted
from orcu.ensemble.linear import LinearLearner
from orcu.errors import InputError, require
from orcu.inputs import FloatArray, IntArray
from orcu.preprocessing import FLOAT32_MAX

require("onnx", extra="onnx", feature="orcu.integrations.onnx_members")

from onnx import TensorProto, numpy_helper  # noqa: E402

from orcu.integrations.onnx_graph import TREES_DOMAIN, EncodedTable, Graph  # noqa: E402

LIGHTGBM_ZERO = float(np.float32(1e-35))  # LightGBM takes smaller numbers for 0
_AT_MOST, _IS_MEMBER = 0, 6  # modes of TreeEnsemble: a split of numbers, and one of a set of numbers
# feature, split, missing_left, left and right of a tree without a split, which TreeEnsemble writes as one
_SPLIT_OF_ONE_LEAF = tuple(np.array([number]) for number in (0, 0, 0, -1, -1))


class _TreeArrays:
    """Attributes of a TreeEnsemble node, collected tree by tree."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.features: list[IntArray] = []
        self.modes: list[IntArray] = []
        self.splits: list[FloatArray] = []
        self.missing_left: list[Any] = []
        self.left: list[IntArray] = []
        self.right: list[IntArray] = []
        self.left_is_leaf: list[Any] = []
        self.right_is_leaf: list[Any] = []
        self.sets: list[FloatArray] = []
        self.targets: list[IntArray] = []
        self.weights: list[FloatArray] = []
        self.n_nodes = self.n_leaves = 0

    def add(
        self,
        *,
        feature: IntArray,
        split: FloatArray,
        missing_left: Any,
        left: IntArray,
        right: IntArray,
        leaf_weight: FloatArray,
        target: int,
        sets: Sequence[IntArray | None] = (),
    ) -> None:
        """Add a tree in the layout of `LightGBMTree`: children below 0 are ~leaf.

        Args:
            feature: column of each split.
            split: numbers up to it go left.
            missing_left: whether NaN goes left.
            left: left child.
            right: right child.
            leaf_weight: what each leaf adds to the target.
            target: number of the output.
            sets: numbers that go left, for splits of categories.
        """
        if not len(feature):
            feature, split, missing_left, left, right = _SPLIT_OF_ONE_LEAF
        is_set = np.array([part is not None for part in sets]) if sets else np.zeros(len(feature), dtype=bool)
        self.roots.append(self.n_nodes)
        self.features.append(feature)
        self.modes.append(np.where(is_set, _IS_MEMBER, _AT_MOST))
        self.splits.append(np.where(is_set, 0.0, split))
        self.missing_left.append(np.asarray(missing_left, dtype=np.int64))
        for child, place, is_leaf in ((left, self.left, self.left_is_leaf), (right, self.right, self.right_is_leaf)):
            place.append(np.where(child < 0, ~child + self.n_leaves, child + self.n_nodes))
            is_leaf.append((child < 0).astype(np.int64))
        self.sets += [np.append(part, np.nan) for part in sets if part is not None]
        self.targets.append(np.full(len(leaf_weight), target))
        self.weights.append(leaf_weight)
        self.n_nodes += len(feature)
        self.n_leaves += len(leaf_weight)

    def add_to(self, graph: Graph, rows: str, n_targets: int) -> str:
        """Add the node; its output is the sum of the leaves of each target, (n, n_targets), float64."""

        def tensor(parts: Sequence[Any], dtype: Any = np.float64) -> Any:
            return numpy_helper.from_array(np.concatenate(parts).astype(dtype))

        def integers(parts: Sequence[Any]) -> list[int]:
            return np.concatenate(parts).tolist()

        sets = {"membership_values": tensor(self.sets)} if self.sets else {}
        return graph.add(
            "TreeEnsemble",
            rows,
            domain=TREES_DOMAIN,
            n_targets=n_targets,
            tree_roots=self.roots,
            nodes_featureids=integers(self.features),
            nodes_modes=tensor(self.modes, np.uint8),
            nodes_splits=tensor(self.splits),
            nodes_missing_value_tracks_true=integers(self.missing_left),
            nodes_truenodeids=integers(self.left),
            nodes_trueleafs=integers(self.left_is_leaf),
            nodes_falsenodeids=integers(self.right),
            nodes_falseleafs=integers(self.right_is_leaf),
            leaf_targetids=integers(self.targets),
            leaf_weights=tensor(self.weights),
            **sets,
        )


def add_member(graph: Graph, member: CrossFitted, table: EncodedTable) -> str:
    """Add the models of all folds of a member; the output is the mean of their log-probabilities, (n, C).

    Raises:
        InputError: if the member cannot be exported.
    """
    for kind, add in _MEMBERS.items():
        if type(member.learner) is kind:
            return add(graph, member, table)
    name, learner = member.name, member.learner
    if isinstance(learner, BoostingLearner):
        raise InputError(
            f"model: the member {name!r} is of {learner.config.library}, which is not exported; fit with "
            "library='lightgbm'."
        )
    if isinstance(learner, CatBoostLearner):
        raise InputError(
            f"model: the member {name!r} is of CatBoost, which is not exported; fit with presets='default', or with "
            "estimators without 'catboost'."
        )
    raise InputError(
        f"model: the member {name!r} is an estimator of another package, which is not exported; fit with named "
        "estimators such as 'linear', 'forest', 'network' and 'boosting'."
    )


def needs_features(member: CrossFitted) -> bool:
    """Whether a member reads the features of networks and linear models, rather than the codes of trees."""
    return isinstance(member.learner, LinearLearner)


def _mean_over_folds(graph: Graph, log_probs: str) -> str:
    """(n, K, C) to (n, C)."""
    return graph.add("ReduceMean", log_probs, graph.constant([1], np.int64), keepdims=0)


def _add_lightgbm(graph: Graph, member: CrossFitted, table: EncodedTable) -> str:
    """Log-softmax of the initial score plus the sum of the trees of each fold.

    LightGBM's rule for a missing value depends on the split. Where 0 counts as missing, the split reads a copy of its
    column in which numbers close to 0 are NaN.
    """
    learner = member.learner
    assert isinstance(learner, LightGBMLearner)  # noqa: S101
    folds: list[list[LightGBMTree]] = []
    num_classes = 0
    for number, booster in enumerate(member.models):
        try:
            trees, num_classes = read_lightgbm_trees(learner.to_text(booster))
        except ValueError as error:
            raise InputError(
                f"model: the trees of {member.name!r}, fold {number}, cannot be exported ({error}); fit without "
                "params=."
            ) from None
        folds.append(trees)
    n_columns, with_zero = learner.shape(member.models[0])[0], _zero_columns(folds)
    arrays = _TreeArrays()
    for fold, trees in enumerate(folds):
        for number, tree in enumerate(trees):
            zero_is_missing = tree.missing == ZERO_IS_MISSING
            by_default = zero_is_missing | (tree.missing == NAN_IS_MISSING)
            is_number = np.array([part is None for part in tree.categories], dtype=bool)
            arrays.add(
                feature=np.where(zero_is_missing, n_columns + np.searchsorted(with_zero, tree.feature), tree.feature),
                split=tree.threshold,
                missing_left=np.where(by_default, tree.default_left, tree.threshold >= 0) & is_number,
                left=tree.left,
                right=tree.right,
                leaf_weight=tree.leaf_value,
                target=fold * num_classes + number % num_classes,
                sets=tree.categories,
            )
    is_zero = graph.add("LessOrEqual", graph.add("Abs", table.codes), graph.constant(LIGHTGBM_ZERO))
    rows = graph.add("Where", is_zero, graph.constant(0.0), table.codes)
    if len(with_zero):
        missing = graph.add("Where", is_zero, graph.constant(np.nan), table.codes)
        rows = graph.concatenate([rows, graph.columns(missing, with_zero.tolist())])
    sums = arrays.add_to(graph, rows, len(folds) * num_classes)
    by_fold = graph.add("Reshape", sums, graph.constant([-1, len(folds), num_classes], np.int64))
    scores = graph.add("Add", by_fold, graph.constant(learner.init_score))
    return _mean_over_folds(graph, graph.add("LogSoftmax", scores, axis=-1))


def _zero_columns(folds: Sequence[Sequence[LightGBMTree]]) -> IntArray:
    """The columns with splits for which 0 is missing, in increasing order."""
    columns = [tree.feature[tree.missing == ZERO_IS_MISSING] for trees in folds for tree in trees]
    return np.unique(np.concatenate(columns)).astype(np.int64)


def _add_forest(graph: Graph, member: CrossFitted, table: EncodedTable) -> str:
    """Smoothed differences of the mean cumulative frequencies of each fold's trees.

    A leaf of TreeEnsemble has one number, so each tree is an output that gives the row of its leaf in a table of the
    different frequencies, of which forests with pure leaves have few.
    """
    trees = [tree for forest in member.models for tree in forest.trees()]
    values = [value for _, value in trees]
    frequencies, leaf_row = np.unique(np.concatenate(values), axis=0, return_inverse=True)
    row_of_node: FloatArray = leaf_row.reshape(-1).astype(np.float64)
    arrays, start, target = _TreeArrays(), 0, 0
    for nodes, _ in trees:
        arrays.add(**_forest_tree(nodes, row_of_node[start : start + len(nodes)]), target=target)
        start, target = start + len(nodes), target + 1
    codes = graph.add("Clip", table.codes, graph.constant(-FLOAT32_MAX), graph.constant(FLOAT32_MAX))
    codes = graph.add("Where", graph.add("IsNaN", table.codes), graph.constant(np.nan), codes)
    rows = graph.cast(graph.cast(codes, TensorProto.FLOAT), TensorProto.DOUBLE)  # the trees compare rounded numbers
    leaves = graph.cast(arrays.add_to(graph, rows, target), TensorProto.INT64)
    by_tree = graph.add("Gather", graph.constant(frequencies), leaves, axis=0)  # (n, trees of all folds, C - 1)
    axis, ends = graph.constant([1], np.int64), np.cumsum([len(forest) for forest in member.models]).tolist()
    parts = []
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        of_fold = graph.add("Slice", by_tree, graph.constant([first], np.int64), graph.constant([end], np.int64), axis)
        parts.append(graph.add("ReduceMean", of_fold, axis))
    zero, one = graph.constant(0.0), graph.constant(1.0)
    below = graph.add("Clip", graph.concatenate(parts), zero, one)  # (n, K, C - 1)
    pads = graph.constant([0, 0, 1, 0, 0, 0], np.int64), graph.constant([0, 0, 0, 0, 0, 1], np.int64)
    steps = graph.add("Sub", graph.add("Pad", below, pads[1], one), graph.add("Pad", below, pads[0], zero))
    smoothed = graph.add("Mul", graph.add("Max", steps, zero), graph.constant(float(SMOOTHING_TREES)))
    smoothed = graph.add("Add", smoothed, graph.constant(SMOOTHING))
    total = graph.constant(SMOOTHING_TREES + SMOOTHING * (frequencies.shape[1] + 1))
    return _mean_over_folds(graph, graph.add("Log", graph.add("Div", smoothed, total)))


def _forest_tree(nodes: Any, leaf_row: FloatArray) -> dict[str, Any]:
    """A tree of scikit-learn, whose nodes and leaves are numbered together, as arguments of `_TreeArrays.add`."""
    is_inner = nodes["left_child"] >= 0
    number = np.where(is_inner, np.cumsum(is_inner) - 1, -np.cumsum(~is_inner))  # ~leaf is -1 - leaf
    inner = nodes[is_inner]
    return {
        "feature": inner["feature"].astype(np.int64),
        "split": inner["threshold"],
        "missing_left": inner["missing_go_to_left"].astype(np.int64),
        "left": number[inner["left_child"]],
        "right": number[inner["right_child"]],
        "leaf_weight": leaf_row[~is_inner],
    }


def _add_proportional_odds(graph: Graph, member: CrossFitted, table: EncodedTable) -> str:
    """Sum log sigma(theta_k - f) + log sigma(f - theta_{k-1}) + log(1 - exp(theta_{k-1} - theta_k)) with f = x beta."""
    assert table.features is not None  # noqa: S101 -- requested by `needs_features`
    features = graph.cast(table.features, TensorProto.DOUBLE)
    scores = graph.add("MatMul", features, graph.constant(np.stack([model.coef for model in member.models], axis=1)))
    thresholds = np.stack([model.thresholds for model in member.models])  # (K, C - 1)
    last = graph.constant([2], np.int64)
    distances = graph.add("Sub", graph.constant(thresholds), graph.add("Unsqueeze", scores, last))
    size = graph.add("Exp", graph.add("Neg", graph.add("Abs", distances)))
    shift = graph.add("Log", graph.add("Add", size, graph.constant(1.0)))  # log sigma(d) = min(d, 0) - log(1 + e^-|d|)
    below = graph.add("Sub", graph.add("Min", distances, graph.constant(0.0)), shift)
    above = graph.add("Sub", graph.add("Min", graph.add("Neg", distances), graph.constant(0.0)), shift)
    n_thresholds = thresholds.shape[1]

    def part(values: str, first: int, end: int) -> str:
        return graph.add("Slice", values, *(graph.constant([number], np.int64) for number in (first, end, 2)))

    parts = [part(below, 0, 1), part(above, n_thresholds - 1, n_thresholds)]
    if n_thresholds > 1:
        inner = graph.add("Add", part(below, 1, n_thresholds), part(above, 0, n_thresholds - 1))
        widths = np.log(-np.expm1(-np.diff(thresholds, axis=1)))
        parts.insert(1, graph.add("Add", inner, graph.constant(widths)))
    return _mean_over_folds(graph, graph.add("Concat", *parts, axis=2))


_MEMBERS: dict[type, Callable[[Graph, CrossFitted, EncodedTable], str]] = {
    LightGBMLearner: _add_lightgbm,
    ForestLearner: _add_forest,
    LinearLearner: _add_proportional_odds,
}
