"""`GradeLevels`: parsing, codes and values."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.levels import GradeLevels


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1..5", ("1", "2", "3", "4", "5")),
        ("0..3", ("0", "1", "2", "3")),
        ("1..2:0.5", ("1", "1.5", "2")),
        ("0.1..0.3:0.1", ("0.1", "0.2", "0.3")),
        ("poor, fair ,good", ("poor", "fair", "good")),
        ("-2..2", ("-2", "-1", "0", "1", "2")),
    ],
)
def test_grade_levels_parse_returns_names_in_order(text, names):
    assert GradeLevels.parse(text).names == names


def test_grade_levels_code_ignores_case_and_number_format():
    levels = GradeLevels.parse("1..5")
    assert [levels.code(grade) for grade in ("4", 4, 4.0, " 4 ", "4.0")] == [3] * 5
    assert GradeLevels.parse("Poor,Good").code("poor") == 0
    assert levels.code("4.5") is None
    assert levels.code("four") is None


def test_grade_levels_values_of_words_are_1_2_3():
    np.testing.assert_array_equal(GradeLevels.parse("poor,fair,good").values, [1, 2, 3])
    np.testing.assert_array_equal(GradeLevels.parse("0..2").values, [0, 1, 2])


@pytest.mark.parametrize(
    "text",
    [
        "5..1",
        "1..1",
        "1..5:0.7",
        "1..1000",
        "a..b",
        "1",
        "",
        "1,1,2",
        "1,3,2",
        "1..5:0",
        "A,B,a",
        "1..1e999999:1e-999999",
    ],
)
def test_grade_levels_parse_rejects_invalid_levels(text):
    with pytest.raises(InputError, match=r"^levels:"):
        GradeLevels.parse(text)


@pytest.mark.parametrize(
    ("levels", "grade", "suggestion"), [("1..5", "3.5", "1..5:0.5"), ("1..5", "0", "0..5"), ("poor,good", "7", "order")]
)
def test_grade_levels_require_code_names_location_and_suggests_levels(levels, grade, suggestion):
    with pytest.raises(InputError, match=rf"^row 3: '{grade}' .*--levels.*{suggestion}"):
        GradeLevels.parse(levels).require_code(grade, "row 3")
