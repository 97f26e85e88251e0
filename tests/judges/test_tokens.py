"""`token_probs`: probabilities of the grades from returned tokens, with expected values computed by hand."""

import math

import numpy as np
import pytest

from orcu.judges.levels import GradeLevels
from orcu.judges.parsing import GradeParser
from orcu.judges.replies import ReplyError
from orcu.judges.tokens import token_probs


def entry(token, p):
    return {"token": token, "bytes": list(token.encode()), "logprob": math.log(p)}


def position(returned):
    """A position with the probabilities of the returned tokens; the first one was sampled."""
    sampled = next(iter(returned))
    return {**entry(sampled, returned[sampled]), "top_logprobs": [entry(token, p) for token, p in returned.items()]}


def plain(*tokens):
    return [position({token: 1.0}) for token in tokens]


def grade_probs(tokens, levels="1..5", text=None, single_token=False, **options):
    parser = GradeParser(GradeLevels.parse(levels), **options)
    text = "".join(token["token"] for token in tokens) if text is None else text
    return token_probs(tokens, text, parser.find(text), parser, single_token=single_token)


def test_token_probs_sums_tokens_of_the_same_grade():
    returned = {" 4": 0.4, "4": 0.2, "**4": 0.1, " 5": 0.15, "5\n": 0.05, " the": 0.1}
    grades = grade_probs([*plain("Score", ":"), position(returned)])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 7 / 9, 2 / 9], atol=1e-12)
    assert grades.mass == pytest.approx(0.9)
    assert not any((grades.is_imputed, grades.is_divided, grades.no_alternatives, grades.has_two_digits))


def test_token_probs_divides_missing_probability_among_missing_grades():
    grades = grade_probs([position({"4": 0.6, "5": 0.3, "The": 0.04})])  # 0.06 is missing: 0.02 for each of 1, 2, 3
    np.testing.assert_allclose(grades.probs, np.array([0.02, 0.02, 0.02, 0.6, 0.3]) / 0.96)
    assert grades.mass == pytest.approx(0.9)
    assert grades.is_imputed


def test_token_probs_imputes_at_most_the_smallest_returned_probability():
    grades = grade_probs([position({"4": 0.6, "5": 0.2, "The": 0.01})])  # 0.19 / 3 is more than 0.01
    np.testing.assert_allclose(grades.probs, np.array([0.01, 0.01, 0.01, 0.6, 0.2]) / 0.83)
    assert grades.mass == pytest.approx(0.8)


def test_token_probs_without_missing_probability_imputes_nothing():
    grades = grade_probs([position({"4": 0.75, "5": 0.25})])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    assert not grades.is_imputed


def test_token_probs_includes_sampled_token_outside_top_logprobs():
    token = {**entry("3", 0.1), "top_logprobs": [entry("4", 0.6), entry("5", 0.3)]}
    np.testing.assert_allclose(grade_probs([token]).probs, [0, 0, 0.1, 0.6, 0.3], atol=1e-12)


def test_token_probs_flags_tokens_without_alternatives():
    grades = grade_probs([{**entry("3", 0.6), "top_logprobs": None}])  # 0.4 is missing: 0.1 each
    np.testing.assert_allclose(grades.probs, [0.1, 0.1, 0.6, 0.1, 0.1])
    assert grades.no_alternatives


def test_token_probs_treats_minus_9999_as_missing():
    unlikely = {"token": "2", "bytes": [50], "logprob": -9999.0}
    token = {**unlikely, "top_logprobs": [entry("4", 0.6), entry("5", 0.2)]}  # 0.2 is missing, for 1, 2, 3
    np.testing.assert_allclose(grade_probs([token]).probs, np.array([1, 1, 1, 9, 3]) / 15)


def test_token_probs_follows_sampled_tokens_of_ten():
    first = position({"1": 0.7, "9": 0.2, "8": 0.1})
    second = position({"0": 0.6, "\n": 0.25, "": 0.1, "5": 0.05})
    grades = grade_probs([*plain("Score", ":", " "), first, second], "1..10")
    expected = np.zeros(10)
    expected[[0, 7, 8, 9]] = 0.7 * 0.35, 0.1, 0.2, 0.7 * 0.6  # 15 is no grade
    np.testing.assert_allclose(grades.probs, expected / 0.965, atol=1e-12)
    assert grades.mass == pytest.approx(0.965)
    assert not grades.is_divided


def test_token_probs_of_one_includes_probability_of_ten():
    tokens = [position({" 1": 0.5, "1": 0.3, "2": 0.2}), position({"<|im_end|>": 0.9, "0": 0.1})]
    grades = grade_probs(tokens, "1..10", text="1")
    expected = np.zeros(10)
    expected[[0, 1, 9]] = 0.8 * 0.9, 0.2, 0.8 * 0.1  # " 1" goes the way of "1"
    np.testing.assert_allclose(grades.probs, expected, atol=1e-12)


def test_token_probs_of_final_one_is_one():
    grades = grade_probs([position({"1": 0.8, "2": 0.2})], "1..10")
    np.testing.assert_allclose(grades.probs, [0.8, 0.2, 0, 0, 0, 0, 0, 0, 0, 0], atol=1e-12)


def test_token_probs_divides_unsampled_prefix_among_its_grades():
    tokens = [position({"9": 0.6, "1": 0.4})]
    grades = grade_probs(tokens, "1..10")
    expected = np.zeros(10)
    expected[[0, 8, 9]] = 0.2, 0.6, 0.2
    np.testing.assert_allclose(grades.probs, expected, atol=1e-12)
    assert grades.is_divided
    joined = grade_probs(tokens, "1..10", single_token=True)
    np.testing.assert_allclose(joined.probs[[0, 8, 9]], [0.4, 0.6, 0], atol=1e-12)
    assert not joined.is_divided


def test_token_probs_flags_two_digit_tokens():
    tokens = [position({"10": 0.5, "9": 0.3, "1": 0.2})]
    grades = grade_probs(tokens, "1..10", single_token=True)
    np.testing.assert_allclose(grades.probs[[0, 8, 9]], [0.2, 0.3, 0.5])
    assert grades.has_two_digits


def test_token_probs_imputes_after_a_prefix_for_its_grades_only():
    # The second position returns 20 and 21; the missing 0.18 is shared by 2 and 22..29, 0.02 each.
    first, second = position({"2": 0.5, "3": 0.5}), position({"0": 0.5, "1": 0.32})
    grades = grade_probs([first, second], "2..39")
    assert grades.mass == pytest.approx(0.5 + 0.5 * 0.82)
    total = 0.5 + 0.5
    names = GradeLevels.parse("2..39").names
    probs = dict(zip(names, grades.probs, strict=True))
    assert probs["20"] == pytest.approx(0.25 / total)
    assert probs["25"] == probs["2"] == pytest.approx(0.01 / total)
    assert probs["30"] == pytest.approx(0.5 / 11)  # 3 and 30..39
    assert probs["4"] == 0  # nothing is missing at the first position


def test_token_probs_follows_decimal_points():
    tokens = [position({"2": 0.8, "1": 0.2}), position({".": 0.75, "\n": 0.25}), position({"5": 0.9, "0": 0.1})]
    grades = grade_probs(tokens, "1..3:0.5")
    two = 0.8 * 0.25 + 0.8 * 0.75 * 0.1
    np.testing.assert_allclose(grades.probs, [0.1, 0.1, two, 0.8 * 0.75 * 0.9, 0], atol=1e-12)
    assert grades.is_divided  # 1 may be 1.5


def test_token_probs_full_stop_without_digit_ends_the_grade():
    tokens = [position({"2": 0.8, "3": 0.2}), position({".": 0.75, "\n": 0.25}), position({" Good": 0.9, "5": 0.1})]
    grades = grade_probs(tokens, "2..3:0.5")
    np.testing.assert_allclose(grades.probs, [0.8 * 0.25 + 0.8 * 0.75 * 0.9, 0.8 * 0.75 * 0.1, 0.2])


def test_token_probs_follows_words_of_several_tokens():
    first = position({" Very": 0.5, " Good": 0.3, " bad": 0.15, " b": 0.05})
    tokens = [*plain("It is"), first, position({" good": 0.75, " bad": 0.2, " odd": 0.05})]
    grades = grade_probs(tokens, "very bad,bad,good,very good")
    np.testing.assert_allclose(grades.probs, np.array([0.1, 0.2, 0.3, 0.375]) / 0.975)
    assert grades.mass == pytest.approx(0.975)


def test_token_probs_with_number_words():
    tokens = [position({" Four": 0.5, " 4": 0.2, " five": 0.2, " f": 0.1})]
    grades = grade_probs(tokens, number_words=True)
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    digits = grade_probs([position({" 4": 0.5, " four": 0.5})])
    assert digits.mass == pytest.approx(0.5)


def test_token_probs_with_characters_split_over_tokens():
    emoji = "👍".encode()
    parts = [{"token": "�", "bytes": list(part), "logprob": 0.0, "top_logprobs": []} for part in (emoji[:2], emoji[2:])]
    tokens = [*plain("5 é "), *parts, *plain(" Score: "), position({"4": 0.75, "5": 0.25})]
    np.testing.assert_allclose(grade_probs(tokens, text="5 é 👍 Score: 4").probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


@pytest.mark.parametrize("lost", [["�", "�"], ["", ""], ["", "�"]])
def test_token_probs_with_characters_lost_by_the_server(lost):
    parts = [{"token": part, "bytes": None, "logprob": 0.0, "top_logprobs": []} for part in lost]
    tokens = [*parts, *plain("5 é "), *parts, *plain(" Score: "), position({"4": 0.75, "5": 0.25}), *parts]
    grades = grade_probs(tokens, text="👍5 é 👍 Score: 4👍")
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_token_probs_with_grade_letters_split_over_tokens():
    good, bad = "好".encode(), "坏".encode()
    whole = {"token": "�", "bytes": list(good[:1]), "logprob": 0.0, "top_logprobs": []}  # E5: both begin with it
    top = [{"token": "", "bytes": list(part[1:]), "logprob": math.log(p)} for part, p in ((good, 0.75), (bad, 0.25))]
    grades = grade_probs([whole, {**top[0], "top_logprobs": top}], "坏,好", text="好")
    np.testing.assert_allclose(grades.probs, [0.25, 0.75])


def test_token_probs_ignores_reasoning_and_special_tokens():
    grade = position({"4": 0.75, "5": 0.25})
    tokens = [*plain("<think>", "4", " or ", "2", "</think>", "\n\n"), grade, *plain("<|im_end|>", "2")]
    np.testing.assert_allclose(grade_probs(tokens, text="4").probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_token_probs_with_letters_before_the_grade_in_a_token():
    grades = grade_probs([position({"Score:4": 0.6, "Score:5": 0.4})])
    np.testing.assert_allclose(grades.probs, [0, 0, 0, 0.6, 0.4], atol=1e-12)


def test_token_probs_accepts_rounding_above_zero():
    token = {"token": "4", "bytes": [52], "logprob": 1e-9, "top_logprobs": []}
    np.testing.assert_allclose(grade_probs([token]).probs, [0, 0, 0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("logprob", [float("nan"), 0.5, None, "-1", True])
def test_token_probs_invalid_logprob_raises(logprob):
    tokens = [{**entry("4", 0.5), "top_logprobs": [{"token": "5", "logprob": logprob}]}]
    with pytest.raises(ReplyError, match=r"^logprob "):
        grade_probs(tokens)


@pytest.mark.parametrize(
    ("tokens", "text", "reason"),
    [
        (plain("token_id:19"), "4", "the tokens do not spell the text"),
        (plain("token_id:19"), "é 4", "the tokens do not spell the text"),
        ([position({"4": 0.9, "5": 0.4})], "4", "sum to 1.3"),
        ([position({"4/5": 0.9})], "4/5", "part of the token '4/5'"),
        ([{"bytes": None}], "4", "neither text nor bytes"),
        ([{"token": "4", "bytes": [300]}], "4", "neither text nor bytes"),
        ([{"token": 4}], "4", "neither text nor bytes"),
        ([{"token": "4", "logprob": -9999.0}], "4", "no token returned at the position of the grade"),
    ],
)
def test_token_probs_invalid_tokens_raise_with_reason(tokens, text, reason):
    with pytest.raises(ReplyError) as error:
        grade_probs(tokens, text=text)
    assert reason in str(error.value)


def test_token_probs_invalid_top_logprobs_raise():
    for top in ("4", {"4": -1.0}, [4], 4):
        with pytest.raises(ReplyError):
            grade_probs([{**entry("4", 0.5), "top_logprobs": top}])
