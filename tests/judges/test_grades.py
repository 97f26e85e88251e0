"""Reading what judges and people said: nothing guessed, nothing dropped without a count."""

import json

import numpy as np
import pandas as pd
import pytest

from orcu.errors import InputError
from orcu.judges.grades import Grades, from_replies, read
from orcu.judges.replies import Reply, Unread
from orcu.judges.scale import Scale


def wide():
    return pd.DataFrame(
        {
            "item": ["a", "b", "a", "b"],
            "judge": ["gpt", "gpt", "phi", "phi"],
            "p_1": [0.7, 0.1, 0.5, 0.2],
            "p_2": [0.2, 0.2, 0.25, 0.2],
            "p_3": [0.1, 0.7, 0.25, 0.6],
            "person": [1, 3, 1, 3],
            "prompt": ["q1", "q2", "q1", "q2"],
        }
    )


def test_a_column_for_each_grade():
    grades = read(wide(), probs="p_*", item="item", judge="judge", human="person", cluster="prompt")
    assert grades.scale.names == ("1", "2", "3")
    assert grades.judges == ["gpt", "phi"]
    np.testing.assert_allclose(grades.said["phi"], [[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
    np.testing.assert_array_equal(grades.human, [[1, 0, 0], [0, 0, 1]])
    assert grades.cluster.tolist() == ["q1", "q2"]
    assert grades.raters.tolist() == [1, 1]


def test_a_file_is_read_like_a_frame(tmp_path):
    wide().to_csv(tmp_path / "said.csv", index=False, sep=";", decimal=",")
    from_file = read(tmp_path / "said.csv", probs="p_*", item="item", judge="judge", human="person")
    np.testing.assert_allclose(from_file.said["gpt"], [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])


def test_several_rows_of_an_item_and_a_judge_are_samples():
    frame = pd.DataFrame({"item": ["a", "a", "b"], "grade": [4, 5, 2]})
    grades = read(frame, grade="grade", grades="1..5", item="item")
    np.testing.assert_array_equal(grades.said["judge"], [[0, 0, 0, 1, 1], [0, 1, 0, 0, 0]])
    assert any("1 items have several samples" in note for note in grades.notes)
    probs = pd.concat([wide(), wide().assign(p_1=[0.5, 0.3, 0.5, 0.2], p_2=[0.4, 0.0, 0.25, 0.2])])
    assert read(probs, probs="p_*", item="item", judge="judge").said["gpt"][0] == pytest.approx([0.6, 0.3, 0.1])


def test_several_columns_of_grades_are_judges():
    frame = pd.DataFrame({"gpt": [1, 2, 3], "phi": [3, None, 1], "person": [1, 2, 3]})
    grades = read(frame, grade="gpt,phi", grades="1..3", human="person")
    assert grades.judges == ["gpt", "phi"]
    assert grades.spoke("phi").tolist() == [True, False, True]


def test_votes_are_counts():
    frame = pd.DataFrame({"n_0": [3, 0], "n_1": [1, 4], "person": [0, 1]})
    grades = read(frame, votes="n_*", human="person")
    assert grades.kind == "votes"
    assert grades.said["judge"].tolist() == [[3, 1], [0, 4]]
    assert grades.expected("judge").tolist() == [0.25, 1.0]


def test_several_raters_become_a_distribution():
    humans = pd.DataFrame({"item": ["a", "a", "a", "b"], "who": ["x", "y", "z", "x"], "score": [1, 1, 3, 2]})
    grades = read(wide(), probs="p_*", item="item", judge="judge", humans=humans, human="score", rater="who")
    np.testing.assert_allclose(grades.human, [[2 / 3, 0, 1 / 3], [0, 1, 0]])
    assert grades.raters.tolist() == [3, 1]
    assert grades.human_mean == pytest.approx([5 / 3, 2])


def test_a_mean_lies_between_the_two_grades_next_to_it():
    humans = pd.DataFrame({"item": ["a", "b"], "mean": [1.25, 3.0], "n": [4, 2]})
    grades = read(wide(), probs="p_*", item="item", judge="judge", humans=humans, human="mean", human_count="n")
    np.testing.assert_allclose(grades.human, [[0.75, 0.25, 0], [0, 0, 1]])
    assert grades.raters.tolist() == [4, 2]
    assert grades.has_means  # how far people agree with each other is not known


def test_what_finds_no_partner_is_counted():
    humans = pd.DataFrame({"item": ["a", "z"], "score": [1, 2]})
    grades = read(wide(), probs="p_*", item="item", judge="judge", humans=humans, human="score")
    assert any("1 human grades are of items that were not judged, such as 'z'" in note for note in grades.notes)
    assert any("1 of 2 items have no human grade" in note for note in grades.notes)
    assert np.isnan(grades.human[1]).all()


def test_words_have_the_order_that_is_said():
    frame = pd.DataFrame({"verdict": ["good", "poor", "Fair"], "person": ["good", "fair", "fair"]})
    grades = read(frame, grade="verdict", grades="poor,fair,good", human="person")
    assert grades.said["judge"].argmax(axis=1).tolist() == [2, 0, 1]
    named = pd.DataFrame({"p_good": [0.6], "p_poor": [0.4]})
    assert read(named, probs="p_*", grades="poor,good").said["judge"].tolist() == [[0.4, 0.6]]


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (wide(), {"probs": "p_*", "votes": "n_*"}, "one of probs="),
        (wide(), {}, "say what its columns are"),
        (wide(), {"probs": "q_*"}, "matches no column"),
        (wide(), {"grade": "person"}, "say the scale"),
        (wide(), {"grade": "person", "grades": "0..2"}, "row 2, 'person': '3' is no grade"),
        (
            wide().assign(person=[1, 3, 2, 3]),
            {"probs": "p_*", "item": "item", "judge": "judge", "human": "person"},
            "two human grades that differ",
        ),
        (wide().assign(person=[1, 7, 1, 7]), {"probs": "p_*", "human": "person"}, "run from 1 to 7"),
        (wide().assign(person=[1.5, 3, 1, 3]), {"probs": "p_*", "human": "person"}, "1..3:0.5"),
        (wide().assign(person=[None] * 4), {"probs": "p_*", "human": "person"}, "holds no grade"),
        (wide().assign(p_1=[5, 0.1, 0.5, 0.2]), {"probs": "p_*"}, "row 1"),
        (wide().assign(p_1=[None, 0.1, 0.5, 0.2]), {"probs": "p_*"}, "row 1 .* lacks a grade's number"),
        (wide().assign(item=["a", None, "a", "b"]), {"probs": "p_*", "item": "item"}, "row 2 has no 'item'"),
        (
            wide().assign(prompt=["q1", "q2", "q3", "q2"]),
            {"probs": "p_*", "item": "item", "judge": "judge", "cluster": "prompt"},
            "belongs to one cluster",
        ),
        (pd.DataFrame({"n_0": [1.5], "n_1": [1]}), {"votes": "n_*"}, "whole numbers"),
        (pd.DataFrame({"n_0": [0], "n_1": [0]}), {"votes": "n_*"}, "at least one vote"),
        (pd.DataFrame({"p_bad": [0.5], "p_good": [0.5]}), {"probs": "p_*"}, "say their order"),
        (pd.DataFrame({"p_bad": [0.5], "p_good": [0.5]}), {"probs": "p_*", "grades": "1..5"}, "one column per grade"),
        (wide(), {"probs": "p_*", "item": "nix"}, "no column 'nix'"),
        (wide()[:0], {"probs": "p_*"}, "no row below the header"),
        (wide(), {"probs": "p_*", "humans": wide()}, "name the columns of that table|say"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(frame, options, words):
    if "humans" in options:
        options = options | {"human": "person"}
    with pytest.raises(InputError, match=words):
        read(frame, **options)


@pytest.mark.parametrize(
    ("mean", "count", "words"),
    [(9.0, 2, "outside the grades"), (1.5, 0, "number of people"), (1.5, 2.5, "number of people")],
)
def test_a_mean_that_cannot_be_is_refused(mean, count, words):
    humans = pd.DataFrame({"item": ["a"], "mean": [mean], "n": [count]})
    with pytest.raises(InputError, match=words):
        read(wide(), probs="p_*", item="item", judge="judge", humans=humans, human="mean", human_count="n")


def test_human_grades_of_other_items_are_refused_with_both_names():
    humans = pd.DataFrame({"item": ["x", "y"], "score": [1, 2]})
    with pytest.raises(InputError, match=r"'x'.*'a'.*--item"):
        read(wide(), probs="p_*", item="item", judge="judge", humans=humans, human="score")


def test_replies_are_put_together_and_losses_counted():
    scale = Scale.of("1..3")
    replies = [Reply("a", "gpt", np.array([0.2, 0.8, 0]), 1, 1.0), Reply("a", "gpt", np.array([0.4, 0.6, 0]), 1, 1.0)]
    grades = from_replies(scale, replies, unread=[Unread("log, line 3", "b", "no number")])
    assert grades.said["gpt"][0] == pytest.approx([0.3, 0.7, 0])
    assert grades.notes[-1] == "1 replies could not be read"
    with pytest.raises(InputError, match="others bare grades"):
        from_replies(scale, [*replies, Reply("b", "gpt", None, 1, None)])
    with pytest.raises(InputError, match="no grade to be read"):
        from_replies(scale, [])


@pytest.mark.parametrize(
    ("said", "options", "words"),
    [
        ({}, {}, "no judge"),
        ({"gpt": [[0.5, 0.5]]}, {}, "expected shape"),
        ({"gpt": [[0.5, 0.5, 0.5]]}, {}, "row 0"),
        ({"gpt": [[np.nan] * 3]}, {}, "said nothing"),
        ({"gpt": [[1, 0, 0]], "phi": [[1, 0, 0]] * 2}, {}, "different numbers of rows"),
        ({"gpt": [[1, 0, -1]]}, {"kind": "votes"}, "expected counts"),
        ({"gpt": [[1, 0, 0]]}, {"kind": "guesses"}, "expected 'probs' or 'votes'"),
        ({"gpt": [[1, 0, 0]]}, {"items": ["a", "b"]}, "1 different names"),
        ({"gpt": [[1, 0, 0]]}, {"human": [1, 2]}, "for each of 1 items"),
        ({"gpt": [[1, 0, 0]]}, {"human": [4]}, "'4' is no grade"),
        ({"gpt": [[1, 0, 0]]}, {"group": ["a", "b"]}, "one entry for each"),
        ({"gpt": [[1, 0, 0]]}, {"colour": ["a"]}, "expected group="),
    ],
)
def test_arrays_that_do_not_fit_are_refused(said, options, words):
    with pytest.raises(InputError, match=words):
        Grades.of("1..3", said, **options)


def test_a_log_has_no_columns_and_no_human_grades(tmp_path):
    (tmp_path / "answers.jsonl").write_text("{}")
    with pytest.raises(InputError, match="orcu judge read"):
        read(tmp_path / "answers.jsonl", grades="1..5", cluster="prompt")
    with pytest.raises(InputError, match="--humans"):
        read(tmp_path / "answers.jsonl", grades="1..5", human="grade")


def test_completions_are_read_and_joined_with_people(tmp_path):
    bodies = {k: {"model": "gpt", "choices": [{"message": {"content": str(k)}}]} for k in (1, 2, 3, 7)}
    lines = [json.dumps({"custom_id": f"a{k}", "response": {"body": body}}) for k, body in bodies.items()]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    humans = pd.DataFrame({"custom_id": ["a1", "a3"], "grade": [1, 2]})
    grades = read(tmp_path / "answers.jsonl", grades="1..3", humans=humans, item="custom_id", human="grade")
    assert grades.items.tolist() == ["a1", "a2", "a3"]
    assert grades.said["gpt"].argmax(axis=1).tolist() == [0, 1, 2]
    assert grades.graded.tolist() == [True, False, True]
    assert len(grades.unread) == 1
    assert grades.unread[0].item == "a7"


def test_arrays_are_taken_as_they_are_and_left_as_they_are():
    human = np.array([[0.5002, 0.5, 0.0], [0.0, 0.0, 1.0]])
    before = human.copy()
    grades = Grades.of("1..3", {"gpt": np.eye(3)[:2]}, human=human, items=np.array(["a", "b"]))
    assert grades.items.tolist() == ["a", "b"]
    np.testing.assert_array_equal(human, before)
    assert grades.human.sum(axis=1) == pytest.approx(1)
