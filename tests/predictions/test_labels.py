"""Class names, and the conversion of labels to class indices."""

import numpy as np
import pytest

from orcu import Predictions
from orcu.errors import InputError
from orcu.predictions.labels import (
    BY_VALUE,
    canonical_label,
    check_no_missing,
    class_names,
    is_missing,
    is_null,
    label_codes,
)


@pytest.mark.parametrize(
    ("labels", "classes", "explicit_order", "codes"),
    [
        (["mild", "none"], ("none", "mild"), True, [1, 0]),
        ([2, 1], ("1", "2"), False, [1, 0]),  # by value, not by position
        ([2.0, 1.0], ("1", "2"), False, [1, 0]),
        (["2", "1.0"], ("1", "2"), False, [1, 0]),
        ([0, 1], ("0", "1"), False, [0, 1]),
        ([0, 1], ("none", "mild"), True, [0, 1]),  # positions, since the order was given
        (np.array(["b", "a"], dtype=object), ("a", "b"), False, [1, 0]),
    ],
)
def test_label_codes_match_labels_by_value(labels, classes, explicit_order, codes):
    assert label_codes(labels, classes, explicit_order=explicit_order)[0].tolist() == codes


def test_label_codes_describes_the_match():
    assert label_codes(["mild", "none"], ("none", "mild"), explicit_order=True)[1] == BY_VALUE


def test_canonical_label_is_equal_for_all_spellings():
    assert [canonical_label(label) for label in (2.0, " mild ", "007")] == ["2", "mild", "7"]
    assert class_names([1, 2.0], 2) == ("1", "2")
    assert class_names(None, 3) == ("0", "1", "2")


def test_is_null_and_is_missing_distinguish_values_from_texts():
    assert [is_null(value) for value in (float("nan"), None, "nan")] == [True, True, False]
    assert [is_missing(value) for value in (" ", "NaN", "NA")] == [True, True, False]


def as_objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("labels", "classes", "explicit_order", "message"),
    [
        ([0, 1], ("none", "mild"), False, r"^y: row 0 has label '0'.*\(none, mild\).*--classes"),
        ([0, 1, 2], ("1", "2", "3"), True, r"^y: row 0 has label '0'.*\(1, 2, 3\)"),
        ([1, 2], ("none", "mild"), True, r"^y: row 1 has label '2'.*\(0, 1\).*`y - 1`"),
        (as_objects("mild", None), ("none", "mild"), True, "^y: row 1 has no label"),
        (as_objects("mild", float("nan")), ("none", "mild"), True, "^y: row 1 has no label"),
        (["mild", ""], ("none", "mild"), True, "^y: row 1 has no label"),
        ([0.5, 1.0], ("0", "1"), False, "^y: row 0 has label '0.5'"),
        ([True, False], ("0", "1"), False, "^y: .*booleans"),
        ([[0], [1]], ("0", "1"), False, r"^y: .*shape \(2, 1\)"),
    ],
)
def test_label_codes_invalid_label_names_the_row(labels, classes, explicit_order, message):
    with pytest.raises(InputError, match=message):
        label_codes(labels, classes, explicit_order=explicit_order)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["low", "hgih", "mid"], r"^y: row 1 has label 'hgih'.*Did you mean 'high'\?.*1 of 3"),
        (["low", "High", "mid"], r"^y: row 1.*Did you mean 'high'\?"),
        (["low", "ungradable", "ungradable"], r"^y: row 1.*\(low, mid, high\)\. (?!Did you mean).*2 of 3"),
        (["a", "b", "c"], "^y: row 0.*--classes"),
    ],
)
def test_predictions_unknown_label_suggests_a_correction(labels, message):
    with pytest.raises(InputError, match=message):
        Predictions(probs=[[0.2, 0.3, 0.5]] * 3, y=labels, classes=["low", "mid", "high"])


def test_label_codes_accept_classes_named_like_missing_values():
    assert label_codes(["None", "NA"], ("None", "NA"), explicit_order=True)[0].tolist() == [0, 1]
    assert canonical_label("inf") == "inf"
    check_no_missing(["None", "nan"], ["None", "nan"])


def test_check_no_missing_names_the_argument_and_the_row():
    with pytest.raises(InputError, match="^groups: row 1 "):
        check_no_missing(["a", float("nan")], name="groups")


def test_predictions_labels_match_in_any_unicode_form():
    composed, decomposed = "gro\u00df\u00e9", "gro\u00dfe\u0301"
    predictions = Predictions(probs=[[0.9, 0.1], [0.2, 0.8]], y=[decomposed, "b"], classes=[composed, "b"])
    assert predictions.y.tolist() == [0, 1]
