"""Selection of columns and the order of the classes."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.predictions.columns import check_column_names, order_classes, select_value_columns, strip_common_prefix
from orcu.predictions.source import count_decimals, open_predictions


def test_strip_common_prefix_needs_a_separator():
    assert strip_common_prefix(["p_low", "p_high"]) == ["low", "high"]
    assert strip_common_prefix(["plow", "phigh"]) == ["plow", "phigh"]


def test_order_classes_matches_columns_by_name():
    ordered = order_classes(["low", "high"], ["high", "low"], ["p_high", "p_low"], "preds.csv")
    assert ordered == (("low", "high"), ["p_low", "p_high"])


def test_check_column_names_partial_match_names_the_file_and_the_match():
    with pytest.raises(InputError, match="^preds.csv: .*low, mid only low matches"):
        check_column_names(["low", "mid"], ("low", "middle"), "preds.csv")


def test_count_decimals_of_exact_decimals():
    assert count_decimals(np.array([0.25, 0.5])) == 2
    assert count_decimals(np.array([1 / 3])) == 9


def test_partly_labelled_batches_empty_label_is_minus_one(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text("grade,p_low,p_high\nhigh,0.2,0.8\n,0.4,0.6\n")
    source = open_predictions(path, label="grade", probs="p_*")
    assert [codes.tolist() for _, codes in source.partly_labelled_batches()] == [[1, -1]]


def test_select_value_columns_of_another_case_names_the_pattern():
    with pytest.raises(InputError, match=r"'p_\*' matches no column.*did you mean 'P_\*'\?"):
        select_value_columns("p_*", ["P_low", "P_high", "grade"], "preds.csv")
