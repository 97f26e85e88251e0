"""The scale of grades: said, never guessed."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.scale import Scale


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
def test_a_scale_is_what_the_user_writes(text, names):
    assert Scale.of(text).names == names


def test_the_same_grade_is_recognised_however_it_is_written():
    scale = Scale.of("1..5")
    assert [scale.code(grade) for grade in ("4", 4, 4.0, " 4 ", "4.0")] == [3] * 5
    assert Scale.of("Poor,Good").code("poor") == 0
    assert scale.code("4.5") is None
    assert scale.code("four") is None


def test_words_count_from_one_in_a_mean():
    np.testing.assert_array_equal(Scale.of("poor,fair,good").values, [1, 2, 3])
    np.testing.assert_array_equal(Scale.of("0..2").values, [0, 1, 2])


@pytest.mark.parametrize("text", ["5..1", "1..1", "1..5:0.7", "1..1000", "a..b", "1", "", "1,1,2", "1,3,2", "1..5:0"])
def test_a_scale_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="grades"):
        Scale.of(text)


def test_a_refused_grade_tells_what_the_scale_may_be():
    assert "--grades 1..5:0.5" in Scale.of("1..5").refusal("3.5")
    assert "run from 0 to 5" in Scale.of("1..5").refusal("0")
    assert "as the scale really is" in Scale.of("poor,good").refusal("7")
