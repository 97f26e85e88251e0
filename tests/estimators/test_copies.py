"""Copies of rows: found by `copy_groups`, kept in one fold by the estimators; natural ties stay apart."""

import warnings

import numpy as np
import pandas as pd
import pytest

from orcu import OrdinalBoosting, OrdinalClassifier, metrics
from orcu.model_selection import copy_groups, merge_groups, train_calibration_split

QUICK = {"estimators": ["linear", "forest"], "random_state": 0}


def sample(rows, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.digitize(x[:, 0] + noise * rng.normal(size=rows), [-1, 0, 1])


def oversampled(x, y, seed=0):
    """Rows of the rarer classes repeated at random until all classes have as many rows."""
    rng, most = np.random.default_rng(seed), np.bincount(y).max()
    more = [rng.choice(np.flatnonzero(y == k), most - np.count_nonzero(y == k)) for k in np.unique(y)]
    rows = np.concatenate([np.arange(len(y)), *more])
    return x[rows], y[rows]


def few_levels(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(4, size=(rows, 3)).astype(float)
    return x, np.digitize(x.sum(axis=1) + 2 * rng.normal(size=rows), [3, 4.5, 6])


def n_copies(x, y):
    groups = copy_groups(x, y)
    return 0 if groups is None else int(np.count_nonzero(np.bincount(groups)[groups] > 1))


def test_copy_groups_finds_repeated_oversampled_and_resampled_rows():
    x, y = sample(200)
    assert n_copies(x, y) == 0
    assert n_copies(np.repeat(x, 2, axis=0), np.repeat(y, 2)) == 400
    assert n_copies(np.tile(x, (5, 1)), np.tile(y, 5)) == 1000
    assert n_copies(*oversampled(x, y)) > 30
    rows = np.random.default_rng(0).integers(200, size=200)
    assert n_copies(x[rows], y[rows]) > 100
    x[::3, 1] = np.nan  # missing values are equal
    assert n_copies(np.repeat(x, 2, axis=0), np.repeat(y, 2)) == 400


def test_copy_groups_reads_columns_of_text_and_numbers():
    x, y = sample(100)
    table = {"x": np.repeat(x[:, 0], 2), "site": np.repeat(np.where(x[:, 1] > 0, "n", None), 2)}
    groups = copy_groups(table, np.repeat(y, 2))
    assert (groups[::2] == groups[1::2]).all()
    assert len(np.unique(groups)) == 100


def test_copy_groups_leaves_natural_ties_apart():
    assert n_copies(*few_levels()) == 0  # 64 possible rows
    x, _ = few_levels()
    assert n_copies(x, np.digitize(x.sum(axis=1), [3, 5, 7])) == 0  # labels are a function of the row
    assert n_copies(np.column_stack([x, np.ones(600)]), few_levels()[1]) == 0  # a constant column
    site = np.random.default_rng(0).integers(10, size=500).astype(float)
    place = np.stack([site, np.sin(site), np.cos(site)], axis=1)  # columns that belong to a place, not to a case
    assert n_copies(place, np.random.default_rng(1).integers(4, size=500)) == 0


@pytest.mark.parametrize("times", [2, 5])
def test_copy_groups_of_a_repeated_table_of_few_levels_groups_each_case(times):
    """Cases that were equal before stay apart: a group has as many rows as the table was repeated."""
    x, y = few_levels()
    for labels in (y, np.digitize(x.sum(axis=1), [3, 5, 7])):
        for repeat in (lambda v: np.repeat(v, times, axis=0), lambda v: np.concatenate([v] * times)):
            groups = copy_groups(repeat(x), repeat(labels))
            assert np.bincount(groups).tolist() == [times] * 600
            same = repeat(np.column_stack([x, labels]))
            assert all(len(np.unique(same[groups == group], axis=0)) == 1 for group in range(0, 600, 50))


def test_copy_groups_of_a_repeated_class_groups_its_cases_only():
    x, y = few_levels()
    rows = np.concatenate([np.arange(600), *[np.flatnonzero(y == 0)] * 2])
    sizes = np.bincount(copy_groups(x[rows], y[rows]))
    assert np.bincount(sizes).tolist() == [0, np.count_nonzero(y != 0), 0, np.count_nonzero(y == 0)]


def test_copy_groups_of_a_repeated_table_with_further_copies_groups_both():
    x, y = sample(100)
    rows = np.tile(np.concatenate([np.arange(100), np.arange(50)]), 2)
    sizes = np.bincount(copy_groups(x[rows], y[rows]))
    assert sorted(sizes.tolist()) == [2] * 50 + [4] * 50


@pytest.mark.slow
def test_copy_groups_of_a_repeated_table_has_the_folds_of_the_table():
    """Out-of-fold predictions of a table that was repeated are as good as those of the table, and no better."""
    x, y = few_levels(200)
    new, truth = few_levels(2000, seed=9)
    covered, confidence = [], []
    for times in (1, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = OrdinalClassifier(**QUICK).fit(np.tile(x, (times, 1)), np.tile(y, times))
        low, high = model.predict_sets(new, alpha=0.1).T
        covered.append(((low <= truth) & (truth <= high)).mean())
        confidence.append(model.predict_proba(new).max(axis=1).mean())
    assert min(covered) > 0.86
    assert abs(confidence[1] - confidence[0]) < 0.05  # without groups 0.13 more


def test_copy_groups_of_few_distinct_rows_is_none():
    x, y = np.repeat([[0.1, 0.7], [0.3, 0.2]], 30, axis=0), np.repeat([0, 1], 30)
    assert copy_groups(x, y) is None
    assert OrdinalClassifier(**QUICK).fit(x, y).n_copies_ == 0


def test_merge_groups_joins_rows_by_way_of_others():
    merged = merge_groups(np.array(["a", "b", "b", "c"]), np.array([1, 1, 2, 3]))
    assert merged.tolist() == [0, 0, 0, 1]


def test_train_calibration_split_keeps_groups_together():
    y, groups = np.arange(200) % 4, np.arange(200) // 4
    splits = train_calibration_split(y, validation=0.1, calibration=0.2, groups=groups, random_state=0)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(200))
    for rows in splits.values():
        assert len(rows) == 4 * len(np.unique(groups[rows]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda x, y: (np.repeat(x, 5, axis=0), np.repeat(y, 5)), oversampled])
def test_fit_with_copies_keeps_coverage_and_confidence(make):
    """With copies in several folds, 0.2 promises 90 % and its sets cover 57 to 76 % of new rows."""
    x, y = make(*sample(250))
    new, truth = sample(3000, seed=9)
    with pytest.warns(UserWarning, match="^X: .* copies"):
        model = OrdinalClassifier(**QUICK).fit(x, y)
    assert model.n_copies_ > 100
    low, high = model.predict_sets(new, alpha=0.1).T
    assert ((low <= truth) & (truth <= high)).mean() > 0.85
    probs = model.predict_proba(new)
    if len(y) == 1250:  # oversampling changes the class frequencies
        assert probs.max(axis=1).mean() - metrics.accuracy(probs, truth) < 0.08


def test_fit_with_natural_ties_has_the_folds_of_rows_without_groups():
    x, y = few_levels()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OrdinalClassifier(**QUICK).fit(x, y)
    assert model.n_copies_ == 0
    assert np.bincount(model.ensemble_.fold).tolist() == [120] * 5


def test_fit_with_copies_and_groups_respects_both():
    x, y = sample(100)
    groups = np.arange(200) % 40
    with pytest.warns(UserWarning, match="copies"):
        model = OrdinalClassifier(**QUICK, cv=2).fit(np.tile(x, (2, 1)), np.tile(y, 2), groups=groups)
    fold = model.ensemble_.fold
    assert (fold[:100] == fold[100:]).all()
    assert all(len(set(fold[groups == group])) == 1 for group in range(40))


def test_boosting_and_single_network_keep_copies_together():
    x, y = sample(120)
    frame, labels = pd.DataFrame(np.repeat(x, 2, axis=0)).rename(columns=str), np.repeat(y, 2)
    with pytest.warns(UserWarning, match="copies"):
        trees = OrdinalBoosting(n_estimators=5, random_state=0).fit(frame, labels)
    assert (trees.ensemble_.fold[::2] == trees.ensemble_.fold[1::2]).all()
    with pytest.warns(UserWarning, match="copies"):
        network = OrdinalClassifier("orcu", cv=1, epochs=1, scale=3.0, random_state=0).fit(frame, labels)
    for rows in network._training_rows.splits.values():
        assert (rows[::2] + 1 == rows[1::2]).all()
