"""The door: what comes in, and the words for what must stay out."""

import numpy as np
import pytest
import torch

from orcu.errors import InputError
from orcu.inputs import as_count, as_labels, as_logits, as_positive, as_probs

GOOD = [[0.2, 0.8], [0.5, 0.5]]


@pytest.mark.parametrize(
    "values",
    [
        GOOD,
        np.array(GOOD, dtype=np.float32),
        torch.tensor(GOOD, requires_grad=True),
        torch.tensor(GOOD, dtype=torch.float16),
        torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.bfloat16),
    ],
    ids=["list", "numpy", "torch", "half", "bfloat16"],
)
def test_probs_come_in_from_anywhere_as_float64(values):
    probs = as_probs(values)
    assert probs.dtype == np.float64
    assert probs.shape == (2, 2)


def test_frames_come_in_through_to_numpy():
    pandas = pytest.importorskip("pandas")
    assert as_probs(pandas.DataFrame(GOOD)).tolist() == GOOD
    assert as_labels(pandas.Series([0, 1]), 2).tolist() == [0, 1]


def test_nullable_columns_are_numbers_if_nothing_is_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD).astype("Float64")
    assert as_probs(frame).tolist() == GOOD
    assert as_labels(pandas.Series([0, 1], dtype="Int64"), 2).tolist() == [0, 1]
    frame.iloc[1, 0] = pandas.NA
    with pytest.raises(InputError, match="row 1 has|every value must be finite"):
        as_probs(frame)


def test_half_rows_may_miss_one_by_their_rounding():
    probs = torch.randn(512, 5, generator=torch.Generator().manual_seed(0)).softmax(1)
    assert as_probs(probs.bfloat16()).shape == (512, 5)
    assert as_probs(probs.half()).shape == (512, 5)


def test_inputs_cannot_be_changed_through_what_goes_out():
    given = np.array(GOOD)
    with pytest.raises(ValueError, match="read-only"):
        as_probs(given)[0, 0] = 9
    given[0, 0] = 0.2  # the caller's own array stays writable


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.2, 0.8], [0.2, 0.7]], r"probs: row 1 sums to 0.9, expected 1 ± 0.001"),
        ([[1.2, -0.2]], r"row 0 has 1.2 in column 0, expected values in \[0, 1\]"),
        ([[2.0, 1.0], [0.5, 0.5]], "If these are logits"),
        ([[0.5, np.nan]], "row 0 has nan in column 1"),
        ([[0.5, 0.5], [np.inf, 0.0]], "row 1 has inf in column 0"),
        ([0.5, 0.5], r"expected shape \(n, C\)"),
        ([[1.0], [1.0]], "two classes"),
        (np.zeros((0, 3)), r"got \(0, 3\)"),
        ([[0.5, 0.5], [1.0]], "unequal length"),
        ([[0.5, "x"]], "expected real numbers"),
        ([[0.5, None]], "row 0 has None; every entry must be a number"),
        ([[1j, 1.0]], "expected real numbers"),
    ],
)
def test_bad_probs_are_named(values, message):
    with pytest.raises(InputError, match=message):
        as_probs(values)


def test_a_row_within_the_tolerance_is_kept_as_it_is():
    assert as_probs([[0.3335, 0.6670]]).tolist() == [[0.3335, 0.6670]]


def test_logits_may_be_any_finite_number():
    assert as_logits([[1e4, -1e4]]).tolist() == [[1e4, -1e4]]
    with pytest.raises(InputError, match="logits: row 0 has -inf"):
        as_logits([[-np.inf, 0.0]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 3], r"y: row 1 has label 3, expected 0..2 for 3 classes. Labels that start at 1"),
        ([-1, 0], "row 0 has label -1"),
        ([0.0, 1.0], "expected integer labels 0..2, got float64"),
        ([True, False], "got bool"),
        (["mild", "severe"], "Number the classes in their order"),
        ([[0], [1]], r"shape \(n,\); got shape \(2, 1\)"),
        ([], "empty"),
        ([0, 1, 2], "3 labels for 2 rows"),
        ([0, None], "row 1 has None; every entry must be a number"),
    ],
)
def test_bad_labels_are_named(y, message):
    with pytest.raises(InputError, match=message):
        as_labels(np.array(y, dtype=object) if None in np.ravel(y).tolist() else y, 3, rows=2)


@pytest.mark.parametrize("value", [0, 1, 2.5, True, "3", None])
def test_counts_are_whole_numbers(value):
    with pytest.raises(InputError, match="num_classes: expected a whole number of at least 2"):
        as_count(value, name="num_classes", minimum=2)
    assert as_count(np.int64(5), name="num_classes", minimum=2) == 5


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "3", None])
def test_positive_numbers(value):
    with pytest.raises(InputError, match="scale: expected a finite number above 0"):
        as_positive(value, name="scale")
    assert as_positive(np.float32(0.5), name="scale") == 0.5


def test_a_value_barely_outside_is_shown_with_all_its_digits():
    with pytest.raises(InputError, match=r"row 1 has 1.000000000001 in column 0, expected values in \[0, 1\]"):
        as_probs([[0.5, 0.5], [1.000000000001, 0.0]])
