"""Probabilities of grades from returned tokens, with numbers worked out by hand."""

import math

import numpy as np
import pytest

from orcu.judges.replies import UnreadableError
from orcu.judges.scale import Scale
from orcu.judges.tokens import token_grades
from orcu.judges.wording import Wording


def entry(token, p):
    return {"token": token, "bytes": list(token.encode()), "logprob": math.log(p)}


def place(returned):
    """A place at which tokens were returned, with their probabilities; the first was taken."""
    taken = next(iter(returned))
    return {**entry(taken, returned[taken]), "top_logprobs": [entry(token, p) for token, p in returned.items()]}


def plain(*tokens):
    return [place({token: 1.0}) for token in tokens]


def graded(tokens, grades="1..5", text=None, joined=False, **options):
    wording = Wording(Scale.of(grades), **options)
    text = "".join(token["token"] for token in tokens) if text is None else text
    return token_grades(tokens, text, wording.mention(text), wording, joined=joined)


def test_tokens_that_spell_the_same_grade_are_summed():
    returned = {" 4": 0.4, "4": 0.2, "**4": 0.1, " 5": 0.15, "5\n": 0.05, " the": 0.1}
    grades = graded([*plain("Score", ":"), place(returned)])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 7 / 9, 2 / 9], atol=1e-12)
    assert grades.mass == pytest.approx(0.9)
    assert not any((grades.filled, grades.divided, grades.alone, grades.joins))


def test_missing_probability_is_divided_evenly_among_grades_that_were_not_returned():
    grades = graded([place({"4": 0.6, "5": 0.3, "The": 0.04})])  # 0.06 is missing: 0.02 for each of 1, 2, 3
    np.testing.assert_allclose(grades.probs, np.array([0.02, 0.02, 0.02, 0.6, 0.3]) / 0.96)
    assert grades.mass == pytest.approx(0.9)
    assert grades.filled


def test_no_grade_gets_more_than_the_least_likely_token_returned():
    grades = graded([place({"4": 0.6, "5": 0.2, "The": 0.01})])  # 0.19 / 3 is more than 0.01
    np.testing.assert_allclose(grades.probs, np.array([0.01, 0.01, 0.01, 0.6, 0.2]) / 0.83)
    assert grades.mass == pytest.approx(0.8)


def test_without_missing_probability_grades_that_were_not_returned_have_none():
    grades = graded([place({"4": 0.75, "5": 0.25})])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    assert not grades.filled


def test_the_token_that_was_taken_counts_though_it_is_not_among_the_likeliest():
    token = {**entry("3", 0.1), "top_logprobs": [entry("4", 0.6), entry("5", 0.3)]}
    np.testing.assert_allclose(graded([token]).probs, [0, 0, 0.1, 0.6, 0.3], atol=1e-12)


def test_a_token_without_alternatives_is_told_apart():
    grades = graded([{**entry("3", 0.6), "top_logprobs": None}])  # 0.4 is missing: 0.1 each
    np.testing.assert_allclose(grades.probs, [0.1, 0.1, 0.6, 0.1, 0.1])
    assert grades.alone


def test_very_unlikely_is_no_probability_and_such_a_grade_shares_what_is_missing():
    unlikely = {"token": "2", "bytes": [50], "logprob": -9999.0}
    token = {**unlikely, "top_logprobs": [entry("4", 0.6), entry("5", 0.2)]}  # 0.2 is missing, for 1, 2, 3
    np.testing.assert_allclose(graded([token]).probs, np.array([1, 1, 1, 9, 3]) / 15)


def test_ten_in_two_tokens_follows_the_tokens_that_were_taken():
    first = place({"1": 0.7, "9": 0.2, "8": 0.1})
    second = place({"0": 0.6, "\n": 0.25, "": 0.1, "5": 0.05})
    grades = graded([*plain("Score", ":", " "), first, second], "1..10")
    expected = np.zeros(10)
    expected[[0, 7, 8, 9]] = 0.7 * 0.35, 0.1, 0.2, 0.7 * 0.6  # 15 is no grade
    np.testing.assert_allclose(grades.probs, expected / 0.965, atol=1e-12)
    assert grades.mass == pytest.approx(0.965)
    assert not grades.divided


def test_one_of_ten_grades_that_ends_shares_with_the_ten_it_might_have_become():
    tokens = [place({" 1": 0.5, "1": 0.3, "2": 0.2}), place({"<|im_end|>": 0.9, "0": 0.1})]
    grades = graded(tokens, "1..10", text="1")
    expected = np.zeros(10)
    expected[[0, 1, 9]] = 0.8 * 0.9, 0.2, 0.8 * 0.1  # " 1" goes the way of "1"
    np.testing.assert_allclose(grades.probs, expected, atol=1e-12)


def test_a_one_at_the_end_of_a_reply_is_one():
    grades = graded([place({"1": 0.8, "2": 0.2})], "1..10")
    np.testing.assert_allclose(grades.probs, [0.8, 0.2, 0, 0, 0, 0, 0, 0, 0, 0], atol=1e-12)


def test_a_beginning_that_was_not_taken_is_divided_among_the_grades_it_may_become():
    tokens = [place({"9": 0.6, "1": 0.4})]
    grades = graded(tokens, "1..10")
    expected = np.zeros(10)
    expected[[0, 8, 9]] = 0.2, 0.6, 0.2
    np.testing.assert_allclose(grades.probs, expected, atol=1e-12)
    assert grades.divided
    joined = graded(tokens, "1..10", joined=True)
    np.testing.assert_allclose(joined.probs[[0, 8, 9]], [0.4, 0.6, 0], atol=1e-12)
    assert not joined.divided


def test_ten_in_one_token_shows_that_numbers_are_one_token_each():
    tokens = [place({"10": 0.5, "9": 0.3, "1": 0.2})]
    grades = graded(tokens, "1..10", joined=True)
    np.testing.assert_allclose(grades.probs[[0, 8, 9]], [0.2, 0.3, 0.5])
    assert grades.joins


def test_missing_probability_behind_a_beginning_is_for_the_grades_it_may_become():
    # Of 20..29 and 2, place two returns 20 and 21 and loses 0.18: 9 others, 2 itself too; 0.02 each.
    first, second = place({"2": 0.5, "3": 0.5}), place({"0": 0.5, "1": 0.32})
    grades = graded([first, second], "2..39")
    assert grades.mass == pytest.approx(0.5 + 0.5 * 0.82)
    total = 0.5 + 0.5
    names = Scale.of("2..39").names
    probs = dict(zip(names, grades.probs, strict=True))
    assert probs["20"] == pytest.approx(0.25 / total)
    assert probs["25"] == probs["2"] == pytest.approx(0.01 / total)
    assert probs["30"] == pytest.approx(0.5 / 11)  # 3 and 30..39
    assert probs["4"] == 0  # nothing was missing at the first place


def test_halves_are_followed_over_their_point():
    tokens = [place({"2": 0.8, "1": 0.2}), place({".": 0.75, "\n": 0.25}), place({"5": 0.9, "0": 0.1})]
    grades = graded(tokens, "1..3:0.5")
    two = 0.8 * 0.25 + 0.8 * 0.75 * 0.1
    np.testing.assert_allclose(grades.probs, [0.1, 0.1, two, 0.8 * 0.75 * 0.9, 0], atol=1e-12)
    assert grades.divided  # 1 may be 1.5


def test_a_full_stop_behind_a_grade_is_no_decimal_point_if_no_digit_follows():
    tokens = [place({"2": 0.8, "3": 0.2}), place({".": 0.75, "\n": 0.25}), place({" Good": 0.9, "5": 0.1})]
    grades = graded(tokens, "2..3:0.5")
    np.testing.assert_allclose(grades.probs, [0.8 * 0.25 + 0.8 * 0.75 * 0.9, 0.8 * 0.75 * 0.1, 0.2])


def test_words_of_several_tokens_are_followed():
    first = place({" Very": 0.5, " Good": 0.3, " bad": 0.15, " b": 0.05})
    tokens = [*plain("It is"), first, place({" good": 0.75, " bad": 0.2, " odd": 0.05})]
    grades = graded(tokens, "very bad,bad,good,very good")
    np.testing.assert_allclose(grades.probs, np.array([0.1, 0.2, 0.3, 0.375]) / 0.975)
    assert grades.mass == pytest.approx(0.975)


def test_number_words_count_if_asked_for():
    tokens = [place({" Four": 0.5, " 4": 0.2, " five": 0.2, " f": 0.1})]
    grades = graded(tokens, words=True)
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    digits = graded([place({" 4": 0.5, " four": 0.5})])
    assert digits.mass == pytest.approx(0.5)


def test_characters_that_are_split_over_tokens_do_not_move_the_grade():
    emoji = "👍".encode()
    parts = [{"token": "�", "bytes": list(part), "logprob": 0.0, "top_logprobs": []} for part in (emoji[:2], emoji[2:])]
    tokens = [*plain("5 é "), *parts, *plain(" Score: "), place({"4": 0.75, "5": 0.25})]
    np.testing.assert_allclose(graded(tokens, text="5 é 👍 Score: 4").probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


@pytest.mark.parametrize("lost", [["�", "�"], ["", ""], ["", "�"]])
def test_characters_that_the_server_lost_do_not_move_the_grade(lost):
    parts = [{"token": part, "bytes": None, "logprob": 0.0, "top_logprobs": []} for part in lost]
    tokens = [*parts, *plain("5 é "), *parts, *plain(" Score: "), place({"4": 0.75, "5": 0.25}), *parts]
    grades = graded(tokens, text="👍5 é 👍 Score: 4👍")
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_letters_of_a_grade_may_be_split_over_tokens():
    good, bad = "好".encode(), "坏".encode()
    whole = {"token": "�", "bytes": list(good[:1]), "logprob": 0.0, "top_logprobs": []}  # E5: both begin with it
    top = [{"token": "", "bytes": list(part[1:]), "logprob": math.log(p)} for part, p in ((good, 0.75), (bad, 0.25))]
    grades = graded([whole, {**top[0], "top_logprobs": top}], "坏,好", text="好")
    np.testing.assert_allclose(grades.probs, [0.25, 0.75])


def test_thoughts_before_and_special_tokens_behind_the_text_are_left_aside():
    grade = place({"4": 0.75, "5": 0.25})
    tokens = [*plain("<think>", "4", " or ", "2", "</think>", "\n\n"), grade, *plain("<|im_end|>", "2")]
    np.testing.assert_allclose(graded(tokens, text="4").probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_a_token_may_hold_letters_before_the_grade():
    grades = graded([place({"Score:4": 0.6, "Score:5": 0.4})])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.6, 0.4], atol=1e-12)


def test_a_logarithm_just_above_zero_is_rounding():
    token = {"token": "4", "bytes": [52], "logprob": 1e-9, "top_logprobs": []}
    np.testing.assert_allclose(graded([token]).probs, [0, 0, 0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("logprob", [float("nan"), 0.5, None, "-1", True])
def test_what_is_no_logarithm_of_a_probability_is_refused(logprob):
    tokens = [{**entry("4", 0.5), "top_logprobs": [{"token": "5", "logprob": logprob}]}]
    with pytest.raises(UnreadableError, match="is no logarithm of a probability"):
        graded(tokens)


@pytest.mark.parametrize(
    ("tokens", "text", "reason"),
    [
        (plain("token_id:19"), "4", "the tokens do not spell the text"),
        (plain("token_id:19"), "é 4", "the tokens do not spell the text"),
        ([place({"4": 0.9, "5": 0.4})], "4", "sum to 1.3, so they are no distribution"),
        ([place({"4/5": 0.9})], "4/5", "only a part of the token '4/5'"),
        ([{"bytes": None}], "4", "neither text nor bytes"),
        ([{"token": "4", "bytes": [300]}], "4", "neither text nor bytes"),
        ([{"token": 4}], "4", "neither text nor bytes"),
        ([{"token": "4", "logprob": -9999.0}], "4", "no token returned at the grade's place is a grade"),
    ],
)
def test_tokens_that_cannot_be_read_say_why(tokens, text, reason):
    with pytest.raises(UnreadableError) as error:
        graded(tokens, text=text)
    assert reason in str(error.value)


def test_top_logprobs_that_are_no_list_of_tokens_are_refused():
    for top in ("4", {"4": -1.0}, [4], 4):
        with pytest.raises(UnreadableError):
            graded([{**entry("4", 0.5), "top_logprobs": top}])
