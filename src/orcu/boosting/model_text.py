"""Structure checks of the model files of LightGBM and XGBoost, whose readers trust every number in them.

A wrong child of a node makes them read outside of their arrays or walk in a circle, so a damaged file would give other
probabilities, a crash, or a prediction that never ends.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.inputs import BoolArray, FloatArray, IntArray

HEADER_KEYS = {
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "feature_names",
    "feature_infos",
    "tree_sizes",
}
TREE_KEYS = {
    "Tree",
    "num_leaves",
    "num_cat",
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "cat_boundaries",
    "cat_threshold",
    "is_linear",
    "shrinkage",
}
CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of decision_type; the two bits above are the type of missing values
ZERO_IS_MISSING, NAN_IS_MISSING = 1, 2  # types of missing values; with type 0, NaN is the number 0
END = "end of trees\n"
_INTEGERS = re.compile(r"-?\d{1,10}(?: -?\d{1,10})*")
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?|inf)"
_NUMBERS = re.compile(rf"{_NUMBER}(?: {_NUMBER})*")


def checked_lightgbm(text: str) -> str:
    """Check the header and every tree of LightGBM's text format; returns the text without anything else.

    Checked are the sizes of all arrays, the columns and thresholds of splits, and that the nodes are one tree: every
    child comes after its parent, and every node and leaf has one parent. Numbers are finite. The objective and the
    parameters of the training are left out: raw scores do not need them, and LightGBM crashes where they are damaged.

    Raises:
        ValueError: with the first fault.
    """
    head, separator, rest = text.partition("\n\n")
    trees, end, _ = rest.partition(END)
    if not separator or not end:
        raise ValueError("the file is truncated")
    lines = head.split("\n")
    if lines[0] != "tree":
        raise ValueError("the first line is not 'tree'")
    header = _entries(lines[1:], HEADER_KEYS, "the header")
    classes, per_iteration = (_integer(header, key) for key in ("num_class", "num_tree_per_iteration"))
    columns, sizes = _integer(header, "max_feature_idx") + 1, _integers(header, "tree_sizes")
    if header.get("version") not in ("v3", "v4") or _integer(header, "label_index") < 0:
        raise ValueError("wrong version or label_index")
    if not 1 <= classes == per_iteration:
        raise ValueError("num_class is not num_tree_per_iteration")
    names = [len(header.get(key, "").split(" ")) for key in ("feature_names", "feature_infos")]
    if columns < 1 or names != [columns, columns]:
        raise ValueError("feature_names or feature_infos is not as long as max_feature_idx says")
    if not len(sizes) or len(sizes) % classes:
        raise ValueError("the number of trees is not a multiple of num_class")
    content = trees.encode()
    if (sizes < 1).any() or sizes.sum() != len(content):
        raise ValueError("the trees are not as long as tree_sizes says")
    for number, stop in enumerate(np.cumsum(sizes).tolist()):
        block = content[stop - int(sizes[number]) : stop].decode()
        try:
            _check_tree(_entries(block.rstrip("\n").split("\n"), TREE_KEYS, "the tree"), number, columns)
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from None
    header.pop("objective", None)
    checked = "\n".join(["tree", *(f"{key}={value}" for key, value in header.items())])
    return f"{checked}\n\n{trees}{END}"


@dataclass(frozen=True)
class LightGBMTree:
    """A tree of LightGBM; the arrays of splits have one entry per inner node.

    Attributes:
        feature: column of each split.
        threshold: numbers up to it go left; unused where ``categories`` is not ``None``.
        categories: codes that go left, or ``None`` for a split of numbers; missing and other codes go right.
        missing: type of missing values: 0, `ZERO_IS_MISSING` or `NAN_IS_MISSING`.
        default_left: whether missing values go left.
        left: left child: the number of an inner node, or ~leaf.
        right: right child.
        leaf_value: raw score of each leaf.
    """

    feature: IntArray
    threshold: FloatArray
    categories: list[IntArray | None]
    missing: IntArray
    default_left: BoolArray
    left: IntArray
    right: IntArray
    leaf_value: FloatArray


def read_lightgbm_trees(text: str) -> tuple[list[LightGBMTree], int]:
    """The trees in LightGBM's text format, and the number of classes C; tree t adds to the score of class t mod C.

    Raises:
        ValueError: if `checked_lightgbm` finds a fault.
    """
    head, _, rest = checked_lightgbm(text).partition("\n\n")
    blocks = re.split(r"(?m)^(?=Tree=)", rest.removesuffix(END))[1:]
    classes = _integer(_entries(head.split("\n")[1:], HEADER_KEYS, "the header"), "num_class")
    return [_read_tree(_entries(block.rstrip("\n").split("\n"), TREE_KEYS, "the tree")) for block in blocks], classes


def _read_tree(tree: Mapping[str, str]) -> LightGBMTree:
    feature, kind, left, right = (
        _integers(tree, key) for key in ("split_feature", "decision_type", "left_child", "right_child")
    )
    threshold, is_categorical = _thresholds(tree), (kind & CATEGORICAL).astype(bool)
    bounds, words = _integers(tree, "cat_boundaries"), _integers(tree, "cat_threshold").astype("<u4")
    categories: list[IntArray | None] = [None] * len(feature)
    for node in np.flatnonzero(is_categorical).tolist():
        number = int(threshold[node])
        bits = np.unpackbits(words[bounds[number] : bounds[number + 1]].view(np.uint8), bitorder="little")
        categories[node] = np.flatnonzero(bits)
    return LightGBMTree(
        feature,
        threshold,
        categories,
        (kind >> 2) & 3,
        (kind & DEFAULT_LEFT).astype(bool),
        left,
        right,
        _numbers(tree, "leaf_value"),
    )


def _check_tree(tree: Mapping[str, str], number: int, columns: int) -> None:
    if _integer(tree, "Tree") != number:
        raise ValueError(f"has the number {tree['Tree']}")
    leaves, categorical = _integer(tree, "num_leaves"), _integer(tree, "num_cat")
    if leaves < 1 or categorical < 0 or tree.get("is_linear", "0") != "0":
        raise ValueError("wrong num_leaves, num_cat or is_linear")
    splits = leaves - 1
    for key in ("leaf_value", "leaf_weight", "leaf_count"):
        sized = (0, 1) if leaves == 1 and key != "leaf_value" else (leaves,)  # a single leaf may have no weight
        if len(_numbers(tree, key)) not in sized:
            raise ValueError(f"{key} does not have {leaves} entries")
    for key in ("split_gain", "threshold", "internal_value", "internal_weight", "internal_count"):
        numbers = _thresholds(tree) if key == "threshold" else _numbers(tree, key)
        if len(numbers) != splits:
            raise ValueError(f"{key} does not have {splits} entries")
    _numbers(tree, "shrinkage")
    feature, kind, left, right = (
        _integers(tree, key) for key in ("split_feature", "decision_type", "left_child", "right_child")
    )
    if not len(feature) == len(kind) == len(left) == len(right) == splits:
        raise ValueError(f"split_feature, decision_type or a child does not have {splits} entries")
    if ((feature < 0) | (feature >= columns)).any():
        raise ValueError("split_feature is not a column")
    if ((kind < 0) | (kind >= 12)).any():
        raise ValueError("decision_type is unknown")
    check_tree_nodes(left, right, leaves)
    is_categorical = (kind & CATEGORICAL).astype(bool)
    if is_categorical.sum() != categorical:
        raise ValueError("num_cat is not the number of categorical splits")
    if categorical:
        bounds, words = _integers(tree, "cat_boundaries"), _integers(tree, "cat_threshold")
        if len(bounds) != categorical + 1 or bounds[0] != 0 or (np.diff(bounds) < 1).any() or bounds[-1] != len(words):
            raise ValueError("wrong cat_boundaries")
        if ((words < 0) | (words >= 2**32)).any():
            raise ValueError("wrong cat_threshold")
        sets = _thresholds(tree)[is_categorical]
        if not np.array_equal(np.sort(sets), np.arange(categorical)):
            raise ValueError("the threshold of a categorical split is not one of its sets")


def check_tree_nodes(left: IntArray, right: IntArray, leaves: int) -> None:
    """Check that inner nodes and leaves (~leaf, below 0) are one tree whose children come after their parents.

    Raises:
        ValueError: if they are not.
    """
    children, parents = np.concatenate([left, right]), np.tile(np.arange(len(left)), 2)
    inner = children >= 0
    expected = np.arange(-leaves, len(left)) if len(left) else children
    if not np.array_equal(np.sort(children), expected[expected != 0]) or (children <= parents)[inner].any():
        raise ValueError("the children of its nodes are not those of a tree")


def check_xgboost(text: str) -> None:
    """Check every tree of XGBoost's JSON format, as `checked_lightgbm`.

    Raises:
        ValueError: with the first fault.
    """
    try:
        learner = json.loads(text)["learner"]
        parameters, model = learner["learner_model_param"], learner["gradient_booster"]["model"]
        columns, classes = int(parameters["num_feature"]), int(parameters["num_class"])
        trees, info = model["trees"], np.array(model["tree_info"], dtype=np.int64)
        for number, tree in enumerate(trees):
            _check_xgboost_tree(tree, number, columns)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"an entry is missing or has another type ({error!r})") from None
    if len(info) != len(trees) or ((info < 0) | (info >= max(1, classes))).any():
        raise ValueError("tree_info does not give a class for each tree")


def _check_xgboost_tree(tree: Mapping[str, Any], number: int, columns: int) -> None:
    left, right, feature = (np.array(tree[key]) for key in ("left_children", "right_children", "split_indices"))
    size = int(tree["tree_param"]["num_nodes"])
    values = [np.array(tree[key], dtype=np.float64) for key in ("split_conditions", "base_weights", "default_left")]
    sized = [left, right, feature, *values]
    if any(part.shape != (size,) for part in sized) or any(part.dtype.kind != "i" for part in sized[:3]):
        raise ValueError(f"tree {number}: its arrays do not have {size} entries")
    if size < 1 or not all(np.isfinite(part).all() for part in values):
        raise ValueError(f"tree {number}: a number is not finite")
    inner = left >= 0
    children, parents = np.concatenate([left[inner], right[inner]]), np.tile(np.flatnonzero(inner), 2)
    # A pruned tree has nodes without a parent.
    if len(np.unique(children)) < len(children) or ((children <= parents) | (children >= size)).any():
        raise ValueError(f"tree {number}: the children of its nodes are not those of a tree")
    if (right[~inner] >= 0).any() or ((feature < 0) | (feature >= columns))[inner].any():
        raise ValueError(f"tree {number}: a split has a wrong column")


def _entries(lines: list[str], keys: set[str], what: str) -> dict[str, str]:
    """The lines KEY=VALUE as a mapping."""
    entries: dict[str, str] = {}
    for line in lines:
        key, sign, value = line.partition("=")
        if not sign or key not in keys or key in entries:
            raise ValueError(f"{what} has an unknown or repeated line {line[:40]!r}")
        entries[key] = value
    return entries


def _integer(entries: Mapping[str, str], key: str) -> int:
    values = _integers(entries, key)
    if len(values) != 1:
        raise ValueError(f"{key} is not one number")
    return int(values[0])


def _integers(entries: Mapping[str, str], key: str) -> IntArray:
    text = entries.get(key, "")
    if text and not _INTEGERS.fullmatch(text):
        raise ValueError(f"{key} is not a list of integers")
    return np.array(text.split(), dtype=np.int64)


def _thresholds(tree: Mapping[str, str]) -> npt.NDArray[np.float64]:
    """The thresholds of a tree; infinity splits missing values from all numbers."""
    return _numbers(tree, "threshold", may_be_infinite=True)


def _numbers(entries: Mapping[str, str], key: str, *, may_be_infinite: bool = False) -> npt.NDArray[np.float64]:
    text = entries.get(key, "")
    values = np.array(text.split() if _NUMBERS.fullmatch(text) else [], dtype=np.float64)
    if (text and not len(values)) or not (may_be_infinite or np.isfinite(values).all()):
        raise ValueError(f"{key} is not a list of finite numbers{' or infinity' if may_be_infinite else ''}")
    return values
