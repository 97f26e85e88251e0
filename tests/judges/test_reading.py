"""`read`: grades from tables and logs."""

import json

import numpy as np
import pandas as pd
import pytest

from orcu.errors import InputError
from orcu.judges import read


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


WIDE = {"probs": "p_*", "item": "item", "judge": "judge"}


def test_read_probs_with_a_column_per_level():
    grades = read(wide(), **WIDE, human="person", cluster="prompt")
    assert grades.levels.names == ("1", "2", "3")
    assert grades.judges == ["gpt", "phi"]
    np.testing.assert_allclose(grades.ratings["phi"], [[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
    np.testing.assert_array_equal(grades.human, [[1, 0, 0], [0, 0, 1]])
    assert grades.cluster.tolist() == ["q1", "q2"]
    assert grades.n_raters.tolist() == [1, 1]


def test_read_file_equals_frame(tmp_path):
    wide().to_csv(tmp_path / "ratings.csv", index=False, sep=";", decimal=",")
    from_file = read(tmp_path / "ratings.csv", **WIDE, human="person")
    np.testing.assert_allclose(from_file.ratings["gpt"], [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])


def test_read_several_rows_of_item_and_judge_are_samples():
    frame = pd.DataFrame({"item": ["a", "a", "b"], "grade": [4, 5, 2]})
    grades = read(frame, grade="grade", levels="1..5", item="item")
    np.testing.assert_array_equal(grades.ratings["judge"], [[0, 0, 0, 1, 1], [0, 1, 0, 0, 0]])
    assert any("1 items have several samples" in note for note in grades.notes)
    probs = pd.concat([wide(), wide().assign(p_1=[0.5, 0.3, 0.5, 0.2], p_2=[0.4, 0.0, 0.25, 0.2])])
    assert read(probs, **WIDE).ratings["gpt"][0] == pytest.approx([0.6, 0.3, 0.1])


def test_read_several_grade_columns_are_judges():
    frame = pd.DataFrame({"gpt": [1, 2, 3], "phi": [3, None, 1], "person": [1, 2, 3]})
    grades = read(frame, grade="gpt,phi", levels="1..3", human="person")
    assert grades.judges == ["gpt", "phi"]
    assert grades.rated_mask("phi").tolist() == [True, False, True]
    assert "phi did not rate 1 of 3 items" in grades.notes


def test_read_votes_are_counts():
    frame = pd.DataFrame({"n_0": [3, 0], "n_1": [1, 4], "person": [0, 1]})
    grades = read(frame, votes="n_*", human="person")
    assert grades.kind == "votes"
    assert grades.ratings["judge"].tolist() == [[3, 1], [0, 4]]
    assert grades.expected_grade("judge").tolist() == [0.25, 1.0]


def test_read_several_raters_give_a_distribution():
    people = pd.DataFrame({"item": ["a", "a", "a", "b"], "who": ["x", "y", "z", "x"], "score": [1, 1, 3, 2]})
    grades = read(wide(), **WIDE, human_file=people, human="score", rater="who")
    np.testing.assert_allclose(grades.human, [[2 / 3, 0, 1 / 3], [0, 1, 0]])
    assert grades.n_raters.tolist() == [3, 1]
    assert grades.human_mean == pytest.approx([5 / 3, 2])


def test_read_human_count_divides_mean_between_neighbouring_levels():
    people = pd.DataFrame({"item": ["a", "b"], "mean": [1.25, 3.0], "n": [4, 2]})
    grades = read(wide(), **WIDE, human_file=people, human="mean", human_count="n")
    np.testing.assert_allclose(grades.human, [[0.75, 0.25, 0], [0, 0, 1]])
    assert grades.n_raters.tolist() == [4, 2]
    assert grades.has_mean_grades


def test_read_notes_count_unmatched_items():
    people = pd.DataFrame({"item": ["a", "z"], "score": [1, 2]})
    grades = read(wide(), **WIDE, human_file=people, human="score")
    assert any(note.startswith("1 human grades") and "'z'" in note for note in grades.notes)
    assert any("1 of 2 items have no human grade" in note for note in grades.notes)
    assert np.isnan(grades.human[1]).all()


def test_read_word_levels_keep_the_given_order():
    frame = pd.DataFrame({"verdict": ["good", "poor", "Fair"], "person": ["good", "fair", "fair"]})
    grades = read(frame, grade="verdict", levels="poor,fair,good", human="person")
    assert grades.ratings["judge"].argmax(axis=1).tolist() == [2, 0, 1]
    columns = pd.DataFrame({"p_good": [0.6], "p_poor": [0.4]})
    assert read(columns, probs="p_*", levels="poor,good").ratings["judge"].tolist() == [[0.4, 0.6]]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (wide(), {"probs": "p_*", "votes": "n_*"}, "probs=.*votes=.*grade="),
        (wide(), {}, "probs=.*votes=.*grade="),
        (wide(), {"probs": "q_*"}, r"'q_\*'"),
        (wide(), {"grade": "person"}, "^levels:"),
        (wide(), {"grade": "person", "levels": "0..2"}, "row 2, 'person': '3'"),
        (wide(), {"grade": "person,person", "levels": "1..3"}, "^grade: .*person, person"),
        (wide(), {"grade": "person,p_1", "levels": "1..3", "judge": "judge"}, "^judge:"),
        (wide().assign(person=[1, 3, 2, 3]), WIDE | {"human": "person"}, "row 3: item 'a' .*rater="),
        (wide().assign(person=[1, 7, 1, 7]), {"probs": "p_*", "human": "person"}, r"row 2, 'person': '7' .*1\.\.7"),
        (wide().assign(person=[1.5, 3, 1, 3]), {"probs": "p_*", "human": "person"}, r"row 1, 'person': .*1\.\.3:0\.5"),
        (wide().assign(person=[None] * 4), {"probs": "p_*", "human": "person"}, "column 'person'"),
        (wide().assign(p_1=[5, 0.1, 0.5, 0.2]), {"probs": "p_*"}, "row 1"),
        (wide().assign(p_1=[None, 0.1, 0.5, 0.2]), {"probs": "p_*"}, "row 1 .*missing"),
        (wide().assign(p_1=["x", 0.1, 0.5, 0.2]).astype({"p_1": str}), {"probs": "p_*"}, "row 1 has 'x' in 'p_1'"),
        (wide().assign(item=["a", None, "a", "b"]), {"probs": "p_*", "item": "item"}, "column 'item': row 2 is empty"),
        (
            wide().assign(prompt=["q1", "q2", "q3", "q2"]),
            WIDE | {"cluster": "prompt"},
            "row 3: item 'a' has cluster 'q3'",
        ),
        (pd.DataFrame({"n_0": [1.5], "n_1": [1]}), {"votes": "n_*"}, r"row 1 has votes \[1.5, 1.0\]"),
        (pd.DataFrame({"n_0": [0], "n_1": [0]}), {"votes": "n_*"}, r"row 1 has votes \[0.0, 0.0\]"),
        (pd.DataFrame({"p_bad": [0.5], "p_good": [0.5]}), {"probs": "p_*"}, "bad, good.*levels="),
        (pd.DataFrame({"p_bad": [0.5], "p_good": [0.5]}), {"probs": "p_*", "levels": "1..5"}, "2 columns .* 5 levels"),
        (wide(), {"probs": "p_*", "item": "nix"}, "'nix'"),
        (wide(), {"probs": "p_*", "judge": "judge"}, "^item: column 'judge' has several judges"),
        (wide().assign(item=[["a"]] * 4), {"probs": "p_*", "item": "item"}, "row 1 has .'a'., expected a text"),
        (wide()[:0], {"probs": "p_*"}, "no rows"),
        (wide(), {"probs": "p_*", "human_file": wide(), "human": "person"}, "^human_file:"),
    ],
)
def test_read_invalid_table_raises_with_location(frame, options, message):
    with pytest.raises(InputError, match=message):
        read(frame, **options)


@pytest.mark.parametrize(
    ("mean", "count", "message"), [(9.0, 2, "row 1: .*9"), (1.5, 0, "0 in 'n'"), (1.5, 2.5, "2.5 in 'n'")]
)
def test_read_invalid_human_count_raises(mean, count, message):
    people = pd.DataFrame({"item": ["a"], "mean": [mean], "n": [count]})
    with pytest.raises(InputError, match=message):
        read(wide(), **WIDE, human_file=people, human="mean", human_count="n")


def test_read_human_count_with_word_levels_raises():
    frame = pd.DataFrame({"verdict": ["good", "poor"], "person": [1.5, 1.0], "n": [2, 2]})
    with pytest.raises(InputError, match="^human_count:"):
        read(frame, grade="verdict", levels="poor,good", human="person", human_count="n")


def test_read_human_grades_of_other_items_raise_with_both_names():
    people = pd.DataFrame({"item": ["x", "y"], "score": [1, 2]})
    with pytest.raises(InputError, match=r"^item: .*'x'.*'a'.*--item"):
        read(wide(), **WIDE, human_file=people, human="score")


def test_read_log_with_columns_or_human_grades_raises(tmp_path):
    line = {"custom_id": "a", "choices": [{"message": {"content": "4"}}]}
    (tmp_path / "answers.jsonl").write_text(json.dumps(line))
    with pytest.raises(InputError, match="cluster.*orcu judge read"):
        read(tmp_path / "answers.jsonl", levels="1..5", cluster="prompt")
    with pytest.raises(InputError, match="--human-file"):
        read(tmp_path / "answers.jsonl", levels="1..5", human="grade")


def test_read_completions_with_human_grades_of_another_table(tmp_path):
    bodies = {k: {"model": "gpt", "choices": [{"message": {"content": str(k)}}]} for k in (1, 2, 3, 7)}
    lines = [json.dumps({"custom_id": f"a{k}", "response": {"body": body}}) for k, body in bodies.items()]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    people = pd.DataFrame({"custom_id": ["a1", "a3"], "grade": [1, 2]})
    grades = read(tmp_path / "answers.jsonl", levels="1..3", human_file=people, item="custom_id", human="grade")
    assert grades.items.tolist() == ["a1", "a2", "a3"]
    assert grades.ratings["gpt"].argmax(axis=1).tolist() == [0, 1, 2]
    assert grades.human_mask.tolist() == [True, False, True]
    assert [failure.item for failure in grades.failures] == ["a7"]


def columns_named(*names, rows=2):
    """A table whose last column has most of the probability."""
    return pd.DataFrame({name: [0.9 if name == names[-1] else 0.1 / (len(names) - 1)] * rows for name in names})


@pytest.mark.parametrize(
    "names",
    [
        ["p_a", "p_b", "p_c", "p_d", "p_e"],
        ["p_5star", "p_4star", "p_3star", "p_2star", "p_1star"],
        ["p_0", "p_1", "p_2", "p_3", "p_4"],
        ["p_4", "p_3", "p_2", "p_1", "p_0"],
    ],
)
@pytest.mark.parametrize("option", ["probs", "votes"])
def test_read_pattern_with_names_other_than_levels_raises_with_the_mapping(names, option):
    frame = columns_named(*names)
    frame = frame if option == "probs" else (frame > 0.5).astype(int)
    with pytest.raises(InputError, match=f"1 = {names[0]}, 2 = {names[1]}.*--{option} {','.join(names)}"):
        read(frame, levels="1..5", **{option: "p_*"})


def test_read_listed_columns_are_in_the_order_of_the_levels_and_noted():
    names = ["p_bad", "p_ok", "p_fine"]
    for probs in (names, ",".join(names)):
        grades = read(columns_named(*names), probs=probs, levels="1..3")
        assert grades.ratings["judge"][0].argmax() == 2
        assert "levels, lowest first: 1 (p_bad), 2 (p_ok), 3 (p_fine)" in grades.notes


def test_read_columns_that_name_the_levels_are_matched_by_name():
    grades = read(columns_named("p_3", "p_2", "p_1"), probs="p_*", levels="1..3")
    assert grades.ratings["judge"][0].argmax() == 0
    assert "levels, lowest first: 1 (p_1), 2 (p_2), 3 (p_3)" in grades.notes


def test_read_columns_that_differ_in_case_from_the_levels_are_matched_by_name():
    grades = read(columns_named("p_Good", "p_Poor"), probs="p_*", levels="poor,good")
    assert grades.ratings["judge"][0].argmax() == 0


def test_read_pattern_skips_columns_with_another_role():
    frame = columns_named("p_1", "p_2").assign(p_human=[1, 2])
    assert read(frame, probs="p_*", human="p_human").levels.names == ("1", "2")


@pytest.mark.parametrize("role", ["item", "judge", "subgroup", "cluster", "system"])
@pytest.mark.parametrize(
    "pair",
    [("1.1", "1.10"), ("01", "1"), ("10000000000000000001", "10000000000000000002"), ("1e2", "100"), ("1_0", "10")],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_read_names_that_are_equal_as_numbers_stay_different(tmp_path, role, pair, kind):
    frame = pd.DataFrame({"name": pair, "grade": [1, 2], "row": ["x", "y"]})
    if kind == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
    source = frame if kind == "frame" else tmp_path / f"t.{kind}"
    grades = read(source, grade="grade", levels="1..2", **({"item": "row"} | {role: "name"}))
    names = {"item": grades.items, "judge": grades.judges}.get(role)
    assert list(getattr(grades, role) if names is None else names) == list(pair)


def test_read_raters_that_are_equal_as_numbers_stay_different(tmp_path):
    (tmp_path / "people.csv").write_text("item,who,score\na,01,1\na,1,3\n")
    grades = read(wide(), **WIDE, human_file=tmp_path / "people.csv", human="score", rater="who")
    assert grades.n_raters.tolist() == [2, 0]


def test_read_completions_item_with_leading_zeros_matches_csv(tmp_path):
    lines = [
        json.dumps({"custom_id": name, "model": "m", "choices": [{"message": {"content": "2"}}]})
        for name in ("007", "7", " 8 ", 10**19 + 1)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    (tmp_path / "people.csv").write_text(f"id,grade\n007,1\n8,3\n{10**19 + 1},2\n")
    options = {"item": "custom_id", "human": "grade", "levels": "1..3"}
    people = pd.read_csv(tmp_path / "people.csv", dtype=str).rename(columns={"id": "custom_id"})
    people.to_csv(tmp_path / "people.csv", index=False)
    grades = read(tmp_path / "answers.jsonl", human_file=tmp_path / "people.csv", **options)
    assert grades.items.tolist() == ["007", "7", "8", str(10**19 + 1)]
    assert grades.human_mask.tolist() == [True, False, True, True]


def test_read_float_names_without_all_digits_raise():
    frame = pd.DataFrame({"item": [1e19, 2e19], "grade": [1, 2]})
    with pytest.raises(InputError, match=r"column 'item': row 1 has 1e\+19, a float that has lost digits"):
        read(frame, grade="grade", levels="1..2", item="item")
    assert read(frame.assign(item=[1.0, 2.0]), grade="grade", levels="1..2", item="item").items.tolist() == ["1", "2"]


def test_read_csv_with_decimal_comma_and_missing_texts(tmp_path):
    (tmp_path / "t.csv").write_text("item;g;person\n1,5;1,5;NA\n1,50;2;1,5\nx;1;#N/A\n")
    grades = read(tmp_path / "t.csv", grade="g", item="item", human="person", levels="1..2:0.5")
    assert grades.items.tolist() == ["1,5", "1,50", "x"]
    assert grades.ratings["judge"].argmax(axis=1).tolist() == [1, 2, 0]
    assert grades.human_mask.tolist() == [False, True, False]


@pytest.mark.parametrize("cell", ["inf", "1e400", "4_6", "1e9"])
@pytest.mark.parametrize("column", ["n_0", "count"])
def test_read_numbers_that_are_no_counts_raise(tmp_path, cell, column):
    cells = {"n_0": "1", "count": "2"} | {column: cell}
    (tmp_path / "t.csv").write_text(f"n_0,n_1,mean,count\n1,1,0.5,2\n{cells['n_0']},1,0.5,{cells['count']}\n")
    with pytest.raises(InputError, match="t.csv: row 2 has"):
        read(tmp_path / "t.csv", votes="n_*", human="mean", human_count="count")


def test_read_csv_with_two_decimal_signs_raises(tmp_path):
    (tmp_path / "t.csv").write_text("n_0;n_1;mean;count\n1;1;0,5;2\n1.000;1;0,5;2\n")
    with pytest.raises(InputError, match=r"row 2 has '1.000' in 'n_0' with a point"):
        read(tmp_path / "t.csv", votes="n_*", human="mean", human_count="count")


def test_read_items_without_any_grade_are_noted():
    frame = pd.DataFrame({"item": ["a", "b"], "g": [1.0, None]})
    grades = read(frame, grade="g", item="item", levels="1..2")
    assert "1 items have no grade of any judge and are left out" in grades.notes


def test_read_deeply_nested_json_log_raises(tmp_path):
    (tmp_path / "log.json").write_text("[" * 200_000)
    with pytest.raises(InputError, match="not valid JSON"):
        read(tmp_path / "log.json", levels="1..5")


def test_read_blank_subgroup_is_a_subgroup_and_other_blank_names_raise(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("item,score,task,person\n007,4,x,4\n7,2,,1\n07,3,  ,\n")
    options = {"grade": "score", "levels": "1..5", "item": "item", "human": "person"}
    grades = read(path, **options, subgroup="task")
    assert grades.subgroup.tolist() == ["x", "(blank)", "(blank)"]
    assert "2 items have no 'task'; they are the subgroup (blank)" in grades.notes
    with pytest.raises(InputError, match="column 'task': row 2 is empty"):
        read(path, **options, cluster="task")


def test_read_ids_with_leading_zeros_are_other_items(tmp_path):
    (tmp_path / "judge.csv").write_text("item,score\n007,4\n7,2\n")
    (tmp_path / "people.csv").write_text("item,person\n7,1\n007,5\n")
    options = {"grade": "score", "levels": "1..5", "item": "item", "human": "person"}
    grades = read(tmp_path / "judge.csv", **options, human_file=tmp_path / "people.csv")
    assert dict(zip(grades.items.tolist(), grades.human_mean.tolist(), strict=True)) == {"007": 5.0, "7": 1.0}
