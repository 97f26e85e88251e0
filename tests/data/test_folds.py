"""Protocols: stratified, exclusive, and the same everywhere."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu.data.folds import TEST, TRAIN, UNUSED, VALIDATION, Cases, FixedTest, OneSplit, Rotation, joined, partition
from orcu.errors import InputError


def cases(labels, *, contents=None, subjects=None, published=None):
    n = len(labels)
    return Cases(
        [f"case {i}" for i in range(n)],
        np.asarray(labels),
        contents or [None] * n,
        subjects or [None] * n,
        published or [None] * n,
    )


@given(st.lists(st.integers(0, 4), min_size=5, max_size=200), st.integers(2, 7), st.integers(0, 9))
@settings(deadline=None, max_examples=50)
def test_every_part_gets_every_class_to_within_one_row(labels, parts, seed):
    found = partition(cases(labels), [1 / parts] * parts, seed=seed)
    for label in set(labels):
        counts = np.bincount(found[np.array(labels) == label], minlength=parts)
        assert counts.max() - counts.min() <= 1


def test_shares_are_kept():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    found = partition(cases(labels), [0.7, 0.1, 0.2])
    for label, total in enumerate((600, 300, 100)):
        counts = np.bincount(found[labels == label], minlength=3)
        assert counts == pytest.approx(np.array([0.7, 0.1, 0.2]) * total, abs=1)


def test_folds_are_the_same_on_every_machine():
    found = partition(cases(np.arange(500) % 5), [0.2] + [0.16] * 5, seed=3)
    assert sha256(found.astype(np.int8).tobytes()).hexdigest()[:16] == "ea453fb3666fcee9"
    assert (found != partition(cases(np.arange(500) % 5), [0.2] + [0.16] * 5, seed=4)).any()


def test_the_order_of_rows_does_not_matter():
    labels = np.random.default_rng(0).integers(3, size=120)
    one = cases(labels)
    order = np.random.default_rng(1).permutation(120)
    assert (partition(one, [0.5, 0.5])[order] == partition(one.take(order), [0.5, 0.5])).all()


def test_subjects_and_doubles_stay_together():
    rng = np.random.default_rng(0)
    subjects = [f"patient {i}" for i in rng.integers(60, size=400)]
    contents = [str(i) for i in rng.integers(380, size=400)]
    one = cases(rng.integers(4, size=400), contents=contents, subjects=subjects)
    for protocol in (
        FixedTest(parts=5, test=0.15, by_subject=True),
        Rotation(parts=5, by_subject=True),
        OneSplit(shares=(7, 1, 2), by_subject=True),
    ):
        folds, left_out = protocol.folds(one)
        assert len(folds) == protocol.num_folds
        assert left_out == 0
        for splits in folds:
            for column in (subjects, contents):
                sides = {}
                for value, split in zip(column, splits, strict=True):
                    sides.setdefault(value, set()).add(int(split))
                assert all(len(seen) == 1 for seen in sides.values())


def test_fixed_test_has_one_test_part_and_each_row_validates_once():
    one = cases(np.arange(1000) % 4)
    folds, _ = FixedTest(parts=5, test=0.2).folds(one)
    test = [splits == TEST for splits in folds]
    assert all((mask == test[0]).all() for mask in test)
    assert test[0].sum() == pytest.approx(200, abs=4)
    validated = sum((splits == VALIDATION).astype(int) for splits in folds)
    assert (validated[~test[0]] == 1).all()


def test_rotation_tests_every_row_once_and_validates_on_the_next_part():
    published = [str(i % 5) for i in range(100)]
    folds, _ = Rotation(parts=5, predefined=True).folds(cases([0, 1] * 50, published=published))
    for fold, splits in enumerate(folds):
        assert {published[i] for i in np.flatnonzero(splits == TEST)} == {str(fold)}
        assert {published[i] for i in np.flatnonzero(splits == VALIDATION)} == {str((fold + 1) % 5)}
    with pytest.raises(InputError, match="published fold is 'x'"):
        Rotation(parts=5, predefined=True).folds(cases([0, 1], published=["0", "x"]))


def test_rotation_may_cut_validation_from_the_training_parts():
    labels = np.repeat([0, 1, 2], [500, 100, 200])
    folds, _ = Rotation(parts=5, balanced=True, validation=0.2).folds(cases(labels))
    tested = sum((splits == TEST).astype(int) for splits in folds)
    used = folds[0] != UNUSED
    assert np.bincount(labels[used]).tolist() == [100, 100, 100]
    assert (tested[used] == 1).all()
    for splits in folds:
        assert [int((splits == part).sum()) for part in (TRAIN, VALIDATION, TEST)] == [192, 48, 60]


def test_a_balanced_protocol_draws_as_many_of_each_class():
    labels = np.repeat([0, 1, 2], [500, 60, 40])
    folds, _ = FixedTest(parts=5, test=0.2, balanced=True).folds(cases(labels))
    used = folds[0] != UNUSED
    assert np.bincount(labels[used]).tolist() == [40, 40, 40]
    assert all(((splits != UNUSED) == used).all() for splits in folds)


def test_doubles_that_a_publisher_has_on_two_sides_are_left_out_of_training():
    published = ["train", "train", "validation", "test"]
    one = cases([0, 1, 0, 1], contents=["a", "b", "c", "a"], published=published)
    folds, left_out = OneSplit().folds(one)
    assert folds[0].tolist() == [UNUSED, TRAIN, VALIDATION, TEST]
    assert left_out == 1
    with pytest.raises(InputError, match="'dev', expected train, validation, test"):
        OneSplit().folds(cases([0], published=["dev"]))


def test_agreement_in_any_column_joins():
    assert joined(["a", None, "b", None], ["x", "x", None, None]).tolist() == [0, 0, 1, 2]
    with pytest.raises(InputError, match="published split is 'test'"):
        FixedTest(parts=2).folds(cases([0, 1, 0, 1]))
