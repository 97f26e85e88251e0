"""Replies of judges as they write them: which grade `GradeParser` reads, and which replies are ambiguous or errors."""

import re

import pytest

from orcu.judges import parsing, reply_text
from orcu.judges.levels import GradeLevels
from orcu.judges.parsing import GradeParser
from orcu.judges.replies import ReplyError

WORDS = "poor,fair,good,very good"


def find(text, levels="1..5", **options):
    parser = GradeParser(GradeLevels.parse(levels), **options)
    match = parser.find(text)
    assert text[match.start : match.end].casefold() in (
        parser.levels.names[match.grade].casefold(),
        "4.0",
        "3 1/2",
        "3½",
    )
    return parser.levels.names[match.grade], match.others


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        # one grade
        ("4", "4"),
        ("**4**", "4"),
        ("4.", "4"),
        ("#### 4", "4"),
        ("\\boxed{4}", "4"),
        ("Rating: [[4]]", "4"),
        ("Grade = 4", "4"),
        ("Score:\n4", "4"),
        ("评分：4", "4"),
        ("I would give this a 4.", "4"),
        ("a 4-star answer", "4"),
        ("-> 4", "4"),
        ("> 4", "4"),
        ("Score: <4>", "4"),
        ("Score: <b>4</b>", "4"),
        ('```json\n{"score": 4}\n```', "4"),
        ("3. Yes, 3", "3"),
        ("The answer has 12 words of 300. I say 4", "4"),
        # reasoning
        ("<think>a score of 5? No</think> 4", "4"),
        ("<think>Score: 5</think>\n\nScore: 4", "4"),
        ("Maybe a score of 5? No.\n</think>\n4", "4"),
        ("<think>5</think>4<think>3</think>", "4"),
        ("<think>a <think>5</think> 4", "4"),
        ("<THINKING>5</THINKING><score>4</score>", "4"),
        ("<reasoning>5</reasoning><answer>4</answer>", "4"),
        ("[THINK]5[/THINK]4", "4"),
        # the notation of the scale
        ("Score (1..5): 4", "4"),
        ("Score (1...5): 4", "4"),
        ("Score (1-5): 4", "4"),
        ("Score [1–5]: 4", "4"),
        ("Score (1 to 5, higher is better): 4", "4"),
        ("Score (out of 5): 4", "4"),
        ("Score (out of five): 4", "4"),
        ("4 out of five", "4"),
        ("Score: **4** / 5", "4"),
        ("Score: 4.0/5.0", "4"),
        ("4 on a scale of 5", "4"),
        ("4 on a scale from 1 (worst) to 5 (best)", "4"),
        ("On a scale of 1-5, 4", "4"),
        ("On a 5-point scale: 4", "4"),
        ("On a five-point Likert scale I give 4", "4"),
        ("1, 2, 3, 4, 5: I choose 4", "4"),
        ("1, 2, 3, 4 or 5? 4", "4"),
        ("(1/2/3/4/5) 4", "4"),
        # a verdict at the beginning
        ("Score: 4. Step 2 is wrong.", "4"),
        ("Score: 4, as 2 of 5 are right", "4"),
        ("Score: 4 (2 errors)", "4"),
        ("Score: 4 - two errors found", "4"),
        ("Score: 4\n\nReasoning: step 2 is wrong and 3 of 5 facts are right", "4"),
        ("**Score:** 4/5\n\n1. Clear\n2. Short, as it should be", "4"),
        ("4\n\nStep 2 is wrong.", "4"),
        ("My final score is 4, since 2 facts are wrong.", "4"),
        ('{"score": 4, "reason": "2 errors"}', "4"),
        # a verdict at the end
        ("Step 2 is wrong. Score: 4", "4"),
        ("Step 2 is wrong.\n\n4", "4"),
        ("Step 2 is wrong.\n\n**4**\n", "4"),
        ("1. Good\n2. Bad\nScore: 4", "4"),
        ("3/7 facts are right; score: 4/5", "4"),
        ("I deduct 1 point. So my final score is 4.", "4"),
        ("Overall, 3 of 5 facts are right. Overall: 4", "4"),
        ('{"reason": "2 errors", "score": 4}', "4"),
        ('{"accuracy": 3, "clarity": 5, "overall_score": 4}', "4"),
        ("<analysis>2</analysis> 3 errors <score>4</score>", "4"),
    ],
)
def test_find_clear_reply_has_grade_without_others(text, grade):
    assert find(text) == (grade, ())


@pytest.mark.parametrize(
    ("text", "grade", "others"),
    [
        ("The student wrote: Score: 5. Final: 2", "2", {"5"}),
        ("> Score: 5\n\nMy score: 2", "2", {"5"}),
        ("The student claims a score of 5.\n\n2", "2", {"5"}),
        ("Is it a score of 5? No. Score: 4", "4", {"5"}),
        ("Score: 2. On reflection, score: 3", "3", {"2"}),
        ("Score: 4. Actually, 3 is fairer here.", "4", {"3"}),
        ("Score: 4. No: 3 is fairer here.", "4", {"3"}),
        ("Score: 4\n\nI take that back, 2.", "4", {"2"}),
        ("Score: 4\nConfidence: 3", "4", {"3"}),
        ("Score: 4 because step 2 is wrong", "4", {"2"}),
        ("Score: 5 is what the student claims; I say 2.", "5", {"2"}),
        ("I say 2 although the student wrote score: 5", "5", {"2"}),
        ("Score: 5 → 3", "5", {"3"}),
        ("Step 2 is wrong, so 3", "3", {"2"}),
        ("It is not a 5 but a 4", "4", {"5"}),
        ("4, not 5", "4", {"5"}),
        ("4 rather than a 5", "4", {"5"}),
        ("The score is not 5. It is 3.", "3", {"5"}),
        ("5 means excellent, 1 means poor. I give 3.", "3", {"5", "1"}),
        ("Between 3 and 4, so 4", "4", {"3 and 4"}),
        ("Between 3 and 4.5, so 4", "4", {"3 and 4.5"}),
        ("At first 4.5, so 4", "4", {"4.5"}),
        ("I'd give four. There are 2 errors.", "2", {"four"}),
        ("Scores: accuracy 4, clarity 3", "3", {"4", "Scores: accuracy"}),
        ("Score: N/A. 2 errors", "2", {"Score: N/A. 2 er"}),
        ("Score: IV. There are 2 errors.", "2", {"Score: IV. There"}),
        ("I cannot score this. The rubric has 5 levels.", "5", {"cannot score this. The"}),
    ],
)
def test_find_ambiguous_reply_lists_other_candidates(text, grade, others):
    name, other_grades = find(text)
    assert (name, set(other_grades)) == (grade, others)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<think>Score: 5", "no grade in the text after its reasoning"),
        ("Score: 4</think>", "after its reasoning"),
        ("4 out of ten", "'4 out of ten': the highest grade is 5, not ten"),
        ("Score (out of 10): 4", "the highest grade is 5, not 10"),
        ("Score (out of ten): 4", "the highest grade is 5, not ten"),
        ("Score (1-10): 4", "'1-10' is not one of the grades"),
        ("4 on a scale of 10", "the highest grade is 5, not 10"),
        ("On a scale of 1 to 10, I see flaws. Score: 4", "another scale, '1 to 10'; the levels are 1 to 5"),
        ("On the 0-5 scale: 4", "another scale, '0-5'"),
        ("On a 10-point scale: 4", "another scale, '10'"),
        ("Score: <4", "'Score: <4' is a bound"),
        ("Score: ≥ 4", "is a bound"),
        ("at least 4", "is a bound"),
        ("Less than a 4", "is a bound"),
        ("almost 5", "is a bound"),
        ("3 1/2", "'3 1/2' is not one of the grades"),
        ("Score: 3½", "'3½' is not one of the grades"),
        ("Score: 4+", "'4+' is not one of the grades"),
        ("4-", "'4-' is not one of the grades"),
        ("not a 4", "'4' is negated"),
        ("It does not deserve a 4", "'4' is negated"),
        ("This isn't a 5.", "'5' is negated"),
        ("Score: four. There are 2 errors.", "'four' is a number word; read number words with number_words="),
        ("Should it be a 5?", "'5' is a question"),
        ("Score: **4**?", "'4' is a question"),
        ("Score: 4 or 5", "'4 or 5' is not one of the grades"),
        ("From 5 to 1", "'5 to 1' is not one of the grades"),
    ],
)
def test_find_reply_without_grade_raises_with_reason(text, reason):
    with pytest.raises(ReplyError) as error:
        find(text)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("text", "grade", "others"),
    [
        ("Good.", "good", set()),
        ("Rating: **Very good**", "very good", set()),
        ("poor/fair/good/very good: good", "good", set()),
        ("<think>good</think>poor", "poor", set()),
        ("Good\n\nThe prose is poor in places.", "good", set()),
        ("The prose is poor in places. Verdict: good", "good", set()),
        ("Fair to good", "good", {"Fair"}),
        ("not good but fair", "fair", {"good"}),
        ("It is good, not very good", "good", {"very good"}),
        ("good enough? no, poor", "poor", {"good"}),
        ("not only good, but very good", "very good", {"good"}),
    ],
)
def test_find_word_levels_reply_has_grade_and_others(text, grade, others):
    name, other_grades = find(text, WORDS)
    assert (name, set(other_grades)) == (grade, others)


@pytest.mark.parametrize("text", ["not good", "It is not very good", "isn't good", "hardly fair", "less than good"])
def test_find_negated_or_bounded_word_level_raises(text):
    with pytest.raises(ReplyError, match=r"is negated|is a bound"):
        find(text, WORDS)


def test_find_mixed_number_is_a_half_level():
    assert find("Score: 3 1/2", "1..5:0.5") == find("3½", "1..5:0.5") == ("3.5", ())


def test_find_two_levels_list_is_notation_in_brackets_only():
    assert find("Score (0/1): 1", "0..1") == ("1", ())
    assert find("0/1", "0..1") == ("0", ())


def test_find_pattern_ignores_reasoning_and_lists_other_matches():
    pattern = r"Score: (\d)"
    assert find("<think>Score: 2</think>Score: 4", pattern=pattern) == ("4", ())
    assert find("Score: 2. No. Score: 4", pattern=pattern) == ("4", ("2",))
    assert find("<think>2</think> 4", pattern=r"</think>\s*(\d)") == ("4", ())
    with pytest.raises(ReplyError, match="does not match"):
        find("<think>Score: 2", pattern=pattern)


class CountingPattern:
    """A compiled pattern that counts the characters it is given to search."""

    def __init__(self, pattern, counts):
        self.pattern, self.counts = pattern, counts

    def __getattr__(self, name):
        method = getattr(self.pattern, name)

        def call(*arguments):
            text, *span = arguments[1:] if name == "sub" else arguments
            start, end = (*span, len(text))[:2] if span else (0, len(text))
            self.counts.append(1 if name == "match" else end - start)  # match is anchored and does not search
            return method(*arguments)

        return call


@pytest.mark.parametrize("unit", ["1 ", "score 1 ", "1 1/2 ", "not 1 ", "four ", "1 of ", "score: <1 ", "</think>1 "])
def test_find_searches_each_character_a_bounded_number_of_times(monkeypatch, unit):
    def searched(repeats):
        counts = []
        parser = GradeParser(GradeLevels.parse("1..5"))
        for module in (parsing, reply_text):
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    monkeypatch.setattr(module, name, CountingPattern(value, counts))
        for name in ("_number", "_denominator", "_level_lists"):
            setattr(parser, name, CountingPattern(getattr(parser, name), counts))
        parser.find(unit * repeats + "\nScore: 4")
        monkeypatch.undo()
        return sum(counts)

    assert searched(800) < 4.5 * searched(200)  # quadratic: 16
