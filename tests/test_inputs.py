"""Input validation: accepted types, and errors that name the argument and the row."""

import numpy as np
import pytest
import torch

from orcu.errors import InputError
from orcu.inputs import (
    as_codes,
    as_count,
    as_labels,
    as_logits,
    as_positive,
    as_probs,
    as_sample_weight,
    as_strings,
    as_uncertainty,
    check_not_probs,
    dense_outputs,
    normalise_probs,
)

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
def test_as_probs_converts_lists_arrays_and_tensors_to_float64(values):
    probs = as_probs(values)
    assert probs.dtype == np.float64
    assert probs.shape == (2, 2)


def test_as_probs_and_as_labels_accept_frames():
    pandas = pytest.importorskip("pandas")
    assert as_probs(pandas.DataFrame(GOOD)).tolist() == GOOD
    assert as_labels(pandas.Series([0, 1]), 2).tolist() == [0, 1]


def test_as_probs_accepts_nullable_columns_without_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD).astype("Float64")
    assert as_probs(frame).tolist() == GOOD
    assert as_labels(pandas.Series([0, 1], dtype="Int64"), 2).tolist() == [0, 1]
    frame.iloc[1, 0] = pandas.NA
    with pytest.raises(InputError, match="^probs: row 1 has"):
        as_probs(frame)


def test_as_probs_half_precision_rows_may_differ_from_one_by_rounding():
    probs = torch.randn(512, 5, generator=torch.Generator().manual_seed(0)).softmax(1)
    assert as_probs(probs.bfloat16()).shape == (512, 5)
    assert as_probs(probs.half()).shape == (512, 5)


def test_as_probs_result_is_read_only():
    probs = np.array(GOOD)
    with pytest.raises(ValueError, match="read-only"):
        as_probs(probs)[0, 0] = 9
    probs[0, 0] = 0.2  # the input stays writable


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.2, 0.8], [0.2, 0.7]], r"row 1 sums to 0.9, expected 1 ± 0.001"),
        ([[1.2, -0.2]], r"row 0 has 1.2 in column 0, .*\[0, 1\]"),
        ([[2.0, 1.0], [0.5, 0.5]], "row 0 has 2 .*softmax"),
        ([[0.5, np.nan]], "row 0 has nan in column 1"),
        ([[0.5, 0.5], [np.inf, 0.0]], "row 1 has inf in column 0"),
        ([0.5, 0.5], r"shape \(n, C\).*got \(2,\)"),
        ([[1.0], [1.0]], r"got \(2, 1\)"),
        (np.zeros((0, 3)), r"got \(0, 3\)"),
        ([[0.5, 0.5], [1.0]], "unequal length"),
        ([[0.5, "x"]], "real numbers"),
        ([[0.5, None]], "row 0 has None"),
        ([[1j, 1.0]], "complex128"),
    ],
)
def test_as_probs_bad_values_name_the_row(values, message):
    with pytest.raises(InputError, match=f"^probs: .*{message}"):
        as_probs(values)


def test_as_probs_row_within_the_tolerance_is_unchanged():
    assert as_probs([[0.3335, 0.6670]]).tolist() == [[0.3335, 0.6670]]


def test_as_logits_accepts_any_finite_number():
    assert as_logits([[1e4, -1e4]]).tolist() == [[1e4, -1e4]]
    with pytest.raises(InputError, match="^logits: row 0 has -inf"):
        as_logits([[-np.inf, 0.0]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 3], r"row 1 has label 3, expected 0..2.*`y - 1`"),
        ([-1, 0], "row 0 has label -1"),
        ([0.0, 1.0], "0..2, got float64"),
        ([True, False], "got bool"),
        (["mild", "severe"], r"0..2, got <U6 \(row 0 is .*mild"),
        ([[0], [1]], r"got shape \(2, 1\)"),
        ([], "empty"),
        ([0, 1, 2], "3 labels for 2 rows"),
        ([0, None], "row 1 has None"),
    ],
)
def test_as_labels_bad_labels_name_the_row(y, message):
    with pytest.raises(InputError, match=f"^y: .*{message}"):
        as_labels(np.array(y, dtype=object) if None in np.ravel(y).tolist() else y, 3, rows=2)


@pytest.mark.parametrize("value", [0, 1, 2.5, True, "3", None])
def test_as_count_accepts_integers_only(value):
    with pytest.raises(InputError, match="^num_classes: .*at least 2, got"):
        as_count(value, name="num_classes", minimum=2)
    assert as_count(np.int64(5), name="num_classes", minimum=2) == 5


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "3", None])
def test_as_positive_accepts_finite_numbers_above_zero_only(value):
    with pytest.raises(InputError, match="^scale: .*above 0, got"):
        as_positive(value, name="scale")
    assert as_positive(np.float32(0.5), name="scale") == 0.5


def test_normalise_probs_rescales_rows_within_the_rounding():
    rows, sum_errors = normalise_probs(np.array([[0.33, 0.33, 0.33]]), rounding=0.005)
    np.testing.assert_allclose(rows, [[1 / 3] * 3])
    assert sum_errors == pytest.approx([0.01])


def test_check_not_probs_raises_for_distributions_only():
    check_not_probs(np.array([[0.3, 0.7], [0.9, 0.3]]), name="logits", hint="")
    with pytest.raises(InputError, match="^logits: .*Pass them as probs="):
        check_not_probs(np.array([[0.3, 0.7], [0.9, 0.1]]), name="logits", hint="Pass them as probs=.")


def test_as_codes_and_as_strings_encode_entries():
    assert as_codes(["q7", "q2", "q7"], rows=3, name="cluster").tolist() == [0, 1, 0]
    assert as_strings([2.0, 3.0], rows=2, name="subgroup").tolist() == ["2", "3"]


def test_as_uncertainty_and_as_sample_weight_convert_integers():
    assert as_uncertainty([0.2, -1], rows=2).tolist() == [0.2, -1.0]
    assert as_sample_weight([1, 2], rows=2).tolist() == [1.0, 2.0]


def test_dense_outputs_selects_the_positions_of_the_mask():
    logits = np.arange(12.0).reshape(1, 2, 3, 2)
    mask = np.array([[[True, False], [False, False], [False, True]]])
    [(rows, columns)] = dense_outputs(logits, {"y": np.ones((1, 3, 2))}, mask=mask, name="logits")
    assert rows.tolist() == [[0.0, 6.0], [5.0, 11.0]]
    assert columns["y"].tolist() == [1.0, 1.0]


def test_as_probs_value_barely_above_one_is_shown_with_all_digits():
    with pytest.raises(InputError, match=r"row 1 has 1.000000000001 in column 0"):
        as_probs([[0.5, 0.5], [1.000000000001, 0.0]])
