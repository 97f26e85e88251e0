"""Evaluation protocols: stratified, without leaks, and reproducible on every machine."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu.data.folds import (
    TEST,
    TRAIN,
    UNUSED,
    VALIDATION,
    FixedTestKFold,
    HoldoutSplit,
    ListedFolds,
    RotatingKFold,
    Samples,
    connected_groups,
    partition,
)
from orcu.errors import InputError


def make_samples(labels, *, contents=None, clusters=None, published=None):
    n = len(labels)
    return Samples(
        [f"case {i}" for i in range(n)],
        np.asarray(labels),
        contents or [None] * n,
        clusters or [None] * n,
        published or [None] * n,
    )


@given(st.lists(st.integers(0, 4), min_size=5, max_size=200), st.integers(2, 7), st.integers(0, 9))
@settings(deadline=None, max_examples=50)
def test_partition_class_counts_of_parts_differ_by_at_most_one(labels, n_parts, seed):
    parts = partition(make_samples(labels), [1 / n_parts] * n_parts, seed=seed)
    for label in set(labels):
        counts = np.bincount(parts[np.array(labels) == label], minlength=n_parts)
        assert counts.max() - counts.min() <= 1


def test_partition_shares_hold_in_each_class():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    parts = partition(make_samples(labels), [0.7, 0.1, 0.2])
    for label, total in enumerate((600, 300, 100)):
        counts = np.bincount(parts[labels == label], minlength=3)
        assert counts == pytest.approx(np.array([0.7, 0.1, 0.2]) * total, abs=1)


def test_partition_is_the_same_on_every_machine():
    samples = make_samples(np.arange(500) % 5)
    parts = partition(samples, [0.2] + [0.16] * 5, seed=3)
    assert sha256(parts.astype(np.int8).tobytes()).hexdigest()[:16] == "ea453fb3666fcee9"
    assert (parts != partition(samples, [0.2] + [0.16] * 5, seed=4)).any()


def test_partition_does_not_depend_on_row_order():
    samples = make_samples(np.random.default_rng(0).integers(3, size=120))
    order = np.random.default_rng(1).permutation(120)
    assert (partition(samples, [0.5, 0.5])[order] == partition(samples.take(order), [0.5, 0.5])).all()


def test_protocols_keep_clusters_and_duplicates_in_one_split():
    rng = np.random.default_rng(0)
    clusters = [f"patient {i}" for i in rng.integers(60, size=400)]
    contents = [str(i) for i in rng.integers(380, size=400)]
    samples = make_samples(rng.integers(4, size=400), contents=contents, clusters=clusters)
    for protocol in (
        FixedTestKFold(n_splits=5, test_size=0.15, by_cluster=True),
        RotatingKFold(n_splits=5, by_cluster=True),
        HoldoutSplit(sizes=(7, 1, 2), by_cluster=True),
    ):
        folds, dropped = protocol.split(samples)
        assert len(folds) == protocol.n_splits
        assert dropped == 0
        for splits in folds:
            for column in (clusters, contents):
                splits_of = {}
                for value, split in zip(column, splits, strict=True):
                    splits_of.setdefault(value, set()).add(int(split))
                assert all(len(values) == 1 for values in splits_of.values())


def test_fixed_test_k_fold_has_one_test_set_and_validates_each_row_once():
    folds, _ = FixedTestKFold(n_splits=5, test_size=0.2).split(make_samples(np.arange(1000) % 4))
    test = [splits == TEST for splits in folds]
    assert all((mask == test[0]).all() for mask in test)
    assert test[0].sum() == pytest.approx(200, abs=4)
    validated = sum((splits == VALIDATION).astype(int) for splits in folds)
    assert (validated[~test[0]] == 1).all()


def test_fixed_test_k_fold_without_published_test_rows_is_refused():
    with pytest.raises(InputError, match="^split:.*'test'"):
        FixedTestKFold(n_splits=2).split(make_samples([0, 1, 0, 1]))


def test_rotating_k_fold_tests_each_row_once_and_validates_on_the_next_part():
    published = [str(i % 5) for i in range(100)]
    protocol = RotatingKFold(n_splits=5, predefined=True)
    folds, _ = protocol.split(make_samples([0, 1] * 50, published=published))
    for fold, splits in enumerate(folds):
        assert {published[i] for i in np.flatnonzero(splits == TEST)} == {str(fold)}
        assert {published[i] for i in np.flatnonzero(splits == VALIDATION)} == {str((fold + 1) % 5)}
    with pytest.raises(InputError, match="^row 1:.*'x'"):
        protocol.split(make_samples([0, 1], published=["0", "x"]))


def test_rotating_k_fold_with_validation_size_takes_validation_rows_from_training_parts():
    labels = np.repeat([0, 1, 2], [500, 100, 200])
    folds, _ = RotatingKFold(n_splits=5, balanced=True, validation_size=0.2).split(make_samples(labels))
    tested = sum((splits == TEST).astype(int) for splits in folds)
    used = folds[0] != UNUSED
    assert np.bincount(labels[used]).tolist() == [100, 100, 100]
    assert (tested[used] == 1).all()
    for splits in folds:
        assert [int((splits == part).sum()) for part in (TRAIN, VALIDATION, TEST)] == [192, 48, 60]


def test_balanced_protocol_uses_the_size_of_the_smallest_class():
    labels = np.repeat([0, 1, 2], [500, 60, 40])
    folds, _ = FixedTestKFold(n_splits=5, test_size=0.2, balanced=True).split(make_samples(labels))
    used = folds[0] != UNUSED
    assert np.bincount(labels[used]).tolist() == [40, 40, 40]
    assert all(((splits != UNUSED) == used).all() for splits in folds)


def test_holdout_split_drops_training_rows_whose_duplicate_is_published_as_test():
    published = ["train", "train", "validation", "test"]
    samples = make_samples([0, 1, 0, 1], contents=["a", "b", "c", "a"], published=published)
    folds, dropped = HoldoutSplit().split(samples)
    assert folds[0].tolist() == [UNUSED, TRAIN, VALIDATION, TEST]
    assert dropped == 1
    with pytest.raises(InputError, match="^split:.*'dev'"):
        HoldoutSplit().split(make_samples([0], published=["dev"]))


def test_listed_folds_without_folder_or_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="^lists:"):
        ListedFolds(n_splits=2).split(make_samples([0, 1]))
    with pytest.raises(InputError, match=r"fold_0/train.json"):
        ListedFolds(n_splits=2, folder=tmp_path).split(make_samples([0, 1]))


def test_connected_groups_join_rows_with_an_equal_value_in_any_column():
    assert connected_groups(["a", None, "b", None], ["x", "x", None, None]).tolist() == [0, 0, 1, 2]
