"""`Grades`: validation of arrays, parsed replies, and averaging of judges."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.grades import Grades
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import ParsedLog, ParseFailure, Reply


def test_from_log_averages_samples_and_counts_failures():
    levels = GradeLevels.parse("1..3")
    replies = [Reply("a", "gpt", np.array([0.2, 0.8, 0]), 1), Reply("a", "gpt", np.array([0.4, 0.6, 0]), 1)]
    grades = Grades.from_log(levels, ParsedLog(replies, [ParseFailure("log, line 3", "b", "no number")], []))
    assert grades.ratings["gpt"][0] == pytest.approx([0.3, 0.7, 0])
    assert grades.notes[-1].startswith("1 replies")
    with pytest.raises(InputError, match="^replies:"):
        Grades.from_log(levels, ParsedLog([*replies, Reply("b", "gpt", None, 1)], [], []))
    with pytest.raises(InputError, match="^replies:"):
        Grades.from_log(levels, ParsedLog([], [], []))


@pytest.mark.parametrize(
    ("ratings", "options", "message"),
    [
        ({}, {}, "^ratings:"),
        ({"gpt": [[0.5, 0.5]]}, {}, r"^gpt: .*\(n, 3\).*\(1, 2\)"),
        ({"gpt": [[0.5, 0.5, 0.5]]}, {}, "^gpt: row 0"),
        ({"gpt": [[np.nan] * 3]}, {}, "^gpt: no item"),
        ({"gpt": [[1, 0, 0]], "phi": [[1, 0, 0]] * 2}, {}, "^ratings: .*different numbers of rows"),
        ({"gpt": [[1, 0, -1]]}, {"kind": "votes"}, "^gpt: row 0 has votes"),
        ({"gpt": [[1, 0, 0]]}, {"kind": "guesses"}, "^kind: .*'guesses'"),
        ({"gpt": [[1, 0, 0]]}, {"items": ["a", "b"]}, "^items: expected 1"),
        ({"gpt": [[1, 0, 0]]}, {"human": [1, 2]}, "^human: .*1 items, got 2"),
        ({"gpt": [[1, 0, 0]]}, {"human": [[0.5, 0.5]]}, r"^human: .*\(1, 3\); got \(1, 2\)"),
        ({"gpt": [[1, 0, 0]]}, {"human": [4]}, "^human: row 0: '4'"),
        ({"gpt": [[1, 0, 0]]}, {"subgroup": ["a", "b"]}, "^subgroup: .*1 items, got 2"),
    ],
)
def test_from_arrays_invalid_input_raises(ratings, options, message):
    with pytest.raises(InputError, match=message):
        Grades.from_arrays("1..3", ratings, **options)


def test_from_arrays_leaves_arguments_unchanged():
    human = np.array([[0.5002, 0.5, 0.0], [0.0, 0.0, 1.0]])
    before = human.copy()
    grades = Grades.from_arrays("1..3", {"gpt": np.eye(3)[:2]}, human=human, items=np.array(["a", "b"]))
    assert grades.items.tolist() == ["a", "b"]
    np.testing.assert_array_equal(human, before)
    assert grades.human.sum(axis=1) == pytest.approx(1)


def test_average_judges_adds_votes():
    votes = {"a": [[1, 0], [0, 2]], "b": [[0, 3], [np.nan, np.nan]]}
    averaged = Grades.from_arrays("0..1", votes, kind="votes").average_judges()
    assert averaged.ratings["a and b"].tolist() == [[1, 3], [0, 2]]


def test_repr_of_grades_names_judges_and_counts():
    grades = Grades.from_arrays("0..1", {"gpt": [[0.5, 0.5]] * 3}, human=[0, None, 1])
    assert repr(grades) == "Grades(items=3, judges=['gpt'], levels='0, 1', kind='probs', items_with_human_grade=2)"
