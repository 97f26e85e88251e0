"""Structure checks of LightGBM's and XGBoost's model files, which their readers do not make."""

import json

import numpy as np
import pytest

from orcu.boosting.model_text import check_xgboost, checked_lightgbm, read_lightgbm_trees


def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    x[:, 2] = rng.integers(6, size=120)
    x[::4, 1] = np.nan
    return x, np.digitize(x[:, 0] / 2 + 2 * (x[:, 2] % 2), [0, 1])


@pytest.fixture(scope="module")
def lightgbm_text():
    lgb = pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
    x, y = table()
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_leaves": 4, "min_data_per_group": 5}
    data = lgb.Dataset(x, y, categorical_feature=[2], params={"verbosity": -1})
    return lgb.train(params | {"cat_smooth": 1.0, "cat_l2": 1.0, "num_threads": 1}, data, 3).model_to_string()


def replaced(text, key, change):
    """The text with the first entry of a key changed, and the sizes of the trees to match."""
    before, _, rest = text.partition(f"\n{key}=")
    value, _, after = rest.partition("\n")
    changed = f"{before}\n{key}={change(value)}\n{after}"
    if key in ("tree_sizes", "num_class", "max_feature_idx", "feature_names"):
        return changed
    sizes = changed.partition("\ntree_sizes=")[2].partition("\n")[0].split()
    first = int(sizes[0]) + len(changed.encode()) - len(text.encode())
    return changed.replace(f"tree_sizes={sizes[0]}", f"tree_sizes={first}", 1)


def first_value(new):
    return lambda value: " ".join([new, *value.split()[1:]])


def test_checked_lightgbm_accepts_what_lightgbm_writes(lightgbm_text):
    checked_lightgbm(lightgbm_text)
    assert "num_cat=1" in lightgbm_text
    checked_lightgbm(replaced(lightgbm_text, "leaf_value", first_value("-1.5e-3")))


def test_checked_lightgbm_accepts_a_split_of_missing_values_from_all_numbers():
    lgb = pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
    x = np.random.default_rng(0).normal(size=(200, 1))
    x[::3] = np.nan  # only whether it is missing matters
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1}
    text = lgb.train(params, lgb.Dataset(x, 2 * np.isnan(x[:, 0]), params={"verbosity": -1}), 3).model_to_string()
    assert "threshold=inf" in text or " inf" in text
    booster = lgb.Booster(model_str=checked_lightgbm(text))
    rows = np.array([[np.nan], [1e308], [-1e308]])
    scores = booster.predict(rows, raw_score=True)
    assert (scores == lgb.Booster(model_str=text).predict(rows, raw_score=True)).all()
    assert scores[0, 2] > scores[1, 2] == scores[2, 2]


def test_read_lightgbm_trees_gives_the_scores_of_lightgbm(lightgbm_text):
    lgb = pytest.importorskip("lightgbm", reason="pip install 'orcu[boosting]'")
    x, _ = table()
    trees, num_classes = read_lightgbm_trees(lightgbm_text)
    assert num_classes == 3
    assert any(part is not None for tree in trees for part in tree.categories)
    scores = np.zeros((len(x), num_classes))
    for number, tree in enumerate(trees):
        for row, values in enumerate(x):
            node = 0 if len(tree.feature) else -1
            while node >= 0:
                value, members = values[tree.feature[node]], tree.categories[node]
                if members is not None:
                    is_left = value in members
                else:
                    is_left = tree.default_left[node] if np.isnan(value) else value <= tree.threshold[node]
                node = (tree.left if is_left else tree.right)[node]
            scores[row, number % num_classes] += tree.leaf_value[~node]
    expected = lgb.Booster(model_str=lightgbm_text).predict(x, raw_score=True)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("key", "change", "words"),
    [
        ("left_child", first_value("0"), "children"),  # a circle
        ("left_child", first_value("99"), "children"),  # outside of the arrays
        ("right_child", first_value("-99"), "children"),
        ("right_child", lambda value: value + " -1", "entries"),
        ("split_feature", first_value("3"), "column"),
        ("split_feature", first_value("-1"), "column"),
        ("decision_type", first_value("14"), "decision_type"),
        ("num_leaves", lambda value: "5", "entries"),
        ("num_leaves", lambda value: "999999999", "entries"),
        ("num_leaves", lambda value: "0", "num_leaves"),
        ("num_cat", lambda value: "7", "num_cat"),
        ("is_linear", lambda value: "1", "is_linear"),
        ("threshold", first_value("nan"), "finite"),
        ("leaf_value", first_value("inf"), "finite"),
        ("leaf_value", first_value("1e999"), "finite"),
        ("leaf_value", first_value("0x1"), "finite"),
        ("leaf_count", lambda value: "1", "entries"),
        ("num_class", lambda value: "2", "num_class"),
        ("num_class", lambda value: "", "num_class"),
        ("max_feature_idx", lambda value: "7", "max_feature_idx"),
        ("tree_sizes", lambda value: value + " 5", "multiple"),
        ("tree_sizes", first_value("9"), "long"),
        ("Tree", lambda value: "1", "number"),
        ("shrinkage", lambda value: "0.1\nshrinkage=0.1", "repeated"),
        ("shrinkage", lambda value: "0.1\nleaf_const=1", "unknown"),
        ("num_class", lambda value: value + "\naverage_output", "unknown"),
    ],
)
def test_checked_lightgbm_of_a_wrong_entry_raises(lightgbm_text, key, change, words):
    with pytest.raises(ValueError, match=words):
        checked_lightgbm(replaced(lightgbm_text, key, change))


@pytest.mark.parametrize(("key", "value"), [("cat_boundaries", "0 9"), ("cat_threshold", "-1"), ("threshold", "4")])
def test_checked_lightgbm_of_wrong_categories_raises(lightgbm_text, key, value):
    start = lightgbm_text.index("num_cat=1")
    tree = lightgbm_text.rindex("Tree=", 0, start)
    number = int(lightgbm_text[tree + 5 :].split("\n", 1)[0])
    head, block = lightgbm_text[:tree], lightgbm_text[tree:]
    line = block.partition(f"\n{key}=")[2].partition("\n")[0]
    new = value if key != "threshold" else " ".join([value] * len(line.split()))
    changed = block.replace(f"\n{key}={line}\n", f"\n{key}={new}\n", 1)
    sizes = head.partition("tree_sizes=")[2].partition("\n")[0]
    fixed = sizes.split()
    fixed[number] = str(int(fixed[number]) + len(changed) - len(block))
    with pytest.raises(ValueError, match=f"tree {number}: "):
        checked_lightgbm(head.replace(f"tree_sizes={sizes}", f"tree_sizes={' '.join(fixed)}") + changed)


def test_checked_lightgbm_leaves_out_what_follows_the_trees(lightgbm_text):
    """LightGBM crashes where its parameters are cut off."""
    import lightgbm as lgb

    cut = lightgbm_text[: lightgbm_text.index("parameters:") + 40]
    assert checked_lightgbm(cut) == checked_lightgbm(lightgbm_text)
    x, _ = table()
    first, second = (
        lgb.Booster(model_str=text).predict(x, raw_score=True) for text in (lightgbm_text, checked_lightgbm(cut))
    )
    np.testing.assert_array_equal(first, second)


def test_checked_lightgbm_of_a_truncated_file_raises(lightgbm_text):
    for length in (0, 3, 100, len(lightgbm_text) // 4):
        with pytest.raises(ValueError, match="truncated|first line|header"):
            checked_lightgbm(lightgbm_text[:length])


@pytest.mark.parametrize(
    ("key", "value"), [("left_children", 0), ("left_children", 10**6), ("right_children", -1), ("split_indices", 3)]
)
def test_check_xgboost_of_a_wrong_entry_raises(key, value):
    xgb = pytest.importorskip("xgboost", reason="pip install 'orcu[boosting]'")
    x, y = table()
    booster = xgb.train({"num_class": 3, "objective": "multi:softprob", "nthread": 1}, xgb.DMatrix(x, label=y), 2)
    text = booster.save_raw("json").decode()
    check_xgboost(text)
    content = json.loads(text)
    content["learner"]["gradient_booster"]["model"]["trees"][1][key][0] = value
    with pytest.raises(ValueError, match="tree 1: "):
        check_xgboost(json.dumps(content))
    del content["learner"]["gradient_booster"]["model"]["tree_info"]
    with pytest.raises(ValueError, match="tree"):
        check_xgboost(json.dumps(content))
