"""Where a grade stands in a text."""

import pytest

from orcu.errors import InputError
from orcu.judges.replies import UnreadableError
from orcu.judges.scale import Scale
from orcu.judges.wording import Wording


def grade(text, grades="1..5", **options):
    """The name of the grade in a text, and the characters that it was read from."""
    wording = Wording(Scale.of(grades), **options)
    mention = wording.mention(text)
    return wording.scale.names[mention.grade], text[mention.start : mention.end]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4", "4"),
        ("I counted 2 faults. Score: 4.", "4"),
        ("**4**", "4"),
        ("_4_", "4"),
        ("\\boxed{4}", "4"),
        ('{"score": 4}', "4"),
        ("评分：4", "4"),
        ("Score: 4.0", "4"),
        ("4/5", "4"),
        ("4 / 5", "4"),
        ("**4**/5", "4"),
        ("4 out of 5", "4"),
        ("4 (out of 5)", "4"),
        ("4 of 5", "4"),
        ("4 stars out of 5", "4"),
        ("Score (out of 5): 4", "4"),
        ("I give it a 4 on a scale of 1 to 5.", "4"),
        ("a 4 on the 1-5 scale", "4"),
        ("4 out of a possible 5", "4"),
        ("4, on a scale from 1 (worst) to 5 (best)", "4"),
        ("4, where 1 is bad. It lies between 1 and 5", "1"),
        ("GPT-4 and T5 wrote it; the 3rd draft is a 2", "2"),
        ("2, better than what GPT-4 or T5 wrote as their 3rd draft", "2"),
    ],
)
def test_the_last_number_that_is_no_denominator_and_no_name_of_the_scale_is_the_grade(text, name):
    assert grade(text)[0] == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("7", "'7' is no grade of 1, 2, 3, 4, 5"),
        ("4.5", "'4.5' is no grade"),
        ("4,5", "'4,5' is no grade"),
        ("-4", "'-4' is no grade"),
        ("3-4", "'3-4' is no grade"),
        ("3 to 4", "'3 to 4' is no grade"),
        ("3 or 4", "'3 or 4' is no grade"),
        ("between 2 and 4", "'2 and 4' is no grade"),
        ("4/10", "'4/10': the highest grade is 5, not 10"),
        ("4 out of 10", "the highest grade is 5, not 10"),
        ("4 stars out of 10", "the highest grade is 5, not 10"),
        ("4%", "the highest grade is 5, not 100"),
        ("good", "no grade in the text"),
        ("four", "no grade in the text"),
        ("four out of 5", "no grade in the text"),
        ("v4, the 5th", "no grade in the text"),
    ],
)
def test_what_is_no_grade_of_the_scale_is_refused_with_its_reason(text, reason):
    with pytest.raises(UnreadableError) as error:
        grade(text)
    assert reason in str(error.value)


def test_percent_is_a_grade_out_of_a_hundred():
    assert grade("80%", "0..100") == ("80", "80")


def test_the_last_match_of_a_pattern_counts_and_only_there_is_the_grade():
    text = "Score: 2. No, wait. Score: **4**. I am 90 sure."
    assert grade(text, pattern=r"Score: (\S+)") == ("4", "4")
    with pytest.raises(UnreadableError, match="the pattern matches nothing"):
        grade(text, pattern=r"Grade: (\d)")
    with pytest.raises(UnreadableError, match="'4/10': the highest grade is 5"):
        grade("Score: 4/10", pattern=r"Score: (\d+)")


@pytest.mark.parametrize(("text", "torn"), [("Score: 10", "1"), ("Score: 4.5", "4"), ("Score: 4,5", "4")])
def test_a_pattern_that_takes_a_part_of_a_number_is_refused(text, torn):
    with pytest.raises(UnreadableError, match=f"takes '{torn}' out of a longer number"):
        grade(text, pattern=r"Score: (\d)")
    with pytest.raises(UnreadableError, match="out of a longer number"):
        grade("Score: 14", pattern=r"(\d)$")


@pytest.mark.parametrize(
    ("pattern", "message"), [(r"Score: \d", "has 0"), (r"(Score|Grade): (\d)", "has 2"), (r"(\d", "no regular exp")]
)
def test_a_pattern_without_exactly_one_group_is_refused(pattern, message):
    with pytest.raises(InputError, match=message):
        Wording(Scale.of("1..5"), pattern=pattern)


def test_a_long_match_is_quoted_in_short():
    with pytest.raises(UnreadableError) as error:
        grade("Score: " + "x" * 500, pattern="Score: (.*)")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Fair, or rather VERY  good.", "very good"),
        ("very good? No: good", "good"),
        ("**Poor**", "poor"),
        ("poor; unfair, goodness", "poor"),
    ],
)
def test_the_last_name_of_a_grade_as_a_whole_word_counts_where_grades_are_words(text, name):
    assert grade(text, "poor,fair,good,very good")[0] == name


def test_an_article_is_no_grade_a():
    assert grade("Grade: B, since this is a fine text", "C,B,A") == ("B", "B")


def test_a_name_may_hold_marks_and_a_sign_that_no_name_holds_is_refused():
    assert grade("Grade: A+.", "B,A,A+") == ("A+", "A+")
    assert grade("It gets 5*", "4*,5*") == ("5*", "5*")
    assert grade("an A-level text: B", "C,B,A")[0] == "B"
    with pytest.raises(UnreadableError, match="'B\\+' is no grade"):
        grade("Not an A. Grade: B+", "C,B,A")


def test_a_number_among_names_is_not_torn_out_of_a_longer_one():
    with pytest.raises(UnreadableError, match="longer number"):
        grade("2.5", "none,1,2")


@pytest.mark.parametrize(
    ("text", "grades", "name"),
    [
        ("Four", "1..5", "4"),
        ("I say four out of five.", "1..5", "4"),
        ("from one to five: two", "1..5", "2"),
        ("twenty-one", "0..100", "21"),
        ("four and a half", "1..5:0.5", "4.5"),
        ("sixteen", "0..20", "16"),
    ],
)
def test_number_words_are_read_if_asked_for(text, grades, name):
    assert grade(text, grades, words=True)[0] == name


@pytest.mark.parametrize("text", ["four and a half", "four point five", "one hundred", "forty", "six"])
def test_number_words_that_are_no_grade_are_refused_whole(text):
    with pytest.raises(UnreadableError, match="is no grade"):
        grade(text, words=True)


def test_number_words_for_grades_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="words: number words are for grades that are numbers"):
        Wording(Scale.of("poor,good"), words=True)


def test_negative_grades_keep_their_sign():
    assert grade("Score: -1", "-2..2") == ("-1", "-1")
    assert grade("Score: +1", "-2..2")[0] == "1"


def test_a_beginning_may_become_grades_that_it_starts():
    names = Scale.of("0..100").names
    wording = Wording(Scale.of("0..100"))
    assert {names[k] for k in wording.becoming("10")} == {"10", "100"}
    assert {names[k] for k in wording.becoming("10", joined=True)} == {"10"}
    assert wording.becoming("") == wording.becoming("x") == frozenset()
